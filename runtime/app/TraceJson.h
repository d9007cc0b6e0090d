#ifndef MESHC_RUNTIME_APP_TRACEJSON_H
#define MESHC_RUNTIME_APP_TRACEJSON_H

/// The trace of a run in the format of Chrome and Perfetto.
///
/// Every process of the run is one of the trace, every device has a track of
/// what it computes and one of what it communicates, with more beside them
/// where commands of one queue overlap. What a device waits for while it
/// computes nothing is an event too, found by what its commands wait for:
///
///   device 0 compute        | o3 |  wait for c1  | o4 |
///   device 0 communication       |      c1       |

#include "runtime/devices/RunTrace.h"
#include "runtime/exec/Executable.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshc::runtime {

/// A run of the program that is traced, as all processes saw it: one of each,
/// with times of one clock.
struct TracedStep {
  int64_t number = 0; ///< counted from 1
  std::vector<RunTrace> ranks;
};

/// The whole file. `stepUs`: the mean time of steps that were not traced, in
/// microseconds; none where there were none.
std::string renderTrace(const Executable &executable,
                        const exec::ProgramT &program,
                        const std::vector<TracedStep> &steps,
                        std::optional<double> stepUs);

} // namespace meshc::runtime

#endif
