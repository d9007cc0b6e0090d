#include "codegen/MemoryPlan.h"

#include <gtest/gtest.h>
#include <random>

using namespace meshc::codegen;

static bool areTogether(const Lifetime &a, const Lifetime &b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(MemoryPlan, reuses_memory_of_a_buffer_that_died) {
  std::vector<Lifetime> lifetimes = {{640, 0, 1}, {640, 2, 3}, {64, 1, 2}};
  MemoryPlan plan = planMemory(lifetimes, 128);
  EXPECT_EQ(plan.offsets[0], 128u);
  EXPECT_EQ(plan.offsets[1], 128u);
  EXPECT_EQ(plan.bytes, 128u + 640u + 64u);
}

TEST(MemoryPlan, fills_a_gap_between_two_buffers) {
  // Largest first: 0 at the start, 1 above it, and 2 into 0's place.
  std::vector<Lifetime> lifetimes = {{512, 0, 0}, {256, 0, 2}, {192, 1, 1}};
  MemoryPlan plan = planMemory(lifetimes, 0);
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{0, 512, 0}));
}

// Any plan: aligned, no overlap of buffers that are alive together, and never
// below the largest sum of what is alive at one command.
TEST(MemoryPlan, never_overlaps_what_is_alive_together) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lifetimes(random() % 40 + 1);
    for (Lifetime &lifetime : lifetimes) {
      lifetime.bytes = random() % 1000 + 1;
      lifetime.first = random() % 20;
      lifetime.last = lifetime.first + random() % 6;
    }
    uint64_t start = random() % 200;
    MemoryPlan plan = planMemory(lifetimes, start);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % bufferAlignment, 0u);
      EXPECT_GE(plan.offsets[i], start);
      EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j)
        if (areTogether(lifetimes[i], lifetimes[j]))
          EXPECT_TRUE(plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] ||
                      plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i])
              << i << " and " << j << " in round " << round;
    }
  }
}
