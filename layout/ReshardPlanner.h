#ifndef MESHC_LAYOUT_RESHARDPLANNER_H
#define MESHC_LAYOUT_RESHARDPLANNER_H

#include "layout/CostModel.h"
#include "layout/Sharding.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meshc::layout {

/// One collective (or local slice) of a reshard: takes every device's block
/// under `source` to its block under `target`.
struct ReshardStep {
  CollectiveKind kind;
  Sharding source;
  Sharding target;
  std::vector<AxisRef> axes;   ///< the axes it communicates over
  int64_t groupSize = 1;       ///< devices that talk to one another
  int64_t payloadElements = 0; ///< what one device brings in
  int64_t wireElements = 0;    ///< what one device sends, at most
};

struct ReshardPlan {
  std::vector<ReshardStep> steps; ///< empty: the shardings are equal
  double costUs = 0;              ///< under the cost model given
  /// Largest local size (elements) any step has as source plus target beyond
  /// max(source, target) of the whole reshard.
  int64_t extraElements = 0;
};

struct ReshardChoice {
  ReshardPlan best;
  std::optional<ReshardPlan> secondBest; ///< cheapest plan of another shape
};

/// The cheapest sequence of collectives between any two shardings of a tensor
/// with these global sizes, a direct grouped exchange included. Source and
/// target may be partial (a whole value becomes partial by keeping it on the
/// first coordinate and the identity elsewhere, at no communication); uneven
/// sizes are cut and trimmed.
///
/// Memory: no intermediate block is larger than max(source, target) block plus
/// one message.
/// Requires: getViolation is empty for both; equal partial kinds if both are
/// partial.
ReshardChoice planReshard(const Mesh &mesh, std::span<const int64_t> sizes,
                          int64_t elementBytes, const Sharding &source,
                          const Sharding &target, const CostModel &model = {});

} // namespace meshc::layout

#endif
