#ifndef MESHC_CODEGEN_CPU_CPUKERNELTARGET_H
#define MESHC_CODEGEN_CPU_CPUKERNELTARGET_H

#include "codegen/kernels/KernelTarget.h"

namespace meshc::codegen {

/// Kernels for the processor, matmuls by oneDNN.
class CpuKernelTarget : public KernelTarget {
public:
  explicit CpuKernelTarget(mlir::ModuleOp kernels) : kernels(kernels) {}

  exec::Target getKind() const override { return exec::Target::cpu; }
  MatmulLibrary getMatmulLibrary() const override {
    return MatmulLibrary::OneDnn;
  }
  MatmulEpilogues getMatmulEpilogues() const override {
    return MatmulEpilogues::All;
  }
  /// Vectors are loaded from where elements begin.
  int64_t getOperandAlignment() const override { return 1; }
  SumPlace getSumPlace() const override { return SumPlace::Memory; }
  /// Small enough for a core's caches, large enough for matmuls: a step of one
  /// of GPT-2's blocks (samples/gpt2.mesh, four devices on one thread) takes
  /// 1.03 of the time without tiles, and 1.07 with tiles of 1 MiB. Attention
  /// over 4,096 positions takes 0.95 with either.
  int64_t getTileBytes() const override { return 4 << 20; }
  /// Its threads send while they would compute.
  int64_t getPrefetchLayers() const override { return 0; }
  int64_t getMatmulSizeMultiple() const override { return 1; }
  bool groupsKernels() const override { return false; }
  mlir::FailureOr<EmittedKernel>
  emitKernel(const KernelBody &kernel, llvm::StringRef name,
             llvm::ArrayRef<bool> isShared) override;
  mlir::FailureOr<EmittedKernel>
  emitGroup(const KernelGroup &group, llvm::StringRef name,
            llvm::ArrayRef<bool> isShared) override;
  bool emitsPuts() const override { return false; }
  mlir::FailureOr<EmittedKernel>
  emitPut(steps::PutOp put, llvm::StringRef name,
          llvm::ArrayRef<bool> isShared) override;
  void finish(const exec::ExecutableT &executable,
              const layout::Mesh &mesh) override;

private:
  mlir::ModuleOp kernels;
};

} // namespace meshc::codegen

#endif
