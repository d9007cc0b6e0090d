#ifndef MESHC_RUNTIME_MEASURE_MEASURE_H
#define MESHC_RUNTIME_MEASURE_MEASURE_H

/// What this host takes for the commands of a program, one by one.
///
/// Every worker has a device of its own and runs its commands in their order,
/// piece after piece, as the executor would: the same products, kernels and
/// copies, the caches filled by the commands before. What is counted is the
/// time that the thread has a processor, so that a busy host measures as a
/// quiet one does, but for its caches.
///
/// What only threads among one another take is measured by running the whole
/// program: the shortest of many runs.

#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelTable.h"

#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// A command on one thread and one device.
struct MeasuredCommand {
  const exec::CommandT *command = nullptr;
  double us = 0; ///< all its pieces
  int64_t pieces = 1;
};

/// What all workers together took for a collective of all devices.
struct MeasuredCollective {
  const exec::CommandT *command = nullptr;
  double us = 0; ///< the least of all runs
};

struct Measurement {
  /// In the order of the program; collectives are not in it.
  std::vector<MeasuredCommand> commands;
  std::vector<MeasuredCollective> collectives;
  double runUs = 0;  ///< the shortest run, on the wall
  double workUs = 0; ///< of all workers in it, inside of commands
  int64_t runs = 0;
  int threads = 0;
  double seconds = 0; ///< that measuring took
};

/// Measures a program with a thread for each processor, or device if there are
/// fewer: for `alone` seconds command by command, for `together` seconds as a
/// whole; 0 seconds leave it out.
/// Errors: those of Executor::create.
Result<Measurement> measure(const Executable &executable,
                            std::span<const meshcKernelEntry> kernels,
                            const exec::ProgramT &program, double alone,
                            double together);

/// One line of JSON.
std::string toJson(const Measurement &measurement);

} // namespace meshc::runtime

#endif
