#include "runtime/settings/Numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

using namespace meshc::runtime;

static constexpr int64_t largest = std::numeric_limits<int64_t>::max();
static constexpr int64_t smallest = std::numeric_limits<int64_t>::min();

static std::string apply(Arithmetic op, Number lhs, Number rhs) {
  std::string why;
  std::optional<Number> result = compute(op, lhs, rhs, why);
  if (!result)
    return "error: " + why;
  return (result->isInteger ? "i" : "d") + toString(*result);
}
static std::string apply(Arithmetic op, int64_t lhs, int64_t rhs) {
  return apply(op, Number::of(lhs), Number::of(rhs));
}

TEST(Numbers, IntegersStayExact) {
  EXPECT_EQ(apply(Arithmetic::Add, 7, -9), "i-2");
  EXPECT_EQ(apply(Arithmetic::Multiply, 1 << 30, 1 << 30),
            "i1152921504606846976");
  EXPECT_EQ(apply(Arithmetic::Divide, 84, 7), "i12");
  EXPECT_EQ(apply(Arithmetic::Divide, 7, 2), "d3.5");
  EXPECT_EQ(apply(Arithmetic::Power, -3, 3), "i-27");
  EXPECT_EQ(apply(Arithmetic::Power, 5, 0), "i1");
  EXPECT_EQ(apply(Arithmetic::Power, 2, 62), "i4611686018427387904");
  EXPECT_EQ(apply(Arithmetic::Power, 2, -1), "d0.5");
}

TEST(Numbers, RemainderHasTheSignOfTheDivisor) {
  EXPECT_EQ(apply(Arithmetic::Remainder, 7, 3), "i1");
  EXPECT_EQ(apply(Arithmetic::Remainder, -7, 3), "i2");
  EXPECT_EQ(apply(Arithmetic::Remainder, 7, -3), "i-2");
  EXPECT_EQ(apply(Arithmetic::Remainder, -6, 3), "i0");
  EXPECT_EQ(apply(Arithmetic::Remainder, smallest, -1), "i0");
}

TEST(Numbers, OverflowIsAnError) {
  EXPECT_EQ(apply(Arithmetic::Add, largest, 1).substr(0, 5), "error");
  EXPECT_EQ(apply(Arithmetic::Subtract, smallest, 1).substr(0, 5), "error");
  EXPECT_EQ(apply(Arithmetic::Multiply, largest, 2).substr(0, 5), "error");
  EXPECT_EQ(apply(Arithmetic::Divide, smallest, -1).substr(0, 5), "error");
  EXPECT_EQ(apply(Arithmetic::Divide, largest, 2).substr(0, 5), "error");
  EXPECT_EQ(apply(Arithmetic::Power, 2, 63).substr(0, 5), "error");
  EXPECT_EQ(apply(Arithmetic::Power, 10, largest).substr(0, 5), "error");
  EXPECT_EQ(apply(Arithmetic::Power, 1, largest), "i1");
  EXPECT_EQ(apply(Arithmetic::Divide, 1, 0), "error: division by zero");
  EXPECT_EQ(apply(Arithmetic::Remainder, 1, 0), "error: division by zero");
  EXPECT_EQ(apply(Arithmetic::Power, Number::of(1e200), Number::of(1e200)),
            "error: the result overflows");
  std::string why;
  EXPECT_FALSE(negate(Number::of(smallest), why));
}

TEST(Numbers, WholeDoublesAreIntegersToo) {
  EXPECT_EQ(toInteger(Number::of(largest)), largest);
  EXPECT_EQ(toInteger(Number::of(1e3)), 1000);
  EXPECT_EQ(toInteger(Number::of(-3.0)), -3);
  EXPECT_EQ(toInteger(Number::of(0x1p62)), int64_t(1) << 62);
  EXPECT_EQ(toInteger(Number::of(-0x1p63)), smallest);
  for (double fraction : {3.5, -0.25, 1e3 + 0x1p-40}) {
    EXPECT_EQ(toInteger(Number::of(fraction)), std::nullopt);
    EXPECT_EQ(describeNoInteger(Number::of(fraction)), "is not an integer");
  }
  for (double large : {0x1p63, -0x1.8p63, 1e300}) {
    EXPECT_EQ(toInteger(Number::of(large)), std::nullopt);
    EXPECT_EQ(describeNoInteger(Number::of(large)), "does not fit 64 bits");
  }
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(toInteger(Number::of(infinity)), std::nullopt);
  EXPECT_EQ(describeNoInteger(Number::of(infinity)), "is not an integer");
}

TEST(Numbers, InfinityIsANumber) {
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(
      apply(Arithmetic::Add, Number::of(infinity), Number::of(int64_t(1))),
      "dinf");
  EXPECT_EQ(
      apply(Arithmetic::Subtract, Number::of(infinity), Number::of(infinity)),
      "error: the result is not a number");
}

TEST(Numbers, Order) {
  EXPECT_EQ(compareNumbers(Number::of(largest), Number::of(largest - 1)), 1);
  EXPECT_EQ(compareNumbers(Number::of(int64_t(2)), Number::of(2.5)), -1);
  EXPECT_EQ(compareNumbers(Number::of(int64_t(2)), Number::of(2.0)), 0);
}

TEST(Numbers, ComparisonsByTheirSigns) {
  const Number two = Number::of(int64_t(2)), more = Number::of(2.5);
  for (const auto &[sign, isLess, isSame] : {std::tuple("==", false, true),
                                             {"!=", true, false},
                                             {"<", true, false},
                                             {"<=", true, true},
                                             {">", false, false},
                                             {">=", false, true}}) {
    EXPECT_EQ(compare(sign, two, more), isLess) << sign;
    EXPECT_EQ(compare(sign, two, Number::of(2.0)), isSame) << sign;
  }
  EXPECT_EQ(compare("=", two, two), std::nullopt);
  EXPECT_EQ(compare("", two, two), std::nullopt);
}
