#ifndef MESHC_CODEGEN_GPU_GPUTILEEMITTER_H
#define MESHC_CODEGEN_GPU_GPUTILEEMITTER_H

#include "codegen/exec/KernelBody.h"
#include "codegen/kernels/EmittedKernel.h"
#include "codegen/kernels/Schedule.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// How an elementwise kernel with tensors that lie across one another goes
/// through square tiles.
///
/// In y[b, d] = x[d, b] + w[d] columns are along d, and x is contiguous along
/// b, across them: neighbouring threads would read from different lines of
/// memory. So x is *staged*: threads copy a tile of it as it lies into shared
/// memory and read from there across.
struct Tiling {
  unsigned column; ///< dimension along which most memory is contiguous
  unsigned across; ///< the one along which the staged tensors are
  llvm::SmallVector<Cluster::Access, 2> inputs, outputs; ///< staged, each once
  int64_t side;                     ///< positions of a tile along either
  int64_t columnLanes, acrossLanes; ///< of one access to memory

  /// Nothing where no tensor lies across, or a dimension is so short that most
  /// of a tile would be empty.
  static std::optional<Tiling> find(const Cluster &cluster,
                                    const Schedule &schedule);
};

/// Emits the GPU code of an elementwise kernel in tiles; parameters and errors
/// as of emitGpuKernel.
mlir::FailureOr<EmittedKernel> emitTiledKernel(const KernelBody &kernel,
                                               const Tiling &tiling,
                                               llvm::StringRef name,
                                               llvm::ArrayRef<bool> isShared,
                                               mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
