#include "layout/Sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

using namespace meshc::layout;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const Mesh twoByTwo({{"a", 2}, {"b", 2}});
const AxisRef a{0, 1, 2}, b{1, 1, 2};

std::vector<std::pair<int64_t, int64_t>>
getRanges(const Mesh &mesh, int64_t size, const DimSplit &split) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    Range range = getOwnedRange(mesh, size, split, mesh.getCoordinates(device));
    ranges.emplace_back(range.offset, range.count);
  }
  return ranges;
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

} // namespace

TEST(Sharding, WorkedExampleOfTheHeader) {
  EXPECT_EQ(getRanges(twoByTwo, 2, {}),
            (Pairs{{0, 2}, {0, 2}, {0, 2}, {0, 2}}));
  EXPECT_EQ(getRanges(twoByTwo, 2, {a}),
            (Pairs{{0, 1}, {0, 1}, {1, 1}, {1, 1}}));
  EXPECT_EQ(getRanges(twoByTwo, 2, {b}),
            (Pairs{{0, 1}, {1, 1}, {0, 1}, {1, 1}}));
  // row@(a, b): blocks of 1 nest in blocks of 1, so b = 1 holds nothing and
  // a = 1 starts at row 1.
  EXPECT_EQ(getRanges(twoByTwo, 2, {a, b}),
            (Pairs{{0, 1}, {1, 0}, {1, 1}, {2, 0}}));
}

TEST(Sharding, UnevenBlocksNest) {
  // 9 over a: 5 + 4; each over b: 3 + 2 and 3 + 1.
  EXPECT_EQ(getRanges(twoByTwo, 9, {a, b}),
            (Pairs{{0, 3}, {3, 2}, {5, 3}, {8, 1}}));
  EXPECT_EQ(getRanges(twoByTwo, 9, {b, a}),
            (Pairs{{0, 3}, {5, 3}, {3, 2}, {8, 1}}));
}

TEST(Sharding, ContinuingPartsCountAsOneAxis) {
  Mesh mesh({{"x", 4}});
  const AxisRef major{0, 1, 2}, minor{0, 2, 2};
  EXPECT_EQ(getRanges(mesh, 9, {mesh.getWholeAxis(0)}),
            (Pairs{{0, 3}, {3, 3}, {6, 3}, {9, 0}}));
  EXPECT_EQ(getRanges(mesh, 9, {major, minor}),
            getRanges(mesh, 9, {mesh.getWholeAxis(0)}));
  // In the other order they are two axes.
  EXPECT_EQ(getRanges(mesh, 9, {minor, major}),
            (Pairs{{0, 3}, {5, 3}, {3, 2}, {8, 1}}));
}

TEST(Sharding, ImageExample) {
  // Image [100, 28, 28, 3] on rows = 2, cols = 4.
  Mesh mesh({{"rows", 2}, {"cols", 4}});
  const AxisRef rows = mesh.getWholeAxis(0), cols = mesh.getWholeAxis(1);
  const std::vector<int64_t> sizes{100, 28, 28, 3};
  EXPECT_THAT(getLocalShape(sizes, {{{}, {}, {}, {}}, ReduceKind::None, {}}),
              ElementsAre(100, 28, 28, 3));
  EXPECT_THAT(
      getLocalShape(sizes, {{{cols}, {}, {}, {}}, ReduceKind::None, {}}),
      ElementsAre(25, 28, 28, 3));
  for (int64_t row : {0, 1})
    EXPECT_EQ(getOwnedRange(mesh, 100, {cols}, std::vector<int64_t>{row, 3}),
              (Range{75, 25}));
  EXPECT_THAT(
      getLocalShape(sizes, {{{}, {rows}, {cols}, {}}, ReduceKind::None, {}}),
      ElementsAre(100, 14, 7, 3));
  const std::vector<int64_t> device{0, 1};
  EXPECT_EQ(getOwnedRange(mesh, 28, {rows}, device), (Range{0, 14}));
  EXPECT_EQ(getOwnedRange(mesh, 28, {cols}, device), (Range{7, 7}));
}

TEST(Sharding, BlocksCoverEveryElementOncePerReplica) {
  Mesh mesh({{"x", 2}, {"y", 3}, {"z", 4}});
  const AxisRef x = mesh.getWholeAxis(0), y = mesh.getWholeAxis(1),
                z = mesh.getWholeAxis(2), high{2, 1, 2}, low{2, 2, 2};
  const std::vector<DimSplit> splits{{},
                                     {x},
                                     {y},
                                     {z},
                                     {high},
                                     {low},
                                     {x, y},
                                     {y, x},
                                     {z, y},
                                     {x, y, z},
                                     {z, y, x},
                                     {low, high},
                                     {high, low},
                                     {low, x, high},
                                     {high, y, low, x},
                                     {low, y, high, x}};
  for (int64_t size = 1; size <= 60; ++size)
    for (const DimSplit &split : splits) {
      const int64_t block = getLocalSize(size, split);
      int64_t parts = 1;
      for (AxisRef part : split)
        parts *= part.size;
      std::vector<int64_t> owners(size);
      bool full = true;
      for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
        Range range =
            getOwnedRange(mesh, size, split, mesh.getCoordinates(device));
        ASSERT_GE(range.offset, 0);
        ASSERT_LE(range.offset + range.count, size);
        ASSERT_LE(range.count, block);
        full &= range.count == block;
        for (int64_t i = 0; i < range.count; ++i)
          ++owners[range.offset + i];
      }
      for (int64_t count : owners)
        ASSERT_EQ(count, mesh.getNumDevices() / parts)
            << size << " over " << toString(mesh, split);
      EXPECT_EQ(dividesEvenly(size, split), full)
          << size << " over " << toString(mesh, split);
    }
}

