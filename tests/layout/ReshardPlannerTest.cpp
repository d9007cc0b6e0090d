#include "layout/ReshardPlanner.h"

#include "HostMachine.h"
#include "Shardings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

using namespace meshc::layout;
using meshc::layout::test::spell;
using ::testing::ElementsAre;

namespace {

const Mesh mesh({{"x", 2}, {"y", 3}, {"z", 2}});
const AxisRef x = mesh.getWholeAxis(0), y = mesh.getWholeAxis(1),
              z = mesh.getWholeAxis(2);

Sharding split(std::vector<DimSplit> dims) {
  return {std::move(dims), ReduceKind::None, {}};
}

Sharding sum(std::vector<DimSplit> dims, std::vector<AxisRef> partial) {
  return {std::move(dims), ReduceKind::Sum, std::move(partial)};
}

/// "reduce_scatter x 192" and so on: kind, axes, payload.
std::vector<std::string> describe(const Mesh &mesh, const ReshardPlan &plan) {
  std::vector<std::string> steps;
  for (const ReshardStep &step : plan.steps)
    steps.push_back(std::string(getName(step.kind)) + " " +
                    toString(mesh, step.axes) + " " +
                    std::to_string(step.payloadElements));
  return steps;
}

std::vector<std::string> plan(const std::vector<int64_t> &sizes,
                              const Sharding &source, const Sharding &target) {
  return describe(mesh, planReshard(mesh, sizes, 4, source, target).best);
}

const std::vector<int64_t> sizes{12, 24};

} // namespace

TEST(ReshardPlanner, EqualShardingsNeedNothing) {
  ReshardChoice choice =
      planReshard(mesh, sizes, 4, sum({{x}, {y}}, {z}), sum({{x}, {y}}, {z}));
  EXPECT_TRUE(choice.best.steps.empty());
  EXPECT_EQ(choice.best.costUs, 0);
  EXPECT_FALSE(choice.secondBest);
  // One sharding in two spellings.
  const AxisRef one{1, 3, 1};
  EXPECT_THAT(plan(sizes, split({{x, one}, {}}), split({{x}, {}})),
              ElementsAre());
}

TEST(ReshardPlanner, OneStepChanges) {
  EXPECT_THAT(plan(sizes, split({{}, {}}), split({{x}, {y}})),
              ElementsAre("slice (x, y) 0"));
  EXPECT_THAT(plan(sizes, split({{}, {}}), sum({{}, {}}, {x})),
              ElementsAre("slice x 0"));
  EXPECT_THAT(plan(sizes, split({{x}, {}}), split({{}, {}})),
              ElementsAre("all_gather x 144"));
  EXPECT_THAT(plan(sizes, split({{x, y}, {}}), split({{x}, {}})),
              ElementsAre("all_gather y 48"));
  EXPECT_THAT(plan(sizes, sum({{y}, {}}, {x}), split({{y}, {}})),
              ElementsAre("all_reduce x 96"));
  EXPECT_THAT(plan(sizes, sum({{}, {}}, {x}), split({{x}, {}})),
              ElementsAre("reduce_scatter x 288"));
  EXPECT_THAT(plan(sizes, split({{x}, {}}), split({{}, {x}})),
              ElementsAre("all_to_all x 144"));
  EXPECT_THAT(plan(sizes, split({{x, y}, {}}), split({{y, x}, {}})),
              ElementsAre("permute (x, y) 48"));
  EXPECT_THAT(plan(sizes, split({{x}, {}}), split({{z}, {}})),
              ElementsAre("permute (x, z) 144"));
}

TEST(ReshardPlanner, SeveralAxesAreOneCollective) {
  EXPECT_THAT(plan(sizes, sum({{}, {}}, {x, y, z}), split({{}, {}})),
              ElementsAre("all_reduce (x, y, z) 288"));
  EXPECT_THAT(plan(sizes, split({{x}, {y, z}}), split({{}, {}})),
              ElementsAre("all_gather (x, y, z) 24"));
  EXPECT_THAT(plan(sizes, sum({{}, {}}, {x, y}), split({{x, y}, {}})),
              ElementsAre("reduce_scatter (x, y) 288"));
  EXPECT_THAT(plan(sizes, sum({{}, {}}, {x, y}), split({{x}, {y}})),
              ElementsAre("reduce_scatter (x, y) 288"));
  EXPECT_THAT(plan(sizes, split({{x, y, z}, {}}), split({{}, {z, y, x}})),
              ElementsAre("all_to_all (x, y, z) 24"));
}

