#include "runtime/ranks/Restarts.h"

#include "runtime/exec/Error.h"
#include "runtime/io/StopSignals.h"
#include "runtime/ranks/Launcher.h"
#include "runtime/ranks/Ranks.h"

#include <fmt/format.h>

#include <optional>

using namespace meshc;
using namespace meshc::runtime;

/// For the system to take back what the processes had, such as the memory of
/// GPUs, and so that a run that fails at once does not fill the terminal.
static constexpr double pauseSeconds = 1;

static bool hasFailed(const RunEnd &end) {
  if (end.isStopped)
    return false;
  return end.isKilled || end.code == int(ExitCode::DoesNotFit) ||
         end.code == int(ExitCode::RankLost) ||
         end.code == int(ExitCode::Internal);
}

int runtime::launchWithRestarts(int64_t processes, const char *const *arguments,
                                int64_t mostRestarts,
                                const std::function<Restart()> &prepare) {
  RunEnd end = launchRanks(processes, arguments);
  for (int64_t number = 1; hasFailed(end); ++number) {
    if (number > mostRestarts) {
      if (mostRestarts > 0)
        printNote(fmt::format("no restart is left of {}", mostRestarts));
      break;
    }
    const Restart next = prepare();
    printWarning(fmt::format("restart {} of {}: {}; {}", number, mostRestarts,
                             end.cause, next.what));
    if (std::optional<Error> stopped = StopSignals::sleep(
            pauseSeconds,
            fmt::format("before restart {} of {}", number, mostRestarts))) {
      printError(*stopped);
      return int(getExitCode(stopped->code));
    }
    std::vector<const char *> words;
    for (const std::string &word : next.arguments)
      words.push_back(word.c_str());
    words.push_back(nullptr);
    end = launchRanks(processes, words.data());
  }
  return end.code;
}
