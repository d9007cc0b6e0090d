#ifndef MESHC_CODEGEN_GPU_GPUKERNELEMITTER_H
#define MESHC_CODEGEN_GPU_GPUKERNELEMITTER_H

#include "codegen/exec/KernelBody.h"
#include "codegen/kernels/EmittedKernel.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Emits the GPU code of a kernel step into `kernels`: functions `name`,
/// `name`_sum with the parameters that runtime/exec/GpuKernels.h describes,
/// after whose operands comes the workspace if there is one. `isShared`, by
/// operand (inputs, then outputs): whether another operand may lie in the same
/// memory. Fails with a diagnostic.
mlir::FailureOr<EmittedKernel> emitGpuKernel(const KernelBody &kernel,
                                             llvm::StringRef name,
                                             llvm::ArrayRef<bool> isShared,
                                             mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