TEST(ReshardPlanner, SumOfAllElements) {
  // Both axes in one all_reduce of one element.
  EXPECT_THAT(plan({}, sum({}, {x, y}), split({})),
              ElementsAre("all_reduce (x, y) 1"));
}

TEST(ReshardPlanner, SumNeededSplitIsScattered) {
  EXPECT_THAT(plan({6}, sum({{}}, {x}), split({{x}})),
              ElementsAre("reduce_scatter x 6"));
  // Also where one of two axes splits the result.
  EXPECT_THAT(plan(sizes, sum({{}, {}}, {x, y}), split({{x}, {}})),
              ElementsAre("reduce_scatter (x, y) 288"));
}

TEST(ReshardPlanner, SlicesBeforeItCommunicates) {
  EXPECT_THAT(plan(sizes, sum({{}, {}}, {x}), split({{y}, {}})),
              ElementsAre("slice y 0", "all_reduce x 96"));
  EXPECT_THAT(plan(sizes, split({{x}, {}}), split({{}, {x, y}})),
              ElementsAre("all_to_all x 144", "slice y 0"));
}

TEST(ReshardPlanner, MovesFarApartAreOneExchange) {
  EXPECT_THAT(plan(sizes, split({{x}, {y}}), split({{y}, {x}})),
              ElementsAre("exchange (x, y) 48"));
  // Devices that differ on x or y only do not talk: x stays, and y replicates.
  EXPECT_THAT(plan(sizes, split({{x, z}, {}}), split({{x, y}, {}})),
              ElementsAre("exchange z 72"));
}

TEST(ReshardPlanner, SubAxes) {
  Mesh eight({{"x", 8}});
  const AxisRef high{0, 1, 2}, low{0, 2, 4}, whole{0, 1, 8};
  auto describePlan = [&](const Sharding &source, const Sharding &target,
                          std::vector<int64_t> sizes) {
    return describe(eight, planReshard(eight, sizes, 4, source, target).best);
  };
  EXPECT_THAT(describePlan(split({{whole}}), split({{high}}), {16}),
              ElementsAre("all_gather x:(2)4 2"));
  EXPECT_THAT(describePlan(split({{whole}}), split({{low}}), {16}),
              ElementsAre("exchange x 2"));
  EXPECT_THAT(describePlan(sum({{high}}, {low}), split({{whole}}), {16}),
              ElementsAre("reduce_scatter x:(2)4 8"));
  EXPECT_THAT(describePlan(sum({{}}, {whole}), sum({{}}, {low}), {16}),
              ElementsAre("all_reduce x:(1)2 16"));
  // 9 over x:(1)2 is 5 + 4, which no blocks of 2 fill.
  EXPECT_THAT(describePlan(split({{whole}}), split({{high}}), {9}),
              ElementsAre("exchange x 2"));
  // 15 over x:(1)2 is 8 + 7: four blocks of 2 each.
  EXPECT_THAT(describePlan(split({{whole}}), split({{high}}), {15}),
              ElementsAre("all_gather x:(2)4 2"));
}

TEST(ReshardPlanner, UnevenBlocksKeepTheirCollectives) {
  const std::vector<int64_t> uneven{7, 5};
  EXPECT_THAT(plan(uneven, split({{x}, {}}), split({{}, {x}})),
              ElementsAre("all_to_all x 20"));
  EXPECT_THAT(plan(uneven, split({{x, y}, {}}), split({{x}, {}})),
              ElementsAre("all_gather y 10"));
  EXPECT_THAT(plan(uneven, sum({{}, {}}, {y}), split({{y}, {}})),
              ElementsAre("reduce_scatter y 35"));
  // 7 over (x, y) is 2 2 0 2 1 0, over (y, x) 2 1 2 1 1 0.
  EXPECT_THAT(plan(uneven, split({{x, y}, {}}), split({{y, x}, {}})),
              ElementsAre("exchange (x, y) 10"));
  // 7 over (x, z) and (z, x): 2 2 2 1 on other devices.
  EXPECT_THAT(plan(uneven, split({{x, z}, {}}), split({{z, x}, {}})),
              ElementsAre("permute (x, z) 10"));
}

