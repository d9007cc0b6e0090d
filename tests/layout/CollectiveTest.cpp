#include "layout/Collective.h"

#include <gtest/gtest.h>

using namespace meshc::layout;

TEST(Collective, Names) {
  EXPECT_STREQ(getName(CollectiveKind::AllReduce), "all_reduce");
  EXPECT_STREQ(getName(CollectiveKind::ReduceScatter), "reduce_scatter");
  EXPECT_STREQ(getName(CollectiveKind::AllGather), "all_gather");
  EXPECT_STREQ(getName(CollectiveKind::AllToAll), "all_to_all");
  EXPECT_STREQ(getName(CollectiveKind::Permute), "permute");
  EXPECT_STREQ(getName(CollectiveKind::Exchange), "exchange");
  EXPECT_STREQ(getName(CollectiveKind::Slice), "slice");
}

TEST(Collective, WireBytes) {
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

TEST(Collective, ReduceScatterAndAllGatherMakeAnAllReduce) {
  for (int64_t p : {2, 3, 5, 7})
    EXPECT_EQ(getWireBytes(CollectiveKind::AllReduce, 420, p),
              getWireBytes(CollectiveKind::ReduceScatter, 420, p) +
                  getWireBytes(CollectiveKind::AllGather, 420 / p, p));
}
