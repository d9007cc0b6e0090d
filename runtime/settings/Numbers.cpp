#include "runtime/settings/Numbers.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

std::string runtime::toString(Number number) {
  return number.isInteger ? fmt::format("{}", number.integer)
                          : fmt::format("{}", number.real);
}

static bool isWhole(double real) {
  return std::isfinite(real) && std::trunc(real) == real;
}

std::optional<int64_t> runtime::toInteger(Number number) {
  if (number.isInteger)
    return number.integer;
  // Every whole double of this range is an integer of 64 bits.
  if (isWhole(number.real) && number.real >= -0x1p63 && number.real < 0x1p63)
    return static_cast<int64_t>(number.real);
  return std::nullopt;
}

std::string runtime::describeNoInteger(Number number) {
  return isWhole(number.toDouble()) ? "does not fit 64 bits"
                                    : "is not an integer";
}

/// Largest magnitude up to which every integer is a double.
static constexpr int64_t maxExact = int64_t(1) << 53;

static std::optional<Number> power(int64_t base, int64_t exponent,
                                   std::string &why) {
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    bool overflows =
        exponent % 2 && __builtin_mul_overflow(result, base, &result);
    // The last square is not needed, and may overflow.
    overflows |= exponent > 1 && __builtin_mul_overflow(base, base, &base);
    if (overflows) {
      why = "the power does not fit 64 bits";
      return std::nullopt;
    }
  }
  return Number::of(result);
}

static std::optional<Number> divide(int64_t lhs, int64_t rhs,
                                    std::string &why) {
  if (rhs == -1 && lhs == std::numeric_limits<int64_t>::min()) {
    why = "the quotient does not fit 64 bits";
    return std::nullopt;
  }
  if (lhs % rhs == 0)
    return Number::of(lhs / rhs);
  auto isExact = [](int64_t value) {
    return value >= -maxExact && value <= maxExact;
  };
  if (!isExact(lhs) || !isExact(rhs)) {
    why = "the quotient is not exact";
    return std::nullopt;
  }
  return Number::of(double(lhs) / double(rhs));
}

static std::optional<Number> computeIntegers(Arithmetic op, int64_t lhs,
                                             int64_t rhs, std::string &why) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
  case Arithmetic::Add:
    overflows = __builtin_add_overflow(lhs, rhs, &result);
    break;
  case Arithmetic::Subtract:
    overflows = __builtin_sub_overflow(lhs, rhs, &result);
    break;
  case Arithmetic::Multiply:
    overflows = __builtin_mul_overflow(lhs, rhs, &result);
    break;
  case Arithmetic::Divide:
    return divide(lhs, rhs, why);
  case Arithmetic::Remainder:
    // The most negative number by -1 traps, though its remainder is 0.
    result = rhs == -1 ? 0 : lhs % rhs;
    if (result && (result < 0) != (rhs < 0))
      result += rhs;
    break;
  case Arithmetic::Power:
    return power(lhs, rhs, why);
  }
  if (overflows) {
    why = "the result does not fit 64 bits";
    return std::nullopt;
  }
  return Number::of(result);
}

static double computeReals(Arithmetic op, double lhs, double rhs) {
  switch (op) {
  case Arithmetic::Add:
    return lhs + rhs;
  case Arithmetic::Subtract:
    return lhs - rhs;
  case Arithmetic::Multiply:
    return lhs * rhs;
  case Arithmetic::Divide:
    return lhs / rhs;
  case Arithmetic::Remainder:
    return lhs - std::floor(lhs / rhs) * rhs;
  case Arithmetic::Power:
    return std::pow(lhs, rhs);
  }
  __builtin_unreachable();
}

std::optional<Number> runtime::compute(Arithmetic op, Number lhs, Number rhs,
                                       std::string &why) {
  bool divides = op == Arithmetic::Divide || op == Arithmetic::Remainder;
  if (divides && rhs.toDouble() == 0) {
    why = "division by zero";
    return std::nullopt;
  }
  bool isIntegerPower = op != Arithmetic::Power || rhs.integer >= 0;
  if (lhs.isInteger && rhs.isInteger && isIntegerPower)
    return computeIntegers(op, lhs.integer, rhs.integer, why);
  double result = computeReals(op, lhs.toDouble(), rhs.toDouble());
  bool mayBeInfinite = std::isinf(lhs.toDouble()) || std::isinf(rhs.toDouble());
  if (std::isnan(result) || (std::isinf(result) && !mayBeInfinite)) {
    why = std::isnan(result) ? "the result is not a number"
                             : "the result overflows";
    return std::nullopt;
  }
  return Number::of(result);
}

std::optional<Number> runtime::negate(Number number, std::string &why) {
  if (!number.isInteger)
    return Number::of(-number.real);
  return computeIntegers(Arithmetic::Subtract, 0, number.integer, why);
}

std::optional<int> runtime::compareNumbers(Number lhs, Number rhs) {
  if (lhs.isInteger && rhs.isInteger)
    return lhs.integer < rhs.integer ? -1 : lhs.integer > rhs.integer;
  double left = lhs.toDouble(), right = rhs.toDouble();
  if (std::isnan(left) || std::isnan(right))
    return std::nullopt;
  return left < right ? -1 : left > right;
}

std::optional<bool> runtime::compare(std::string_view sign, Number lhs,
                                     Number rhs) {
  const std::optional<int> order = compareNumbers(lhs, rhs);
  const int known = order.value_or(0);
  if (sign == "!=")
    return !order || known != 0;
  if (sign == "==")
    return order && known == 0;
  if (sign == "<")
    return order && known < 0;
  if (sign == "<=")
    return order && known <= 0;
  if (sign == ">")
    return order && known > 0;
  if (sign == ">=")
    return order && known >= 0;
  return std::nullopt;
}
