#ifndef MESHC_LAYOUT_COSTMODEL_H
#define MESHC_LAYOUT_COSTMODEL_H

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

/// First cost model: a latency per message round plus bytes over bandwidth.
struct CostModel {
  double launchUs = 5.0; ///< one collective, whatever its size
  double roundUs = 1.0;  ///< one message round
  /// Bytes of an exchange take this much longer: its boxes are irregular. Also
  /// keeps regular collectives where padding makes an exchange look smaller.
  double exchangeFactor = 1.25;
  double wireBytesPerUs = 12.5e3; ///< one device's sending rate
  double copyBytesPerUs = 12.5e3; ///< local copy, read plus write

  /// Microseconds for one collective. `wireBytes` as above, `localBytes` read
  /// and written locally beside it. Rounds: log2 p for reduce_scatter,
  /// all_gather (recursive halving and doubling send the bytes of the ring) and
  /// all_to_all (Bruck, for the short messages of which rounds are the cost),
  /// twice that for all_reduce, and one more for an exchange, whose devices
  /// first have to ask; 1 for permute.
  /// Source: Thakur, Rabenseifner, Gropp 2005.
  double getCost(CollectiveKind kind, int64_t groupSize, int64_t wireBytes,
                 int64_t localBytes) const;
};

} // namespace meshc::layout

#endif
