#include "layout/EqualTransfers.h"
#include "layout/Transfers.h"

#include "Shardings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

using namespace meshc::layout;
using namespace meshc::layout::test;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

/// A transfer as a value that can be sorted.
using Boxes = std::vector<std::pair<int64_t, std::vector<int64_t>>>;
using Moved = std::tuple<Boxes, Boxes, std::vector<int64_t>, ReduceKind>;

/// What moves, with a fill for each of its targets.
std::vector<Moved> getMoved(const Mesh &mesh, const ShardingChange &change) {
  std::vector<Moved> moved;
  for (const Transfer &transfer :
       getTransfers(mesh, change.sizes, change.source, change.target)) {
    Boxes sources, targets;
    for (const TransferEnd &end : transfer.sources)
      sources.emplace_back(end.device, end.offset);
    for (const TransferEnd &end : transfer.targets)
      if (sources.empty())
        moved.emplace_back(sources, Boxes{{end.device, end.offset}},
                           transfer.shape, transfer.reduce);
      else
        targets.emplace_back(end.device, end.offset);
    if (!sources.empty())
      moved.emplace_back(sources, targets, transfer.shape, transfer.reduce);
  }
  return moved;
}

/// What moves on a slice, in every position of `axes`.
std::vector<Moved> repeat(const Mesh &mesh, std::span<const int32_t> axes,
                          const std::vector<Moved> &moved) {
  const Mesh slice = getSlice(mesh, axes);
  std::vector<Moved> all;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const std::vector<int64_t> position = mesh.getCoordinates(device);
    // One device for each position of the axes.
    bool isFirst = true;
    for (int32_t axis = 0; axis < mesh.getNumAxes(); ++axis)
      if (std::find(axes.begin(), axes.end(), axis) == axes.end())
        isFirst &= position[axis] == 0;
    if (!isFirst)
      continue;
    auto place = [&](Boxes &boxes) {
      for (auto &[other, offset] : boxes) {
        std::vector<int64_t> coordinates = slice.getCoordinates(other);
        for (int32_t axis : axes)
          coordinates[axis] = position[axis];
        other = mesh.getDevice(coordinates);
      }
    };
    for (Moved copy : moved) {
      place(std::get<0>(copy));
      place(std::get<1>(copy));
      all.push_back(std::move(copy));
    }
  }
  return all;
}

/// Returns whether any axis was repeated.
bool check(const Mesh &mesh, const ShardingChange &change) {
  const std::vector<int32_t> axes = getRepeatedAxes(mesh, {&change, 1});
  std::vector<Moved> whole = getMoved(mesh, change);
  std::vector<Moved> slices = repeat(
      mesh, axes, getMoved(getSlice(mesh, axes), getSlice(change, axes)));
  std::sort(whole.begin(), whole.end());
  std::sort(slices.begin(), slices.end());
  EXPECT_EQ(whole, slices) << spell(mesh, change.source) << " to "
                           << spell(mesh, change.target);
  return !axes.empty();
}

int64_t checkAllPairs(const Mesh &mesh, const std::vector<AxisRef> &parts,
                      const std::vector<int64_t> &sizes, ReduceKind kind) {
  int64_t repeated = 0;
  auto shardings = getAllShardings(mesh, parts, sizes.size(), kind);
  for (const Sharding &source : shardings)
    for (const Sharding &target : shardings)
      repeated += check(mesh, {sizes, source, target});
  return repeated;
}

const Mesh mesh({{"a", 2}, {"b", 3}});
const AxisRef a = mesh.getWholeAxis(0), b = mesh.getWholeAxis(1);

Sharding split(std::vector<DimSplit> dims) {
  return {std::move(dims), ReduceKind::None, {}};
}

Sharding sum(std::vector<DimSplit> dims, std::vector<AxisRef> axes) {
  return {std::move(dims), ReduceKind::Sum, std::move(axes)};
}

} // namespace

TEST(EqualTransfers, AnAxisOfFullBlocksRepeats) {
  const ShardingChange change{{4, 5}, sum({{a}, {}}, {b}), split({{a}, {}})};
  const std::vector<int32_t> axes = getRepeatedAxes(mesh, {&change, 1});
  ASSERT_THAT(axes, ElementsAre(0));
  EXPECT_EQ(getSlice(mesh, axes), Mesh({{"a", 1}, {"b", 3}}));
  const ShardingChange slice{{2, 5}, sum({{}, {}}, {b}), split({{}, {}})};
  EXPECT_EQ(getSlice(change, axes), slice);
}

