#include "runtime/Progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

Progress::Progress() : isTerminal(isatty(STDERR_FILENO) == 1) {
  if (!isTerminal)
    next = Clock::now() + std::chrono::seconds(2);
}

void Progress::show(const std::string &line, Clock::time_point now,
                    bool stays) {
  if (!isTerminal) {
    fmt::print(stderr, "{}\n", line);
    next = now + std::chrono::seconds(2);
    return;
  }
  // Blanks cover what is left of a longer line.
  fmt::print(stderr, "\r{:<{}}{}", line, std::max(line.size(), lastLength),
             stays ? "\n" : "");
  std::fflush(stderr);
  lastLength = stays ? 0 : line.size();
  next = now + std::chrono::milliseconds(100);
}

void Progress::finish() {
  if (lastLength > 0)
    fmt::print(stderr, "\n");
  lastLength = 0;
}

std::string runtime::formatDuration(double seconds) {
  // A duration of centuries is no better known than this.
  constexpr double most = 1e9;
  if (!(seconds < most))
    seconds = most;
  const auto whole = int64_t(std::ceil(std::max(0.0, seconds)));
  if (whole >= 3600)
    return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60)
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}
