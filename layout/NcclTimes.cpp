#include "layout/NcclTimes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

using namespace meshc::layout;
using namespace meshc::layout::nccl;

namespace {
/// Microseconds: of a collective, and of each hop.
struct Latencies {
  double ringBase, treeBase, insideRingHop, networkRingHop, insideTreeHop,
      networkTreeHop;
};
} // namespace

// By protocol, of NVLink and network. A hop of a ring inside of a host takes at
// least the microsecond that hosts need to synchronize, of Simple three.
static constexpr Latencies latencies[] = {{6.6, 6.8, 1.0, 2.7, 0.6, 5.0},
                                          {14, 14, 1.9, 4.0, 1.25, 8.5},
                                          {8.4, 8.4, 3.4, 14, 4.0, 14}};
/// Of a reduction in the switches of a host.
static constexpr double switchUs = 25;
/// What trees reach of the caps of their channels.
static constexpr double treePattern = 0.85;
/// What LL128 and trees reach of the rate of their links.
static constexpr double linkPart = 0.92;

static const Latencies &get(Protocol protocol) {
  return latencies[size_t(protocol)];
}

/// bytes/us between a device and its network, through PCIe.
static double getNetworkRate(const Machine::Constants &machine) {
  return machine.pcieRate
             ? std::min(machine.networkRate.value, machine.pcieRate->value)
             : machine.networkRate.value;
}

/// Every device of a host brings its own share of the network to a ring.
static double getBusRate(const Machine::Constants &machine,
                         const GroupReach &reach) {
  const double inside = machine.insideRate.value;
  return reach.hosts > 1
             ? std::min(inside, double(reach.perHost) * getNetworkRate(machine))
             : inside;
}

/// Position in arrays of NcclCaps.
static size_t getCapIndex(const GroupReach &reach) {
  return size_t(std::min<int64_t>(reach.hosts, 3)) - 1;
}

/// Channels between hosts. Those inside are as many as the links can use.
/// Source: NCCL's log of hosts of eight H100, whose rates are of eight.
static constexpr double channels = 8;

Terms nccl::getRing(const Machine::Constants &machine, CollectiveKind kind,
                    const GroupReach &reach, Protocol protocol) {
  const bool isReduce = kind == CollectiveKind::AllReduce;
  const bool isAcross = reach.hosts > 1;
  const double rounds = isReduce ? 2 : 1;
  const double steps = rounds * double(reach.ranks - 1);
  const double networkSteps = rounds * double(reach.hosts - 1);
  const Latencies &hops = get(protocol);
  Terms terms;
  terms.latency = hops.ringBase + (steps - networkSteps) * hops.insideRingHop +
                  networkSteps * hops.networkRingHop;
  const double bus = getBusRate(machine, reach);
  switch (protocol) {
  case Protocol::LL:
    terms.rate = bus / 2;
    if (machine.caps)
      terms.rate =
          std::min(terms.rate, machine.caps->ring64[getCapIndex(reach)]);
    break;
  case Protocol::LL128:
    terms.rate = linkPart * bus;
    if (machine.caps && isAcross)
      terms.rate = std::min(terms.rate, channels * machine.caps->ring128);
    break;
  case Protocol::Simple:
    terms.rate = bus;
    if (isReduce && isAcross && machine.caps)
      terms.latency *= machine.caps->plateau;
    break;
  }
  return terms;
}

Terms nccl::getTree(const Machine::Constants &machine, const GroupReach &reach,
                    Protocol protocol) {
  const Latencies &hops = get(protocol);
  const auto doublings = double(std::bit_width(uint64_t(reach.hosts - 1)));
  Terms terms;
  terms.latency =
      hops.treeBase + 2 * (double(reach.perHost - 1) * hops.insideTreeHop +
                           doublings * hops.networkTreeHop);
  // All goes up and down, so twice through each link; but from one of two
  // hosts to the other only once, half of it up one tree and half down another.
  double full = linkPart * getBusRate(machine, reach) / 2;
  if (reach.hosts == 2)
    full = linkPart * std::min(machine.insideRate.value / 2,
                               double(reach.perHost) * getNetworkRate(machine));
  double part128 = full * 120 / 128;
  if (machine.caps && reach.hosts > 1) {
    const double each = treePattern * channels / 2;
    const size_t index = getCapIndex(reach);
    full = std::min(full, each * machine.caps->treeFull[index]);
    part128 = std::min(part128, each * machine.caps->tree128[index]);
  }
  switch (protocol) {
  case Protocol::LL:
    terms.rate = full / 3.8;
    break;
  case Protocol::LL128:
    terms.rate = part128;
    break;
  case Protocol::Simple:
    terms.rate = full;
    break;
  }
  return terms;
}

