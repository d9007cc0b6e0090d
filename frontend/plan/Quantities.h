#ifndef MESHC_FRONTEND_PLAN_QUANTITIES_H
#define MESHC_FRONTEND_PLAN_QUANTITIES_H

#include <cstdint>
#include <string>

namespace meshc::plan {

/// "40 B", "5 KiB", "1.53 MiB": three significant digits, fewer if exact.
std::string formatBytes(int64_t bytes);

/// "640 flop", "1.23 Gflop": three significant digits, powers of 1000.
std::string formatFlops(int64_t flops);

/// "640", "124 M": three significant digits, powers of 1000.
std::string formatNumber(int64_t number);

/// "640 us", "1.23 ms", "12 s": three significant digits.
std::string formatTime(double us);

/// "6.87 M", "427", "0.42": the same of something a second.
std::string formatRate(double perSecond);

/// "1 collective", "3 collectives".
std::string formatCount(int64_t count, const std::string &noun);

} // namespace meshc::plan

#endif
