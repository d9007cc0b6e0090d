#ifndef MESHC_RUNTIME_CUDA_MOVETABLE_H
#define MESHC_RUNTIME_CUDA_MOVETABLE_H

#include "runtime/Cuda/Gpu.h"
#include "runtime/Devices/Collective.h"
#include "runtime/GpuKernels.h"

#include <span>
#include <vector>

namespace meshc::runtime::cuda {

/// Boxes of elements that one launch of a move kernel moves.
struct MoveLaunch {
  KernelHandle kernel = nullptr;
  uint64_t offset = 0; ///< of its first piece in the table (bytes)
  unsigned pieces = 0; ///< 0: nothing to move
};

/// The pieces of all move kernels of an executable, in the GPU's memory: what
/// moves where is known when the program is loaded, so launches only name their
/// place in this table.
class MoveTable {
public:
  explicit MoveTable(Gpu &gpu) : gpu(gpu) {}

  /// A box: elements at `sources`, combined in this order, to all `targets`.
  struct Box {
    std::vector<DevicePointer> sources; ///< none: the identity
    std::vector<DevicePointer> targets;
    std::vector<Collective::MoveDim> dims; ///< major to minor
  };

  /// Adds the boxes of one launch. Empty boxes are left out.
  /// Errors: UnsupportedOnGpu where a box has more than maxMoveRank dimensions;
  /// see Gpu::getKernel.
  Result<MoveLaunch> add(exec::ReduceKind reduce, exec::ElementType element,
                         std::span<const Box> boxes);
  uint64_t getBytes() const { return words.size() * sizeof(uint64_t); }
  /// Copies the table to the GPU; nothing can be added afterwards.
  Status upload(Stream stream);
  Status launch(const MoveLaunch &launch, Stream stream) const;

private:
  Gpu &gpu;
  std::vector<uint64_t> words;
  /// Words that hold places in the table and need its address added.
  std::vector<size_t> addresses;
  DeviceMemory memory;
};

/// The dimensions of a move: those around it, then the innermost.
std::vector<Collective::MoveDim> getDims(const Collective::Move &move);
/// The same with neighbours that are contiguous in both operands merged and
/// dimensions of one element left out.
std::vector<Collective::MoveDim>
mergeMoveDims(std::span<const Collective::MoveDim> dims);

} // namespace meshc::runtime::cuda

#endif
