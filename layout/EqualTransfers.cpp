#include "layout/EqualTransfers.h"

#include "layout/AxisParts.h"

#include <algorithm>
#include <optional>
#include <tuple>

using namespace meshc;
using namespace meshc::layout;

/// What a window reads.
static auto tie(const Window &window) {
  return std::tie(window.loop, window.loopSize, window.factor, window.low,
                  window.high, window.divisor, window.modulus);
}

static bool isLess(const std::optional<Window> &x,
                   const std::optional<Window> &y) {
  return x && y ? tie(*x) < tie(*y) : y.has_value() && !x;
}

static bool isLess(const Sharding &x, const Sharding &y) {
  auto tieSplits = [](const Sharding &sharding) {
    return std::tie(sharding.dims, sharding.partialKind, sharding.partialAxes);
  };
  if (tieSplits(x) != tieSplits(y))
    return tieSplits(x) < tieSplits(y);
  return std::lexicographical_compare(
      x.windows.begin(), x.windows.end(), y.windows.begin(), y.windows.end(),
      [](const auto &a, const auto &b) { return isLess(a, b); });
}

bool ShardingChange::operator<(const ShardingChange &other) const {
  if (sizes != other.sizes)
    return sizes < other.sizes;
  if (source != other.source)
    return isLess(source, other.source);
  return isLess(target, other.target);
}

static bool contains(std::span<const int32_t> axes, int32_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// How many parts at the head of both splits are the same, lie on `axes` and
/// cut a dimension of `size` into blocks that are all full. Splits are joined.
static size_t countCommonParts(int64_t size, const DimSplit &source,
                               const DimSplit &target,
                               std::span<const int32_t> axes) {
  size_t count = 0;
  while (count < source.size() && count < target.size() &&
         source[count] == target[count] && contains(axes, source[count].axis) &&
         size % source[count].size == 0)
    size /= source[count++].size;
  return count;
}

/// Drops from `axes` those that `parts` are on: whether there were any.
static bool drop(std::span<const AxisRef> parts, std::vector<int32_t> &axes) {
  return std::erase_if(axes, [&](int32_t axis) {
           return std::any_of(
               parts.begin(), parts.end(),
               [&](const AxisRef &part) { return part.axis == axis; });
         }) > 0;
}

/// Drops the axes over which `change` does not repeat, if it does so over the
/// others: whether there were any.
static bool dropVaried(const ShardingChange &change,
                       std::vector<int32_t> &axes) {
  bool dropped = false;
  for (size_t d = 0; d < change.sizes.size(); ++d) {
    const DimSplit source = joinParts(change.source.dims[d]);
    const DimSplit target = joinParts(change.target.dims[d]);
    // What a window reads past the edge no other device lacks.
    const bool hasWindow =
        change.source.getWindow(d) || change.target.getWindow(d);
    const size_t common =
        hasWindow ? 0 : countCommonParts(change.sizes[d], source, target, axes);
    for (const DimSplit &split : {source, target})
      dropped |= drop(std::span(split).subspan(common), axes);
  }
  // Terms stay where they are over the parts that both sides have.
  std::vector<AxisRef> varied;
  std::set_symmetric_difference(
      change.source.partialAxes.begin(), change.source.partialAxes.end(),
      change.target.partialAxes.begin(), change.target.partialAxes.end(),
      std::back_inserter(varied));
  std::erase_if(varied, [](const AxisRef &part) { return part.size == 1; });
  return drop(varied, axes) || dropped;
}

std::vector<int32_t>
layout::getRepeatedAxes(const Mesh &mesh,
                        std::span<const ShardingChange> changes) {
  std::vector<int32_t> axes;
  for (int32_t axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (mesh.getAxisSize(axis) > 1)
      axes.push_back(axis);
  // What follows an axis that is dropped is not at the head any more.
  auto dropFrom = [&](const ShardingChange &change) {
    return dropVaried(change, axes);
  };
  while (std::count_if(changes.begin(), changes.end(), dropFrom) > 0)
    ;
  return axes;
}

Mesh layout::getSlice(const Mesh &mesh, std::span<const int32_t> axes) {
  std::vector<MeshAxis> kept(mesh.getAxes().begin(), mesh.getAxes().end());
  for (int32_t axis : axes)
    kept[size_t(axis)].size = 1;
  return Mesh(std::move(kept));
}

ShardingChange layout::getSlice(const ShardingChange &change,
                                std::span<const int32_t> axes) {
  ShardingChange slice = change;
  auto isDropped = [&](const AxisRef &part) {
    return contains(axes, part.axis);
  };
  for (size_t d = 0; d < slice.sizes.size(); ++d) {
    for (const AxisRef &part : slice.source.dims[d])
      if (isDropped(part))
        slice.sizes[d] /= part.size;
    std::erase_if(slice.source.dims[d], isDropped);
    std::erase_if(slice.target.dims[d], isDropped);
  }
  for (Sharding *sharding : {&slice.source, &slice.target}) {
    std::erase_if(sharding->partialAxes, isDropped);
    if (sharding->partialAxes.empty())
      sharding->partialKind = ReduceKind::None;
  }
  return slice;
}
