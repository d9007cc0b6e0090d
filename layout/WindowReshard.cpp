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

namespace {

/// Positions of a dimension that one device owns, and by how much the number of
/// that device is higher than that of the one at 0 of the dimension's axes.
struct OwnedBlock {
  Range range;
  int64_t device = 0;
};

/// What the devices send and take when each gets what it lacks of its block
/// from the owners.
class Exchange {
public:
  Exchange(const Mesh &mesh, std::span<const int64_t> sizes,
           const Sharding &source, const Sharding &target)
      : mesh(mesh), sizes(sizes), source(source), target(target),
        reduced(getReduced(source, target)), terms{{{}, 0}} {
    addParts(reduced, terms);
    for (size_t d = 0; d < sizes.size(); ++d) {
      blocks.push_back({{{}, 0}});
      addParts(source.dims[d], blocks.back());
      for (OwnedBlock &block : blocks.back())
        block.range = getOwnedRange(mesh, sizes[d], source.dims[d],
                                    mesh.getCoordinates(block.device));
    }
  }

  WindowTraffic count() {
    const int64_t devices = mesh.getNumDevices();
    sent.assign(size_t(devices), 0);
    WindowTraffic most;
    for (taker = 0; taker < devices; ++taker) {
      taken = 0;
      const std::vector<int64_t> coordinates = mesh.getCoordinates(taker);
      first = taker - getOffset(reduced, coordinates);
      owners.assign(sizes.size(), {});
      for (size_t d = 0; d < sizes.size(); ++d) {
        first -= getOffset(source.dims[d], coordinates);
        addOwners(d, coordinates);
      }
      take(0, first, 1);
      most.taken = std::max(most.taken, taken);
    }
    most.sent = *std::max_element(sent.begin(), sent.end());
    return most;
  }

private:
  /// An owner's number, as that of its block, and how much is taken of it.
  struct Part {
    int64_t device, count;
  };

  /// Devices between neighbours along a part of an axis.
  int64_t getStride(AxisRef part) const {
    int64_t stride = mesh.getAxisSize(part.axis) / (part.pre * part.size);
    for (int32_t axis = part.axis + 1; axis < mesh.getNumAxes(); ++axis)
      stride *= mesh.getAxisSize(axis);
    return stride;
  }

  int64_t getOffset(std::span<const AxisRef> parts,
                    std::span<const int64_t> coordinates) const {
    int64_t offset = 0;
    for (AxisRef part : parts)
      offset += mesh.getCoordinate(part, coordinates) * getStride(part);
    return offset;
  }

  /// One block for each place on `parts`, the first of them major.
  void addParts(std::span<const AxisRef> parts,
                std::vector<OwnedBlock> &list) const {
    for (AxisRef part : parts) {
      std::vector<OwnedBlock> finer;
      for (const OwnedBlock &block : list)
        for (int64_t i = 0; i < part.size; ++i)
          finer.push_back({{}, block.device + i * getStride(part)});
      list = std::move(finer);
    }
  }

  /// Who owns what a device at `coordinates` holds of dimension `d`. Blocks
  /// follow one another, so those in reach do.
  void addOwners(size_t d, std::span<const int64_t> coordinates) {
    for (const HeldRun &run :
         getHeldRuns(mesh, sizes[d], target, d, coordinates)) {
      auto block = std::partition_point(
          blocks[d].begin(), blocks[d].end(), [&](const OwnedBlock &block) {
            return block.range.offset + block.range.count <= run.range.offset;
          });
      for (; block != blocks[d].end() &&
             block->range.offset < run.range.offset + run.range.count;
           ++block)
        if (const int64_t count = intersect(block->range, run.range).count)
          owners[d].push_back({block->device, count});
    }
  }

  void take(size_t d, int64_t owner, int64_t count) {
    if (d < sizes.size()) {
      for (const Part &part : owners[d])
        take(d + 1, owner + part.device, count * part.count);
      return;
    }
    for (const OwnedBlock &term : terms) {
      const int64_t device = owner + term.device;
      if (device == taker)
        continue;
      taken += count;
      sent[size_t(device)] += count;
    }
  }

  const Mesh &mesh;
  const std::span<const int64_t> sizes;
  const Sharding &source, &target;
  const std::vector<AxisRef> reduced;
  std::vector<OwnedBlock> terms;               ///< without ranges
  std::vector<std::vector<OwnedBlock>> blocks; ///< per dimension, in order
  int64_t taker = 0, taken = 0;
  int64_t first = 0; ///< of the devices that the taker takes from
  std::vector<std::vector<Part>> owners;
  std::vector<int64_t> sent;
};

} // namespace

WindowTraffic layout::getWindowTraffic(const Mesh &mesh,
                                       std::span<const int64_t> sizes,
                                       const Sharding &source,
                                       const Sharding &target) {
  return Exchange(mesh, sizes, source, target).count();
}

bool layout::isWindowStep(const Mesh &mesh, std::span<const int64_t> sizes,
                          CollectiveKind kind, const Sharding &source,
                          const Sharding &target) {
  assert(target.hasWindow() && !source.hasWindow());
  if (kind == CollectiveKind::Exchange)
    return true;
  return kind == CollectiveKind::Slice &&
         source.partialAxes == target.partialAxes &&
         getWindowTraffic(mesh, sizes, source, target).taken == 0;
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
  const WindowTraffic traffic = getWindowTraffic(mesh, sizes, source, target);
  step.wireElements = std::max(traffic.sent, traffic.taken);
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
