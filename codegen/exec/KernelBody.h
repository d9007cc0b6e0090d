#ifndef MESHC_CODEGEN_EXEC_KERNELBODY_H
#define MESHC_CODEGEN_EXEC_KERNELBODY_H

#include "codegen/exec/Exec.h"
#include "codegen/kernels/Schedule.h"

#include <memory>

namespace meshc::codegen {

/// The body of an exec.kernel in one space of loops and one order of them: what
/// emitters start from.
struct KernelBody {
  /// Null, with a diagnostic, if the operations do not fit one loop nest.
  static std::unique_ptr<KernelBody> build(steps::KernelOp kernel,
                                           SumPlace place);

  steps::KernelOp kernel;
  /// The operations on tensors, in order.
  std::vector<mlir::Operation *> ops;
  /// Operands and results, as the body knows them.
  llvm::SmallVector<mlir::Value> inputs, outputs;
  Cluster cluster;
  Schedule schedule;

  size_t countOperands() const { return inputs.size() + outputs.size(); }
  /// Inputs, then outputs.
  llvm::SmallVector<mlir::Value> getOperands() const;
};

/// The bodies of a program's kernels, each built once. Kernels may be moved,
/// but not changed.
class KernelBodies {
public:
  explicit KernelBodies(SumPlace place) : place(place) {}

  /// Null, with a diagnostic at the first call, if there is none.
  const KernelBody *find(steps::KernelOp kernel);
  /// That of a kernel for which find has given one.
  const KernelBody &get(steps::KernelOp kernel) { return *find(kernel); }

private:
  const SumPlace place;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<KernelBody>> bodies;
};

} // namespace meshc::codegen

#endif
