#include "codegen/MemoryPlan.h"

#include <algorithm>
#include <numeric>

using namespace meshc::codegen;

static uint64_t alignUp(uint64_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

MemoryPlan meshc::codegen::planMemory(std::span<const Lifetime> lifetimes,
                                      uint64_t start) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return std::pair(lifetimes[y].bytes, x) < std::pair(lifetimes[x].bytes, y);
  });

  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  plan.bytes = start;
  std::vector<size_t> placed; // by offset
  for (size_t index : order) {
    const Lifetime &lifetime = lifetimes[index];
    uint64_t offset = alignUp(start);
    for (size_t other : placed) {
      bool together = lifetimes[other].first <= lifetime.last &&
                      lifetime.first <= lifetimes[other].last;
      if (!together)
        continue;
      if (offset + lifetime.bytes <= plan.offsets[other])
        break; // fits into the gap before `other`
      offset = std::max(offset,
                        alignUp(plan.offsets[other] + lifetimes[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + lifetime.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](size_t x, size_t y) {
                                     return plan.offsets[x] < plan.offsets[y];
                                   }),
                  index);
  }
  plan.bytes = alignUp(plan.bytes);
  return plan;
}
