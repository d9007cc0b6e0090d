#ifndef MESHC_LAYOUT_RESHARDPLANNER_H
#define MESHC_LAYOUT_RESHARDPLANNER_H

#include "layout/EqualTransfers.h"
#include "layout/ReshardStep.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace meshc::layout {

struct ReshardPlan {
  std::vector<ReshardStep> steps; ///< empty: the shardings are equal
  double costUs = 0;              ///< on the machine given
  /// Largest local size (elements) any step has as source plus target beyond
  /// max(source, target) of the whole reshard.
  int64_t extraElements = 0;
};

struct ReshardChoice {
  ReshardPlan best;
  /// The cheapest plan with another sequence of kinds, slices not counted; none
  /// if the best does not communicate.
  std::optional<ReshardPlan> secondBest;
};

/// The cheapest sequence of collectives between any two shardings of a tensor
/// with these global sizes, a direct grouped exchange included. Source and
/// target may be partial (a whole value becomes partial by keeping it on the
/// first coordinate and the identity elsewhere, at no communication); uneven
/// sizes are cut and trimmed. getTransfers gives each step's meaning.
///
/// Search: shortest path over shardings, by moves towards the target: axes go
/// where it has them, are completed, dropped, reordered, or parked on any
/// dimension if that costs nothing. Up to two axes no two steps of any kind are
/// cheaper by more than 3 %, on three axes 12 % (tests/layout compares all);
/// where devices are on several hosts, 37 %.
/// Memory: no intermediate block is larger than the larger of the source and
/// the target block, save that an all_to_all may round up by one message (what
/// one device sends another). Requires: getViolation is empty for both; equal
/// partial kinds if both are partial; the local sizes' product fits 63 bits;
/// `source` has no windows unless it is `target`.
///
/// A target with windows is reached by one step, an exchange or a slice, from
/// the source or from the end of a plan to a sharding without them: all
/// windowed dimensions whole, as in the source, or over the window's axes.
ReshardChoice planReshard(const Mesh &mesh, std::span<const int64_t> sizes,
                          int64_t elementBytes, const Sharding &source,
                          const Sharding &target,
                          const Machine &machine = getCpuMachine());

/// Plans on one mesh and machine, of which each is made once: layers that are
/// alike reshard alike.
class ReshardPlans {
public:
  /// `machine` outlives the plans.
  ReshardPlans(Mesh mesh, const Machine &machine)
      : mesh(std::move(mesh)), machine(machine) {}

  /// What planReshard gives; stays where it is.
  const ReshardChoice &get(const ShardingChange &change, int64_t elementBytes);

private:
  const Mesh mesh;
  const Machine &machine;
  std::map<std::pair<ShardingChange, int64_t>, ReshardChoice> choices;
};

} // namespace meshc::layout

#endif
