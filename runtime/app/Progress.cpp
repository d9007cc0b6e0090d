#include "runtime/app/Progress.h"

#include "runtime/io/StandardStreams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <sys/ioctl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

Progress::Progress() : isTerminal(isatty(STDERR_FILENO) == 1) {
  if (!isTerminal)
    next = Clock::now() + std::chrono::seconds(2);
}

/// Columns of the terminal on standard error. One that does not know takes a
/// line of 80.
static size_t getColumns() {
  winsize size{};
  const bool isKnown =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return isKnown ? size.ws_col : 80;
}

void Progress::show(const std::vector<std::string> &fields,
                    Clock::time_point now, bool stays) {
  if (!isTerminal) {
    printMessage(fmt::format("{}\n", fmt::join(fields, "  ")));
    next = now + std::chrono::seconds(2);
    return;
  }
  // The last column stays free: a terminal may wrap behind it.
  const size_t width = getColumns() - 1;
  const std::string line = joinFields(fields, width);
  // Blanks cover what is left of a longer line.
  const size_t covered = std::min(lastLength, width);
  printMessage(fmt::format("\r{:<{}}{}", line, std::max(line.size(), covered),
                           stays ? "\n" : ""));
  lastLength = stays ? 0 : line.size();
  next = now + std::chrono::milliseconds(100);
}

void Progress::finish() {
  if (lastLength > 0)
    printMessage("\n");
  lastLength = 0;
}

void ByteProgress::show(uint64_t bytes, uint64_t allBytes) {
  if (bytes < last)
    before += last;
  last = bytes;
  const Progress::Clock::time_point now = Progress::Clock::now();
  if (allBytes == 0 || now - start < quietTime || !progress.isDue(now))
    return;
  const double seconds = std::chrono::duration<double>(now - start).count();
  const double rate = double(before + bytes) / seconds;
  progress.show(
      {fmt::format("{} {:.0f} %", what, 100 * double(bytes) / double(allBytes)),
       fmt::format("{} MB/s", formatRate(rate / 1e6)),
       fmt::format("{} left", formatDuration(double(allBytes - bytes) / rate))},
      now, false);
}

ByteListener ByteProgress::listen(bool shows) {
  if (!shows)
    return {};
  return [this](uint64_t bytes, uint64_t allBytes) { show(bytes, allBytes); };
}

std::string runtime::joinFields(const std::vector<std::string> &fields,
                                size_t width) {
  std::string line;
  for (const std::string &field : fields) {
    if (line.empty())
      line = field.substr(0, width);
    else if (line.size() + 2 + field.size() <= width)
      line += "  " + field;
    else
      break;
  }
  return line;
}

std::string runtime::formatNumber(double value) {
  const double size = std::abs(value);
  const bool isPlain = size == 0 || (size >= 1e-3 && size < 1e6);
  return isPlain ? fmt::format("{:.4f}", value) : fmt::format("{:.3g}", value);
}

std::string runtime::formatRate(double rate) {
  return rate < 1e9 ? fmt::format("{:.0f}", rate) : fmt::format("{:.3g}", rate);
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
