#ifndef MESHC_CODEGEN_GPU_GPUIMAGES_H
#define MESHC_CODEGEN_GPU_GPUIMAGES_H

#include "runtime/exec/exec_generated.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <string>
#include <vector>

namespace meshc::codegen {

/// Why `list` is none of architectures that kernels can be compiled for, each
/// once and with commas between; empty if it is one. They are those
/// from sm_75 on that LLVM and CUDA 13 know, and "host".
std::string checkGpuArchitectures(llvm::StringRef list);

/// Compiles kernels for every architecture: PTX and, where the CUDA toolkit's
/// assembler is found, machine code; a shared object for "host". Fails with a
/// diagnostic.
mlir::FailureOr<std::vector<exec::GpuImageT>>
compileGpuImages(mlir::gpu::GPUModuleOp kernels,
                 llvm::ArrayRef<std::string> architectures);

/// The CUDA toolkit's assembler: what MESHC_PTXAS names, which may be nothing;
/// or else below CUDA_HOME or CUDA_PATH, on the search path, below
/// /usr/local/cuda. Empty if there is none.
std::string findAssembler();

} // namespace meshc::codegen

#endif
