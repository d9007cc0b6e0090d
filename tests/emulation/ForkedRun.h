#ifndef MESHC_TESTS_EMULATION_FORKEDRUN_H
#define MESHC_TESTS_EMULATION_FORKEDRUN_H

/// Runs a part of a test in a process of its own: the emulation reads its
/// environment once per process, and some of its findings end the process.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace meshc::emulation {

struct ForkedResult {
  std::string value;  ///< what the body returned
  std::string errors; ///< what it wrote to standard error
  int exitCode = -1;  ///< minus the signal, if one ended the process
};

using Variables = std::vector<std::pair<std::string, std::string>>;

/// A process that runs `body` with `variables` in its environment.
class ForkedRun {
public:
  ForkedRun(const Variables &variables,
            const std::function<std::string()> &body);
  ForkedRun(const ForkedRun &) = delete;
  ~ForkedRun();
  int getPid() const { return pid; }
  /// Waits for the end. Kills the process after `seconds`; then the exit code
  /// is minus SIGKILL.
  ForkedResult wait(int seconds = 60);

private:
  int pid = -1;
  int valueFile = -1, errorFile = -1;
};

ForkedResult runForked(const Variables &variables,
                       const std::function<std::string()> &body);

} // namespace meshc::emulation

#endif
