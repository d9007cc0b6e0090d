#ifndef MESHC_CODEGEN_GPU_GPUGROUPEMITTER_H
#define MESHC_CODEGEN_GPU_GPUGROUPEMITTER_H

#include "codegen/exec/KernelGroup.h"
#include "codegen/kernels/EmittedKernel.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Emits the GPU code of an exec.group (steps/GroupKernels.h) as one function
/// with one launch, called after their number; parameters and errors as of
/// emitGpuKernel.
mlir::FailureOr<EmittedKernel> emitGpuGroup(const KernelGroup &group,
                                            llvm::StringRef name,
                                            llvm::ArrayRef<bool> isShared,
                                            mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
