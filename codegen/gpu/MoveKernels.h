#ifndef MESHC_CODEGEN_GPU_MOVEKERNELS_H
#define MESHC_CODEGEN_GPU_MOVEKERNELS_H

#include "layout/Mesh.h"
#include "runtime/exec/exec_generated.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Emits the kernels of runtime/exec/GpuKernels.h that the collectives and
/// copies of the programs are launched with (runtime/plans/MoveKernels.h).
void emitMoveKernels(const exec::ExecutableT &executable,
                     const layout::Mesh &mesh, mlir::gpu::GPUModuleOp kernels);

/// Emits the one for `kind` and `element`, if it is not there.
void emitMoveKernel(exec::ReduceKind kind, exec::ElementType element,
                    bool isWide, mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
