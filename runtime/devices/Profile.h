#ifndef MESHC_RUNTIME_DEVICES_PROFILE_H
#define MESHC_RUNTIME_DEVICES_PROFILE_H

#include "runtime/exec/exec_generated.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshc::runtime {

/// What a worker's time is spent on; Idle is what no other class accounts for.
enum class TimeClass : uint8_t {
  Matmul,
  Convolution,
  Kernel,
  Collective,
  Copy,
  Idle
};

inline constexpr size_t numTimeClasses = 6;

/// Seconds per class.
using TimePerClass = std::array<double, numTimeClasses>;

/// A command of the executable and the seconds that workers spent on it.
struct CommandTime {
  const exec::CommandT *command = nullptr;
  TimeClass timeClass = TimeClass::Idle;
  double seconds = 0;
};

struct Profile {
  TimePerClass seconds{}; ///< summed over the workers
  double wallSeconds = 0; ///< seconds add up to this times the workers
  int64_t runs = 0;
  std::vector<CommandTime> commands; ///< that ran, the costliest first
};

} // namespace meshc::runtime

#endif
