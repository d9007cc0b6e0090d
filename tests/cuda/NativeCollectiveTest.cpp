/// Which collectives are given to NCCL as its own.

#include "layout/ReshardStep.h"
#include "runtime/plans/NcclPlan.h"
#include "tests/layout/Shardings.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

namespace {

/// A collective between contiguous blocks at bytes 0 and `to` of the arena.
Collective makeCollective(const layout::Mesh &mesh,
                          const std::vector<int64_t> &sizes,
                          const layout::Sharding &source,
                          const layout::Sharding &target, uint64_t to) {
  exec::CollectiveT collective;
  auto makeLayout = [&](const layout::Sharding &sharding) {
    return std::make_unique<exec::TensorLayoutT>(
        test::makeLayout(exec::ElementType::f32, sizes, sharding));
  };
  collective.source = makeLayout(source);
  collective.target = makeLayout(target);
  auto makeOperand = [&](const exec::TensorLayoutT &layout) {
    exec::OperandT operand;
    operand.element = exec::ElementType::f32;
    operand.shape = getLocalShape(layout);
    operand.strides = test::getStrides(operand.shape);
    return operand;
  };
  const exec::OperandT before = makeOperand(*collective.source);
  const exec::OperandT after = makeOperand(*collective.target);
  const Collective::Member member{getShardingChange(collective), &before, 0,
                                  &after, to};
  return Collective::create(mesh, {&member, 1});
}

class NativeCollectiveTest : public testing::Test {
protected:
  const layout::Mesh mesh{{{"x", 2}, {"y", 3}}};
  const layout::AxisRef x = mesh.getWholeAxis(0);
  const layout::AxisRef y = mesh.getWholeAxis(1);

