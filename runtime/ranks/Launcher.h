#ifndef MESHC_RUNTIME_RANKS_LAUNCHER_H
#define MESHC_RUNTIME_RANKS_LAUNCHER_H

#include <cstdint>

namespace meshc::runtime {

/// Runs this executable `processes` times on this machine, with the same
/// arguments, as the ranks of one run; returns the exit code of the whole. The
/// calling process must have one thread.
///
/// The launcher only watches: signals that it gets go to all ranks, and when
/// one ends in error, the others have some seconds to end by themselves before
/// they are killed. If the launcher is killed, so are they. A rank that ended
/// without a word, or did not end, is named on standard error, with how and
/// since when.
int launchRanks(int64_t processes, const char *const *arguments);

} // namespace meshc::runtime

#endif
