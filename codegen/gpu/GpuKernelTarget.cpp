#include "codegen/gpu/GpuKernelTarget.h"

#include "codegen/gpu/GpuKernelEmitter.h"
#include "codegen/gpu/MoveKernels.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

GpuKernelTarget::GpuKernelTarget(ModuleOp kernels, MatmulEpilogues epilogues)
    : epilogues(epilogues) {
  kernels.getContext()->loadDialect<gpu::GPUDialect>();
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  this->kernels =
      gpu::GPUModuleOp::create(builder, kernels.getLoc(), "kernels");
}

FailureOr<EmittedKernel> GpuKernelTarget::emitKernel(const Step &step,
                                                     StringRef name,
                                                     ArrayRef<bool> isShared) {
  return emitGpuKernel(step, name, isShared, kernels);
}

void GpuKernelTarget::finish(const exec::ExecutableT &executable) {
  emitMoveKernels(executable, kernels);
}