  static layout::Sharding split(std::vector<layout::DimSplit> dims,
                                std::vector<layout::AxisRef> partial = {}) {
    layout::Sharding sharding;
    sharding.dims = std::move(dims);
    sharding.partialAxes = std::move(partial);
    if (!sharding.partialAxes.empty())
      sharding.partialKind = layout::ReduceKind::Sum;
    return sharding;
  }
};

TEST_F(NativeCollectiveTest, sums_on_all_are_all_reduce) {
  const Collective collective =
      makeCollective(mesh, {6, 4}, split({{}, {}}, {y}), split({{}, {}}), 1024);
  ASSERT_EQ(collective.getNumGroups(), 2);
  const std::vector<NativeCollective> native = findNative(collective, 1);
  ASSERT_EQ(native.size(), 1u);
  EXPECT_EQ(native[0].kind, NativeCollective::Kind::AllReduce);
  EXPECT_THAT(native[0].devices, testing::ElementsAre(3, 4, 5));
  EXPECT_EQ(native[0].elements, 24);
  EXPECT_THAT(native[0].to, testing::Each(1024u));
}

TEST_F(NativeCollectiveTest, blocks_of_the_first_dimension_are_all_gather) {
  const Collective collective =
      makeCollective(mesh, {6, 4}, split({{y}, {}}), split({{}, {}}), 1024);
  const std::vector<NativeCollective> native = findNative(collective, 0);
  ASSERT_EQ(native.size(), 1u);
  EXPECT_EQ(native[0].kind, NativeCollective::Kind::AllGather);
  EXPECT_THAT(native[0].devices, testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(native[0].elements, 8);
}

TEST_F(NativeCollectiveTest, devices_may_be_in_another_order) {
  // y is major: device (x, y) has block y * 2 + x.
  const Collective collective =
      makeCollective(mesh, {6, 4}, split({{y, x}, {}}), split({{}, {}}), 1024);
  const std::vector<NativeCollective> native = findNative(collective, 0);
  ASSERT_EQ(native.size(), 1u);
  EXPECT_THAT(native[0].devices, testing::ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST_F(NativeCollectiveTest, sums_of_blocks_are_reduce_scatter) {
  const Collective collective = makeCollective(
      mesh, {6, 4}, split({{}, {}}, {x}), split({{x}, {}}), 1024);
  const std::vector<NativeCollective> native = findNative(collective, 2);
  ASSERT_EQ(native.size(), 1u);
  EXPECT_EQ(native[0].kind, NativeCollective::Kind::ReduceScatter);
  EXPECT_THAT(native[0].devices, testing::ElementsAre(2, 5));
  EXPECT_EQ(native[0].elements, 12);
}

/// Sums of f32 over x in one transfer, each in place at its byte of the arena.
struct MemberCase {
  std::vector<int64_t> sizes;
  std::vector<layout::DimSplit> splits;
  uint64_t offset;
};

static Collective makeSums(const layout::Mesh &mesh, layout::AxisRef axis,
                           const std::vector<MemberCase> &cases) {
  std::vector<exec::CollectiveT> collectives(cases.size());
  std::vector<exec::OperandT> operands(cases.size());
  std::vector<Collective::Member> members;
  for (size_t i = 0; i < cases.size(); ++i) {
    layout::Sharding sharding;
    sharding.dims = cases[i].splits;
    collectives[i].target = std::make_unique<exec::TensorLayoutT>(
        test::makeLayout(exec::ElementType::f32, cases[i].sizes, sharding));
    sharding.partialAxes = {axis};
    sharding.partialKind = layout::ReduceKind::Sum;
    collectives[i].source = std::make_unique<exec::TensorLayoutT>(
        test::makeLayout(exec::ElementType::f32, cases[i].sizes, sharding));
    operands[i].element = exec::ElementType::f32;
    operands[i].shape = getLocalShape(*collectives[i].target);
    operands[i].strides = test::getStrides(operands[i].shape);
    members.push_back({getShardingChange(collectives[i]), &operands[i],
                       cases[i].offset, &operands[i], cases[i].offset});
  }
  return Collective::create(mesh, members);
}

TEST_F(NativeCollectiveTest, neighbours_of_one_transfer_are_one_all_reduce) {
  // 64, 192 and 64 bytes; split over the other axis or not.
  const Collective sums = makeSums(
      mesh, x,
      {{{16}, {{}}, 256}, {{48, 3}, {{}, {y}}, 320}, {{16}, {{}}, 512}});
  ASSERT_EQ(sums.getNumGroups(), 3);
  const std::vector<NativeCollective> native = findNative(sums, 1);
  ASSERT_EQ(native.size(), 1u);
  EXPECT_EQ(native[0].elements, 16 + 48 + 16);
  EXPECT_THAT(native[0].devices, testing::ElementsAre(1, 4));
  EXPECT_THAT(native[0].from, testing::Each(256u));
}

TEST_F(NativeCollectiveTest, a_gap_is_not_part_of_a_transfer) {
  // 20 bytes, which end 44 before the next member.
  const std::vector<NativeCollective> native =
      findNative(makeSums(mesh, x, {{{5}, {{}}, 256}, {{7}, {{}}, 320}}), 0);
  ASSERT_EQ(native.size(), 2u);
  EXPECT_EQ(native[0].elements, 5);
  EXPECT_EQ(native[1].elements, 7);
  EXPECT_THAT(native[1].from, testing::Each(320u));
}

TEST_F(NativeCollectiveTest, members_without_elements_here_take_no_part) {
  // Of 2 positions over 3 devices the last has none.
  const Collective sums =
      makeSums(mesh, x, {{{5}, {{}}, 256}, {{2}, {{y}}, 320}});
  EXPECT_EQ(findNative(sums, 1).size(), 2u);
  EXPECT_EQ(findNative(sums, 2).size(), 1u);
}

TEST_F(NativeCollectiveTest, one_member_that_is_not_native_is_enough) {
  // Of 7 columns the last of 3 devices has one, in a block of 3.
  const Collective sums =
      makeSums(mesh, x, {{{5}, {{}}, 256}, {{2, 7}, {{}, {y}}, 320}});
  EXPECT_EQ(findNative(sums, 0).size(), 2u);
  EXPECT_TRUE(findNative(sums, 2).empty());
}

TEST_F(NativeCollectiveTest, others_are_not) {
  // Columns of a row-major block, uneven blocks, and an exchange.
  EXPECT_TRUE(findNative(makeCollective(mesh, {6, 6}, split({{}, {y}}),
                                        split({{}, {}}), 1024),
                         0)
                  .empty());
  EXPECT_TRUE(findNative(makeCollective(mesh, {7, 4}, split({{y}, {}}),
                                        split({{}, {}}), 1024),
                         0)
                  .empty());
  EXPECT_TRUE(findNative(makeCollective(mesh, {6, 6}, split({{}, {y}}),
                                        split({{y}, {}}), 1024),
                         0)
                  .empty());
}

/// Whether every group of devices that talk has a call of NCCL's.
bool areAllNative(const Collective &collective) {
  for (int64_t group = 0; group < collective.getNumGroups(); ++group)
    if (collective.getDevices(group).size() > 1 &&
        findNative(collective, group).empty())
      return false;
  return true;
}

TEST_F(NativeCollectiveTest, steps_know_which_are_native) {
  int native = 0, others = 0;
  for (const std::vector<int64_t> &sizes : {std::vector<int64_t>{6},
                                            {7},
                                            {6, 4},
                                            {12, 5},
                                            {2, 7},
                                            {3, 6},
                                            {1, 6},
                                            {3, 2, 4},
                                            {5, 1, 6}}) {
    std::vector<layout::Sharding> shardings = layout::test::getAllShardings(
        mesh, {x, y}, sizes.size(), layout::ReduceKind::Sum);
    for (const layout::Sharding &source : shardings)
      for (const layout::Sharding &target : shardings)
        for (layout::CollectiveKind kind :
             {layout::CollectiveKind::AllReduce,
              layout::CollectiveKind::ReduceScatter,
              layout::CollectiveKind::AllGather}) {
          if (!isReshardStep(mesh, sizes, kind, source, target))
            continue;
          const layout::ReshardStep step =
              getReshardStep(mesh, sizes, kind, source, target);
          const bool isNative =
              areAllNative(makeCollective(mesh, sizes, source, target, 4096));
          ++(isNative ? native : others);
          EXPECT_EQ(step.hasContiguousBlocks, isNative)
              << testing::PrintToString(sizes) << " " << getName(kind) << " "
              << layout::test::spell(mesh, source) << " to "
              << layout::test::spell(mesh, target);
        }
  }
  EXPECT_GT(native, 100);
  EXPECT_GT(others, 100);
}

} // namespace
