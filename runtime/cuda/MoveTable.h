#ifndef MESHC_RUNTIME_CUDA_MOVETABLE_H
#define MESHC_RUNTIME_CUDA_MOVETABLE_H

#include "runtime/cuda/library/Gpu.h"
#include "runtime/plans/MoveList.h"

#include <span>
#include <vector>

namespace meshc::runtime::cuda {

/// A launch of a move kernel.
struct MoveLaunch {
  KernelHandle kernel = nullptr;
  MoveList::Pieces pieces;
};

/// The pieces of all move kernels of an executable, in the GPU's memory: what
/// moves where is known when the program is loaded, so launches only name their
/// place in this table.
class MoveTable {
public:
  explicit MoveTable(Gpu &gpu) : gpu(gpu) {}

  /// Adds the boxes of one launch. Errors: see MoveList::add, Gpu::getKernel.
  Result<MoveLaunch> add(exec::ReduceKind reduce, exec::ElementType element,
                         std::span<const MoveList::Box> boxes);
  /// The same of launches that follow one another.
  Result<std::vector<MoveLaunch>> add(exec::ElementType element,
                                      std::span<const MoveBatch> batches);
  uint64_t getBytes() const { return moves.getBytes(); }
  /// Copies the table to `memory` of getBytes(); nothing can be added
  /// afterwards.
  Status upload(DevicePointer memory, Stream stream);
  Status launch(const MoveLaunch &launch, Stream stream) const;
  Status launch(std::span<const MoveLaunch> launches, Stream stream) const;

private:
  Gpu &gpu;
  MoveList moves;
  DevicePointer address = 0;
};

} // namespace meshc::runtime::cuda

#endif
