#ifndef MESHC_CODEGEN_GPU_GPUGROUPEMITTER_H
#define MESHC_CODEGEN_GPU_GPUGROUPEMITTER_H

#include "codegen/kernels/EmittedKernel.h"
#include "codegen/steps/Steps.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Emits the GPU code of a step with members (KernelGroups.h) as one function
/// with one launch, called after their number; parameters and errors as of
/// emitGpuKernel.
mlir::FailureOr<EmittedKernel> emitGpuGroup(const Step &step,
                                            llvm::StringRef name,
                                            llvm::ArrayRef<bool> isShared,
                                            mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
