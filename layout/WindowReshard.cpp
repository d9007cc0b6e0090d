#include "layout/WindowReshard.h"

#include "layout/AxisParts.h"

#include <algorithm>
#include <cassert>

using namespace meshc;
using namespace meshc::layout;

static Range intersect(Range a, Range b) {
  const int64_t begin = std::max(a.offset, b.offset);
  const int64_t end = std::min(a.offset + a.count, b.offset + b.count);
  return {begin, std::max<int64_t>(end - begin, 0)};
}

static int64_t getProduct(std::span<const AxisRef> parts) {
  int64_t product = 1;
  for (AxisRef part : parts)
    product *= part.size;
  return product;
}

/// Partial axes of the source if they do not all stay: without a common cut no
/// term has a place in both, so all are taken to be reduced.
static std::vector<AxisRef> getReduced(const Sharding &source,
                                       const Sharding &target) {
  return source.partialAxes == target.partialAxes ? std::vector<AxisRef>{}
                                                  : source.partialAxes;
}

int64_t layout::getLackedElements(const Mesh &mesh,
                                  std::span<const int64_t> sizes,
                                  const Sharding &source,
                                  const Sharding &target) {
  const int64_t terms = getProduct(getReduced(source, target));
  int64_t most = 0;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const std::vector<int64_t> coordinates = mesh.getCoordinates(device);
    int64_t wanted = 1, own = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const Range owned =
          getOwnedRange(mesh, sizes[d], source.dims[d], coordinates);
      int64_t held = 0, kept = 0;
      for (const HeldRun &run :
           getHeldRuns(mesh, sizes[d], target, d, coordinates)) {
        held += intersect(run.range, {0, sizes[d]}).count;
        kept += intersect(run.range, owned).count;
      }
      wanted *= held;
      own *= kept;
    }
    most = std::max(most, terms * wanted - own);
  }
  return most;
}

bool layout::isWindowStep(const Mesh &mesh, std::span<const int64_t> sizes,
                          CollectiveKind kind, const Sharding &source,
                          const Sharding &target) {
  assert(target.hasWindow() && !source.hasWindow());
  if (kind == CollectiveKind::Exchange)
    return true;
  return kind == CollectiveKind::Slice &&
         source.partialAxes == target.partialAxes &&
         getLackedElements(mesh, sizes, source, target) == 0;
}

ReshardStep layout::getWindowStep(const Mesh &mesh,
                                  std::span<const int64_t> sizes,
                                  CollectiveKind kind, const Sharding &source,
                                  const Sharding &target) {
  ReshardStep step;
  step.kind = kind;
  step.source = source;
  step.target = target;
  std::vector<AxisRef> axes;
  // An exchange goes between the owners of a dimension that changes, a slice
  // cuts by the axes of the target.
  const Sharding &side = kind == CollectiveKind::Slice ? target : source;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (target.getWindow(d) || source.dims[d] != target.dims[d])
      axes.insert(axes.end(), side.dims[d].begin(), side.dims[d].end());
  if (kind == CollectiveKind::Exchange)
    for (AxisRef part : getReduced(source, target))
      axes.push_back(part);
  std::sort(axes.begin(), axes.end());
  step.axes = joinParts(axes);
  if (kind == CollectiveKind::Slice)
    return step;
  step.groupSize = getProduct(step.axes);
  step.payloadElements = 1;
  for (int64_t size : getLocalShape(sizes, source))
    step.payloadElements *= size;
  step.wireElements = getLackedElements(mesh, sizes, source, target);
  step.exchangedElements = step.wireElements;
  return step;
}

std::vector<Sharding> layout::getWindowSources(const Mesh &mesh,
                                               const Sharding &source,
                                               const Sharding &target) {
  std::vector<Sharding> found;
  auto add = [&](Sharding sharding) {
    sharding = getCanonical(mesh, std::move(sharding));
    if (getViolation(mesh, sharding, target.dims.size()).empty() &&
        std::find(found.begin(), found.end(), sharding) == found.end())
      found.push_back(std::move(sharding));
  };
  auto addWith = [&](auto &&getSplit) {
    Sharding sharding = target;
    sharding.windows.clear();
    for (size_t d = 0; d < target.dims.size(); ++d)
      if (target.getWindow(d))
        sharding.dims[d] = getSplit(d);
    add(std::move(sharding));
  };
  add(source);
  addWith([&](size_t d) { return source.dims[d]; });
  addWith([&](size_t d) { return target.dims[d]; });
  addWith([](size_t) { return DimSplit{}; });
  return found;
}
