#ifndef MESHC_RUNTIME_DEVICES_PROFILE_H
#define MESHC_RUNTIME_DEVICES_PROFILE_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace meshc::runtime {

/// What a worker's time is spent on; Idle is what no other class accounts for.
enum class TimeClass : uint8_t { Matmul, Kernel, Collective, Copy, Idle };

inline constexpr size_t numTimeClasses = 5;

/// Seconds per class.
using TimePerClass = std::array<double, numTimeClasses>;

struct Profile {
  TimePerClass seconds{}; ///< summed over the workers
  double wallSeconds = 0; ///< seconds add up to this times the workers
  int64_t runs = 0;
};

} // namespace meshc::runtime

#endif
