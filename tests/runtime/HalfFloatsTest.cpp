/// Conversions of 16-bit floats, all of one direction and the edges of the
/// other, against the definition of the formats.

#include "runtime/exec/HalfFloats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Digits of the significand, with the hidden one, and exponent bits.
struct Format {
  exec::ElementType element;
  int digits;
  int exponentBits;

  int getBias() const { return (1 << (exponentBits - 1)) - 1; }

  /// What the bits mean: IEEE 754-2019, 3.4.
  double decode(uint16_t bits) const {
    const int fractionBits = digits - 1;
    const double sign = bits >> 15 ? -1 : 1;
    const int exponent = bits >> fractionBits & ((1 << exponentBits) - 1);
    const int fraction = bits & ((1 << fractionBits) - 1);
    if (exponent == (1 << exponentBits) - 1)
      return fraction ? NAN : sign * HUGE_VAL;
    const double scaled = std::ldexp(fraction, -fractionBits);
    return sign * (exponent == 0
                       ? std::ldexp(scaled, 1 - getBias())
                       : std::ldexp(1 + scaled, exponent - getBias()));
  }

  double widen(uint16_t bits) const {
    float number;
    widenRow(element, &bits, 1, &number, 1);
    return number;
  }
  uint16_t narrow(float number) const {
    uint16_t bits;
    narrowRow(element, &number, &bits, 1, 1);
    return bits;
  }
};

class HalfFloatsTest : public testing::TestWithParam<Format> {};

TEST_P(HalfFloatsTest, every_number_means_what_the_format_says) {
  const Format &format = GetParam();
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = format.decode(uint16_t(bits));
    const double found = format.widen(uint16_t(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
      ASSERT_TRUE(std::isnan(format.decode(format.narrow(float(found)))));
      continue;
    }
    ASSERT_EQ(found, expected) << bits;
    ASSERT_EQ(std::signbit(found), std::signbit(expected)) << bits;
    ASSERT_EQ(format.narrow(float(found)), bits);
  }
}

/// Between each two neighbours: the middle and what is next to it.
TEST_P(HalfFloatsTest, rounds_to_nearest_ties_to_even) {
  const Format &format = GetParam();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const uint16_t infinite =
      uint16_t(((1 << format.exponentBits) - 1) << (format.digits - 1));
  for (uint32_t low = 0; low < infinite; ++low) {
    const double a = format.decode(uint16_t(low));
    // The step beyond the largest number is that before it.
    const double b = low + 1 < infinite
                         ? format.decode(uint16_t(low + 1))
                         : 2 * a - format.decode(uint16_t(low - 1));
    const float middle = float((a + b) / 2);
    // The middle of the two least bf16 numbers is an f32 of one bit less: all
    // middles are floats.
    ASSERT_EQ(double(middle), (a + b) / 2);
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    for (uint16_t sign : {0, 0x8000}) {
      auto check = [&](float number, uint32_t expected) {
        ASSERT_EQ(format.narrow(sign ? -number : number), expected | sign)
            << number;
      };
      check(middle, even);
      check(std::nextafter(middle, 0.0f), low);
      check(std::nextafter(middle, infinity), low + 1);
    }
  }
  EXPECT_EQ(format.narrow(infinity), infinite);
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), infinite);
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::denorm_min()), 0);
  // NaN whose payload is in the bits that go must not become infinite.
  for (uint32_t payload : {1u, 0x1000u, 0x7fffu, 0x8000u, 0x3fffffu})
    EXPECT_TRUE(std::isnan(format.decode(
        format.narrow(std::bit_cast<float>(0x7f800000u | payload)))));
}

TEST_P(HalfFloatsTest, strided_rows_of_any_length) {
  const Format &format = GetParam();
  for (int64_t count : {0, 1, 3, 7, 8, 17, 100})
    for (int64_t stride : {1, 3}) {
      std::vector<float> numbers(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i)
        numbers[i] = float(i) - 3;
      std::vector<uint16_t> halves(static_cast<size_t>(count * stride + 1),
                                   0x1234);
      narrowRow(format.element, numbers.data(), halves.data(), stride, count);
      for (int64_t i = 0; i < int64_t(halves.size()); ++i)
        ASSERT_EQ(halves[i], i % stride == 0 && i < count * stride
                                 ? format.narrow(float(i / stride) - 3)
                                 : 0x1234);
      std::vector<float> back(static_cast<size_t>(count) + 1, 77);
      widenRow(format.element, halves.data(), stride, back.data(), count);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(back[i], numbers[i]);
      ASSERT_EQ(back[count], 77);
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfFloatsTest,
                         testing::Values(Format{exec::ElementType::bf16, 8, 8},
                                         Format{exec::ElementType::f16, 11, 5}),
                         [](const auto &info) {
                           return std::string(
                               exec::EnumNameElementType(info.param.element));
                         });

} // namespace
