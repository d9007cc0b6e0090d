#include "layout/Machine.h"

#include "HostMachine.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

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

constexpr const char *allMachines[] = {"cpu", "v100", "a100", "h100", "h200"};

/// Calls `check` for every machine, kind and group.
template <class Check> void forAll(Check check) {
  for (const char *name : allMachines)
    for (CollectiveKind kind : allKinds)
      for (int64_t hosts : {1, 2, 3, 8, 32})
        for (int64_t perHost : {1, 2, 3, 8})
          if (hosts * perHost > 1)
            check(*findMachine(name), kind, on(hosts, perHost));
}

TEST(Machine, EveryConstantSaysHowItWasMade) {
  EXPECT_EQ(findMachine("h101"), nullptr);
  EXPECT_EQ(getMachineNames(), "cpu, v100, a100, h100, h200");
  EXPECT_EQ(getGpuMachineNames(), "v100, a100, h100, h200");
  for (const char *name : allMachines) {
    std::set<std::string_view> names;
    for (const MachineConstant &constant : findMachine(name)->getConstants()) {
      EXPECT_FALSE(constant.name.empty());
      EXPECT_TRUE(names.insert(constant.name).second) << constant.name;
      EXPECT_FALSE(constant.source.empty()) << constant.name;
      EXPECT_GT(constant.value, 0) << constant.name;
    }
  }
  // Nothing is said of the memory of threads of one host.
  EXPECT_FALSE(getCpuMachine().getMemoryBytes());
  EXPECT_EQ(h100().getMemoryBytes(), int64_t(81559) << 20);
}

TEST(Machine, FlopsInTheTimeOfAByte) {
  EXPECT_DOUBLE_EQ(getCpuMachine().getFlopsPerByte(), 9e4 / 12.5e3);
  EXPECT_DOUBLE_EQ(h100().getFlopsPerByte(), 67e6 / 3.35e6);
  // Memory that is faster leaves less time.
  EXPECT_LT(findMachine("h200")->getFlopsPerByte(), h100().getFlopsPerByte());
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
  for (const char *name : allMachines)
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
  // No two machines agree on an all_reduce but H100 and H200, whose links are
  // the same.
  prices.clear();
  for (const char *name : allMachines)
    prices.insert(
        getUs(*findMachine(name), CollectiveKind::AllReduce, on(2, 8), whole));
  EXPECT_EQ(prices.size(), 4u);
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
  EXPECT_EQ(h100().findMatmulPrice(MatmulType::F32, 1e3, 1e3)->bound,
            Bound::Launch);
  EXPECT_EQ(h100().findMatmulPrice(MatmulType::F16, 1e12, 1e8)->bound,
            Bound::Flops);
  EXPECT_EQ(h100().getKernelPrice(1e8, 1e9).bound, Bound::Memory);
  // 989 Tflop/s at 0.82 of it.
  EXPECT_NEAR(h100().findMatmulPrice(MatmulType::Bf16, 1e12, 1)->us,
              3 + 1e12 / (0.82 * 989e6), 1);
  double last = 0;
  for (double flops = 1; flops < 1e14; flops *= 1.3) {
    const double us =
        h100().findMatmulPrice(MatmulType::F32, flops, flops / 7)->us;
    EXPECT_GE(us, last);
    last = us;
  }
}

TEST(Machine, TypesThatItCannotMultiplyHaveNoPrice) {
  const Machine &v100 = *findMachine("v100");
  EXPECT_FALSE(v100.findMatmulPrice(MatmulType::Bf16, 1e12, 1e8));
  for (MatmulType type : {MatmulType::F64, MatmulType::F32, MatmulType::F16})
    EXPECT_TRUE(v100.findMatmulPrice(type, 1e12, 1e8)) << getName(type);
  for (const char *name : {"cpu", "a100", "h100", "h200"})
    EXPECT_TRUE(findMachine(name)->findMatmulPrice(MatmulType::Bf16, 1, 1));
  EXPECT_GT(v100.findMatmulPrice(MatmulType::F64, 1e12, 1)->us,
            1.9 * v100.findMatmulPrice(MatmulType::F32, 1e12, 1)->us);
}

/// What is changed changes the price of what uses it, and of nothing else.
TEST(Machine, TopologyIsSeen) {
  Machine::Constants slow = *h100().getGpuConstants();
  slow.networkRate.value /= 2;
  const Machine slowNetwork("slow", "", slow);
  slow = *h100().getGpuConstants();
  slow.insideRate.value /= 2;
  const Machine slowInside("slow", "", slow);
  const int64_t bytes = 1 << 30;
  for (CollectiveKind kind : allKinds) {
    EXPECT_GT(getUs(slowNetwork, kind, on(2, 2), bytes),
              1.8 * getUs(h100(), kind, on(2, 2), bytes))
        << getName(kind);
    EXPECT_EQ(getUs(slowNetwork, kind, on(1, 4), bytes),
              getUs(h100(), kind, on(1, 4), bytes));
    EXPECT_GT(getUs(slowInside, kind, on(1, 4), bytes),
              1.8 * getUs(h100(), kind, on(1, 4), bytes))
        << getName(kind);
  }
}

TEST(Machine, NothingTakesLessThanTheLeast) {
  forAll([](const Machine &machine, CollectiveKind kind, GroupReach reach) {
    EXPECT_GE(getUs(machine, kind, reach, 0), machine.getLeastCollectiveUs())
        << machine.getName() << " " << getName(kind);
  });
}

