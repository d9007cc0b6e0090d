#ifndef MESHC_CODEGEN_GPU_MOVEKERNELS_H
#define MESHC_CODEGEN_GPU_MOVEKERNELS_H

#include "runtime/exec/exec_generated.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Emits the kernels of runtime/exec/GpuKernels.h that the collectives and
/// copies of the programs need: the wide ones for operands of more than
/// runtime::maxNarrowElements elements.
void emitMoveKernels(const exec::ExecutableT &executable,
                     mlir::gpu::GPUModuleOp kernels);

/// Emits the one for `kind` and `element`, if it is not there.
void emitMoveKernel(exec::ReduceKind kind, exec::ElementType element,
                    bool isWide, mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
