#include "dialect/interpreter/Blocks.h"

#include "tests/dialect/Programs.h"

#include "gtest/gtest.h"

using namespace meshc;
using namespace meshc::interpreter;
using meshc::test::floats;

namespace {

constexpr ElementKind f32 = {true, 32};
const layout::Mesh mesh({{"a", 2}, {"b", 3}});
const layout::AxisRef a = {0, 1, 2}, b = {1, 1, 3};

layout::Sharding split(std::vector<layout::DimSplit> dims) {
  layout::Sharding sharding;
  sharding.dims = std::move(dims);
  return sharding;
}

layout::Sharding partial(std::vector<layout::DimSplit> dims,
                         layout::ReduceKind kind,
                         std::vector<layout::AxisRef> axes) {
  layout::Sharding sharding = split(std::move(dims));
  sharding.partialKind = kind;
  sharding.partialAxes = std::move(axes);
  return sharding;
}

TEST(Blocks, PaddingIsPoison) {
  // 4 elements over 3: blocks 2 + 2 + 0.
  auto blocks =
      scatter<F64>(mesh, split({{b}}), f32, floats({4}, {1, 2, 3, 4}));
  EXPECT_EQ(blocks[0], floats({2}, {1, 2}));
  EXPECT_EQ(blocks[1], floats({2}, {3, 4}));
  EXPECT_EQ(blocks[2], Tensor<F64>({2}));
  EXPECT_EQ(blocks[4], floats({2}, {3, 4}));
}

TEST(Blocks, SeveralAxesNest) {
  // 5 over a = 2: 3 + 2; then over b = 3: 1 + 1 + 1 and 1 + 1 + 0.
  auto blocks =
      scatter<F64>(mesh, split({{a, b}}), f32, floats({5}, {1, 2, 3, 4, 5}));
  EXPECT_EQ(blocks[2], floats({1}, {3}));
  EXPECT_EQ(blocks[3], floats({1}, {4}));
  EXPECT_EQ(blocks[5], Tensor<F64>({1}));
}

TEST(Blocks, GatherInvertsScatter) {
  Tensor<F64> whole = floats({2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  for (const layout::Sharding &sharding :
       {split({{}, {}}), split({{a}, {b}}), split({{}, {b, a}}),
        split({{b}, {a}}), partial({{}, {b}}, layout::ReduceKind::Sum, {a}),
        partial({{}, {}}, layout::ReduceKind::Max, {a, b}),
        partial({{a}, {}}, layout::ReduceKind::Min, {b})}) {
    auto blocks = scatter<F64>(mesh, sharding, f32, whole);
    std::string error;
    auto gathered =
        gather<F64>(mesh, whole.sizes, sharding, f32, blocks, error);
    ASSERT_TRUE(gathered) << error;
    EXPECT_EQ(*gathered, whole);
  }
}

TEST(Blocks, GatherSumsTermsAndIgnoresPadding) {
  layout::Sharding sharding = partial({{b}}, layout::ReduceKind::Sum, {a});
  Blocks<F64> blocks;
  for (double device = 0; device < 6; ++device)
    blocks.push_back(floats({2}, {device, 10 * device}));
  std::string error;
  auto gathered = gather<F64>(mesh, {4}, sharding, f32, blocks, error);
  ASSERT_TRUE(gathered) << error;
  EXPECT_EQ(*gathered, floats({4}, {0 + 3, 0 + 30, 1 + 4, 10 + 40}));
}

TEST(Blocks, GatherSeesReplicasThatDisagree) {
  auto blocks = scatter<F64>(mesh, split({{b}}), f32, floats({3}, {1, 2, 3}));
  blocks[4].elements[0] = 2.0000000000000004;
  std::string error;
  EXPECT_FALSE(gather<F64>(mesh, {3}, split({{b}}), f32, blocks, error));
  EXPECT_EQ(error, "devices 1 and 4 disagree about element 1");
}

TEST(Blocks, RedistributeKeepsTheTermsOfKeptAxes) {
  layout::Sharding source = partial({{}}, layout::ReduceKind::Sum, {a, b});
  Blocks<F64> blocks;
  for (double device = 0; device < 6; ++device)
    blocks.push_back(floats({2}, {device, 1}));
  std::string error;
  auto moved = redistribute<F64>(mesh, {2}, source,
                                 partial({{b}}, layout::ReduceKind::Sum, {a}),
                                 f32, blocks, error);
  ASSERT_TRUE(moved) << error;
  EXPECT_EQ((*moved)[0], floats({1}, {0 + 1 + 2}));
  EXPECT_EQ((*moved)[1], floats({1}, {3}));
  EXPECT_EQ((*moved)[2], Tensor<F64>({1}));
  EXPECT_EQ((*moved)[3], floats({1}, {3 + 4 + 5}));
}

TEST(Blocks, RedistributeMovesTermsToOtherAxes) {
  Blocks<F64> blocks;
  for (double device = 0; device < 6; ++device)
    blocks.push_back(floats({1}, {device < 3 ? 5.0 : 7.0}));
  std::string error;
  auto moved = redistribute<F64>(
      mesh, {1}, partial({{}}, layout::ReduceKind::Max, {a}),
      partial({{}}, layout::ReduceKind::Max, {b}), f32, blocks, error);
  ASSERT_TRUE(moved) << error;
  double lowest = -std::numeric_limits<double>::infinity();
  EXPECT_EQ((*moved)[0], floats({1}, {7}));
  EXPECT_EQ((*moved)[1], floats({1}, {lowest}));
  EXPECT_EQ((*moved)[3], floats({1}, {7}));
}

TEST(Blocks, BooleansHaveIdentities) {
  ElementKind boolean = {false, 1};
  auto whole = meshc::test::ints({2}, {0, 1});
  for (auto kind : {layout::ReduceKind::Max, layout::ReduceKind::Min}) {
    layout::Sharding sharding = partial({{}}, kind, {b});
    auto blocks = scatter<F64>(mesh, sharding, boolean, whole);
    std::string error;
    EXPECT_EQ(gather<F64>(mesh, {2}, sharding, boolean, blocks, error), whole);
  }
}

} // namespace
