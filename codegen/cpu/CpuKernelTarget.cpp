#include "codegen/cpu/CpuKernelTarget.h"

#include "codegen/cpu/KernelEmitter.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

FailureOr<EmittedKernel> CpuKernelTarget::emitKernel(const KernelBody &kernel,
                                                     StringRef name,
                                                     ArrayRef<bool> isShared) {
  return emitCpuKernel(kernel, name, kernels);
}

FailureOr<EmittedKernel> CpuKernelTarget::emitGroup(const KernelGroup &group,
                                                    StringRef name,
                                                    ArrayRef<bool> isShared) {
  steps::KernelOp first = group.members.front().body->kernel;
  return first.emitError("kernels for processors run one by one");
}

FailureOr<EmittedKernel> CpuKernelTarget::emitPut(steps::PutOp put, StringRef,
                                                  ArrayRef<bool>) {
  return put.emitError("puts on processors are commands of the runtime");
}

void CpuKernelTarget::finish(const exec::ExecutableT &executable,
                             const layout::Mesh &mesh) {}
