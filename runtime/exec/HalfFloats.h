#ifndef MESHC_RUNTIME_EXEC_HALFFLOATS_H
#define MESHC_RUNTIME_EXEC_HALFFLOATS_H

/// bf16 and f16 on the host: in memory only, as f32 wherever something is
/// computed. Conversions to 16 bits round to nearest, ties to even; infinities
/// stay, NaN stays NaN, and what is too large becomes infinite. Denormal
/// numbers are kept. All is integer arithmetic without branches, which
/// compilers vectorise for any processor.

#include "runtime/exec/exec_generated.h"

#include <bit>
#include <cstdint>

namespace meshc::runtime {

/// A bf16 number: the upper half of an f32.
struct BFloat16 {
  uint16_t bits;

  static BFloat16 round(float number) {
    const uint32_t word = std::bit_cast<uint32_t>(number);
    // See codegen/kernels/NarrowFloats.cpp, which does the same in kernels.
    const uint32_t carried = word + 0x7fff + (word >> 16 & 1);
    const uint32_t quiet = word | 0x400000;
    const bool isNan = (word & 0x7fffffff) > 0x7f800000;
    return {uint16_t((isNan ? quiet : carried) >> 16)};
  }
  float toFloat() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// An IEEE 754 binary16 number.
struct Float16 {
  uint16_t bits;

  static Float16 round(float number) {
    const uint32_t word = std::bit_cast<uint32_t>(number);
    const uint32_t size = word & 0x7fffffff;
    // Normal numbers: the exponent's bias changes by 112, and 13 bits go.
    const uint32_t normal =
        (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    // Below 2^-14 the last place is 2^-24: adding 1/2, whose f32 neighbours are
    // 2^-24 away, rounds to it.
    const uint32_t denormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
    const uint32_t special = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t rounded = size < (113u << 23) ? denormal : normal;
    rounded = size >= (143u << 23) ? special : rounded;
    return {uint16_t(rounded | (word >> 16 & 0x8000))};
  }
  float toFloat() const {
    const uint32_t size = uint32_t(bits & 0x7fff) << 13;
    // The bias changes by 112; the product makes denormal numbers normal.
    const uint32_t finite =
        std::bit_cast<uint32_t>(std::bit_cast<float>(size) * 0x1p112f);
    const uint32_t special = size | 0x7f800000;
    const uint32_t word = size >= (0x7c00u << 13) ? special : finite;
    return std::bit_cast<float>(word | uint32_t(bits & 0x8000) << 16);
  }
};

/// Whether `element` is bf16 or f16.
bool isHalfFloat(exec::ElementType element);

/// Elements of `element`, bf16 or f16, at a stride, to contiguous f32.
void widenRow(exec::ElementType element, const void *source, int64_t stride,
              float *target, int64_t count);
/// Contiguous f32 to elements of `element` at a stride.
void narrowRow(exec::ElementType element, const float *source, void *target,
               int64_t stride, int64_t count);

} // namespace meshc::runtime

#endif
