// All pairs of shardings: every plan is run on simulated devices and compared
// with the tensor.

#include "Positions.h"
#include "Shardings.h"
#include "Simulator.h"

#include "layout/ReshardPlanner.h"

#include <gtest/gtest.h>

#include <limits>

using namespace meshc::layout;
using namespace meshc::layout::test;

namespace {

int64_t getBlock(const std::vector<int64_t> &sizes, const Sharding &sharding) {
  return getCount(getLocalShape(sizes, sharding));
}

/// Empty if the plan does what it promises.
std::string check(const Mesh &mesh, const std::vector<int64_t> &sizes,
                  const ReshardPlan &plan, const Sharding &source,
                  const Sharding &target) {
  Simulator collectives(mesh, sizes, 11), transfers(mesh, sizes, 12);
  collectives.scatter(source);
  transfers.scatter(source);
  const int64_t limit =
      std::max(getBlock(sizes, source), getBlock(sizes, target));
  const Sharding *last = &source;
  std::string why;
  for (const ReshardStep &step : plan.steps) {
    if (step.source != *last)
      return "the steps do not follow one another";
    if (!getViolation(mesh, step.target, sizes.size()).empty())
      return "an illegal sharding on the way";
    if (!isReshardStep(mesh, sizes, step.kind, step.source, step.target))
      return "not a step of its kind";
    int64_t message = 0;
    if (step.kind == CollectiveKind::AllToAll)
      message = getBlock(sizes, step.source) / step.groupSize + 1;
    if (getBlock(sizes, step.target) > limit + message)
      return "too large a block on the way";
    if (step.kind != CollectiveKind::Slice &&
        step.payloadElements != getBlock(sizes, step.source))
      return "a wrong payload";
    collectives.run(step, why);
    transfers.transfer(step.source, step.target, why);
    if (!why.empty())
      return getName(step.kind) + (": " + why);
    last = &step.target;
  }
  if (*last != target)
    return "the plan ends elsewhere";
  if (why = collectives.compare(target); !why.empty())
    return "collectives: " + why;
  if (why = transfers.compare(target); !why.empty())
    return "transfers: " + why;
  return {};
}

std::string getKinds(const ReshardPlan &plan) {
  std::string kinds;
  for (const ReshardStep &step : plan.steps)
    if (step.kind != CollectiveKind::Slice)
      kinds += getName(step.kind) + std::string(" ");
  return kinds;
}

/// Whether an all_reduce and a slice stand where a reduce_scatter would do. On
/// GPUs one that gathers again, as a second collective, may take longer.
bool wastesReduction(const Mesh &mesh, const std::vector<int64_t> &sizes,
                     const ReshardPlan &plan, const Machine &machine) {
  for (size_t i = 1; i < plan.steps.size(); ++i) {
    const ReshardStep &reduce = plan.steps[i - 1], &slice = plan.steps[i];
    if (reduce.kind != CollectiveKind::AllReduce ||
        slice.kind != CollectiveKind::Slice ||
        !isReshardStep(mesh, sizes, CollectiveKind::ReduceScatter,
                       reduce.source, slice.target))
      continue;
    const ReshardStep scatter =
        getReshardStep(mesh, sizes, CollectiveKind::ReduceScatter,
                       reduce.source, slice.target);
    if (!machine.getGpuConstants() ||
        getCost(mesh, sizes, 4, scatter, machine) <
            getCost(mesh, sizes, 4, reduce, machine) +
                getCost(mesh, sizes, 4, slice, machine))
      return true;
  }
  return false;
}

void checkPair(const Mesh &mesh, const std::vector<int64_t> &sizes,
               const Sharding &source, const Sharding &target,
               const Machine &machine = getCpuMachine()) {
  ReshardChoice choice = planReshard(mesh, sizes, 4, source, target, machine);
  const std::string pair =
      spell(mesh, source) + " to " + spell(mesh, target) + ": ";
  ASSERT_EQ(choice.best.steps.empty(), source == target) << pair;
  ASSERT_EQ(check(mesh, sizes, choice.best, source, target), "")
      << pair << getKinds(choice.best);
  ASSERT_FALSE(wastesReduction(mesh, sizes, choice.best, machine))
      << pair << getKinds(choice.best);
  if (!choice.secondBest)
    return;
  ASSERT_LE(choice.best.costUs, choice.secondBest->costUs) << pair;
  ASSERT_NE(getKinds(choice.best), getKinds(*choice.secondBest)) << pair;
  ASSERT_EQ(check(mesh, sizes, *choice.secondBest, source, target), "")
      << pair << getKinds(*choice.secondBest);
}

void checkAllPairs(const Mesh &mesh, const std::vector<AxisRef> &parts,
                   const std::vector<int64_t> &sizes, ReduceKind kind,
                   const Machine &machine = getCpuMachine()) {
  const auto shardings = getAllShardings(mesh, parts, sizes.size(), kind);
  for (const Sharding &source : shardings)
    for (const Sharding &target : shardings) {
      checkPair(mesh, sizes, source, target, machine);
      if (::testing::Test::HasFatalFailure())
        return;
    }
}

constexpr CollectiveKind allKinds[] = {
    CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
    CollectiveKind::AllGather, CollectiveKind::AllToAll,
    CollectiveKind::Permute,   CollectiveKind::Exchange,
    CollectiveKind::Slice};

/// Cost of the cheapest single step, infinite if there is none.
double getStepCost(const Mesh &mesh, const std::vector<int64_t> &sizes,
                   const Sharding &source, const Sharding &target,
                   const Machine &machine) {
  double cheapest = std::numeric_limits<double>::infinity();
  for (CollectiveKind kind : allKinds) {
    if (!isReshardStep(mesh, sizes, kind, source, target))
      continue;
    cheapest = std::min(
        cheapest,
        getCost(mesh, sizes, 4,
                getReshardStep(mesh, sizes, kind, source, target), machine));
  }
  return cheapest;
}

/// No one or two steps through any sharding whatever are cheaper than the plan
/// by more than `slack`: what looking only at moves towards the target costs.
void checkAgainstAllDetours(const Mesh &mesh, const std::vector<int64_t> &sizes,
                            double slack,
                            const Machine &machine = getCpuMachine()) {
  const auto shardings =
      getAllShardings(mesh, getWholeAxes(mesh), sizes.size(), ReduceKind::Sum);
  const size_t count = shardings.size();
  std::vector<std::vector<double>> costs(count, std::vector<double>(count));
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j)
      if (i != j)
        costs[i][j] =
            getStepCost(mesh, sizes, shardings[i], shardings[j], machine);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j) {
      if (i == j)
        continue;
      const double cost =
          planReshard(mesh, sizes, 4, shardings[i], shardings[j], machine)
              .best.costUs;
      const int64_t limit = std::max(getBlock(sizes, shardings[i]),
                                     getBlock(sizes, shardings[j]));
      for (size_t k = 0; k < count; ++k)
        if (getBlock(sizes, shardings[k]) <= limit)
          ASSERT_LE(cost, slack * (costs[i][k] + costs[k][j]))
              << spell(mesh, shardings[i]) << " to "
              << spell(mesh, shardings[j]) << " by way of "
              << spell(mesh, shardings[k]);
    }
}

