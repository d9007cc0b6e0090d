// Math functions of GPU kernels, against the C library's in 80 bits: on f64,
// powers, and on f32, where instructions err by as much as they may
// (codegen/gpu/HostImage.h).

#include "tests/codegen/KernelRunner.h"

#include "dialect/interpreter/SpecialFunctions.h"

#include "gtest/gtest.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <random>

using namespace meshc;
using namespace meshc::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quietNaN = std::numeric_limits<double>::quiet_NaN();

/// Applies `body` to x and y as a GPU kernel, whose threads run as fibers.
std::vector<double> apply(const std::string &body, const std::string &type,
                          const std::vector<double> &x,
                          const std::vector<double> &y) {
  ProgramText text;
  text.dim("i", int64_t(x.size()));
  text.input("x", "i", type);
  text.input("y", "i", type);
  text.pointwise("z", "i", {"x", "y"}, body, type);
  text.output("z");
  std::unique_ptr<KernelRunner> runner = KernelRunner::createGpu(text.str());
  F64State state;
  for (const auto &[name, numbers] : {std::pair("x", &x), std::pair("y", &y)}) {
    F64Tensor tensor({int64_t(x.size())});
    tensor.elements.assign(numbers->begin(), numbers->end());
    state.inputs[name] = tensor;
  }
  runner->run(state);
  std::vector<double> result;
  for (const auto &element : state.outputs["z"].elements)
    result.push_back(std::get<double>(element));
  return result;
}

/// Distance from the exact value in units in the last place of the nearest
/// number with `digits` binary digits, the least positive of which is
/// 2^`lowest`.
long double getUlps(double got, long double exact, int digits, int lowest) {
  const double nearest = digits == 53 ? double(exact) : double(float(exact));
  if (std::isnan(exact) || std::isinf(nearest))
    return std::isnan(exact) ? (std::isnan(got) ? 0 : infinity)
                             : (got == nearest ? 0 : infinity);
  int exponent = nearest == 0 ? lowest : std::ilogb(nearest) - digits + 1;
  return std::abs((long double)got - exact) /
         std::ldexp(1.0L, std::max(exponent, lowest));
}

struct Function {
  const char *name;
  long double (*exact)(long double);
  long double maxUlps;
};

class WideFunctions : public ::testing::TestWithParam<Function> {
protected:
  std::vector<double> compute(const std::vector<double> &x) {
    return apply(std::string("%r = math.") + GetParam().name + " %a0 : f64",
                 "f64", x, x);
  }
  bool isPeriodic() const {
    const std::string name = GetParam().name;
    return name == "sin" || name == "cos";
  }
};

/// Numbers of every exponent and sign, and many where the functions are neither
/// constant nor straight.
TEST_P(WideFunctions, AreExactEnoughEverywhere) {
  std::mt19937_64 random(7);
  std::vector<double> x;
  std::normal_distribution<double> normal;
  for (int i = 0; i < 100000; ++i) {
    x.push_back(normal(random));
    x.push_back(std::abs(30 * normal(random)));
    x.push_back(300 * normal(random));
    x.push_back(1 + 1e-3 * normal(random));
    if (!isPeriodic())
      x.push_back(std::bit_cast<double>(random()));
  }
  // Next to the zeros.
  for (int i = 1; isPeriodic() && i < 1000; ++i)
    x.push_back(i * M_PI_2);
  std::vector<double> y = compute(x);
  long double worst = 0;
  double worstAt = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    long double ulps = getUlps(y[i], GetParam().exact(x[i]), 53, -1074);
    if (!(ulps <= worst)) {
      worst = ulps;
      worstAt = x[i];
    }
  }
  std::cout << GetParam().name << ": " << double(worst) << " ulp at " << worstAt
            << "\n";
  EXPECT_LE(worst, GetParam().maxUlps) << "at " << worstAt;
}

