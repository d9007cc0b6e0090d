#ifndef MESHC_RUNTIME_PROGRESS_H
#define MESHC_RUNTIME_PROGRESS_H

#include <chrono>
#include <string>

namespace meshc::runtime {

/// A line on standard error that tells how far things are: rewritten at most
/// ten times a second on a terminal, else a plain line every two seconds.
class Progress {
public:
  using Clock = std::chrono::steady_clock;

  Progress();

  /// Whether it is time for another line.
  bool isDue(Clock::time_point now) const { return now >= next; }
  /// Shows a line; `stays` keeps it on a terminal.
  void show(const std::string &line, Clock::time_point now, bool stays);
  /// Ends a line that could still be rewritten.
  void finish();

private:
  bool isTerminal;
  size_t lastLength = 0; ///< of the line that can be rewritten; 0: none
  Clock::time_point next{};
};

/// "2 h 05 min", "3 min 20 s" or "12 s".
std::string formatDuration(double seconds);

} // namespace meshc::runtime

#endif
