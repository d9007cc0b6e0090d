#ifndef MESHC_CODEGEN_KERNELTARGET_H
#define MESHC_CODEGEN_KERNELTARGET_H

#include "codegen/KernelEmitter.h"

#include "runtime/exec_generated.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

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
  /// Emits a kernel; see emitCpuKernel and emitGpuKernel.
  virtual mlir::FailureOr<EmittedKernel>
  emitKernel(const Step &step, llvm::StringRef name,
             llvm::ArrayRef<bool> isShared) = 0;
  /// Emits what the commands of `executable` need beside their own kernels.
  virtual void finish(const exec::ExecutableT &executable) = 0;
};

/// Kernels for the processor, matmuls by oneDNN.
class CpuKernels : public KernelTarget {
public:
  explicit CpuKernels(mlir::ModuleOp kernels) : kernels(kernels) {}

  exec::Target getKind() const override { return exec::Target::cpu; }
  MatmulLibrary getMatmulLibrary() const override {
    return MatmulLibrary::OneDnn;
  }
  MatmulEpilogues getMatmulEpilogues() const override {
    return MatmulEpilogues::All;
  }
  bool groupsKernels() const override { return false; }
  mlir::FailureOr<EmittedKernel>
  emitKernel(const Step &step, llvm::StringRef name,
             llvm::ArrayRef<bool> isShared) override;
  void finish(const exec::ExecutableT &executable) override;

private:
  mlir::ModuleOp kernels;
};

/// Kernels for NVIDIA GPUs, matmuls by cuBLASLt.
class GpuKernels : public KernelTarget {
public:
  /// Adds a gpu.module to `kernels`.
  explicit GpuKernels(mlir::ModuleOp kernels,
                      MatmulEpilogues epilogues = MatmulEpilogues::All);

  exec::Target getKind() const override { return exec::Target::cuda; }
  MatmulLibrary getMatmulLibrary() const override {
    return MatmulLibrary::CublasLt;
  }
  MatmulEpilogues getMatmulEpilogues() const override { return epilogues; }
  bool groupsKernels() const override { return true; }
  mlir::FailureOr<EmittedKernel>
  emitKernel(const Step &step, llvm::StringRef name,
             llvm::ArrayRef<bool> isShared) override;
  void finish(const exec::ExecutableT &executable) override;

private:
  mlir::gpu::GPUModuleOp kernels;
  const MatmulEpilogues epilogues;
};

} // namespace meshc::codegen

#endif
