#include "layout/ReshardStep.h"

#include "layout/AtomSharding.h"
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

double layout::getCost(const ReshardStep &step, std::span<const int64_t> sizes,
                       int64_t elementBytes, const CostModel &model) {
  auto getElements = [&](const Sharding &sharding) {
    int64_t elements = 1;
    for (int64_t size : getLocalShape(sizes, sharding))
      elements *= size;
    return elements;
  };
  return getCost({step.kind, step.groupSize, step.gatherSize,
                  step.payloadElements, step.wireElements},
                 getElements(step.source), getElements(step.target),
                 elementBytes, model);
}

double layout::getCost(const StepFigures &figures, int64_t elementsBefore,
                       int64_t elementsAfter, int64_t elementBytes,
                       const CostModel &model) {
  const int64_t local = std::max(elementsBefore, elementsAfter) * elementBytes;
  double cost = model.getCost(figures.kind, figures.groupSize,
                              figures.wireElements * elementBytes, local);
  // The bytes of the all_gather in a reduce_scatter are counted, its rounds
  // are not.
  if (figures.gatherSize > 1)
    cost += model.getCost(CollectiveKind::AllGather, figures.gatherSize, 0, 0) -
            model.launchUs;
  return cost;
}
