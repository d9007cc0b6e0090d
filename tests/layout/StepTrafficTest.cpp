// What steps say that goes over the link of a device, counted in the boxes that
// move.

#include "Shardings.h"

#include "layout/ReshardStep.h"

#include <gtest/gtest.h>

using namespace meshc::layout;
using namespace meshc::layout::test;

namespace {

constexpr CollectiveKind transferKinds[] = {
    CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
    CollectiveKind::AllGather, CollectiveKind::AllToAll,
    CollectiveKind::Permute,   CollectiveKind::Exchange};

/// Holds all steps between all shardings; returns how many there are.
int64_t checkAllPairs(const Mesh &mesh, const std::vector<int64_t> &sizes,
                      const std::vector<AxisRef> &parts) {
  const auto shardings =
      getAllShardings(mesh, parts, sizes.size(), ReduceKind::Sum);
  int64_t checked = 0;
  for (const Sharding &source : shardings)
    for (const Sharding &target : shardings) {
      if (source == target)
        continue;
      const int64_t most = countMost(mesh, sizes, source, target);
      for (CollectiveKind kind : transferKinds) {
        if (!isReshardStep(mesh, sizes, kind, source, target))
          continue;
        const ReshardStep step =
            getReshardStep(mesh, sizes, kind, source, target);
        SCOPED_TRACE(std::string(getName(kind)) + " " + spell(mesh, source) +
                     " to " + spell(mesh, target) + " of " +
                     testing::PrintToString(sizes));
        EXPECT_EQ(step.exchangedElements, most);
        if (kind == CollectiveKind::AllReduce ||
            kind == CollectiveKind::ReduceScatter)
          EXPECT_LE(step.wireElements, most);
        else
          EXPECT_EQ(step.wireElements, most);
        ++checked;
        if (testing::Test::HasFailure())
          return checked;
      }
    }
  return checked;
}

} // namespace

TEST(StepTraffic, IsThatOfTheDeviceWithMost) {
  const Mesh unequal({{"x", 2}, {"y", 3}}),
      three({{"x", 2}, {"y", 2}, {"z", 3}});
  int64_t checked = 0;
  for (const std::vector<int64_t> &sizes :
       std::vector<std::vector<int64_t>>{{12, 6}, {7, 5}, {6, 4}, {2, 9}, {1}})
    checked += checkAllPairs(unequal, sizes, getWholeAxes(unequal));
  for (const std::vector<int64_t> &sizes :
       std::vector<std::vector<int64_t>>{{24}, {5}})
    checked += checkAllPairs(three, sizes, getWholeAxes(three));
  const Mesh parts({{"x", 4}, {"y", 3}});
  checked += checkAllPairs(parts, {7, 2},
                           {{0, 1, 2}, {0, 2, 2}, parts.getWholeAxis(1)});
  EXPECT_GT(checked, 500);
}

TEST(StepTraffic, OfPartsWithoutACommonCut) {
  const Mesh mesh({{"x", 6}});
  std::vector<Sharding> shardings;
  for (AxisRef part :
       {AxisRef{0, 1, 2}, AxisRef{0, 1, 3}, AxisRef{0, 2, 3}, AxisRef{0, 3, 2}})
    shardings.push_back({{{part}, {}}, ReduceKind::None, {}});
  const std::vector<int64_t> sizes = {7, 5};
  for (const Sharding &source : shardings)
    for (const Sharding &target : shardings)
      EXPECT_EQ(
          getReshardStep(mesh, sizes, CollectiveKind::Exchange, source, target)
              .exchangedElements,
          countMost(mesh, sizes, source, target));
}
