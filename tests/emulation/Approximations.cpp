// PTX's approximate instructions on f32, with errors as large as they may be.

#include "Fibers.h"

#include "codegen/gpu/HostImage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace {

constexpr float leastNormal = std::numeric_limits<float>::min();

/// Of neighbouring f32 around `number`, the distance; of subnormal ones theirs.
double getUlp(double number) {
  return std::ldexp(1.0, std::max(std::ilogb(float(number)), -126) - 23);
}

/// Whether the result for these operands is too large rather than too small:
/// the finalizer of MurmurHash3 (A. Appleby, public domain) over their bits.
bool isTooLarge(float a, float b = 0) {
  uint32_t hash =
      std::bit_cast<uint32_t>(a) ^ std::rotl(std::bit_cast<uint32_t>(b), 15);
  hash = (hash ^ (hash >> 16)) * 0x85ebca6b;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35;
  return (hash ^ (hash >> 16)) & 1;
}

/// The f32 farthest from `exact` in one direction, at most `error` from it. No
/// error makes a number infinite or changes its sign.
float err(double exact, double error, bool isLarge) {
  if (float(exact) == 0 || !std::isfinite(float(exact)))
    return float(exact);
  const double magnitude = std::abs(exact);
  const double limit =
      std::max(isLarge ? magnitude + error : magnitude - error, 0.0);
  float result = float(limit);
  if (isLarge && result > limit)
    result = std::nextafter(result, 0.0f);
  if (!isLarge && result < limit)
    result = std::nextafter(result, std::numeric_limits<float>::infinity());
  return std::copysign(result, float(exact));
}

/// Subnormal numbers as 0, with their sign.
float flush(float x) {
  return std::abs(x) < leastNormal ? std::copysign(0.0f, x) : x;
}

} // namespace

extern "C" {

MESHC_EMULATION_API float meshc_fiber_div_full(float a, float b) {
  const double exact = double(a) / double(b);
  return err(exact, 2 * getUlp(exact), isTooLarge(a, b));
}

MESHC_EMULATION_API float meshc_fiber_sqrt_approx(float x) {
  const double exact = std::sqrt(double(x));
  return err(exact, exact * 0x1p-23, isTooLarge(x));
}

MESHC_EMULATION_API float meshc_fiber_rsqrt_approx(float x) {
  const double exact = 1 / std::sqrt(double(x));
  return err(exact, exact * std::exp2(-22.9), isTooLarge(x));
}

MESHC_EMULATION_API float meshc_fiber_rcp_approx_ftz(float x) {
  const double exact = 1 / double(flush(x));
  return flush(err(exact, getUlp(exact), isTooLarge(x)));
}

MESHC_EMULATION_API float meshc_fiber_ex2_approx_ftz(float x) {
  if (flush(x) == 0)
    return 1;
  // The error is one from the rounded result.
  const double rounded = float(std::exp2(double(x)));
  return flush(err(rounded, 2 * getUlp(rounded), isTooLarge(x)));
}

} // extern "C"
