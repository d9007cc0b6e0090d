#ifndef MESHC_CODEGEN_GPU_GPUPUTEMITTER_H
#define MESHC_CODEGEN_GPU_GPUPUTEMITTER_H

#include "codegen/exec/Exec.h"
#include "codegen/kernels/EmittedKernel.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Emits the GPU code of a put as several launches, called after `name`;
/// parameters and errors as of emitGpuKernel. The result has the bits that the
/// CPU's has (runtime/cpu/Put.h), in every run.
mlir::FailureOr<EmittedKernel> emitGpuPut(steps::PutOp put,
                                          llvm::StringRef name,
                                          llvm::ArrayRef<bool> isShared,
                                          mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
