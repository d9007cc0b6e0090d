#include "codegen/cpu/CpuKernelTarget.h"

#include "codegen/cpu/KernelEmitter.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

FailureOr<EmittedKernel> CpuKernelTarget::emitKernel(const Step &step,
                                                     StringRef name,
                                                     ArrayRef<bool> isShared) {
  return emitCpuKernel(step, name, kernels);
}

void CpuKernelTarget::finish(const exec::ExecutableT &executable) {}
