#ifndef MESHC_CODEGEN_KERNELS_CLUSTERFORMS_H
#define MESHC_CODEGEN_KERNELS_CLUSTERFORMS_H

#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace meshc::codegen {

/// Whether lists of operations fit one loop nest. Layers that are alike make
/// the same lists again: each form of list is tried once.
///
/// The form of a list is the forms of its operations and which values they have
/// in common. Two operations have one form if they do the same to values of the
/// same types. To `y = x + 1; z = y * y` on f32[5] belongs
///
///   add of f32[5] and 1: reads #0, makes #1; square of f32[5]: reads #1 #1,
///   ...
///
/// What is computed again where it is read (isRecomputed) is a part of what
/// reads it. Locations do not count, nor who else reads a value: neither
/// Cluster nor Schedule asks for them.
class ClusterForms {
public:
  /// Whether Cluster::build and Schedule::build accept `ops`, in program order,
  /// of which `outputs` are needed outside. Operations that were asked about
  /// stay as they are.
  bool canRun(llvm::ArrayRef<mlir::Operation *> ops,
              llvm::ArrayRef<mlir::Value> outputs);
  /// Lists that were tried, each of another form.
  size_t getNumTried() const { return tried.size(); }

private:
  struct Form {
    unsigned number;
    bool isRecomputed;
    /// What is read from outside of the operation, by its body too, in order.
    llvm::SmallVector<mlir::Value, 4> reads;
  };
  using Key = std::vector<unsigned>;

  const Form &getForm(mlir::Operation *op);
  unsigned getNumber(mlir::Operation *op);
  Key getKey(llvm::ArrayRef<mlir::Operation *> ops,
             llvm::ArrayRef<mlir::Value> outputs);

  llvm::DenseMap<mlir::Operation *, std::unique_ptr<Form>> forms;
  /// One operation of each form, by hash.
  std::unordered_multimap<size_t, mlir::Operation *> examples;
  unsigned numForms = 0;
  std::map<Key, bool> tried;
};

} // namespace meshc::codegen

#endif