TEST(Sharding, Replicated) {
  EXPECT_TRUE((Sharding{{{}, {}, {}}, ReduceKind::None, {}}.isReplicated()));
  EXPECT_FALSE((Sharding{{{}, {a}}, ReduceKind::None, {}}.isReplicated()));
  EXPECT_FALSE((Sharding{{{}, {}}, ReduceKind::Sum, {a}}.isReplicated()));
  EXPECT_TRUE(
      (Sharding{{{AxisRef{0, 1, 1}}}, ReduceKind::None, {}}.isReplicated()));
}

TEST(Sharding, CanonicalJoinsAndSorts) {
  Mesh mesh({{"x", 8}, {"y", 3}, {"one", 1}});
  const AxisRef x = mesh.getWholeAxis(0), y = mesh.getWholeAxis(1),
                one = mesh.getWholeAxis(2);
  Sharding joined = getCanonical(
      mesh, {{{{0, 1, 2}, one, {0, 2, 4}}, {}}, ReduceKind::Sum, {y}});
  EXPECT_EQ(joined, (Sharding{{{x}, {}}, ReduceKind::Sum, {y}}));
  // The other order is another sharding.
  Sharding reversed{{{{0, 2, 4}, {0, 1, 2}}}, ReduceKind::None, {}};
  EXPECT_EQ(getCanonical(mesh, reversed), reversed);
  EXPECT_EQ(
      getCanonical(mesh, {{{}}, ReduceKind::Max, {y, {0, 4, 2}, {0, 1, 4}}}),
      (Sharding{{{}}, ReduceKind::Max, {x, y}}));
  EXPECT_EQ(getCanonical(mesh, {{{}}, ReduceKind::Sum, {one}}),
            (Sharding{{{}}, ReduceKind::None, {}}));
}

TEST(Sharding, Violations) {
  Mesh mesh({{"x", 6}, {"y", 4}});
  const AxisRef x = mesh.getWholeAxis(0), y = mesh.getWholeAxis(1);
  auto check = [&](std::vector<DimSplit> dims,
                   ReduceKind kind = ReduceKind::None,
                   std::vector<AxisRef> partial = {}) {
    return getViolation(mesh, {std::move(dims), kind, std::move(partial)}, 2);
  };
  EXPECT_EQ(check({{x}, {y}}), "");
  EXPECT_EQ(check({{{1, 1, 2}}, {{1, 2, 2}}}), "");
  EXPECT_EQ(check({{}, {{1, 2, 2}, {1, 1, 2}}}, ReduceKind::Sum, {x}), "");
  EXPECT_THAT(check({{x}}), HasSubstr("1 dimensions for a tensor of 2"));
  EXPECT_THAT(check({{{2, 1, 1}}, {}}), HasSubstr("axis 2 is out of range"));
  EXPECT_THAT(check({{{-1, 1, 1}}, {}}), HasSubstr("out of range"));
  EXPECT_THAT(check({{{0, 1, 4}}, {}}), HasSubstr("does not fit axis 'x'"));
  EXPECT_THAT(check({{{0, 0, 6}}, {}}), HasSubstr("does not fit axis 'x'"));
  EXPECT_THAT(check({{{1, int64_t(1) << 62, 4}}, {}}),
              HasSubstr("does not fit"));
  EXPECT_THAT(check({{x}, {x}}), HasSubstr("axis 'x' serves two purposes"));
  EXPECT_THAT(check({{y}, {{1, 2, 2}}}), HasSubstr("axis 'y'"));
  // c / 3 and c % 2 of an axis of 6 are not independent digits.
  EXPECT_THAT(check({{{0, 1, 2}}, {{0, 3, 2}}}), HasSubstr("axis 'x'"));
  EXPECT_THAT(check({{{0, 1, 3}}, {{0, 2, 3}}}), HasSubstr("two purposes"));
  EXPECT_THAT(check({{x}, {}}, ReduceKind::Sum, {x}),
              HasSubstr("two purposes"));
  EXPECT_THAT(check({{}, {}}, ReduceKind::Sum), HasSubstr("without axes"));
  EXPECT_THAT(check({{}, {}}, ReduceKind::None, {x}),
              HasSubstr("without a kind"));
  EXPECT_THAT(check({{}, {}}, ReduceKind::Sum, {y, x}),
              HasSubstr("not sorted"));
}

TEST(Sharding, Spelling) {
  Mesh mesh({{"data", 2}, {"model", 3}, {"x", 8}, {"y", 2}});
  const std::vector<std::string> names{"batch", "hidden"};
  EXPECT_EQ(toString(mesh, {{{}, {}}, ReduceKind::None, {}}, names),
            "replicated");
  EXPECT_EQ(toString(mesh,
                     {{{mesh.getWholeAxis(0)},
                       {mesh.getWholeAxis(1), AxisRef{2, 2, 4}}},
                      ReduceKind::Sum,
                      {mesh.getWholeAxis(3)}},
                     names),
            "<batch@data, hidden@(model, x:(2)4)> partial sum over y");
  EXPECT_EQ(toString(mesh,
                     {{{}, {}},
                      ReduceKind::Max,
                      {mesh.getWholeAxis(0), mesh.getWholeAxis(3)}},
                     names),
            "<> partial max over (data, y)");
}
