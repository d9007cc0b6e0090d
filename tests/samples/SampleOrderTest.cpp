/// The order of samples.

#include "runtime/samples/SampleOrder.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

using namespace meshc::runtime;

namespace {

TEST(SampleOrderTest, is_a_permutation) {
  for (int64_t count : {1, 2, 3, 5, 7, 64, 65, 1000, 60000}) {
    SampleOrder order(1, 2, count);
    std::vector<bool> seen(count, false);
    for (int64_t i = 0; i < count; ++i) {
      int64_t sample = order.getSample(i);
      ASSERT_GE(sample, 0);
      ASSERT_LT(sample, count);
      ASSERT_FALSE(seen[sample]);
      seen[sample] = true;
    }
  }
}

TEST(SampleOrderTest, differs_by_epoch_and_seed) {
  std::set<std::vector<int64_t>> orders;
  for (int64_t seed : {int64_t(0), int64_t(1), int64_t(1) << 40})
    for (int64_t epoch : {int64_t(0), int64_t(1), int64_t(1) << 40}) {
      SampleOrder order(seed, epoch, 100);
      std::vector<int64_t> samples;
      for (int64_t i = 0; i < 100; ++i)
        samples.push_back(order.getSample(i));
      orders.insert(samples);
    }
  EXPECT_EQ(orders.size(), 9u);
}

TEST(SampleOrderTest, looks_random) {
  // Over many orders of 10 samples, each sample is about equally often at each
  // place: with 10000 orders a count has mean 1000 and deviation 30.
  int counts[10][10] = {};
  for (int64_t epoch = 0; epoch < 10000; ++epoch) {
    SampleOrder order(5, epoch, 10);
    for (int64_t i = 0; i < 10; ++i)
      ++counts[i][order.getSample(i)];
  }
  for (auto &row : counts)
    for (int count : row)
      EXPECT_NEAR(count, 1000, 6 * 30);
}

} // namespace