TEST_P(WideFunctions, KnowTheirEnds) {
  std::vector<double> x = {
      0.0,       -0.0,       1.0,       -1.0,
      0x1p-1074, -0x1p-1074, 0x1p-1022, 0.6249,
      0.625,     0.9999999,  1.0000001, 5.9,
      6.1,       21.9,       22.1,      0.70710678118654752};
  if (!isPeriodic())
    for (double more : {infinity, -infinity, quietNaN, DBL_MAX, -DBL_MAX, 709.7,
                        709.79, -744.4, -745.1, -745.2, -1e300})
      x.push_back(more);
  std::vector<double> y = compute(x);
  for (size_t i = 0; i < x.size(); ++i) {
    long double exact = GetParam().exact(x[i]);
    EXPECT_LE(getUlps(y[i], exact, 53, -1074), GetParam().maxUlps)
        << GetParam().name << "(" << x[i] << ") = " << y[i];
    if (exact == 0)
      EXPECT_EQ(std::signbit(y[i]), std::signbit(exact)) << "at " << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, WideFunctions,
                         ::testing::Values(Function{"exp", std::exp, 1.7L},
                                           Function{"log", std::log, 1.0L},
                                           Function{"tanh", std::tanh, 1.5L},
                                           Function{"erf", std::erf, 1.0L},
                                           Function{"sin", std::sin, 1.5L},
                                           Function{"cos", std::cos, 1.5L}),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

/// The reference errs by an ulp or two itself.
TEST(WideInverse, IsExactEnough) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1), tail(-36, 0);
  std::vector<double> x = {0.0, -0.0, 1.0, -1.0, 1.5, quietNaN, 0x1p-1074};
  for (int i = 0; i < 20000; ++i) {
    x.push_back(uniform(random));
    x.push_back(1 - std::exp(tail(random)));
    x.push_back(std::exp(20 * tail(random)));
  }
  const std::vector<double> y =
      apply("%r = spmd.erf_inv %a0 : f64", "f64", x, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = interpreter::invertErf(x[i]);
    ASSERT_LE(getUlps(y[i], exact, 53, -1074), 8)
        << "erf_inv(" << x[i] << ") = " << y[i] << ", not " << exact;
    if (exact == 0)
      EXPECT_EQ(std::signbit(y[i]), std::signbit(exact)) << "at " << x[i];
  }
}

TEST(WidePowers, AreExactEnough) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  std::vector<double> x, y;
  for (int i = 0; i < 100000; ++i) {
    // Results of every exponent; bases next to 1; any numbers; integers.
    x.push_back(std::exp(20 * normal(random)));
    y.push_back(15 * normal(random));
    x.push_back(1 + 1e-6 * normal(random));
    y.push_back(1e8 * normal(random));
    x.push_back(std::abs(std::bit_cast<double>(random())));
    y.push_back(normal(random));
    x.push_back(-std::exp(normal(random)));
    y.push_back(std::floor(50 * normal(random)));
  }
  std::vector<double> z = apply("%r = math.powf %a0, %a1 : f64", "f64", x, y);
  long double worst = 0;
  size_t worstAt = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    long double exact = std::pow((long double)x[i], (long double)y[i]);
    long double ulps = getUlps(z[i], exact, 53, -1074);
    if (!(ulps <= worst)) {
      worst = ulps;
      worstAt = i;
    }
  }
  std::cout << "pow: " << double(worst) << " ulp\n";
  EXPECT_LE(worst, 2.0L) << x[worstAt] << " ^ " << y[worstAt];
}

TEST(WidePowers, KnowTheSpecialCases) {
  const double numbers[] = {
      0.0,      -0.0,      1.0,     -1.0,     2.0,    -2.0,       3.0,
      -3.0,     0.5,       -0.5,    2.5,      -2.5,   infinity,   -infinity,
      quietNaN, 0x1p-1074, DBL_MAX, -DBL_MAX, 0x1p53, 0x1p53 - 1, -0x1p53 + 1};
  std::vector<double> x, y;
  for (double base : numbers)
    for (double exponent : numbers) {
      x.push_back(base);
      y.push_back(exponent);
    }
  for (const std::string type : {"f64", "f32"}) {
    std::vector<double> a = x, b = y;
    if (type == "f32")
      for (auto *list : {&a, &b})
        for (double &number : *list)
          number = float(number);
    std::vector<double> z =
        apply("%r = math.powf %a0, %a1 : " + type, type, a, b);
    for (size_t i = 0; i < z.size(); ++i) {
      const double exact = type == "f64" ? std::pow(a[i], b[i])
                                         : std::pow(float(a[i]), float(b[i]));
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(z[i])) << a[i] << " ^ " << b[i] << " = " << z[i];
        continue;
      }
      EXPECT_LE(type == "f64" ? getUlps(z[i], exact, 53, -1074)
                              : getUlps(z[i], exact, 24, -149),
                1.5L)
          << type << " " << a[i] << " ^ " << b[i] << " = " << z[i] << ", not "
          << exact;
      EXPECT_EQ(std::signbit(z[i]), std::signbit(exact))
          << a[i] << " ^ " << b[i];
    }
  }
}

