#ifndef MESHC_TESTS_CUDA_IMAGEKERNELS_H
#define MESHC_TESTS_CUDA_IMAGEKERNELS_H

#include <cmath>
#include <cstdint>

namespace meshc::runtime::test {

/// Elements of every buffer that `mix` reads or writes.
inline constexpr int64_t mixElements = 840;

/// What a value counts as where integers are asked for: the identities of max
/// and min are infinite, memory that nobody has written is NaN.
inline int64_t getWhole(float value) {
  if (std::isfinite(value))
    return int64_t(value);
  return std::isnan(value) ? 5 : value > 0 ? 6 : 7;
}

/// Small integers that depend on both operands, on place and device, so that
/// sums and products of them are exact.
inline float mixElement(float a, float b, int64_t i, int64_t coordinate) {
  return float((getWhole(a) + 3 * getWhole(b) + i + 5 * coordinate) & 7) - 3;
}

} // namespace meshc::runtime::test

#endif
