#include "frontend/plan/Quantities.h"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <span>

using namespace meshc;

/// `value` in the largest unit that leaves at least 1, with three digits.
static std::string scale(double value, double step,
                         std::span<const char *const> units) {
  size_t unit = 0;
  // What rounds to a full step belongs to the next unit.
  while (unit + 1 < units.size() && value >= step * 0.9995) {
    value /= step;
    ++unit;
  }
  // Shortest form of at most three significant digits; integers below a step
  // (1023) keep all of theirs.
  std::string text = value >= 100 ? fmt::format("{:.0f}", value)
                                  : fmt::format("{:.3g}", value);
  return *units[unit] ? text + " " + units[unit] : text;
}

std::string plan::formatBytes(int64_t bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scale(double(bytes), 1024, units);
}

std::string plan::formatFlops(int64_t flops) {
  static constexpr std::array units = {"flop",  "kflop", "Mflop",
                                       "Gflop", "Tflop", "Pflop"};
  return scale(double(flops), 1000, units);
}

static constexpr std::array countUnits = {"", "k", "M", "G", "T", "P", "E"};

std::string plan::formatNumber(int64_t number) {
  return scale(double(number), 1000, countUnits);
}

std::string plan::formatRate(double perSecond) {
  return scale(perSecond, 1000, countUnits);
}

std::string plan::formatTime(double us) {
  static constexpr std::array units = {"us", "ms", "s"};
  return scale(us, 1000, units);
}

std::string plan::formatCount(int64_t count, const std::string &noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}
