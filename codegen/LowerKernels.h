#ifndef MESHC_CODEGEN_LOWERKERNELS_H
#define MESHC_CODEGEN_LOWERKERNELS_H

#include "mlir/IR/BuiltinOps.h"

namespace meshc::codegen {

/// Rewrites kernels as KernelEmitter.h makes them (`scf`, `arith`, `math`,
/// `vector` and `llvm`) to the LLVM dialect alone. Fails with a diagnostic at
/// an operation that has no such form.
mlir::LogicalResult lowerKernels(mlir::ModuleOp kernels);

} // namespace meshc::codegen

#endif
