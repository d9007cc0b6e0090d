#include "layout/Machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <set>

using namespace meshc::layout;

const char *meshc::layout::getName(Made made) {
  switch (made) {
  case Made::Measured:
    return "measured";
  case Made::Interpolated:
    return "interpolated";
  case Made::DataSheet:
    return "data_sheet";
  }
  std::abort();
}

const char *meshc::layout::getName(Machine::Bound bound) {
  switch (bound) {
  case Machine::Bound::Flops:
    return "flops";
  case Machine::Bound::Memory:
    return "memory";
  case Machine::Bound::Launch:
    return "launch";
  }
  std::abort();
}

std::vector<MachineConstant> Machine::getConstants() const {
  const Constants &c = constants;
  return {c.memoryBytes, c.devicesPerHost, c.matmul32,
          c.matmul16,    c.vector32,       c.memoryRate,
          c.launchUs,    c.insideRate,     c.networkRate};
}

//===-- Groups ------------------------------------------------------------===//

GroupReach Machine::getReach(const Mesh &mesh,
                             std::span<const AxisRef> axes) const {
  const auto perHost = int64_t(constants.devicesPerHost.value);
  GroupReach reach;
  for (const AxisRef &axis : axes)
    reach.ranks *= axis.size;
  reach.perHost = reach.ranks;
  // Groups that begin at the same place of a host reach alike.
  std::set<int64_t> starts;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const std::vector<int64_t> coordinates = mesh.getCoordinates(device);
    const bool isFirst = std::ranges::all_of(axes, [&](const AxisRef &axis) {
      return mesh.getCoordinate(axis, coordinates) == 0;
    });
    if (!isFirst || !starts.insert(device % perHost).second)
      continue;
    std::map<int64_t, int64_t> onHost;
    for (int64_t member : mesh.getGroup(device, axes))
      ++onHost[member / perHost];
    int64_t most = 0;
    for (const auto &[host, count] : onHost)
      most = std::max(most, count);
    const auto hosts = int64_t(onHost.size());
    if (hosts > reach.hosts)
      reach = {reach.ranks, hosts, most};
    else if (hosts == reach.hosts) // the one that shares the network less
      reach.perHost = std::min(reach.perHost, most);
  }
  return reach;
}

//===-- Computing ---------------------------------------------------------===//

namespace {
/// What part of a machine's rate is reached from this size on.
struct Efficiency {
  double size, part;
};
} // namespace

/// Linear between the points of `curve`, so that more takes longer.
template <size_t N>
static double getEfficiency(const std::array<Efficiency, N> &curve,
                            double size) {
  for (size_t i = 1; i < N; ++i)
    if (size < curve[i].size)
      return curve[i - 1].part + (curve[i].part - curve[i - 1].part) *
                                     (size - curve[i - 1].size) /
                                     (curve[i].size - curve[i - 1].size);
  return curve.back().part;
}

// Source: Calculon (Isaev et al., SC 2023), its description of the A100.
static constexpr std::array<Efficiency, 4> matmulEfficiency = {
    {{0, 0.1}, {1e9, 0.6}, {16e9, 0.9}, {128e9, 0.95}}};
static constexpr std::array<Efficiency, 4> memoryEfficiency = {
    {{0, 0.3}, {1e6, 0.6}, {10e6, 0.75}, {100e6, 0.9}}};

Machine::Price Machine::getComputePrice(bool isMatmul, int64_t elementBytes,
                                        double flops, double bytes) const {
  const double rate =
      !isMatmul ? constants.vector32.value
                : (elementBytes <= 2 ? constants.matmul16 : constants.matmul32)
                          .value *
                      getEfficiency(matmulEfficiency, flops);
  const double arithmetic = flops / rate;
  const double memory = bytes / (constants.memoryRate.value *
                                 getEfficiency(memoryEfficiency, bytes));
  const double launch = constants.launchUs.value;
  Price price;
  price.us = launch + std::max(arithmetic, memory);
  if (std::max(arithmetic, memory) > launch)
    price.bound = arithmetic > memory ? Bound::Flops : Bound::Memory;
  return price;
}

//===-- Sending -----------------------------------------------------------===//

namespace {
/// A protocol of NCCL: its latencies in microseconds, and the part of the
/// links' rate that it reaches.
struct Protocol {
  double ringBase, treeBase, insideHop, networkRingHop, treeHop, networkTreeHop,
      ringPart, treePart;
};
} // namespace

// LL, LL128 and Simple. Source: NCCL 2.30, src/graph/tuning.cc: base and hop
// latencies of NVLink and network; LL sends as many flags as data; LL128 120 of
// 128 bytes, 0.92 of the links' rate; trees 0.92 of it, LL trees a 3.8th.
static constexpr std::array<Protocol, 3> protocols = {
    {{6.6, 6.8, 0.6, 2.7, 0.6, 5.0, 0.5, 1 / 3.8},
     {14, 14, 1.9, 4.0, 1.25, 8.5, 0.92, 0.92 * 120 / 128},
     {8.4, 8.4, 3.4, 14, 4.0, 14, 1, 0.92}}};

/// Messages of all_to_all, by NCCL's Simple protocol inside of a host and its
/// latency per network hop of LL between hosts, whose sends are under way
/// together.
static double getPairwiseUs(const GroupReach &reach) {
  const Protocol &low = protocols[0], &simple = protocols[2];
  return simple.ringBase + double(reach.perHost - 1) * simple.insideHop +
         double(reach.ranks - reach.perHost) * low.networkRingHop;
}