namespace {
/// Up to a power of two bytes: the part that is reached there.
struct Point {
  double doublings, part;
};
} // namespace

// The points between which NCCL's own correction, which has one for every power
// of two and was measured, is close to a line.
static constexpr Point treeParts[][4] = {
    {{9, 1}, {18, 0.4}, {19, 0.4}, {25, 1}},
    {{10, 1}, {16, 0.6}, {21, 0.6}, {27, 1}},
    {{12, 0.9}, {17, 0.5}, {20, 0.5}, {28, 0.9}}};

double nccl::getTreePart(Protocol protocol, double payloadBytes) {
  const auto &points = treeParts[size_t(protocol)];
  const double doublings = std::log2(std::max(payloadBytes, 1.0));
  if (doublings <= points[0].doublings)
    return points[0].part;
  for (size_t i = 1; i < std::size(points); ++i)
    if (doublings < points[i].doublings)
      return std::lerp(points[i - 1].part, points[i].part,
                       (doublings - points[i - 1].doublings) /
                           (points[i].doublings - points[i - 1].doublings));
  return std::end(points)[-1].part;
}

/// A reduction in the switches of one host: a device sends its payload, and
/// takes what is reduced. Of a whole host of p devices it sends an eighth more:
/// n (1 + 1/p); smaller groups are taken to do as well.
static double getSwitchUs(const Machine::Constants &machine, double payload) {
  const double devices = machine.devicesPerHost.value;
  return switchUs + payload * (1 + 1 / devices) /
                        (machine.insideRate.value * machine.switchPart->value);
}

static double getAllReduceUs(const Machine::Constants &machine,
                             const GroupReach &reach, double payload,
                             double wire) {
  double best = INFINITY;
  for (Protocol protocol : allProtocols) {
    const Terms ring =
        getRing(machine, CollectiveKind::AllReduce, reach, protocol);
    const Terms tree = getTree(machine, reach, protocol);
    best =
        std::min({best, ring.latency + wire / ring.rate,
                  tree.latency +
                      payload / (tree.rate * getTreePart(protocol, payload))});
  }
  if (machine.switchPart && reach.hosts == 1)
    best = std::min(best, getSwitchUs(machine, payload));
  return best;
}

/// Exchanged boxes are irregular: their bytes take this much longer.
static constexpr double exchangeFactor = 1.25;

/// Messages of all_to_all, by the Simple protocol inside of a host and the
/// latency per network hop of LL between hosts, whose sends are under way
/// together. What goes to other hosts has a device's own share of the network.
static double getPairwiseUs(const Machine::Constants &machine,
                            const GroupReach &reach, double wire) {
  const double others = double(reach.ranks - reach.perHost);
  const double across = others / double(reach.ranks - 1);
  return get(Protocol::Simple).ringBase +
         double(reach.perHost - 1) * get(Protocol::Simple).insideRingHop +
         others * get(Protocol::LL).networkRingHop +
         std::max(wire * (1 - across) / machine.insideRate.value,
                  wire * across / getNetworkRate(machine));
}

double nccl::getUs(const Machine::Constants &machine, CollectiveKind kind,
                   const GroupReach &reach, int64_t payloadBytes,
                   int64_t wireBytes) {
  const auto payload = double(payloadBytes), wire = double(wireBytes);
  switch (kind) {
  case CollectiveKind::AllReduce:
    return getAllReduceUs(machine, reach, payload, wire);
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather: {
    // An all_reduce of the whole does what both do, by a tree with fewer
    // rounds.
    const int64_t whole = kind == CollectiveKind::AllGather
                              ? payloadBytes * reach.ranks
                              : payloadBytes;
    double best = getAllReduceUs(
        machine, reach, double(whole),
        double(getWireBytes(CollectiveKind::AllReduce, whole, reach.ranks)));
    for (Protocol protocol : allProtocols) {
      const Terms ring = getRing(machine, kind, reach, protocol);
      best = std::min(best, ring.latency + wire / ring.rate);
    }
    return best;
  }
  case CollectiveKind::AllToAll:
    return getPairwiseUs(machine, reach, wire);
  case CollectiveKind::Exchange:
    return getPairwiseUs(machine, reach, exchangeFactor * wire);
  case CollectiveKind::Permute: {
    const Latencies &hops = get(Protocol::Simple);
    return reach.hosts > 1 ? hops.ringBase + hops.networkRingHop +
                                 wire / getNetworkRate(machine)
                           : hops.ringBase + hops.insideRingHop +
                                 wire / machine.insideRate.value;
  }
  case CollectiveKind::Slice:
    break;
  }
  std::abort();
}

double nccl::getLeastUs() {
  return get(Protocol::LL).ringBase + get(Protocol::LL).insideRingHop;
}
