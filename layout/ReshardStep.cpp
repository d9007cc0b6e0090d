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
  return space.getStep(mesh, kind, space.getSource(), space.getTarget());
}

/// Of figures of a step, with or without its shardings.
template <class Step>
static StepSending getSendingOf(const Step &step, int64_t elementBytes,
                                const Machine &machine) {
  const bool isCall = step.kind == CollectiveKind::AllReduce ||
                      step.kind == CollectiveKind::ReduceScatter ||
                      step.kind == CollectiveKind::AllGather;
  const int64_t exchanged = step.exchangedElements * elementBytes;
  if (machine.needsContiguousBlocks() && !(isCall && step.hasContiguousBlocks))
    return {isCall ? CollectiveKind::Exchange : step.kind, exchanged};
  if (step.kind == CollectiveKind::AllReduce) // in shares of bytes
    return {step.kind, std::min(exchanged, getWireBytes(step.kind,
                                                        step.payloadElements *
                                                            elementBytes,
                                                        step.groupSize))};
  return {step.kind, step.wireElements * elementBytes};
}

StepSending layout::getSending(const ReshardStep &step, int64_t elementBytes,
                               const Machine &machine) {
  return getSendingOf(step, elementBytes, machine);
}

double StepPrices::getCost(const StepFigures &figures, int64_t elementsBefore,
                           int64_t elementsAfter) {
  const StepSending sending = getSendingOf(figures, elementBytes, machine);
  const double cost = machine.getCollectiveUs(
      sending.kind, getReach(figures.group),
      figures.payloadElements * elementBytes, sending.wireBytes,
      std::max(elementsBefore, elementsAfter) * elementBytes);
  // The bytes of the all_gather in a reduce_scatter are counted already.
  return figures.gatherSize > 1 && sending.kind == figures.kind
             ? cost + machine.getAddedGatherUs(getReach(figures.gather))
             : cost;
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
        .getCost(space.getFigures(mesh, step.kind, space.getSource(),
                                  space.getTarget()),
                 before, after);
  }
  GroupReach reach;
  if (step.kind != CollectiveKind::Slice)
    reach = machine.getReach(mesh, step.axes);
  return machine.getCollectiveUs(
      step.kind, reach, step.payloadElements * elementBytes,
      getSending(step, elementBytes, machine).wireBytes,
      std::max(before, after) * elementBytes);
}