TEST(ReshardPlanner, WireElements) {
  auto getWire = [&](const Sharding &source, const Sharding &target) {
    ReshardPlan plan = planReshard(mesh, sizes, 4, source, target).best;
    EXPECT_EQ(plan.steps.size(), 1u);
    return plan.steps[0].wireElements;
  };
  EXPECT_EQ(getWire(sum({{}, {}}, {y}), split({{}, {}})), 2 * 192);
  EXPECT_EQ(getWire(sum({{}, {}}, {y}), split({{y}, {}})), 192);
  EXPECT_EQ(getWire(split({{y}, {}}), split({{}, {}})), 2 * 96);
  EXPECT_EQ(getWire(split({{y}, {}}), split({{}, {y}})), 64);
  EXPECT_EQ(getWire(split({{x}, {}}), split({{z}, {}})), 144);
  // reduce_scatter over (x, y), 5/6 of 288, then an all_gather over y of 48.
  EXPECT_EQ(getWire(sum({{}, {}}, {x, y}), split({{x}, {}})), 240 + 96);
  EXPECT_EQ(getWire(split({{x}, {y}}), split({{y}, {x}})), 48);
}

TEST(ReshardPlanner, FewDevicesDoNotSendToAllOthers) {
  // Of two positions over 64 devices two devices have all: either would send
  // its half 63 times.
  for (const Machine *machine : {&getCpuMachine(), findMachine("h100")})
    for (int64_t devices : {8, 64}) {
      const Mesh mesh({{"a", devices}});
      const AxisRef a = mesh.getWholeAxis(0);
      const std::vector<int64_t> sizes = {2, 2048, 2048};
      const int64_t bytes = 4 * 2 * 2048 * 2048;
      auto getWire = [&](const Sharding &source, const Sharding &target) {
        int64_t sent = 0;
        for (const ReshardStep &step :
             planReshard(mesh, sizes, 4, source, target, *machine).best.steps)
          sent += getSending(step, 4, *machine).wireBytes;
        return sent;
      };
      const Sharding few = split({{a}, {}, {}}), whole = split({{}, {}, {}});
      // Half of all from each of the two, and a gather of the whole.
      EXPECT_LE(getWire(few, whole), bytes / 2 + bytes);
      EXPECT_LE(getWire(split({{}, {}, {a}}), whole), bytes);
      EXPECT_LE(getWire(sum({{}, {}, {}}, {a}), few), 2 * bytes);
    }
}

TEST(ReshardPlanner, SecondBestHasAnotherShape) {
  ReshardChoice choice =
      planReshard(mesh, sizes, 4, sum({{}, {}}, {x}), split({{x}, {}}));
  ASSERT_TRUE(choice.secondBest);
  EXPECT_THAT(describe(mesh, *choice.secondBest),
              ElementsAre("all_reduce x 288", "slice x 0"));
  EXPECT_GT(choice.secondBest->costUs, choice.best.costUs);
  // Nothing to weigh where nothing is sent.
  EXPECT_FALSE(planReshard(mesh, sizes, 4, split({{}, {}}), split({{x}, {}}))
                   .secondBest);
}

TEST(ReshardPlanner, CostDecides) {
  // Many bytes: reduce on the way, then move; few: all at once.
  const Sharding source = sum({{x}, {}}, {y}), target = split({{y}, {}});
  EXPECT_THAT(plan({12, 24}, source, target),
              ElementsAre("exchange (x, y) 144"));
  EXPECT_THAT(plan({1200, 2400}, source, target).front(),
              ::testing::StartsWith("reduce_scatter y 1440000"));
  const Machine freeLaunch =
      meshc::layout::test::makeHost({.transferUs = 0, .roundUs = 0});
  EXPECT_EQ(planReshard(mesh, sizes, 4, source, target, freeLaunch)
                .best.steps[0]
                .kind,
            CollectiveKind::ReduceScatter);
}

