#ifndef MESHC_TESTS_FUZZ_PRECISION_H
#define MESHC_TESTS_FUZZ_PRECISION_H

/// How numbers are rounded, by the definition of their formats.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace meshc::fuzz {

/// What a program computes in: `--precision`; F64 is what it means.
enum class Precision : uint8_t { F64, F32, BF16, FP16 };

/// "f32", as after --precision.
inline const char *getName(Precision precision) {
  switch (precision) {
  case Precision::F64:
    return "f64";
  case Precision::F32:
    return "f32";
  case Precision::BF16:
    return "bf16";
  case Precision::FP16:
    return "fp16";
  }
  __builtin_unreachable();
}

/// Digits of a significand, the first one too.
inline int getDigits(Precision precision) {
  switch (precision) {
  case Precision::F64:
    return 53;
  case Precision::F32:
    return 24;
  case Precision::BF16:
    return 8;
  case Precision::FP16:
    return 11;
  }
  __builtin_unreachable();
}

/// What rounding takes off a number, at most, relative to it.
inline double getUnit(Precision precision) {
  return std::ldexp(1, -getDigits(precision));
}

/// The nearest number of so many digits whose last place is 2^least at least.
inline double round(double value, int digits, int least) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  std::frexp(value, &exponent);
  const double place = std::ldexp(1, std::max(exponent - digits, least));
  return std::nearbyint(value / place) * place;
}

inline double round(double value, Precision precision) {
  switch (precision) {
  case Precision::F64:
    return value;
  case Precision::F32:
    return double(float(value));
  case Precision::BF16:
    return round(value, getDigits(precision), -133);
  case Precision::FP16:
    return round(value, getDigits(precision), -24);
  }
  __builtin_unreachable();
}

/// A gradient: scaled, so that fp16 has no smallest number.
inline double roundSlope(double value, Precision precision) {
  return precision == Precision::FP16 ? round(value, getDigits(precision), -133)
                                      : round(value, precision);
}

/// Whether sums are rounded to less than they add up in.
inline bool hasWiderSums(Precision precision) {
  return precision == Precision::BF16 || precision == Precision::FP16;
}

inline double roundSum(double value, Precision precision) {
  return round(value, hasWiderSums(precision) ? Precision::F32 : precision);
}

} // namespace meshc::fuzz

#endif
