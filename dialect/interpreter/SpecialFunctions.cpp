#include "dialect/interpreter/SpecialFunctions.h"

#include <Random123/philox.h>

#include <cmath>
#include <limits>
#include <numbers>

using namespace meshc;

double interpreter::invertErf(double x) {
  const double magnitude = std::fabs(x);
  if (std::isnan(x) || magnitude > 1)
    return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == 1)
    return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (x == 0)
    return x;
  // The start: S. Winitzki 2008, "A handy approximation for the error function
  // and its inverse", which is off by less than 2e-3 of itself.
  constexpr double a = 0.147;
  const double log = std::log1p(-magnitude * magnitude);
  const double half = 2 / (std::numbers::pi * a) + log / 2;
  double y = std::sqrt(std::sqrt(half * half - log / a) - half);
  // Halley's method, whose error is the third power of that before. Near 1 the
  // distance to it says more than the number.
  for (int i = 0; i < 4; ++i) {
    const double error = magnitude < 0.5 ? std::erf(y) - magnitude
                                         : (1 - magnitude) - std::erfc(y);
    const double step =
        error / (2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

/// w0 + 2^32 w1 of a block of Philox4x32-10.
static uint64_t generate(uint64_t key, uint64_t counter, uint32_t stream) {
  const r123::Philox4x32::key_type keys = {
      {uint32_t(key), uint32_t(key >> 32)}};
  const r123::Philox4x32::ctr_type counters = {
      {uint32_t(counter), uint32_t(counter >> 32), stream, 0}};
  const r123::Philox4x32::ctr_type words = r123::Philox4x32()(counters, keys);
  return words[0] | uint64_t(words[1]) << 32;
}

uint64_t interpreter::getRandomBits(uint64_t key, uint64_t counter) {
  return generate(key, counter, 0);
}

uint64_t interpreter::foldIn(uint64_t seed, uint64_t number) {
  return number == 0 ? seed : generate(seed, number, 1);
}

std::pair<double, double>
interpreter::getUniformNumbers(uint64_t key, uint64_t seed, uint64_t index) {
  const uint64_t bits = getRandomBits(key ^ seed, index);
  auto toUniform = [](uint32_t word) {
    return double(word >> 8) * 0x1p-24 + 0x1p-25;
  };
  return {toUniform(uint32_t(bits)), toUniform(uint32_t(bits >> 32))};
}