TEST(ReshardPlanner, MachinesDecide) {
  // Sixteen devices on hosts of eight: model is inside of one, data across two.
  const Mesh mesh({{"data", 4}, {"model", 4}});
  const AxisRef data = mesh.getWholeAxis(0), model = mesh.getWholeAxis(1);
  const std::vector<int64_t> sizes = {4000, 6000};
  auto plan = [&](const Sharding &source, const Sharding &target,
                  const Machine &machine) {
    return planReshard(mesh, sizes, 4, source, target, machine).best;
  };
  const Machine &h100 = *findMachine("h100");
  // A gather costs what its axis reaches; on CPUs all axes are alike.
  const Sharding whole = split({{}, {}});
  auto gather = [&](AxisRef axis, const Machine &machine) {
    const ReshardStep step = getReshardStep(
        mesh, sizes, CollectiveKind::AllGather, split({{axis}, {}}), whole);
    return getCost(mesh, sizes, 4, step, machine);
  };
  EXPECT_GT(gather(data, h100), 2 * gather(model, h100));
  // So a plan lets each device of a host fetch a part and gathers inside.
  EXPECT_EQ(plan(split({{model}, {}}), whole, h100).costUs,
            gather(model, h100));
  EXPECT_LT(plan(split({{data}, {}}), whole, h100).costUs,
            0.8 * gather(data, h100));
  EXPECT_EQ(plan(split({{model}, {}}), whole, getCpuMachine()).costUs,
            plan(split({{data}, {}}), whole, getCpuMachine()).costUs);
  // A plan costs the sum of its steps, those that gather what they scattered
  // too, and no more than one exchange.
  for (const Machine *machine : {&h100, &getCpuMachine(), findMachine("v100")})
    for (const Sharding &source :
         {sum({{}, {}}, {data, model}), split({{data, model}, {}}),
          split({{model}, {data}}), sum({{model}, {}}, {data})})
      for (const Sharding &target :
           {whole, split({{data}, {}}), split({{data}, {model}}),
            split({{}, {model}})}) {
        const ReshardPlan best = plan(source, target, *machine);
        double sum = 0;
        for (const ReshardStep &step : best.steps)
          sum += getCost(mesh, sizes, 4, step, *machine);
        EXPECT_NEAR(best.costUs, sum, 1e-6 * sum) << machine->getName();
        const ReshardStep direct = getReshardStep(
            mesh, sizes, CollectiveKind::Exchange, source, target);
        EXPECT_LE(best.costUs, getCost(mesh, sizes, 4, direct, *machine))
            << machine->getName();
      }
}

/// What a library has no call for is sent box by box, and is chosen only where
/// that is cheaper.
TEST(ReshardPlanner, PricesBlocksThatAreNotContiguous) {
  const Machine &h100 = *findMachine("h100");
  const Mesh mesh({{"data", 32}, {"model", 8}});
  const AxisRef data = mesh.getWholeAxis(0), model = mesh.getWholeAxis(1);
  auto cost = [&](std::vector<int64_t> sizes, const Machine &machine,
                  CollectiveKind kind, const Sharding &source,
                  const Sharding &target) {
    const ReshardStep step = getReshardStep(mesh, sizes, kind, source, target);
    return getCost(mesh, sizes, 4, step, machine);
  };
  // Layers or columns of a stack are scattered: the same bytes.
  const std::vector<int64_t> stack = {96, 4096, 4096};
  const Sharding terms = sum({{}, {model}, {}}, {data});
  auto scatter = [&](const Machine &machine, const Sharding &target) {
    return cost(stack, machine, CollectiveKind::ReduceScatter, terms, target);
  };
  EXPECT_EQ(scatter(getCpuMachine(), split({{data}, {model}, {}})),
            scatter(getCpuMachine(), split({{}, {model}, {data}})));
  const double contiguous = scatter(h100, split({{data}, {model}, {}}));
  const double columns = scatter(h100, split({{}, {model}, {data}}));
  EXPECT_GT(columns, 1.1 * contiguous);
  // It is the price of the exchange that is made of it.
  EXPECT_EQ(columns, cost(stack, h100, CollectiveKind::Exchange, terms,
                          split({{}, {model}, {data}})));
  // A sum that is not contiguous goes from everybody to everybody.
  const std::vector<int64_t> uneven = {96, 13, 4096}, even = {96, 16, 4096};
  const Sharding parts = sum({{}, {model}, {}}, {data});
  EXPECT_GT(cost(uneven, h100, CollectiveKind::AllReduce, parts,
                 split({{}, {model}, {}})),
            5 * cost(even, h100, CollectiveKind::AllReduce, parts,
                     split({{}, {model}, {}})));
  // No plan has a step of the kind where the whole goes as one call.
  for (const std::vector<int64_t> &sizes : {stack, {96, 2048, 512}}) {
    const ReshardPlan plan =
        planReshard(mesh, sizes, 4, terms, split({{}, {model}, {}}), h100).best;
    for (const ReshardStep &step : plan.steps)
      EXPECT_TRUE(step.hasContiguousBlocks) << getName(step.kind);
  }
}

