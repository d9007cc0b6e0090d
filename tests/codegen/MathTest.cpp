#include "tests/codegen/KernelRunner.h"

#include "dialect/interpreter/SpecialFunctions.h"

#include "gtest/gtest.h"

#include <bit>
#include <cfloat>
#include <cmath>

using namespace meshc;
using namespace meshc::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quietNaN = std::numeric_limits<float>::quiet_NaN();

struct Function {
  const char *name;
  double (*exact)(double);
  double maxUlps;
  const char *dialect = "math";
  uint64_t step = 91; ///< of the floats that are tried; odd
};

/// NaN where a sine of f32 is (MathFunctions.h).
template <double (*function)(double)> double circular(double x) {
  return std::abs(x) < 0x1p50 ? function(x) : double(quietNaN);
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// A function compiled as a kernel of its own.
class CompiledFunction {
public:
  explicit CompiledFunction(const std::string &body) {
    ProgramText text;
    text.dim("i", size);
    text.input("x", "i");
    text.pointwise("y", "i", {"x"}, body);
    text.output("y");
    runner = KernelRunner::create(text.str());
  }

  /// Applies it to at most `size` numbers.
  std::vector<float> operator()(std::vector<float> x) {
    size_t count = x.size();
    x.resize(size_t(size));
    std::vector<float> y(x.size());
    void *operands[] = {x.data(), y.data()};
    runner->call(0, operands);
    y.resize(count);
    return y;
  }

  static constexpr int64_t size = 1 << 20;

private:
  std::unique_ptr<KernelRunner> runner;
};

/// Distance from the exact value in units in the last place of the nearest
/// float; of one 2^-149 below the normal range.
double getUlps(float got, double exact) {
  float nearest = float(exact);
  if (std::isnan(exact) || std::isinf(nearest))
    return std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(nearest) ||
                   (std::isnan(got) && std::isnan(exact))
               ? 0
               : infinity;
  int exponent = std::max(std::ilogb(std::abs(nearest)), -126);
  if (nearest == 0)
    exponent = -126;
  return std::abs(double(got) - exact) / std::ldexp(1.0, exponent - 23);
}

class MathFunctions : public ::testing::TestWithParam<Function> {
protected:
  CompiledFunction compiled{std::string("%r = ") + GetParam().dialect + "." +
                            GetParam().name + " %a0 : f32"};
};

/// About 47 million floats of every sign, exponent and kind, a tenth of that
/// where the C library has no such function.
TEST_P(MathFunctions, IsExactEnoughEverywhere) {
  double worst = 0;
  float worstAt = 0;
  const uint64_t step = GetParam().step; // shares no factor with 2^32
  for (uint64_t first = 0; first < uint64_t(1) << 32;
       first += step * CompiledFunction::size) {
    std::vector<float> x;
    for (uint64_t bits = first;
         x.size() < size_t(CompiledFunction::size) && bits < uint64_t(1) << 32;
         bits += step)
      x.push_back(std::bit_cast<float>(uint32_t(bits)));
    std::vector<float> y = compiled(x);
    for (size_t i = 0; i < x.size(); ++i) {
      double ulps = getUlps(y[i], GetParam().exact(x[i]));
      if (ulps > worst) {
        worst = ulps;
        worstAt = x[i];
      }
    }
  }
  RecordProperty("worst", std::to_string(worst));
  std::cout << GetParam().name << ": " << worst << " ulp at " << worstAt
            << "\n";
  EXPECT_LE(worst, GetParam().maxUlps) << "at " << worstAt;
}

TEST_P(MathFunctions, KnowsItsEnds) {
  std::vector<float> x = {
      0.0f,    -0.0f,         infinity,       -infinity,       quietNaN,
      1.0f,    -1.0f,         0x1p-149f,      -0x1p-149f,      0x1p-126f,
      FLT_MAX, -FLT_MAX,      88.7228f,       88.7229f,        -87.4f,
      -103.9f, -104.1f,       0.6249999f,     0.625f,          0.92773f,
      9.0f,    -9.2f,         0x1.fffffep-1f, -0x1.ffffecp-1f, 0x1p49f,
      0x1p50f, 0x1.921fb6p1f, 0x1.921fb6p20f};
  std::vector<float> y = compiled(x);
  for (size_t i = 0; i < x.size(); ++i) {
    double exact = GetParam().exact(x[i]);
    EXPECT_LE(getUlps(y[i], exact), GetParam().maxUlps)
        << GetParam().name << "(" << x[i] << ") = " << y[i] << ", not "
        << exact;
    if (exact == 0)
      EXPECT_EQ(std::signbit(y[i]), std::signbit(exact)) << "at " << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MathFunctions,
    ::testing::Values(
        Function{"exp", std::exp, 1.1}, Function{"log", std::log, 0.9},
        Function{"tanh", std::tanh, 1.4}, Function{"erf", std::erf, 1.1},
        Function{"erf_inv", interpreter::invertErf, 4, "spmd", 1009},
        Function{"sin", circular<std::sin>, 1.6, "math", 911},
        Function{"cos", circular<std::cos>, 1.6, "math", 911},
        Function{"sqrt", std::sqrt, 0.5}, Function{"absf", std::fabs, 0.0}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(MathKernels, LogisticIsDefinedEverywhere) {
  CompiledFunction compiled("%one = arith.constant 1.0 : f32\n"
                            "%n = arith.negf %a0 : f32\n"
                            "%e = math.exp %n : f32\n"
                            "%d = arith.addf %one, %e : f32\n"
                            "%r = arith.divf %one, %d : f32");
  std::vector<float> x = {-infinity, -100, -80, -1, 0, 1, 20, 100, infinity};
  std::vector<float> y = compiled(x);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], logistic(x[i]), 2e-7 * logistic(x[i]) + 1e-38)
        << "at " << x[i];
}

/// The cosine of Box and Muller's transform, on the interval it is used on.
TEST(MathKernels, CosineOfAnAngle) {
  CompiledFunction compiled("%r = math.cos %a0 : f32");
  std::vector<float> x;
  for (int i = 0; i < 1000000; ++i)
    x.push_back(float(i) * 6.2831854e-6f);
  std::vector<float> y = compiled(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(double(y[i]) - std::cos(double(x[i]))));
  EXPECT_LE(worst, 2.5e-7);
}

} // namespace
