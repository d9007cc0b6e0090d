#include "layout/ReshardStep.h"

#include "layout/AtomSharding.h"
#include "layout/StepPrices.h"
#include "layout/WindowReshard.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::layout;

bool layout::isReshardStep(const Mesh &mesh, std::span<const int64_t> sizes,
                           CollectiveKind kind, const Sharding &source,
                           const Sharding &target) {
  if (target.hasWindow())
    return isWindowStep(mesh, sizes, kind, source, target);
  AtomSpace space(mesh, sizes, source, target);
  return space.fits(kind, space.getSource(), space.getTarget());
}

ReshardStep layout::getReshardStep(const Mesh &mesh,
                                   std::span<const int64_t> sizes,
                                   CollectiveKind kind, const Sharding &source,
                                   const Sharding &target) {
  if (target.hasWindow())
    return getWindowStep(mesh, sizes, kind, source, target);
  AtomSpace space(mesh, sizes, source, target);
  return space.getStep(kind, space.getSource(), space.getTarget());
}

double layout::getCost(const Mesh &mesh, std::span<const int64_t> sizes,
                       int64_t elementBytes, const ReshardStep &step,
                       const Machine &machine) {
  auto getElements = [&](const Sharding &sharding) {
    int64_t elements = 1;
    for (int64_t size : getLocalShape(sizes, sharding))
      elements *= size;
    return elements;
  };
  const int64_t before = getElements(step.source);
  const int64_t after = getElements(step.target);
  if (!step.target.hasWindow()) {
    const AtomSpace space(mesh, sizes, step.source, step.target);
    return StepPrices(mesh, space, elementBytes, machine)
        .getCost(
            space.getFigures(step.kind, space.getSource(), space.getTarget()),
            before, after);
  }
  GroupReach reach;
  if (step.kind != CollectiveKind::Slice)
    reach = machine.getReach(mesh, step.axes);
  return machine.getCollectiveUs(
      step.kind, reach, step.payloadElements * elementBytes,
      step.wireElements * elementBytes, std::max(before, after) * elementBytes);
}
