#ifndef MESHC_RUNTIME_PLANS_MOVELIST_H
#define MESHC_RUNTIME_PLANS_MOVELIST_H

/// What move kernels move, as it lies in a GPU's memory; arithmetic alone,
/// without the GPU. Sizes are the same for all addresses and on all GPUs.

#include "runtime/cuda/library/Driver.h"
#include "runtime/exec/Error.h"
#include "runtime/plans/Collective.h"

#include <cstdint>
#include <span>
#include <vector>

namespace meshc::runtime::cuda {

/// Boxes of elements in launches of move kernels, cut into pieces: words of a
/// table that lies anywhere in memory.
class MoveList {
public:
  /// A box: elements at `sources`, combined in this order, to all `targets`.
  struct Box {
    std::vector<DevicePointer> sources; ///< none: the identity
    std::vector<DevicePointer> targets;
    std::vector<Collective::MoveDim> dims; ///< major to minor
  };
  /// The pieces of one launch.
  struct Pieces {
    uint64_t offset = 0;  ///< of the first in the table (bytes)
    unsigned count = 0;   ///< 0: nothing to move
    bool areWide = false; ///< whether they need kernels of 64-bit arithmetic
  };

  /// Adds the boxes of one launch. Empty boxes are left out.
  /// Errors: UnsupportedOnGpu where a box has more than maxMoveRank dimensions,
  /// or the boxes have more than INT32_MAX pieces.
  Result<Pieces> add(std::span<const Box> boxes);
  /// The bytes of the table that boxes added take, without making it.
  /// Errors: as of add.
  static Result<uint64_t> measure(std::span<const Box> boxes);
  uint64_t getBytes() const { return words.size() * sizeof(uint64_t); }
  /// The table as it has to lie at an address.
  std::vector<uint64_t> getWords(DevicePointer address) const;

private:
  std::vector<uint64_t> words;
  /// Words that hold places in the table and need its address added.
  std::vector<size_t> places;
};

/// The dimensions of a move: those around it, then the innermost.
std::vector<Collective::MoveDim> getDims(const Collective::Move &move);
/// The same with neighbours that are contiguous in both operands merged and
/// dimensions of one element left out.
std::vector<Collective::MoveDim>
mergeMoveDims(std::span<const Collective::MoveDim> dims);

/// What one launch moves: boxes that are combined in one way, and copies, which
/// any kernel moves.
struct MoveBatch {
  exec::ReduceKind reduce = exec::ReduceKind::none; ///< none: copies alone
  std::vector<MoveList::Box> boxes;
};

/// Adds a box that is combined by `reduce` to the first batch that may have it,
/// or as one of its own.
void addBox(std::vector<MoveBatch> &batches, exec::ReduceKind reduce,
            MoveList::Box box);

/// The bytes of the tables of launches; see MoveList::measure.
Result<uint64_t> measureBatches(std::span<const MoveBatch> batches);

/// The launches of a group's moves between devices whose memory is at `arenas`,
/// by their numbers.
std::vector<MoveBatch> getBatches(const Collective &collective, int64_t group,
                                  std::span<const DevicePointer> arenas);

} // namespace meshc::runtime::cuda

#endif
