// Waits against their definition: every conflict with an earlier command, but
// those that another wait implies.

#include "runtime/exec/CommandWaits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace meshc::runtime;

namespace {

using Commands = std::vector<std::vector<MemoryAccess>>;

bool conflict(const std::vector<MemoryAccess> &a,
              const std::vector<MemoryAccess> &b) {
  for (const MemoryAccess &x : a)
    for (const MemoryAccess &y : b)
      if ((x.isWrite || y.isWrite) && x.begin < y.end && y.begin < x.end)
        return true;
  return false;
}

std::vector<std::vector<int>> findWaitsOneByOne(const Commands &commands) {
  std::vector<std::vector<int>> waits(commands.size());
  std::vector<std::set<int>> implied(commands.size());
  for (int index = 0; index < int(commands.size()); ++index) {
    for (int earlier = index - 1; earlier >= 0; --earlier) {
      if (implied[index].contains(earlier) ||
          !conflict(commands[index], commands[earlier]))
        continue;
      waits[index].insert(waits[index].begin(), earlier);
      implied[index].insert(earlier);
      implied[index].insert(implied[earlier].begin(), implied[earlier].end());
    }
  }
  return waits;
}

TEST(CommandWaits, AreThoseOfTheDefinition) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    // Few or many places: long chains, or commands that hardly meet.
    const uint64_t places = 4 + random() % 200;
    Commands commands(1 + random() % 150);
    for (std::vector<MemoryAccess> &accesses : commands)
      for (uint64_t count = random() % 5; count-- > 0;) {
        const uint64_t begin = random() % places;
        accesses.push_back(
            {begin, begin + 1 + random() % 6, random() % 3 == 0});
      }
    ASSERT_EQ(findWaits(commands), findWaitsOneByOne(commands))
        << "round " << round;
  }
}

TEST(CommandWaits, OfThousandsInARowAreTheOneBefore) {
  // Each reads what the one before has written, and what the first has.
  constexpr uint64_t count = 100'000;
  Commands commands;
  for (uint64_t i = 0; i < count; ++i)
    commands.push_back({{i, i + 1, true},
                        {i == 0 ? 0 : i - 1, i == 0 ? 1 : i, i == 0},
                        {0, 1, i == 0}});
  const std::vector<std::vector<int>> waits = findWaits(commands);
  for (int i = 1; i < int(count); ++i)
    ASSERT_EQ(waits[i], std::vector<int>{i - 1});
}

} // namespace
