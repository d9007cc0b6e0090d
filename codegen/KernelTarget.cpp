#include "codegen/KernelTarget.h"

#include "codegen/GpuKernelEmitter.h"
#include "codegen/MoveKernels.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

KernelTarget::~KernelTarget() = default;

FailureOr<EmittedKernel> CpuKernels::emitKernel(const Step &step,
                                                StringRef name,
                                                ArrayRef<bool> isShared) {
  return emitCpuKernel(step, name, kernels);
}

void CpuKernels::finish(const exec::ExecutableT &executable) {}

GpuKernels::GpuKernels(ModuleOp kernels, MatmulEpilogues epilogues)
    : epilogues(epilogues) {
  kernels.getContext()->loadDialect<gpu::GPUDialect>();
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  this->kernels =
      gpu::GPUModuleOp::create(builder, kernels.getLoc(), "kernels");
}

FailureOr<EmittedKernel> GpuKernels::emitKernel(const Step &step,
                                                StringRef name,
                                                ArrayRef<bool> isShared) {
  return emitGpuKernel(step, name, isShared, kernels);
}

void GpuKernels::finish(const exec::ExecutableT &executable) {
  emitMoveKernels(executable, kernels);
}
