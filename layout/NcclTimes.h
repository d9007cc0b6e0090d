#ifndef MESHC_LAYOUT_NCCLTIMES_H
#define MESHC_LAYOUT_NCCLTIMES_H

/// NCCL's own model of the time of its algorithms. Inside layout/ only.
/// Source: NCCL 2.30, src/graph/tuning.cc.

#include "layout/Machine.h"

namespace meshc::layout::nccl {

/// LL sends as many flags as data; LL128 120 bytes of 128; Simple all of them.
enum class Protocol : uint8_t { LL, LL128, Simple };
inline constexpr Protocol allProtocols[] = {Protocol::LL, Protocol::LL128,
                                            Protocol::Simple};

/// Latency in microseconds, rate in bytes/us.
struct Terms {
  double latency = 0, rate = 0;
};

/// A ring of all_reduce, reduce_scatter or all_gather: its rate is that of the
/// bytes that one device sends.
Terms getRing(const Machine::Constants &machine, CollectiveKind kind,
              const GroupReach &reach, Protocol protocol);
/// Trees of an all_reduce, before their correction; the rate is that of the
/// payload.
Terms getTree(const Machine::Constants &machine, const GroupReach &reach,
              Protocol protocol);
/// What part of the rate of a tree is reached at this payload.
double getTreePart(Protocol protocol, double payloadBytes);

/// Microseconds of a collective of two devices or more, as in
/// Machine::getCollectiveUs.
double getUs(const Machine::Constants &machine, CollectiveKind kind,
             const GroupReach &reach, int64_t payloadBytes, int64_t wireBytes);
/// No collective over two devices or more takes less.
double getLeastUs();

} // namespace meshc::layout::nccl

#endif