/// By looking at every group of the mesh.
GroupReach findReach(const Mesh &mesh, std::span<const AxisRef> axes,
                     int64_t perHost) {
  GroupReach reach;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    std::map<int64_t, int64_t> onHost;
    int64_t most = 0;
    for (int64_t member : mesh.getGroup(device, axes))
      most = std::max(most, ++onHost[member / perHost]);
    const auto hosts = int64_t(onHost.size());
    if (device == 0 || hosts > reach.hosts)
      reach.perHost = most;
    reach.hosts = std::max(reach.hosts, hosts);
    if (hosts == reach.hosts)
      reach.perHost = std::min(reach.perHost, most);
  }
  return reach;
}

TEST(Machine, ReachIsThatOfTheWidestGroup) {
  Machine::Constants constants = *h100().getGpuConstants();
  for (int64_t perHost : {1, 2, 3, 5, 8, 64}) {
    constants.devicesPerHost.value = double(perHost);
    const Machine machine("some", "", constants);
    for (const Mesh &mesh :
         {Mesh({{"a", 2}, {"b", 3}, {"c", 2}}), Mesh({{"a", 6}, {"b", 4}}),
          Mesh({{"a", 7}}), Mesh({{"a", 12}, {"b", 5}})}) {
      std::vector<AxisRef> parts;
      for (int32_t axis = 0; axis < mesh.getNumAxes(); ++axis) {
        const int64_t size = mesh.getAxisSize(axis);
        if (size % 2 == 0 && size > 2) {
          parts.push_back({axis, 1, 2});
          parts.push_back({axis, 2, size / 2});
        } else {
          parts.push_back(mesh.getWholeAxis(axis));
        }
      }
      for (uint64_t set = 1; set < uint64_t(1) << parts.size(); ++set) {
        std::vector<AxisRef> axes;
        for (size_t part = parts.size(); part-- > 0;)
          if (set >> part & 1)
            axes.push_back(parts[part]);
        const GroupReach found = machine.getReach(mesh, axes);
        const GroupReach expected = findReach(mesh, axes, perHost);
        EXPECT_EQ(found.hosts, expected.hosts) << perHost << " " << set;
        EXPECT_EQ(found.perHost, expected.perHost) << perHost << " " << set;
      }
    }
  }
  // Of many devices it takes no time that is felt.
  const Mesh large({{"a", 1 << 10}, {"b", 1 << 10}});
  const GroupReach found = h100().getReach(large, {{large.getWholeAxis(0)}});
  EXPECT_EQ(found.hosts, 1 << 10);
  EXPECT_EQ(found.perHost, 1);
}

TEST(CpuMachine, CostAddsLatencyAndBytes) {
  const Machine machine = meshc::layout::test::makeHost({.transferUs = 7,
                                                         .roundUs = 2,
                                                         .exchangeFactor = 1.5,
                                                         .wireRate = 10,
                                                         .copyRate = 100});
  auto cost = [&](CollectiveKind kind, int64_t groupSize, int64_t wire,
                  int64_t local) {
    return machine.getCollectiveUs(kind, {groupSize, 1, groupSize}, 0, wire,
                                   local);
  };
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::AllReduce, 3, 50, 200),
                   7 + 2 * 4 + 5 + 2);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::ReduceScatter, 4, 50, 200),
                   7 + 2 * 2 + 5 + 2);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::AllGather, 5, 50, 0), 7 + 2 * 3 + 5);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::AllGather, 8, 50, 0), 7 + 2 * 3 + 5);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::AllToAll, 5, 50, 0), 7 + 2 * 3 + 5);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::Exchange, 5, 50, 0), 7 + 2 * 7 + 7.5);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::Permute, 5, 50, 0), 7 + 2 + 5);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::Slice, 5, 0, 200), 2);
  EXPECT_DOUBLE_EQ(cost(CollectiveKind::AllReduce, 1, 0, 200), 2);
  // A gather of four has two rounds.
  EXPECT_DOUBLE_EQ(machine.getAddedGatherUs({4, 1, 4}), 2 * 2);
}

TEST(CpuMachine, PricesAreThoseThatPlansWereMadeWith) {
  const Machine &cpu = getCpuMachine();
  // 5 us, 4 rounds of 1 us, 150 000 and 25 000 bytes at 12.5 per ns.
  EXPECT_EQ(cpu.getCollectiveUs(CollectiveKind::AllReduce, {4, 1, 4}, 100000,
                                150000, 25000),
            23);
  EXPECT_EQ(cpu.getCollectiveUs(CollectiveKind::Exchange, {5, 1, 5}, 0, 10000),
            13);
  EXPECT_EQ(cpu.getCollectiveUs(CollectiveKind::Slice, {}, 0, 0, 25000), 2);
  EXPECT_EQ(cpu.getAddedGatherUs({3, 1, 3}), 2);
  EXPECT_EQ(cpu.getLeastCollectiveUs(), 6);
  EXPECT_EQ(cpu.findMatmulPrice(MatmulType::F32, 18e4, 12500)->us, 2);
  EXPECT_EQ(cpu.getKernelPrice(9e4, 37500).us, 3);
  // Devices of a CPU mesh are on one host, however many.
  const Mesh mesh({{"a", 64}, {"b", 3}});
  EXPECT_EQ(cpu.getReach(mesh, {{mesh.getWholeAxis(0)}}).hosts, 1);
}

} // namespace