double Machine::getCollectiveUs(CollectiveKind kind, const GroupReach &reach,
                                int64_t payloadBytes, int64_t wireBytes) const {
  const double inside = constants.insideRate.value;
  const double network = constants.networkRate.value;
  const bool isAcross = reach.hosts > 1;
  if (reach.ranks <= 1 || kind == CollectiveKind::Slice)
    return constants.launchUs.value +
           2 * double(payloadBytes) / constants.memoryRate.value;
  const auto ranks = double(reach.ranks), hosts = double(reach.hosts);
  const auto wire = double(wireBytes);
  switch (kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather:
    break;
  case CollectiveKind::AllToAll:
  case CollectiveKind::Exchange: {
    // What goes to other hosts has a device's own share of the network.
    const double across = (ranks - double(reach.perHost)) / (ranks - 1);
    // Exchanged boxes are irregular.
    const double factor =
        kind == CollectiveKind::Exchange ? CostModel().exchangeFactor : 1;
    return getPairwiseUs(reach) +
           factor *
               std::max(wire * (1 - across) / inside, wire * across / network);
  }
  case CollectiveKind::Permute: {
    const Protocol &simple = protocols[2];
    return simple.ringBase +
           (isAcross ? simple.networkRingHop : simple.insideHop) +
           wire / (isAcross ? network : inside);
  }
  case CollectiveKind::Slice:
    std::abort();
  }
  // Every device of a host brings its own share of the network to a ring.
  const double links =
      isAcross ? std::min(inside, double(reach.perHost) * network) : inside;
  const bool isReduce = kind == CollectiveKind::AllReduce;
  const double rounds = isReduce ? 2 : 1;
  const double steps = rounds * (ranks - 1), netSteps = rounds * (hosts - 1);
  double best = 0;
  for (const Protocol &protocol : protocols) {
    const double ring =
        protocol.ringBase + (steps - netSteps) * protocol.insideHop +
        netSteps * protocol.networkRingHop + wire / (links * protocol.ringPart);
    best = best == 0 ? ring : std::min(best, ring);
    if (!isReduce)
      continue;
    // Up and down: twice the payload.
    const auto doublings = double(std::bit_width(uint64_t(reach.hosts - 1)));
    const double tree = protocol.treeBase +
                        2 * (double(reach.perHost - 1) * protocol.treeHop +
                             doublings * protocol.networkTreeHop) +
                        2 * double(payloadBytes) / (links * protocol.treePart);
    best = std::min(best, tree);
  }
  if (isReduce)
    return best;
  // An all_reduce of the whole does what both others do, by a tree with fewer
  // rounds.
  const int64_t whole = kind == CollectiveKind::AllGather
                            ? payloadBytes * reach.ranks
                            : payloadBytes;
  return std::min(best, getCollectiveUs(CollectiveKind::AllReduce, reach, whole,
                                        getWireBytes(CollectiveKind::AllReduce,
                                                     whole, reach.ranks)));
}

//===-- Machines ----------------------------------------------------------===//

static Machine makeGpu(std::string_view name, std::string_view label,
                       double memory, double matmul32, double matmul16,
                       double memoryRate, double inside, double network) {
  constexpr std::string_view sheet = "NVIDIA's data sheet";
  return {name,
          label,
          {{"memory", "bytes", memory, Made::DataSheet, sheet},
           {"devices of a host", "", 8, Made::DataSheet,
            "a DGX or HGX server of eight"},
           {"matmul f32", "flop/us", matmul32, Made::DataSheet, sheet},
           {"matmul 16 bits", "flop/us", matmul16, Made::DataSheet, sheet},
           {"other arithmetic", "flop/us", matmul32, Made::DataSheet, sheet},
           {"memory rate", "bytes/us", memoryRate, Made::DataSheet, sheet},
           {"launch", "us", 3, Made::Interpolated,
            "a kernel of a CUDA graph or stream, 2 to 5 us"},
           {"NVLink", "bytes/us", inside, Made::Interpolated,
            "NCCL 2.30's planning rate, links by what each reaches"},
           {"network", "bytes/us", network, Made::DataSheet,
            "the server's network adapters by its devices"}}};
}

static const std::array<Machine, 4> &getMachines() {
  static const std::array<Machine, 4> machines = {
      makeGpu("v100", "V100 SXM2 32 GB", 32e9, 15.7e6, 125e6, 0.9e6, 120e3,
              6.25e3),
      makeGpu("a100", "A100 SXM4 80 GB", 80e9, 19.5e6, 312e6, 2.04e6, 240e3,
              25e3),
      makeGpu("h100", "H100 SXM5 80 GB", 80e9, 67e6, 989e6, 3.35e6, 370.8e3,
              50e3),
      makeGpu("h200", "H200 SXM5 141 GB", 141e9, 67e6, 989e6, 4.8e6, 370.8e3,
              50e3)};
  return machines;
}

const Machine *meshc::layout::findMachine(std::string_view name) {
  for (const Machine &machine : getMachines())
    if (machine.getName() == name)
      return &machine;
  return nullptr;
}

std::string meshc::layout::getMachineNames() {
  std::string names;
  for (const Machine &machine : getMachines())
    names += (names.empty() ? "" : ", ") + std::string(machine.getName());
  return names;
}
