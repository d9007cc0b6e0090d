#ifndef MESHC_CODEGEN_KERNELS_KERNELTARGET_H
#define MESHC_CODEGEN_KERNELS_KERNELTARGET_H

#include "codegen/kernels/EmittedKernel.h"
#include "codegen/steps/Steps.h"

#include "runtime/exec/exec_generated.h"

namespace meshc::codegen {

/// What building a program asks of its target.
class KernelTarget {
public:
  virtual ~KernelTarget();
  virtual exec::Target getKind() const = 0;
  virtual MatmulLibrary getMatmulLibrary() const = 0;
  virtual MatmulEpilogues getMatmulEpilogues() const = 0;
  /// Whether independent kernels with the same body become one.
  virtual bool groupsKernels() const = 0;
  /// Emits a kernel; see cpu/KernelEmitter.h and gpu/GpuKernelEmitter.h.
  virtual mlir::FailureOr<EmittedKernel>
  emitKernel(const Step &step, llvm::StringRef name,
             llvm::ArrayRef<bool> isShared) = 0;
  /// Emits what the commands of `executable` need beside their own kernels.
  virtual void finish(const exec::ExecutableT &executable) = 0;
};

} // namespace meshc::codegen

#endif
