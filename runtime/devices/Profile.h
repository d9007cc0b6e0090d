#ifndef MESHC_RUNTIME_DEVICES_PROFILE_H
#define MESHC_RUNTIME_DEVICES_PROFILE_H

#include "runtime/exec/exec_generated.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshc::runtime {

/// Seconds by kind of command.
using TimePerKind = std::array<double, size_t(exec::Action::MAX) + 1>;

/// A command of the executable and the seconds that workers spent on it.
struct CommandTime {
  const exec::CommandT *command = nullptr;
  double seconds = 0;
};

struct Profile {
  TimePerKind seconds{};  ///< summed over the workers
  double idleSeconds = 0; ///< what no command accounts for
  double wallSeconds = 0; ///< seconds add up to this times the workers
  int64_t runs = 0;
  std::vector<CommandTime> commands; ///< that ran, the costliest first
};

} // namespace meshc::runtime

#endif
