#ifndef MESHC_LAYOUT_STEPPRICES_H
#define MESHC_LAYOUT_STEPPRICES_H

/// What steps between two shardings cost on a machine. Inside layout/ only.

#include "layout/AtomSharding.h"

#include <map>

namespace meshc::layout {

/// Prices of steps in one space of atoms. How far a group reaches is computed
/// once for each set of atoms.
class StepPrices {
public:
  StepPrices(const Mesh &mesh, const AtomSpace &space, int64_t elementBytes,
             const Machine &machine)
      : mesh(mesh), space(space), elementBytes(elementBytes), machine(machine) {
  }

  /// Microseconds of a step between blocks of so many elements.
  double getCost(const StepFigures &figures, int64_t elementsBefore,
                 int64_t elementsAfter);
  double getLeastCost() const { return machine.getLeastCollectiveUs(); }

private:
  const GroupReach &getReach(AtomSet group) {
    const auto [known, isNew] = reaches.try_emplace(group);
    if (isNew && group)
      known->second = machine.getReach(mesh, space.getGroupAxes(group));
    return known->second;
  }

  const Mesh &mesh;
  const AtomSpace &space;
  const int64_t elementBytes;
  const Machine &machine;
  std::map<AtomSet, GroupReach> reaches;
};

} // namespace meshc::layout

#endif
