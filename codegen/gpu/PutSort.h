#ifndef MESHC_CODEGEN_GPU_PUTSORT_H
#define MESHC_CODEGEN_GPU_PUTSORT_H

#include "codegen/gpu/PutCode.h"

namespace meshc::codegen {

/// Emits the launches that sort the terms of a put by their rows; parameters
/// and errors as of emitGpuPut. The list of terms and where the rows begin in
/// it are then in the workspace (PutShape.h).
mlir::FailureOr<std::vector<KernelLaunch>>
emitPutSort(steps::PutOp put, llvm::StringRef name,
            llvm::ArrayRef<bool> isShared, mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
