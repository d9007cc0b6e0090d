#include "runtime/samples/SampleOrder.h"

#include <Random123/philox.h>

#include <algorithm>
#include <bit>

using namespace meshc::runtime;

SampleOrder::SampleOrder(int64_t seed, int64_t epoch, int64_t count)
    : seed(uint64_t(seed)), epoch(uint64_t(epoch)), count(count) {
  // Both parts have at least one bit, or a round would change nothing.
  const int bits = std::max(
      2, int(std::bit_width(uint64_t(std::max<int64_t>(count, 1) - 1))));
  lowBits = bits / 2;
  highBits = bits - lowBits;
}

uint64_t SampleOrder::permute(uint64_t index) const {
  const uint64_t lowMask = (uint64_t(1) << lowBits) - 1;
  const uint64_t highMask = (uint64_t(1) << highBits) - 1;
  uint64_t low = index & lowMask;
  uint64_t high = index >> lowBits;
  auto scramble = [&](uint64_t part, uint32_t round) -> uint64_t {
    r123::Philox4x32 philox;
    const r123::Philox4x32::ctr_type result = philox(
        {{uint32_t(part), round, uint32_t(epoch), uint32_t(epoch >> 32)}},
        {{uint32_t(seed), uint32_t(seed >> 32)}});
    return result[0];
  };
  // Four rounds give a permutation that cannot be told from a random one
  // (Luby, Rackoff 1988); eight, because the parts are small.
  constexpr uint32_t rounds = 8;
  for (uint32_t round = 0; round < rounds; round += 2) {
    low ^= scramble(high, round) & lowMask;
    high ^= scramble(low, round + 1) & highMask;
  }
  return high << lowBits | low;
}

int64_t SampleOrder::getSample(int64_t index) const {
  uint64_t sample = uint64_t(index);
  do
    sample = permute(sample);
  while (sample >= uint64_t(count));
  return int64_t(sample);
}