TEST(EqualTransfers, TermsThatStayRepeat) {
  const ShardingChange change{{4}, sum({{}}, {a, b}), sum({{}}, {b})};
  EXPECT_THAT(getRepeatedAxes(mesh, {&change, 1}), ElementsAre(1));
}

TEST(EqualTransfers, UnevenBlocksAndWindowsDoNot) {
  const ShardingChange uneven{{5, 5}, sum({{a}, {}}, {b}), split({{a}, {}})};
  EXPECT_THAT(getRepeatedAxes(mesh, {&uneven, 1}), IsEmpty());
  ShardingChange window{{6}, split({{b}}), split({{b}})};
  window.target.windows = {
      Window{.loop = "y", .loopSize = 6, .low = -1, .high = 1}};
  EXPECT_THAT(getRepeatedAxes(mesh, {&window, 1}), ElementsAre(0));
  EXPECT_TRUE(check(mesh, window));
}

TEST(EqualTransfers, AnAxisBehindOneThatChangesDoesNot) {
  // Blocks of b lie within those of a, which the target does not have.
  const ShardingChange change{{6}, split({{a, b}}), split({{b}})};
  EXPECT_THAT(getRepeatedAxes(mesh, {&change, 1}), IsEmpty());
}

TEST(EqualTransfers, SeveralChangesRepeatWhereAllDo) {
  const ShardingChange changes[] = {{{6}, sum({{a}}, {b}), split({{a}})},
                                    {{6}, sum({{}}, {a}), split({{}})}};
  EXPECT_THAT(getRepeatedAxes(mesh, {&changes[0], 1}), ElementsAre(0));
  EXPECT_THAT(getRepeatedAxes(mesh, {&changes[1], 1}), ElementsAre(1));
  EXPECT_THAT(getRepeatedAxes(mesh, changes), IsEmpty());
  // Split over both, the second axis is at the head only with the first.
  const ShardingChange nested[] = {{{12}, split({{a, b}}), split({{a, b}})},
                                   changes[1]};
  EXPECT_THAT(getRepeatedAxes(mesh, {&nested[0], 1}), ElementsAre(0, 1));
  EXPECT_THAT(getRepeatedAxes(mesh, nested), IsEmpty());
}

TEST(EqualTransfers, OfSlicesAreThoseOfTheMesh) {
  for (ReduceKind kind : {ReduceKind::None, ReduceKind::Sum})
    for (const std::vector<int64_t> &sizes :
         {std::vector<int64_t>{6, 12}, {7, 6}, {5, 3}, {2, 1}, {3, 7}})
      EXPECT_GT(checkAllPairs(mesh, getWholeAxes(mesh), sizes, kind), 0);
  const Mesh three({{"a", 2}, {"b", 3}, {"c", 2}});
  EXPECT_GT(checkAllPairs(three, getWholeAxes(three), {12, 7}, ReduceKind::Sum),
            0);
}

TEST(EqualTransfers, OfSlicesAreThoseOfTheMeshForPartsOfAxes) {
  const Mesh parts({{"a", 4}, {"b", 3}});
  const std::vector<AxisRef> refs{{0, 1, 2}, {0, 2, 2}, {1, 1, 3}};
  for (const std::vector<int64_t> &sizes :
       {std::vector<int64_t>{12, 8}, {6, 9}, {7, 4}})
    EXPECT_GT(checkAllPairs(parts, refs, sizes, ReduceKind::Sum), 0);
}

TEST(EqualTransfers, ChangesHaveAnOrder) {
  ShardingChange window{{6}, split({{}}), split({{b}})};
  window.target.windows = {Window{.loop = "y", .loopSize = 6, .high = 1}};
  ShardingChange wider = window;
  wider.target.windows[0]->high = 2;
  const ShardingChange changes[] = {{{5}, split({{a}}), split({{b}})},
                                    {{6}, split({{}}), split({{b}})},
                                    {{6}, split({{}}), sum({{}}, {b})},
                                    {{6}, split({{a}}), split({{b}})},
                                    {{6}, sum({{}}, {a}), split({{b}})},
                                    window,
                                    wider};
  for (const ShardingChange &x : changes)
    for (const ShardingChange &y : changes) {
      EXPECT_EQ(x == y, !(x < y) && !(y < x));
      for (const ShardingChange &z : changes)
        EXPECT_TRUE(!(x < y) || !(y < z) || x < z);
    }
}
