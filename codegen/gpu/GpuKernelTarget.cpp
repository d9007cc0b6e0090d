#include "codegen/gpu/GpuKernelTarget.h"

#include "codegen/gpu/GpuGroupEmitter.h"
#include "codegen/gpu/GpuKernelEmitter.h"
#include "codegen/gpu/GpuPutEmitter.h"
#include "codegen/gpu/LaunchShape.h"
#include "codegen/gpu/MoveKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

GpuKernelTarget::GpuKernelTarget(ModuleOp kernels, MatmulEpilogues epilogues)
    : epilogues(epilogues) {
  kernels.getContext()
      ->loadDialect<LLVM::LLVMDialect, arith::ArithDialect, gpu::GPUDialect,
                    NVVM::NVVMDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  this->kernels =
      gpu::GPUModuleOp::create(builder, kernels.getLoc(), "kernels");
}

int64_t GpuKernelTarget::getOperandAlignment() const { return accessBytes; }

FailureOr<EmittedKernel> GpuKernelTarget::emitKernel(const KernelBody &kernel,
                                                     StringRef name,
                                                     ArrayRef<bool> isShared) {
  return emitGpuKernel(kernel, name, isShared, kernels);
}

FailureOr<EmittedKernel> GpuKernelTarget::emitGroup(const KernelGroup &group,
                                                    StringRef name,
                                                    ArrayRef<bool> isShared) {
  return emitGpuGroup(group, name, isShared, kernels);
}

FailureOr<EmittedKernel> GpuKernelTarget::emitPut(steps::PutOp put,
                                                  StringRef name,
                                                  ArrayRef<bool> isShared) {
  return emitGpuPut(put, name, isShared, kernels);
}

void GpuKernelTarget::finish(const exec::ExecutableT &executable,
                             const layout::Mesh &mesh) {
  emitMoveKernels(executable, mesh, kernels);
}
