#ifndef MESHC_RUNTIME_RANKS_LAUNCHER_H
#define MESHC_RUNTIME_RANKS_LAUNCHER_H

#include <cstdint>
#include <string>

namespace meshc::runtime {

/// How a run has ended.
struct RunEnd {
  int code = 0; ///< of the whole
  /// Of what did not end well, "rank 2 was killed by signal 9 (Killed)";
  /// empty: all did.
  std::string cause;
  /// A signal has ended a rank that did not come from the launcher.
  bool isKilled = false;
  /// Somebody has stopped the run, by a signal to the launcher or a rank.
  bool isStopped = false;
};

/// Runs this executable `processes` times on this machine, with the same
/// arguments, as the ranks of one run. The calling process must have one
/// thread.
///
/// The launcher only watches: signals that it gets go to all ranks, and when
/// one ends in error, the others have some seconds to end by themselves before
/// they are killed. If the launcher is killed, so are they. A rank that ended
/// without a word, or did not end, is named on standard error, with how and
/// since when.
RunEnd launchRanks(int64_t processes, const char *const *arguments);

} // namespace meshc::runtime

#endif
