#ifndef MESHC_FRONTEND_DRIVER_SHARING_H
#define MESHC_FRONTEND_DRIVER_SHARING_H

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringSet.h"

#include "runtime/exec/exec_generated.h"

#include <vector>

namespace meshc::driver {

/// What a module tells of how its work is split, for the plan: more than its
/// command lists, in which sizes are those of one device.
struct Sharing {
  /// Dims of loops that carry values; of the module as elaborated.
  llvm::StringSet<> carrying;
  /// Of each axis of the mesh, the part of the products of a step, or of an
  /// evaluation where nothing is trained, in which it splits a dimension: 1 if
  /// there are no products. Of the sharded module.
  std::vector<double> shared;

  void noteLoops(mlir::ModuleOp module);
  void measureProducts(mlir::ModuleOp module);
  void writeTo(exec::ExecutableT &executable) const;
};

} // namespace meshc::driver

#endif
