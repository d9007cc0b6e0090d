#ifndef MESHC_CODEGEN_KERNELS_LOWERKERNELS_H
#define MESHC_CODEGEN_KERNELS_LOWERKERNELS_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace meshc::codegen {

/// Rewrites kernels as cpu/KernelEmitter.h makes them (`scf`, `arith`, `math`,
/// `vector` and `llvm`) to the LLVM dialect alone. Fails with a diagnostic at
/// an operation that has no such form.
mlir::LogicalResult lowerKernels(mlir::ModuleOp kernels);

/// Rewrites kernels as gpu/GpuKernelEmitter.h makes them to the LLVM and NVVM
/// dialects. `hasConversions`: whether the GPU converts to bf16
/// (NarrowFloats.h). Fails with a diagnostic.
mlir::LogicalResult lowerGpuKernels(mlir::gpu::GPUModuleOp kernels,
                                    bool hasConversions);

/// The same kernels as functions of the LLVM dialect that HostImage.h
/// describes. Fails with a diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerGpuKernelsForHost(mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
