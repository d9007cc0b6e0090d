#ifndef MESHC_CODEGEN_GPU_GPUKERNELTARGET_H
#define MESHC_CODEGEN_GPU_GPUKERNELTARGET_H

#include "codegen/kernels/KernelTarget.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Kernels for NVIDIA GPUs, matmuls by cuBLASLt.
class GpuKernelTarget : public KernelTarget {
public:
  /// Adds a gpu.module to `kernels`.
  explicit GpuKernelTarget(mlir::ModuleOp kernels,
                           MatmulEpilogues epilogues = MatmulEpilogues::All);

  exec::Target getKind() const override { return exec::Target::cuda; }
  MatmulLibrary getMatmulLibrary() const override {
    return MatmulLibrary::CublasLt;
  }
  MatmulEpilogues getMatmulEpilogues() const override { return epilogues; }
  int64_t getOperandAlignment() const override;
  SumPlace getSumPlace() const override { return SumPlace::Registers; }
  /// A tile has to keep all of a GPU busy, and more products are more launches:
  /// by the cost model of an H100 a GPT of 24 layers (bench/gpt.mesh) takes 7 %
  /// longer with tiles of 256 MiB than without, in half of the memory, and 12 %
  /// with tiles of 64 MiB.
  int64_t getTileBytes() const override { return 256 << 20; }
  int64_t getPrefetchLayers() const override { return 1; }
  int64_t getMatmulSizeMultiple() const override { return 8; }
  bool groupsKernels() const override { return true; }
  mlir::FailureOr<EmittedKernel>
  emitKernel(const KernelBody &kernel, llvm::StringRef name,
             llvm::ArrayRef<bool> isShared) override;
  mlir::FailureOr<EmittedKernel>
  emitGroup(const KernelGroup &group, llvm::StringRef name,
            llvm::ArrayRef<bool> isShared) override;
  bool emitsPuts() const override { return true; }
  mlir::FailureOr<EmittedKernel>
  emitPut(steps::PutOp put, llvm::StringRef name,
          llvm::ArrayRef<bool> isShared) override;
  void finish(const exec::ExecutableT &executable,
              const layout::Mesh &mesh) override;

private:
  mlir::gpu::GPUModuleOp kernels;
  const MatmulEpilogues epilogues;
};

} // namespace meshc::codegen

#endif