TEST(WidePowers, OfSinglesAreRoundedOnce) {
  std::mt19937 random(13);
  std::vector<double> x, y;
  for (int i = 0; i < 200000; ++i) {
    x.push_back(std::abs(std::bit_cast<float>(uint32_t(random()))));
    y.push_back(std::normal_distribution<float>()(random));
  }
  std::vector<double> z = apply("%r = math.powf %a0, %a1 : f32", "f32", x, y);
  long double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(
        worst, getUlps(z[i], std::pow((long double)x[i], (long double)y[i]), 24,
                       -149));
  EXPECT_LE(worst, 0.5001L);
}

//===-- f32 ---------------------------------------------------------------===//

/// A function on f32, and its largest error: in units in the last place, or
/// absolute.
struct Approximation {
  const char *name, *body;
  long double (*exact)(long double);
  long double maxUlps, maxError;
  /// Arguments below are left out.
  double least = -infinity;
};
void PrintTo(const Approximation &function, std::ostream *out) {
  *out << function.name;
}

class Approximations : public ::testing::TestWithParam<Approximation> {
protected:
  /// Expects that no error at `x` is larger than it may be, and that zeros have
  /// the exact one's sign. Returns the largest.
  long double expectExactEnough(std::vector<double> x) {
    const Approximation &function = GetParam();
    std::erase_if(x, [&](double x) { return x < function.least; });
    const std::vector<double> y = apply(function.body, "f32", x, x);
    const bool isAbsolute = function.maxError > 0;
    long double worst = 0;
    size_t worstAt = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const long double exact = function.exact(x[i]);
      const long double error = isAbsolute && std::isfinite(exact)
                                    ? std::abs(y[i] - exact)
                                    : getUlps(y[i], exact, 24, -149);
      if (!(error <= worst)) {
        worst = error;
        worstAt = i;
      }
      if (exact == 0 && !isAbsolute)
        EXPECT_EQ(std::signbit(y[i]), std::signbit(exact)) << "at " << x[i];
    }
    EXPECT_LE(worst, isAbsolute ? function.maxError : function.maxUlps)
        << function.name << "(" << x[worstAt] << ") = " << y[worstAt];
    return worst;
  }
};

/// Floats of every sign, exponent and kind, and many where functions are
/// neither constant nor straight.
TEST_P(Approximations, AreExactEnoughEverywhere) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  std::vector<double> x;
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 20011)
    x.push_back(std::bit_cast<float>(uint32_t(bits)));
  for (int i = 0; i < 100000; ++i) {
    x.push_back(normal(random));
    x.push_back(50 * normal(random));
  }
  std::cout << GetParam().name << ": " << double(expectExactEnough(x)) << "\n";
}

TEST_P(Approximations, KnowTheirEnds) {
  std::vector<double> x = {0.0,      -0.0,      infinity, -infinity, quietNaN,
                           1.0,      -1.0,      0x1p-149, -0x1p-149, 0x1p-126,
                           0x1p-100, -0x1p-127, FLT_MAX,  -FLT_MAX,  88.5,
                           88.7228,  88.7229,   -87.4,    -103.9,    -104.1,
                           -120.0,   0.6249999, 0.625,    0.92773,   0.92774,
                           -4.3,     9.0,       -9.2,     -30.0};
  for (double &number : x)
    number = float(number);
  expectExactEnough(x);
}

