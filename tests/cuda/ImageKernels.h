#ifndef MESHC_TESTS_CUDA_IMAGEKERNELS_H
#define MESHC_TESTS_CUDA_IMAGEKERNELS_H

#include <cstdint>

namespace meshc::runtime::test {

/// Elements of every buffer that `mix` reads or writes.
inline constexpr int64_t mixElements = 840;

/// Small integers that depend on both operands, on place and device, so that
/// sums and products of them are exact.
inline float mixElement(float a, float b, int64_t i, int64_t coordinate) {
  return float((int64_t(a) + 3 * int64_t(b) + i + 5 * coordinate) & 7) - 3;
}

} // namespace meshc::runtime::test

#endif
