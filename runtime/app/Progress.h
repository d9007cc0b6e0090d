#ifndef MESHC_RUNTIME_APP_PROGRESS_H
#define MESHC_RUNTIME_APP_PROGRESS_H

#include "runtime/io/ByteListener.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime {

/// How long something may take without a line that tells how far it is.
inline constexpr std::chrono::seconds quietTime(2);

/// A line on standard error that tells how far things are: rewritten at most
/// ten times a second on a terminal, else a plain line every two seconds.
///
/// On a terminal the line has as many of its fields, from the first, as fit
/// into the width that the terminal has at that moment: a line that wraps
/// cannot be rewritten, and a number that is cut is another one.
class Progress {
public:
  using Clock = std::chrono::steady_clock;

  Progress();

  /// Whether it is time for another line.
  bool isDue(Clock::time_point now) const { return now >= next; }
  /// Shows a line of these fields, of ASCII characters; `stays` keeps it on a
  /// terminal.
  void show(const std::vector<std::string> &fields, Clock::time_point now,
            bool stays);
  /// Ends a line that could still be rewritten.
  void finish();

private:
  bool isTerminal;
  size_t lastLength = 0; ///< of the line that can be rewritten; 0: none
  Clock::time_point next{};
};

/// Tells how many bytes of all were read or written, on standard error, of what
/// takes longer than quietTime.
class ByteProgress {
public:
  /// `what`: "parameters".
  explicit ByteProgress(std::string what) : what(std::move(what)) {}
  ~ByteProgress() { progress.finish(); }

  /// Fewer bytes than before are of another file, behind it.
  void show(uint64_t bytes, uint64_t allBytes);
  /// What calls show(); nothing where another process does so.
  ByteListener listen(bool shows);

private:
  std::string what;
  Progress progress;
  const Progress::Clock::time_point start = Progress::Clock::now();
  uint64_t before = 0, last = 0; ///< of earlier files and of this one
};

/// The fields that fit into `width` columns, two blanks between them; of a
/// first field that does not, what fits.
std::string joinFields(const std::vector<std::string> &fields, size_t width);

/// A number in few characters: with four decimals, "0.4321", where these are
/// enough and not too many, else with three digits, "4.54e+14".
std::string formatNumber(double value);

/// A count per second: whole, "1234567", where that is not too long, else with
/// three digits, "4.54e+14".
std::string formatRate(double rate);

/// "2 h 05 min", "3 min 20 s" or "12 s".
std::string formatDuration(double seconds);

} // namespace meshc::runtime

#endif