const std::vector<std::vector<int64_t>> evenAndUneven{{8, 12}, {7, 5}, {10, 3},
                                                      {1, 2},  {11},   {}};

} // namespace

TEST(ReshardPairs, OneAxis) {
  for (int64_t size : {2, 3, 4})
    for (const auto &sizes : evenAndUneven)
      for (auto kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min})
        checkAllPairs(Mesh({{"x", size}}), {{0, 1, size}}, sizes, kind);
}

TEST(ReshardPairs, TwoByTwo) {
  Mesh mesh({{"x", 2}, {"y", 2}});
  for (const auto &sizes : evenAndUneven)
    for (auto kind : {ReduceKind::Sum, ReduceKind::Max})
      checkAllPairs(mesh, getWholeAxes(mesh), sizes, kind);
}

TEST(ReshardPairs, TwoByThree) {
  Mesh mesh({{"x", 2}, {"y", 3}});
  for (const auto &sizes : evenAndUneven)
    checkAllPairs(mesh, getWholeAxes(mesh), sizes, ReduceKind::Sum);
}

TEST(ReshardPairs, ThreeDimensions) {
  Mesh mesh({{"x", 2}, {"y", 3}});
  for (const std::vector<int64_t> &sizes :
       std::vector<std::vector<int64_t>>{{6, 6, 6}, {5, 3, 2}})
    checkAllPairs(mesh, getWholeAxes(mesh), sizes, ReduceKind::Sum);
}

TEST(ReshardPairs, TwoByTwoByTwo) {
  Mesh mesh({{"x", 2}, {"y", 2}, {"z", 2}});
  for (const std::vector<int64_t> &sizes :
       std::vector<std::vector<int64_t>>{{8, 8}, {7, 5}, {10, 3}})
    checkAllPairs(mesh, getWholeAxes(mesh), sizes, ReduceKind::Sum);
}

TEST(ReshardPairs, SubAxes) {
  Mesh four({{"x", 4}}), twelve({{"x", 12}}), mixed({{"x", 2}, {"y", 4}});
  for (const std::vector<int64_t> &sizes :
       std::vector<std::vector<int64_t>>{{8, 12}, {7, 5}, {9}, {13}}) {
    checkAllPairs(four, {{0, 1, 2}, {0, 2, 2}}, sizes, ReduceKind::Sum);
    checkAllPairs(twelve, {{0, 1, 2}, {0, 2, 6}}, sizes, ReduceKind::Sum);
    checkAllPairs(mixed, {{0, 1, 2}, {1, 1, 2}, {1, 2, 2}}, sizes,
                  ReduceKind::None);
  }
}

