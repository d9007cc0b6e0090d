#include "codegen/steps/ArenaPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace meshc::codegen;

static bool areTogether(const Lifetime &a, const Lifetime &b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(ArenaPlan, reuses_memory_of_a_buffer_that_died) {
  std::vector<Lifetime> lifetimes = {{640, 0, 1}, {640, 2, 3}, {64, 1, 2}};
  ArenaPlan plan = planArena(lifetimes, 128);
  EXPECT_EQ(plan.offsets[0], 128u);
  EXPECT_EQ(plan.offsets[1], 128u);
  EXPECT_EQ(plan.bytes, 128u + 640u + 64u);
}

TEST(ArenaPlan, fills_a_gap_between_two_buffers) {
  // Largest first: 0 at the start, 1 above it, and 2 into 0's place.
  std::vector<Lifetime> lifetimes = {{512, 0, 0}, {256, 0, 2}, {192, 1, 1}};
  ArenaPlan plan = planArena(lifetimes, 0);
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{0, 512, 0}));
}

// Any plan: aligned, no overlap of buffers that are alive together, and never
// below the largest sum of what is alive at one command.
TEST(ArenaPlan, never_overlaps_what_is_alive_together) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lifetimes(random() % 40 + 1);
    for (Lifetime &lifetime : lifetimes) {
      lifetime.bytes = random() % 1000 + 1;
      lifetime.first = random() % 20;
      lifetime.last = lifetime.first + random() % 6;
    }
    uint64_t start = random() % 200;
    ArenaPlan plan = planArena(lifetimes, start);
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

/// Largest first, each at the lowest place that is a multiple of the alignment
/// and free all the time.
static std::vector<uint64_t> placeOneByOne(std::span<const Lifetime> lifetimes,
                                           uint64_t start) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return std::pair(-int64_t(lifetimes[x].bytes), x) <
           std::pair(-int64_t(lifetimes[y].bytes), y);
  });
  std::vector<uint64_t> offsets(lifetimes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const Lifetime &mine = lifetimes[order[i]];
    uint64_t offset =
        start + (bufferAlignment - start % bufferAlignment) % bufferAlignment;
    auto isTaken = [&](size_t other) {
      return areTogether(mine, lifetimes[other]) &&
             offset < offsets[other] + lifetimes[other].bytes &&
             offsets[other] < offset + mine.bytes;
    };
    while (std::any_of(order.begin(), order.begin() + ptrdiff_t(i), isTaken))
      offset += bufferAlignment;
    offsets[order[i]] = offset;
  }
  return offsets;
}

TEST(ArenaPlan, is_that_of_the_definition) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes(random() % 60 + 1);
    const unsigned commands = random() % 60 + 1, longest = random() % 40 + 1;
    for (Lifetime &lifetime : lifetimes) {
      lifetime.bytes = random() % (round % 2 ? 2000 : 130) + 1;
      lifetime.first = int64_t(random() % commands) - 1;
      lifetime.last = lifetime.first + random() % longest;
    }
    const uint64_t start = random() % 200;
    EXPECT_EQ(planArena(lifetimes, start).offsets,
              placeOneByOne(lifetimes, start))
        << "round " << round;
  }
}

// What a training keeps: all of it is alive in the middle. Compared one with
// another these are 2 10^10 pairs.
TEST(ArenaPlan, places_200000_buffers) {
  constexpr int64_t count = 200'000;
  std::vector<Lifetime> lifetimes;
  for (int64_t i = 0; i < count; ++i)
    lifetimes.push_back({100, i, 2 * count - i});
  EXPECT_EQ(planArena(lifetimes, 0).bytes, count * 128u);
  // One after the other.
  for (Lifetime &lifetime : lifetimes)
    lifetime.last = lifetime.first + 1;
  EXPECT_EQ(planArena(lifetimes, 0).bytes, 2u * 128);
}