long double rsqrt(long double x) { return 1 / std::sqrt(x); }
long double inverse(long double x) { return 1 / x; }
long double third(long double x) { return x / 3; }
long double half(long double x) { return x / -0.5L; }
long double onePlusErf(long double x) { return 1 + std::erf(x); }
long double onePlusTanh(long double x) { return 1 + std::tanh(x); }
long double logistic(long double x) { return 1 / (1 + std::exp(-x)); }

// Where the bounds come from; u is 2^-24, half of the last place of 1, and what
// instructions may err by is in codegen/kernels/MathFunctions.h.
// exp: 2 ulps and 0.5 of ex2, and the two roundings of its argument, which is
//   at most 1/2 and thereby off by u / 2, times log 2 and a mantissa below 2:
//   0.35. From 88.3 on the argument goes to 1, and is off by u: 0.7.
// tanh, at 0.625, where the far formula begins with exp 2x = 3.49: 10 u of ex2,
//   3.4 u of its argument, 4 u of adding 1, which leaves 17.4 u in 4.49, hence
//   1.73 u in 2 / 4.49; 0.5 u of rcp; 0.5 of the difference.
// erf, at 0.928, where the far formula begins with 1 - erf = 0.19: 0.93 u of
// the
//   polynomial, 0.62 u of ex2, 0.5 of the difference.
// sqrt, rsqrt: relative errors, where a mantissa is nearly 2.
// third: a reciprocal's rounding, 1 where a mantissa is nearly 2, and 0.5.
// logistic: where its mantissa is nearly 2 and those of exp and the sum nearly
//   1, twice 2.9 and twice 0.5 of these, 1 of rcp. exp overflows where results
//   are nearly below the normal range.
// onePlusErf, next to 0: 4 u of ex2, 0.5 u of its result's rounding, 1 u of the
//   difference. 2^-21.5 is 5.6 u.
// onePlusTanh, where exp -2x is 0.5: 2.5 u of ex2, 0.3 u of its argument, 1 u
//   of the sum, together times 2 / 1.5^2; 2 u of rcp.
INSTANTIATE_TEST_SUITE_P(
    All, Approximations,
    ::testing::Values(
        Approximation{"exp", "%r = math.exp %a0 : f32", std::exp, 3.2L, 0},
        Approximation{"log", "%r = math.log %a0 : f32", std::log, 0.9L, 0},
        Approximation{"tanh", "%r = math.tanh %a0 : f32", std::tanh, 2.8L, 0},
        Approximation{"erf", "%r = math.erf %a0 : f32", std::erf, 2.1L, 0},
        Approximation{"sqrt", "%r = math.sqrt %a0 : f32", std::sqrt, 2.0L, 0},
        Approximation{"rsqrt",
                      "%one = arith.constant 1.0 : f32\n"
                      "%s = math.sqrt %a0 : f32\n"
                      "%r = arith.divf %one, %s : f32",
                      rsqrt, 2.15L, 0},
        Approximation{"inverse",
                      "%one = arith.constant 1.0 : f32\n"
                      "%r = arith.divf %one, %a0 : f32",
                      inverse, 2.0L, 0},
        Approximation{"third",
                      "%c = arith.constant 3.0 : f32\n"
                      "%r = arith.divf %a0, %c : f32",
                      third, 1.5L, 0},
        Approximation{"half",
                      "%c = arith.constant -0.5 : f32\n"
                      "%r = arith.divf %a0, %c : f32",
                      half, 0.5L, 0},
        Approximation{"logistic",
                      "%one = arith.constant 1.0 : f32\n"
                      "%n = arith.negf %a0 : f32\n"
                      "%e = math.exp %n : f32\n"
                      "%d = arith.addf %one, %e : f32\n"
                      "%r = arith.divf %one, %d : f32",
                      logistic, 7.8L, 0, -87},
        Approximation{"onePlusErf",
                      "%one = arith.constant 1.0 : f32\n"
                      "%e = math.erf %a0 : f32\n"
                      "%r = arith.addf %one, %e : f32",
                      onePlusErf, 0, 3.37e-7L},
        Approximation{"onePlusTanh",
                      "%one = arith.constant 1.0 : f32\n"
                      "%t = math.tanh %a0 : f32\n"
                      "%r = arith.addf %t, %one : f32",
                      onePlusTanh, 0, 3.37e-7L}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