TEST(ReshardPlanner, RefusesBlocksThatDoNotFit) {
  // Gathering x to split it elsewhere would double the block.
  ReshardPlan best =
      planReshard(mesh, sizes, 4, split({{x}, {y}}), split({{y}, {x}})).best;
  for (const ReshardStep &step : best.steps)
    EXPECT_LE(step.payloadElements, 48);
  EXPECT_EQ(best.extraElements, 48);
}

TEST(ReshardStep, TellsWhatACollectiveCanDo) {
  auto check = [&](CollectiveKind kind, const Sharding &source,
                   const Sharding &target, std::vector<int64_t> sizes) {
    return isReshardStep(mesh, sizes, kind, source, target);
  };
  using Kind = CollectiveKind;
  EXPECT_TRUE(check(Kind::AllReduce, sum({{}}, {x, y}), sum({{}}, {y}), {6}));
  EXPECT_FALSE(check(Kind::AllReduce, sum({{}}, {x}), split({{x}}), {6}));
  EXPECT_FALSE(check(Kind::AllReduce, sum({{}}, {x}), sum({{}}, {y}), {6}));
  EXPECT_TRUE(
      check(Kind::ReduceScatter, sum({{y}}, {x}), split({{y, x}}), {6}));
  EXPECT_FALSE(
      check(Kind::ReduceScatter, sum({{y}}, {x}), split({{x, y}}), {6}));
  EXPECT_FALSE(check(Kind::ReduceScatter, sum({{}}, {x}), split({{y}}), {6}));
  EXPECT_TRUE(check(Kind::AllGather, split({{y, x}}), split({{y}}), {7}));
  EXPECT_FALSE(check(Kind::AllGather, split({{y, x}}), split({{x}}), {7}));
  EXPECT_TRUE(
      check(Kind::AllToAll, split({{x}, {}}), split({{}, {x}}), {7, 5}));
  EXPECT_FALSE(
      check(Kind::AllToAll, split({{x}, {y}}), split({{y}, {x}}), {7, 5}));
  EXPECT_TRUE(check(Kind::Permute, split({{x, y}}), split({{y, x}}), {12}));
  EXPECT_FALSE(check(Kind::Permute, split({{x, y}}), split({{y, x}}), {7}));
  EXPECT_TRUE(check(Kind::Slice, split({{x}}), split({{x, y}}), {7}));
  EXPECT_FALSE(check(Kind::Slice, sum({{}}, {x}), split({{x}}), {7}));
  EXPECT_TRUE(check(Kind::Exchange, sum({{y}}, {x}), split({{x}}), {7}));
}

TEST(ReshardPlans, AreThoseOfThePlannerAndMadeOnce) {
  ReshardPlans plans(mesh, getCpuMachine());
  const std::vector<ShardingChange> changes{
      {sizes, sum({{x}, {}}, {z}), split({{x}, {}})},
      {sizes, sum({{x}, {}}, {z}), split({{}, {y}})},
      {{24, 12}, sum({{x}, {}}, {z}), split({{x}, {}})}};
  std::set<const ReshardChoice *> made;
  for (int round = 0; round < 2; ++round)
    for (const ShardingChange &change : changes)
      for (int64_t bytes : {2, 4}) {
        const ReshardChoice &found = plans.get(change, bytes);
        const ReshardChoice expected = planReshard(
            mesh, change.sizes, bytes, change.source, change.target);
        EXPECT_EQ(describe(mesh, found.best), describe(mesh, expected.best));
        EXPECT_EQ(found.best.costUs, expected.best.costUs);
        EXPECT_EQ(found.secondBest.has_value(),
                  expected.secondBest.has_value());
        made.insert(&found);
      }
  EXPECT_EQ(made.size(), 6u);
}
