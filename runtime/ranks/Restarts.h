#ifndef MESHC_RUNTIME_RANKS_RESTARTS_H
#define MESHC_RUNTIME_RANKS_RESTARTS_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace meshc::runtime {

/// What follows a run that has failed.
struct Restart {
  std::vector<std::string> arguments; ///< the name of the program first
  std::string what;                   ///< "goes on from step 120"
};

/// As launchRanks, and where the run fails it is started again, `mostRestarts`
/// times in all, as `prepare` says, which is called when no process of it is
/// left. Each restart is told on standard error. Returns the exit code of the
/// last run.
///
/// A run fails where a signal ends a rank, or where it ends with one of the
/// exit codes DoesNotFit, RankLost and Internal. Others say that the user's
/// input, a check or a signal of the user has ended it: that would come again,
/// or is meant so.
int launchWithRestarts(int64_t processes, const char *const *arguments,
                       int64_t mostRestarts,
                       const std::function<Restart()> &prepare);

} // namespace meshc::runtime

#endif
