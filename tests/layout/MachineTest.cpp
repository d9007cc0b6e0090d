#include "layout/Machine.h"

#include <gtest/gtest.h>
#include <random>

using namespace meshc::layout;

namespace {

constexpr CollectiveKind allKinds[] = {
    CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
    CollectiveKind::AllGather, CollectiveKind::AllToAll,
    CollectiveKind::Permute,   CollectiveKind::Exchange};

const Machine &h100() { return *findMachine("h100"); }

double getUs(const Machine &machine, CollectiveKind kind, GroupReach reach,
             int64_t payload) {
  return machine.getCollectiveUs(kind, reach, payload,
                                 getWireBytes(kind, payload, reach.ranks));
}

GroupReach on(int64_t hosts, int64_t perHost) {
  return {hosts * perHost, hosts, perHost};
}

/// Calls `check` for every machine, kind and group.
template <class Check> void forAll(Check check) {
  for (const char *name : {"v100", "a100", "h100", "h200"})
    for (CollectiveKind kind : allKinds)
      for (int64_t hosts : {1, 2, 3, 8, 32})
        for (int64_t perHost : {1, 2, 3, 8})
          if (hosts * perHost > 1)
            check(*findMachine(name), kind, on(hosts, perHost));
}

TEST(Machine, EveryConstantSaysHowItWasMade) {
  EXPECT_EQ(findMachine("h101"), nullptr);
  EXPECT_EQ(getMachineNames(), "v100, a100, h100, h200");
  for (const MachineConstant &constant : h100().getConstants()) {
    EXPECT_FALSE(constant.name.empty());
    EXPECT_FALSE(constant.source.empty()) << constant.name;
    EXPECT_GT(constant.value, 0) << constant.name;
  }
}

TEST(Machine, MoreBytesTakeLonger) {
  forAll([](const Machine &machine, CollectiveKind kind, GroupReach reach) {
    double last = 0;
    // The sizes of other protocols and algorithms are passed, too.
    for (int64_t bytes = reach.ranks; bytes < int64_t(1) << 33;
         bytes += std::max<int64_t>(bytes / 5, 1)) {
      const double us = getUs(machine, kind, reach, bytes);
      ASSERT_GE(us, last) << getName(kind) << " of " << bytes;
      last = us;
    }
  });
}

TEST(Machine, MoreHostsAndDevicesTakeLonger) {
  for (const char *name : {"v100", "a100", "h100", "h200"})
    for (CollectiveKind kind : allKinds)
      for (int64_t bytes :
           {int64_t(1) << 12, int64_t(3) << 20, int64_t(1) << 30}) {
        for (int64_t perHost : {1, 2, 3, 8}) {
          double last = 0;
          for (int64_t hosts : {1, 2, 3, 8, 32}) {
            if (hosts * perHost == 1)
              continue;
            const double us = getUs(*findMachine(name), kind,
                                    on(hosts, perHost), bytes * 32 * 8);
            EXPECT_GE(us, last) << name << " " << getName(kind) << " " << hosts
                                << " x " << perHost;
            last = us;
          }
        }
        double last = 0;
        for (int64_t perHost = 2; perHost <= 8; ++perHost) {
          const double us =
              getUs(*findMachine(name), kind, on(1, perHost), bytes * 840);
          EXPECT_GE(us, last) << name << " " << getName(kind) << " " << perHost;
          last = us;
        }
      }
}

TEST(Machine, PartsOfAnAllReduceAreNoDearer) {
  forAll([](const Machine &machine, CollectiveKind, GroupReach reach) {
    for (int64_t bytes = reach.ranks; bytes < int64_t(1) << 33; bytes *= 3) {
      const int64_t whole = bytes / reach.ranks * reach.ranks;
      const double all =
          getUs(machine, CollectiveKind::AllReduce, reach, whole);
      EXPECT_LE(getUs(machine, CollectiveKind::ReduceScatter, reach, whole),
                all);
      EXPECT_LE(
          getUs(machine, CollectiveKind::AllGather, reach, whole / reach.ranks),
          all);
    }
  });
}

TEST(Machine, EveryKindHasItsPrice) {
  // Of the same whole, 8 MiB, on two hosts.
  const int64_t whole = 8 << 20;
  std::set<double> prices;
  for (CollectiveKind kind : allKinds)
    prices.insert(
        getUs(h100(), kind, on(2, 8),
              kind == CollectiveKind::AllGather ? whole / 16 : whole));
  // A ring gathers as it scatters.
  EXPECT_EQ(prices.size(), 5u);
  EXPECT_NE(getUs(h100(), CollectiveKind::AllToAll, on(2, 8), whole),
            getUs(h100(), CollectiveKind::AllGather, on(2, 8), whole / 16));
}

TEST(Machine, WhoeverCrossesHostsPaysTheNetwork) {
  const int64_t bytes = 1 << 30;
  for (CollectiveKind kind : allKinds)
    EXPECT_GT(getUs(h100(), kind, on(2, 1), bytes),
              6 * getUs(h100(), kind, on(1, 2), bytes))
        << getName(kind);
}

TEST(Machine, GroupsReachAsFarAsTheirDevices) {
  const Mesh mesh({{"data", 4}, {"model", 4}});
  const AxisRef data = mesh.getWholeAxis(0), model = mesh.getWholeAxis(1);
  auto reach = [&](std::vector<AxisRef> axes) {
    const GroupReach found = h100().getReach(mesh, axes);
    return std::array{found.ranks, found.hosts, found.perHost};
  };
  EXPECT_EQ(reach({model}), (std::array<int64_t, 3>{4, 1, 4}));
  EXPECT_EQ(reach({data}), (std::array<int64_t, 3>{4, 2, 2}));
  EXPECT_EQ(reach({data, model}), (std::array<int64_t, 3>{16, 2, 8}));
  // The minor half of data is devices 0 and 4, the major one 0 and 8.
  EXPECT_EQ(reach({{0, 2, 2}}), (std::array<int64_t, 3>{2, 1, 2}));
  EXPECT_EQ(reach({{0, 1, 2}}), (std::array<int64_t, 3>{2, 2, 1}));
  // Three at a time: those from device 6 on are on two hosts.
  const Mesh uneven({{"a", 5}, {"b", 3}});
  const GroupReach found =
      h100().getReach(uneven, std::vector{uneven.getWholeAxis(1)});
  EXPECT_EQ(found.hosts, 2);
}

TEST(Machine, WorkIsBoundByWhatTakesLongest) {
  using Bound = Machine::Bound;
  EXPECT_EQ(h100().getComputePrice(true, 4, 1e3, 1e3).bound, Bound::Launch);
  EXPECT_EQ(h100().getComputePrice(true, 2, 1e12, 1e8).bound, Bound::Flops);
  EXPECT_EQ(h100().getComputePrice(false, 4, 1e8, 1e9).bound, Bound::Memory);
  // 989 Tflop/s at 0.95 of it.
  EXPECT_NEAR(h100().getComputePrice(true, 2, 1e12, 1).us,
              3 + 1e12 / (0.95 * 989e6), 1);
  double last = 0;
  for (double flops = 1; flops < 1e14; flops *= 1.3) {
    const double us = h100().getComputePrice(true, 4, flops, flops / 7).us;
    EXPECT_GE(us, last);
    last = us;
  }
}

/// H100 servers of eight with a 400 Gb/s adapter for each device, at large
/// messages: GB/s of the whole tensor. Source: the cost model of
/// meta-pytorch/autoparallel, h100_nvswitch_roce_400g, the slowest rank's
/// median. Nothing of it is fitted here; the errors are what data sheets and
/// NCCL's own constants leave.
TEST(Machine, LargeMessagesBesideAMeasuredTable) {
  struct Row {
    int64_t hosts;
    double allGather, reduceScatter, allReduce, allToAll;
  };
  constexpr Row rows[] = {{1, 386.1, 392.0, 211.7, 374.4},
                          {2, 322.6, 377.0, 193.1, 82.5},
                          {8, 305.0, 358.5, 171.4, 46.8},
                          {32, 263.9, 301.2, 129.8, 43.1}};
  const int64_t whole = int64_t(1) << 36; // startups no longer count
  double worst = 0;
  for (const Row &row : rows) {
    const GroupReach reach = on(row.hosts, 8);
    for (auto [kind, payload, measured] :
         {std::tuple(CollectiveKind::AllGather, whole / reach.ranks,
                     row.allGather),
          {CollectiveKind::ReduceScatter, whole, row.reduceScatter},
          {CollectiveKind::AllReduce, whole, row.allReduce},
          {CollectiveKind::AllToAll, whole, row.allToAll}}) {
      const double predicted =
          double(whole) / getUs(h100(), kind, reach, payload) / 1e3;
      const double error = predicted / measured - 1;
      std::printf(
          "%2ld x 8 %-14s %6.1f GB/s predicted, %6.1f measured: %+.0f %%\n",
          long(row.hosts), getName(kind), predicted, measured, 100 * error);
      worst = std::max(worst, std::abs(error));
      RecordProperty(std::string(getName(kind)) + std::to_string(row.hosts),
                     std::to_string(error));
    }
  }
  EXPECT_LT(worst, 0.5);
}

} // namespace
