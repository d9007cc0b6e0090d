#include "layout/CostModel.h"

#include <gtest/gtest.h>

using namespace meshc::layout;

TEST(CostModel, Names) {
  EXPECT_STREQ(getName(CollectiveKind::AllReduce), "all_reduce");
  EXPECT_STREQ(getName(CollectiveKind::ReduceScatter), "reduce_scatter");
  EXPECT_STREQ(getName(CollectiveKind::AllGather), "all_gather");
  EXPECT_STREQ(getName(CollectiveKind::AllToAll), "all_to_all");
  EXPECT_STREQ(getName(CollectiveKind::Permute), "permute");
  EXPECT_STREQ(getName(CollectiveKind::Exchange), "exchange");
  EXPECT_STREQ(getName(CollectiveKind::Slice), "slice");
}

TEST(CostModel, WireBytes) {
  EXPECT_EQ(getWireBytes(CollectiveKind::AllReduce, 1200, 4), 1800);
  EXPECT_EQ(getWireBytes(CollectiveKind::ReduceScatter, 1200, 4), 900);
  EXPECT_EQ(getWireBytes(CollectiveKind::AllToAll, 1200, 4), 900);
  EXPECT_EQ(getWireBytes(CollectiveKind::AllGather, 1200, 4), 3600);
  EXPECT_EQ(getWireBytes(CollectiveKind::Permute, 1200, 4), 1200);
  EXPECT_EQ(getWireBytes(CollectiveKind::Slice, 1200, 4), 0);
  for (auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                    CollectiveKind::AllGather, CollectiveKind::AllToAll,
                    CollectiveKind::Permute})
    EXPECT_EQ(getWireBytes(kind, 1200, 1), 0);
  // A product of bytes and devices that does not fit 64 bits.
  const int64_t big = int64_t(1) << 60;
  EXPECT_EQ(getWireBytes(CollectiveKind::AllReduce, big, 1024),
            2 * (big - big / 1024));
}

TEST(CostModel, ReduceScatterAndAllGatherMakeAnAllReduce) {
  for (int64_t p : {2, 3, 5, 7})
    EXPECT_EQ(getWireBytes(CollectiveKind::AllReduce, 420, p),
              getWireBytes(CollectiveKind::ReduceScatter, 420, p) +
                  getWireBytes(CollectiveKind::AllGather, 420 / p, p));
}

TEST(CostModel, CostAddsLatencyAndBytes) {
  CostModel model;
  model.launchUs = 7;
  model.roundUs = 2;
  model.exchangeFactor = 1.5;
  model.wireBytesPerUs = 10;
  model.copyBytesPerUs = 100;
  auto cost = [&](CollectiveKind kind, int64_t groupSize, int64_t wire,
                  int64_t local) {
    return model.getCost(kind, groupSize, wire, local);
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
}
