#include "layout/Transfers.h"

#include "Shardings.h"
#include "Simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::layout;
using namespace meshc::layout::test;
using ::testing::ElementsAre;

namespace {

const Mesh mesh({{"a", 2}, {"b", 3}});
const AxisRef a = mesh.getWholeAxis(0), b = mesh.getWholeAxis(1);

std::vector<int64_t> getDevices(const std::vector<TransferEnd> &ends) {
  std::vector<int64_t> devices;
  for (const TransferEnd &end : ends)
    devices.push_back(end.device);
  return devices;
}

void checkAllPairs(const Mesh &mesh, const std::vector<AxisRef> &parts,
                   const std::vector<int64_t> &sizes, ReduceKind kind) {
  auto shardings = getAllShardings(mesh, parts, sizes.size(), kind);
  for (const Sharding &source : shardings)
    for (const Sharding &target : shardings) {
      Simulator simulator(mesh, sizes, 7);
      simulator.scatter(source);
      std::string why;
      simulator.transfer(source, target, why);
      ASSERT_EQ(why, "") << spell(mesh, source) << " to "
                         << spell(mesh, target);
      ASSERT_EQ(simulator.compare(target), "")
          << spell(mesh, source) << " to " << spell(mesh, target);
    }
}

} // namespace

TEST(Transfers, OfEqualShardingsStayOnTheDevice) {
  const std::vector<int64_t> sizes{6, 4};
  const Sharding sharding{{{a}, {}}, ReduceKind::None, {}};
  auto transfers = getTransfers(mesh, sizes, sharding, sharding);
  ASSERT_EQ(transfers.size(), 6u);
  for (int64_t device = 0; device < 6; ++device) {
    EXPECT_EQ(transfers[device].sources,
              (std::vector<TransferEnd>{{device, {0, 0}}}));
    EXPECT_EQ(transfers[device].targets, transfers[device].sources);
    EXPECT_THAT(transfers[device].shape, ElementsAre(3, 4));
    EXPECT_EQ(transfers[device].reduce, ReduceKind::None);
  }
}

TEST(Transfers, AllReduceIsReadOnceAndWrittenToAll) {
  const std::vector<int64_t> sizes{6, 4};
  auto transfers = getTransfers(mesh, sizes, {{{a}, {}}, ReduceKind::Sum, {b}},
                                {{{a}, {}}, ReduceKind::None, {}});
  ASSERT_EQ(transfers.size(), 2u);
  EXPECT_THAT(getDevices(transfers[0].sources), ElementsAre(0, 1, 2));
  EXPECT_THAT(getDevices(transfers[0].targets), ElementsAre(0, 1, 2));
  EXPECT_THAT(getDevices(transfers[1].sources), ElementsAre(3, 4, 5));
  EXPECT_THAT(getDevices(transfers[1].targets), ElementsAre(3, 4, 5));
  EXPECT_EQ(transfers[0].reduce, ReduceKind::Sum);
  EXPECT_THAT(transfers[0].shape, ElementsAre(3, 4));
}

TEST(Transfers, AllGatherWritesEachBlockToTheGroup) {
  const std::vector<int64_t> sizes{7};
  auto transfers = getTransfers(mesh, sizes, {{{b}}, ReduceKind::None, {}},
                                {{{}}, ReduceKind::None, {}});
  // 7 over b: 3 + 3 + 1; the devices of each a read their own row.
  ASSERT_EQ(transfers.size(), 6u);
  EXPECT_EQ(transfers[2].sources, (std::vector<TransferEnd>{{2, {0}}}));
  EXPECT_EQ(transfers[2].targets,
            (std::vector<TransferEnd>{{0, {6}}, {1, {6}}, {2, {6}}}));
  EXPECT_THAT(transfers[2].shape, ElementsAre(1));
}

TEST(Transfers, SliceReadsTheOwnBlock) {
  const std::vector<int64_t> sizes{7};
  auto transfers = getTransfers(mesh, sizes, {{{}}, ReduceKind::None, {}},
                                {{{b}}, ReduceKind::None, {}});
  ASSERT_EQ(transfers.size(), 6u);
  for (const Transfer &transfer : transfers)
    EXPECT_EQ(getDevices(transfer.sources), getDevices(transfer.targets));
  EXPECT_EQ(transfers[5].sources[0].offset, Position{6});
  EXPECT_EQ(transfers[5].targets[0].offset, Position{0});
}

