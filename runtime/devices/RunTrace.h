#ifndef MESHC_RUNTIME_DEVICES_RUNTRACE_H
#define MESHC_RUNTIME_DEVICES_RUNTRACE_H

/// What devices did in a run, and when.
///
/// A command is one event on each device that has a part in it, from its start
/// to its end. What a collective does on a device lies inside of its event:
///
///   command  |------------------------- c3 ---------------------------|
///   parts    |devices|   |pack| |---messages---| |combine| ...
///
/// Nothing is kept of what a device does between its commands.

#include <cstdint>
#include <vector>

namespace meshc::runtime {

struct TraceEvent {
  enum class Part : int32_t {
    Command,  ///< the whole
    Devices,  ///< it waits for other devices of its group to come
    Messages, ///< it waits for what other processes send
    Pack,     ///< is gathered for other processes; of devices of this one
    Combine,  ///< is combined
    Spread,   ///< what others have combined goes to its place
  };

  int64_t begin = 0; ///< nanoseconds of CLOCK_MONOTONIC
  int64_t end = 0;
  int32_t device = 0;
  int32_t command = 0; ///< its number in the program
  Part part = Part::Command;
};

/// A run as the devices of one process saw it.
struct RunTrace {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<TraceEvent> events; ///< in any order
};

} // namespace meshc::runtime

#endif
