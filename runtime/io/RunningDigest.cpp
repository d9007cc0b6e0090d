#include "runtime/io/RunningDigest.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

static constexpr uint64_t digestPrime = 0x100000001b3;

void RunningDigest::add(std::span<const std::byte> bytes) {
  for (std::byte byte : bytes)
    hash = (hash ^ uint64_t(byte)) * digestPrime;
  count += bytes.size();
}

std::string RunningDigest::get() const {
  uint64_t ended = hash;
  for (uint64_t rest = count; rest > 0; rest >>= 8)
    ended = (ended ^ (rest & 0xff)) * digestPrime;
  return fmt::format("{:016x}", ended);
}

std::string runtime::getDigest(std::span<const std::byte> bytes) {
  RunningDigest digest;
  digest.add(bytes);
  return digest.get();
}