TEST(Transfers, WholeValueBecomesPartialOnTheFirstCoordinate) {
  const std::vector<int64_t> sizes{4};
  auto transfers = getTransfers(mesh, sizes, {{{}}, ReduceKind::None, {}},
                                {{{}}, ReduceKind::Max, {b}});
  ASSERT_EQ(transfers.size(), 3u);
  EXPECT_EQ(getDevices(transfers[0].sources), (Position{0}));
  EXPECT_TRUE(transfers[1].sources.empty());
  EXPECT_EQ(transfers[1].reduce, ReduceKind::Max);
  EXPECT_THAT(getDevices(transfers[1].targets), ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(getDevices(transfers[2].targets), (Position{3}));
}

TEST(Transfers, CommonPartialAxesKeepTheirTerms) {
  const std::vector<int64_t> sizes{4};
  auto transfers = getTransfers(mesh, sizes, {{{}}, ReduceKind::Sum, {a, b}},
                                {{{}}, ReduceKind::Sum, {b}});
  ASSERT_EQ(transfers.size(), 3u);
  EXPECT_THAT(getDevices(transfers[1].sources), ElementsAre(1, 4));
  EXPECT_THAT(getDevices(transfers[1].targets), ElementsAre(1, 4));
}

TEST(Transfers, ScalarsMoveToo) {
  auto transfers = getTransfers(mesh, {}, {{}, ReduceKind::Sum, {a, b}},
                                {{}, ReduceKind::None, {}});
  ASSERT_EQ(transfers.size(), 1u);
  EXPECT_EQ(transfers[0].sources.size(), 6u);
  EXPECT_EQ(transfers[0].targets.size(), 6u);
  EXPECT_TRUE(transfers[0].shape.empty());
}

TEST(Transfers, OfManyDevicesTakeTimeInProportionToThem) {
  // The square of these devices would take hours.
  const int64_t devices = int64_t(1) << 20;
  const Mesh large({{"x", devices}});
  const AxisRef whole{0, 1, devices};
  auto transfers = getTransfers(large, std::vector<int64_t>{5},
                                {{{}}, ReduceKind::Sum, {whole}},
                                {{{}}, ReduceKind::None, {}});
  ASSERT_EQ(transfers.size(), 1u);
  ASSERT_EQ(int64_t(transfers[0].sources.size()), devices);
  EXPECT_EQ(int64_t(transfers[0].targets.size()), devices);
  for (int64_t device = 0; device < devices; ++device)
    ASSERT_EQ(transfers[0].sources[device].device, device);
}

TEST(Transfers, AllPairsOfAxes) {
  for (const Mesh &mesh :
       {Mesh({{"x", 2}}), Mesh({{"x", 4}}), Mesh({{"x", 2}, {"y", 2}}),
        Mesh({{"x", 2}, {"y", 3}})})
    for (const std::vector<int64_t> &sizes : std::vector<std::vector<int64_t>>{
             {8, 12}, {7, 5}, {10, 3}, {1, 2}, {5}, {}})
      for (ReduceKind kind :
           {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min})
        checkAllPairs(mesh, getWholeAxes(mesh), sizes, kind);
}

TEST(Transfers, AllPairsOfSubAxes) {
  Mesh four({{"x", 4}}), twelve({{"x", 12}});
  for (const std::vector<int64_t> &sizes :
       std::vector<std::vector<int64_t>>{{8, 12}, {7, 5}, {9}, {13}}) {
    checkAllPairs(four, {{0, 1, 2}, {0, 2, 2}}, sizes, ReduceKind::Sum);
    checkAllPairs(twelve, {{0, 1, 2}, {0, 2, 3}, {0, 6, 2}}, sizes,
                  ReduceKind::None);
  }
}

TEST(Transfers, PartsWithoutACommonCut) {
  // On an axis of 6 the halves and the thirds are not digits of one number.
  Mesh six({{"x", 6}});
  std::vector<Sharding> shardings;
  for (AxisRef part : {AxisRef{0, 1, 2}, AxisRef{0, 1, 3}, AxisRef{0, 2, 3},
                       AxisRef{0, 3, 2}}) {
    shardings.push_back({{{part}, {}}, ReduceKind::None, {}});
    shardings.push_back({{{}, {part}}, ReduceKind::None, {}});
    shardings.push_back({{{}, {}}, ReduceKind::Sum, {part}});
  }
  for (const Sharding &source : shardings)
    for (const Sharding &target : shardings) {
      Simulator simulator(six, {7, 5}, 3);
      simulator.scatter(source);
      std::string why;
      simulator.transfer(source, target, why);
      ASSERT_EQ(why, "");
      ASSERT_EQ(simulator.compare(target), "")
          << spell(six, source) << " to " << spell(six, target);
    }
}