TEST(ReshardPairs, PartsWithoutACommonCut) {
  Mesh mesh({{"x", 6}, {"y", 2}});
  const AxisRef y = mesh.getWholeAxis(1);
  std::vector<Sharding> shardings;
  for (AxisRef part : {AxisRef{0, 1, 2}, AxisRef{0, 1, 3}, AxisRef{0, 2, 3},
                       AxisRef{0, 3, 2}}) {
    shardings.push_back({{{part}, {y}}, ReduceKind::None, {}});
    shardings.push_back({{{y}, {part}}, ReduceKind::None, {}});
    shardings.push_back({{{}, {part}}, ReduceKind::Sum, {y}});
    shardings.push_back({{{y}, {}}, ReduceKind::Sum, {part}});
  }
  for (const Sharding &source : shardings)
    for (const Sharding &target : shardings)
      checkPair(mesh, {7, 5}, source, target);
}

TEST(ReshardPairs, FourAxes) {
  // Too many pairs to take all; every 397th covers all kinds of change.
  Mesh mesh({{"a", 2}, {"b", 3}, {"c", 2}, {"d", 2}});
  const auto shardings =
      getAllShardings(mesh, getWholeAxes(mesh), 2, ReduceKind::Sum);
  const size_t count = shardings.size() * shardings.size();
  for (size_t i = 0; i < count; i += 397)
    checkPair(mesh, {9, 14}, shardings[i / shardings.size()],
              shardings[i % shardings.size()]);
}

TEST(ReshardPairs, NoDetourIsCheaper) {
  for (const Mesh &mesh :
       {Mesh({{"x", 2}, {"y", 2}}), Mesh({{"x", 2}, {"y", 3}})})
    for (const std::vector<int64_t> &sizes : std::vector<std::vector<int64_t>>{
             {8, 12}, {7, 5}, {768, 1200}, {701, 97}, {12, 18, 6}})
      checkAgainstAllDetours(mesh, sizes, 1.03);
  checkAgainstAllDetours(Mesh({{"x", 2}, {"y", 2}, {"z", 2}}), {8, 16}, 1.12);
  checkAgainstAllDetours(Mesh({{"x", 2}, {"y", 2}, {"z", 2}}), {800, 1600},
                         1.12);
}

/// GPUs on hosts of two, `slower` by so much that small tensors cost what large
/// ones do.
static Machine makeHostsOfTwo(double slower) {
  Machine::Constants constants = *findMachine("h100")->getGpuConstants();
  constants.devicesPerHost.value = 2;
  for (MachineConstant *rate :
       {&constants.memoryRate, &constants.insideRate, &constants.networkRate})
    rate->value /= slower;
  constants.caps = nullptr;
  return {"hosts of two", "", constants};
}

TEST(ReshardPairs, HostsOfTwo) {
  for (double slower : {1.0, 1e5})
    for (const Mesh &mesh :
         {Mesh({{"x", 2}, {"y", 2}}), Mesh({{"x", 2}, {"y", 3}}),
          Mesh({{"x", 3}, {"y", 2}})})
      for (const auto &sizes :
           std::vector<std::vector<int64_t>>{{8, 12}, {7, 5}, {11}, {}})
        checkAllPairs(mesh, getWholeAxes(mesh), sizes, ReduceKind::Sum,
                      makeHostsOfTwo(slower));
  // Of three axes every 13th pair.
  const Mesh three({{"x", 2}, {"y", 2}, {"z", 2}});
  const auto shardings =
      getAllShardings(three, getWholeAxes(three), 2, ReduceKind::Sum);
  for (double slower : {1.0, 1e5}) {
    const Machine machine = makeHostsOfTwo(slower);
    for (size_t i = 0; i < shardings.size() * shardings.size(); i += 13)
      checkPair(three, {10, 3}, shardings[i / shardings.size()],
                shardings[i % shardings.size()], machine);
  }
  // With parts of axes, which may be inside of hosts where the whole is not.
  for (double slower : {1.0, 1e5})
    for (const std::vector<int64_t> &sizes :
         std::vector<std::vector<int64_t>>{{8, 12}, {7, 5}, {13}}) {
      checkAllPairs(Mesh({{"x", 12}}), {{0, 1, 2}, {0, 2, 6}}, sizes,
                    ReduceKind::Sum, makeHostsOfTwo(slower));
      checkAllPairs(Mesh({{"x", 2}, {"y", 4}}),
                    {{0, 1, 2}, {1, 1, 2}, {1, 2, 2}}, sizes, ReduceKind::None,
                    makeHostsOfTwo(slower));
    }
}

TEST(ReshardPairs, NoDetourOverHostsIsMuchCheaper) {
  // The worst are two all_to_alls, of which one is there and back.
  for (const Mesh &mesh :
       {Mesh({{"x", 2}, {"y", 2}}), Mesh({{"x", 2}, {"y", 3}}),
        Mesh({{"x", 3}, {"y", 2}})})
    for (const std::vector<int64_t> &sizes : std::vector<std::vector<int64_t>>{
             {8, 12}, {7, 5}, {7680, 12000}, {701, 97}})
      checkAgainstAllDetours(mesh, sizes, 1.37, makeHostsOfTwo(1));
}
