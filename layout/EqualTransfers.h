#ifndef MESHC_LAYOUT_EQUALTRANSFERS_H
#define MESHC_LAYOUT_EQUALTRANSFERS_H

/// Where a change of sharding does the same in every position of a mesh axis.
///
/// On the mesh data = 4, model = 2, 8 x 6 elements go from <batch@data> partial
/// sum over model to <batch@data>: four groups of two devices each add up 2 x 6
/// elements, at the same places of their blocks. One group says what all do:
/// the slice data = 1, model = 2, in which 2 x 6 elements are a partial sum
/// over model. Of 7 x 6 elements the last block is smaller, and no axis is like
/// that.

#include "layout/Sharding.h"

#include <cstdint>
#include <span>
#include <vector>

namespace meshc::layout {

/// A tensor that leaves one sharding for another.
struct ShardingChange {
  std::vector<int64_t> sizes; ///< global
  Sharding source, target;

  bool operator==(const ShardingChange &) const = default;
  /// Any order, for maps.
  bool operator<(const ShardingChange &other) const;
};

/// The axes over which `changes`, each alone and all together, do the same in
/// every position: devices that differ on such an axis take from devices with
/// their own position on it, boxes of one shape from the same places of their
/// blocks to the same places. Ascending; axes of size 1 are left out.
///
/// Fills, which have no source, are one Transfer for all positions.
///
/// Requires: of each change what getTransfers requires.
std::vector<int32_t> getRepeatedAxes(const Mesh &mesh,
                                     std::span<const ShardingChange> changes);

/// The mesh of the devices at position 0 of `axes`: these have size 1. The
/// order of devices stays.
Mesh getSlice(const Mesh &mesh, std::span<const int32_t> axes);

/// The part of `change` that lies on the slice, in its devices' own numbers.
/// Requires: `axes` are what getRepeatedAxes gives for changes with this one.
ShardingChange getSlice(const ShardingChange &change,
                        std::span<const int32_t> axes);

} // namespace meshc::layout

#endif
