#ifndef MESHC_LAYOUT_COLLECTIVE_H
#define MESHC_LAYOUT_COLLECTIVE_H

#include <cstdint>

namespace meshc::layout {

enum class CollectiveKind : uint8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Permute,
  Exchange,
  Slice, ///< keeps a part of the own block: no communication
};

/// Name as in the plan: "all_reduce", "slice", ...
const char *getName(CollectiveKind kind);

/// Bytes one device sends for a collective in which it brings in
/// `payloadBytes`, in a group of `groupSize`: 2(p-1)/p n for all_reduce on a
/// ring, (p-1)/p n for reduce_scatter and all_to_all, (p-1) n for all_gather
/// (n is the own block), n for permute; 0 for slice and for groups of one. An
/// exchange gives its own figure, see ReshardStep.
/// Source: ring and pairwise forms of Thakur, Rabenseifner, Gropp 2005.
int64_t getWireBytes(CollectiveKind kind, int64_t payloadBytes,
                     int64_t groupSize);

} // namespace meshc::layout

#endif
