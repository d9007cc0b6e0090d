#ifndef MESHC_CODEGEN_STEPS_ARENAPLAN_H
#define MESHC_CODEGEN_STEPS_ARENAPLAN_H

#include <cstdint>
#include <span>
#include <vector>

namespace meshc::codegen {

/// Alignment of every buffer, in bytes: a cache line and a 512-bit vector.
inline constexpr uint64_t bufferAlignment = 64;

/// A buffer that is needed from command `first` to command `last`, inclusive.
struct Lifetime {
  uint64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

struct ArenaPlan {
  std::vector<uint64_t> offsets; ///< one per lifetime, in bytes
  uint64_t bytes = 0;            ///< end of the last buffer
};

/// Places buffers so that those alive together do not overlap: largest first,
/// each at the lowest gap that fits. Source: greedy by size, Pisarchyk and Lee
/// 2020, "Efficient memory management for deep neural net inference", 5.2.
ArenaPlan planArena(std::span<const Lifetime> lifetimes, uint64_t start);

} // namespace meshc::codegen

#endif
