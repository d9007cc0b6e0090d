#ifndef MESHC_RUNTIME_PLANS_COLLECTIVESLICE_H
#define MESHC_RUNTIME_PLANS_COLLECTIVESLICE_H

/// What stands for many collectives: those whose moves are the same but for
/// their places, and of one the devices that do what all others do, too.

#include "layout/EqualTransfers.h"
#include "layout/Mesh.h"
#include "runtime/exec/exec_generated.h"
#include "runtime/plans/Collective.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace meshc::runtime::cuda {

/// What the moves of collectives follow from: equal for those whose moves are
/// the same but for their places. Only where operands share memory their places
/// count, since data may be where it is needed.
using MoveKey =
    std::pair<std::vector<layout::ShardingChange>, std::vector<int64_t>>;
MoveKey getMoveKey(const exec::ExecutableT &executable,
                   std::span<const Collective::Member> members);

/// The devices at position 0 of the axes over which a collective repeats, and
/// the moves between them.
struct CollectiveSlice {
  std::vector<int32_t> repeatedAxes;
  layout::Mesh mesh;
  Collective collective;

  static CollectiveSlice create(const layout::Mesh &whole,
                                std::vector<Collective::Member> members);
  /// The one that does what `device` of the whole mesh does.
  int64_t getDevice(const layout::Mesh &whole, int64_t device) const;
};

} // namespace meshc::runtime::cuda

#endif
