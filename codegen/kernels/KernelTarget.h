#ifndef MESHC_CODEGEN_KERNELS_KERNELTARGET_H
#define MESHC_CODEGEN_KERNELS_KERNELTARGET_H

#include "codegen/exec/KernelGroup.h"
#include "codegen/kernels/EmittedKernel.h"
#include "codegen/steps/MatmulLibrary.h"

#include "runtime/exec/exec_generated.h"

namespace meshc::codegen {

/// What building a program asks of its target.
class KernelTarget {
public:
  virtual ~KernelTarget();
  virtual exec::Target getKind() const = 0;
  virtual MatmulLibrary getMatmulLibrary() const = 0;
  virtual MatmulEpilogues getMatmulEpilogues() const = 0;
  /// What the places of operands are multiples of, in bytes; elements begin at
  /// multiples of their size anyway.
  virtual int64_t getOperandAlignment() const = 0;
  /// Where sums across rows are while they are made.
  virtual SumPlace getSumPlace() const = 0;
  /// What sizes of matmuls of 16-bit factors are multiples of where the library
  /// is fast; 1: any.
  virtual int64_t getMatmulSizeMultiple() const = 0;
  /// Of tiles that large values are computed in (TileGroups.h).
  virtual int64_t getTileBytes() const = 0;
  /// By how many layers what is gathered is sent ahead (prefetchGathers).
  virtual int64_t getPrefetchLayers() const = 0;
  /// Whether independent kernels with the same body become one.
  virtual bool groupsKernels() const = 0;
  /// Emits a kernel; see cpu/KernelEmitter.h and gpu/GpuKernelEmitter.h.
  virtual mlir::FailureOr<EmittedKernel>
  emitKernel(const KernelBody &kernel, llvm::StringRef name,
             llvm::ArrayRef<bool> isShared) = 0;
  /// Emits a group of kernels; see gpu/GpuGroupEmitter.h. Fails with a
  /// diagnostic if the target has none (groupsKernels).
  virtual mlir::FailureOr<EmittedKernel>
  emitGroup(const KernelGroup &group, llvm::StringRef name,
            llvm::ArrayRef<bool> isShared) = 0;
  /// Whether puts are kernels; else they are commands of the runtime.
  virtual bool emitsPuts() const = 0;
  /// Emits a put; see gpu/GpuPutEmitter.h. Fails with a diagnostic if the
  /// target emits none.
  virtual mlir::FailureOr<EmittedKernel>
  emitPut(steps::PutOp put, llvm::StringRef name,
          llvm::ArrayRef<bool> isShared) = 0;
  /// Emits what the commands of `executable`, for devices of `mesh`, need
  /// beside their own kernels.
  virtual void finish(const exec::ExecutableT &executable,
                      const layout::Mesh &mesh) = 0;
};

} // namespace meshc::codegen

#endif
