// Math functions of GPU kernels on f64, and powers, against the C library's in
// 80 bits.

#include "tests/codegen/KernelRunner.h"

#include "gtest/gtest.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <random>

using namespace meshc;
using namespace meshc::testing;

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
  bool isPeriodic() const { return std::string(GetParam().name) == "cos"; }
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
  // Next to the zeros of the cosine.
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
                                           Function{"cos", std::cos, 1.5L}),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

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

} // namespace
