// Gradients at single points: ties, slopes that do not exist, values that must
// not leak from a branch not taken, numbers that must not overflow.

#include "GradientCheck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The gradients of sum(w y) at the given inputs, after checking that
/// decomposition does not change them.
std::map<std::string, F64Tensor>
differentiate(Function function, std::map<std::string, F64Tensor> inputs,
              F64Tensor weights) {
  F64State state = makeState(function, 1);
  for (auto &[name, tensor] : inputs)
    state.inputs[name] = tensor;
  state.inputs["weights"] = weights;
  auto plain = runGradient(function, state, /*decompose=*/false);
  auto decomposed = runGradient(function, state, /*decompose=*/true);
  for (const Input &input : function.inputs) {
    if (input.type[0] == 'i')
      continue;
    const F64Tensor &before = plain.at("grad:" + input.name);
    const F64Tensor &after = decomposed.at("grad:" + input.name);
    for (size_t i = 0; i < before.elements.size(); ++i) {
      double a = asNumber<F64>(before.elements[i]);
      double b = asNumber<F64>(after.elements[i]);
      EXPECT_TRUE(a == b || std::abs(a - b) <= 1e-12 * std::abs(a) ||
                  (std::isnan(a) && std::isnan(b)))
          << input.name << " " << i << ": " << a << " and " << b;
    }
  }
  return plain;
}

Function unary(const std::string &op) {
  return {op, {{"x", "b"}}, "%y = nd." + op + " %x : (!b) -> !b", "b"};
}

Function binary(const std::string &op) {
  return {op,
          {{"u", "b"}, {"v", "b"}},
          "%y = nd." + op + " %u, %v : (!b, !b) -> !b",
          "b"};
}

TEST(GradientPoint, TiesOfTwoAreHalved) {
  for (std::string op : {"maximum", "minimum"}) {
    auto found = differentiate(
        binary(op),
        {{"u", floats({3}, {1, 2, 3})}, {"v", floats({3}, {1, 5, 3})}},
        floats({3}, {2, 10, 20}));
    double second = op == "minimum" ? 10 : 0;
    EXPECT_EQ(found["grad:u"], floats({3}, {1, second, 10})) << op;
    EXPECT_EQ(found["grad:v"], floats({3}, {1, 10 - second, 10})) << op;
  }
}

TEST(GradientPoint, ATieWithAConstantGivesNothing) {
  for (std::string op : {"maximum", "minimum"})
    for (std::string operands :
         {"%x, %zero : (!b, !s)", "%zero, %x : (!s, !b)"}) {
      Function relu = {op,
                       {{"x", "b"}},
                       "%zero = nd.constant(0.0 : f64) : !s\n%y = nd." + op +
                           " " + operands + " -> !b",
                       "b"};
      auto found = differentiate(relu, {{"x", floats({3}, {-1, 0, 2})}},
                                 floats({3}, {3, 5, 7}));
      EXPECT_EQ(found["grad:x"], op == "maximum" ? floats({3}, {0, 0, 7})
                                                 : floats({3}, {3, 0, 0}))
          << op << " " << operands;
    }
}

TEST(GradientPoint, TiesOfAReductionAreShared) {
  Function max = {
      "max", {{"x", "bc"}}, "%y = nd.reduce max %x : (!bc) -> !b", "b"};
  auto found = differentiate(
      max,
      {{"x", floats({3, 5}, {1, 4, 4, 0, 4, 2, 2, 1, 0, 0, -infinity, -infinity,
                             -infinity, -infinity, -infinity})}},
      floats({3}, {3, 8, 5}));
  EXPECT_EQ(found["grad:x"],
            floats({3, 5}, {0, 1, 1, 0, 1, 4, 4, 0, 0, 0, 1, 1, 1, 1, 1}));
  Function min = {
      "min", {{"x", "ab"}}, "%y = nd.reduce min %x : (!ab) -> !s", "s"};
  found = differentiate(min, {{"x", floats({2, 3}, {5, 1, 7, 1, 2, 2})}},
                        floats({}, {3}));
  EXPECT_EQ(found["grad:x"], floats({2, 3}, {0, 1.5, 0, 1.5, 0, 0}));
}

TEST(GradientPoint, MagnitudeAndSignAreFlatAtZero) {
  std::map<std::string, F64Tensor> at = {{"x", floats({3}, {-2, 0, 3})}};
  EXPECT_EQ(differentiate(unary("abs"), at, floats({3}, {5, 5, 5}))["grad:x"],
            floats({3}, {-5, 0, 5}));
  EXPECT_EQ(differentiate(unary("sign"), at, floats({3}, {5, 5, 5}))["grad:x"],
            floats({3}, {0, 0, 0}));
  EXPECT_EQ(differentiate(unary("stop_gradient"), at,
                          floats({3}, {5, 5, 5}))["grad:x"],
            floats({3}, {0, 0, 0}));
}

TEST(GradientPoint, PowersOfAndToZero) {
  auto found = differentiate(
      binary("pow"),
      {{"u", floats({3}, {0, 0, 3})}, {"v", floats({3}, {0, 2, 0})}},
      floats({3}, {7, 7, 7}));
  EXPECT_EQ(found["grad:u"], floats({3}, {0, 0, 0}));
  EXPECT_EQ(found["grad:v"], floats({3}, {0, 0, 7 * std::log(3)}));
}

TEST(GradientPoint, PassesThroughCasts) {
  Function cast = {"cast",
                   {{"x", "b"}},
                   R"(%i = nd.cast %x : (!b) -> !ib
                      %z = nd.cast %i : (!ib) -> !b
                      %h = nd.cast %x : (!b) -> !hb
                      %w = nd.cast %h : (!hb) -> !b
                      %y = nd.add %z, %w : (!b, !b) -> !b)",
                   "b"};
  EXPECT_EQ(differentiate(cast, {{"x", floats({3}, {0.5, 1.5, -2.5})}},
                          floats({3}, {2, 3, 4}))["grad:x"],
            floats({3}, {2, 3, 4}));
}

/// What operand of a maximum that broadcasts gets is summed.
TEST(GradientPoint, ExtremeOfABroadcastOperand) {
  Function max = {"max",
                  {{"u", "ab"}, {"v", "b"}},
                  "%y = nd.maximum %u, %v : (!ab, !b) -> !ab",
                  "ab"};
  auto found = differentiate(max,
                             {{"u", floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                              {"v", floats({3}, {2, 2, 7})}},
                             floats({2, 3}, {1, 10, 100, 1000, 1e4, 1e5}));
  EXPECT_EQ(found["grad:u"], floats({2, 3}, {0, 5, 0, 1000, 1e4, 0}));
  EXPECT_EQ(found["grad:v"], floats({3}, {1, 5, 100100}));
}

/// y = x > 0 ? body(x) : x, at x where the slope of `body` is not a number.
void expectNoLeak(const std::string &body, double x, double slopeAtTwo) {
  Function function = {"guarded",
                       {{"x", "b"}},
                       "%zero = nd.constant(0.0 : f64) : !s\n"
                       "%c = nd.compare gt %x, %zero : (!b, !s) -> !tb\n" +
                           body +
                           "\n%y = nd.select %c, %z, %x : (!tb, !b, !b) -> !b",
                       "b"};
  auto found = differentiate(function, {{"x", floats({3}, {x, 2, x})}},
                             floats({3}, {3, 5, 7}));
  EXPECT_EQ(asNumber<F64>(found["grad:x"].elements[0]), 3) << body;
  EXPECT_NEAR(asNumber<F64>(found["grad:x"].elements[1]), 5 * slopeAtTwo, 1e-12)
      << body;
  EXPECT_EQ(asNumber<F64>(found["grad:x"].elements[2]), 7) << body;
}

TEST(GradientPoint, NothingLeaksFromTheBranchNotTaken) {
  expectNoLeak("%z = nd.log %x : (!b) -> !b", 0, 0.5);
  expectNoLeak("%z = nd.log %x : (!b) -> !b", -1, 0.5);
  expectNoLeak("%z = nd.sqrt %x : (!b) -> !b", 0, 0.5 / std::sqrt(2));
  expectNoLeak("%z = nd.rsqrt %x : (!b) -> !b", -1, -0.5 * std::pow(2, -1.5));
  expectNoLeak("%z = nd.div %x, %x : (!b, !b) -> !b", 0, 0);
  expectNoLeak("%z = nd.exp %x : (!b) -> !b", nan, std::exp(2));
  expectNoLeak("%z = nd.tanh %x : (!b) -> !b", nan,
               1 - std::tanh(2) * std::tanh(2));
  expectNoLeak("%z = nd.abs %x : (!b) -> !b", nan, 1);
  expectNoLeak("%z = nd.mul %x, %x : (!b, !b) -> !b", -infinity, 4);
  expectNoLeak("%z = nd.pow %x, %x : (!b, !b) -> !b", nan,
               4 * (std::log(2) + 1));
  // Through a chain, a sum of two branches, a broadcast and a reduction.
  expectNoLeak(R"(%l = nd.log %x : (!b) -> !b
                  %n = nd.neg %l : (!b) -> !b
                  %h = nd.cast %n : (!b) -> !hb
                  %w = nd.cast %h : (!hb) -> !b
                  %z = nd.mul %w, %w : (!b, !b) -> !b)",
               0, std::log(2));
  expectNoLeak(R"(%e = nd.sqrt %x : (!b) -> !b
                  %f = nd.add %e, %e : (!b, !b) -> !b
                  %z = nd.add %f, %e : (!b, !b) -> !b)",
               0, 1.5 / std::sqrt(2));
}

TEST(GradientPoint, NothingLeaksThroughAReduction) {
  // log(s) is chosen nowhere, and s = 0.
  Function function = {"reduced",
                       {{"s", "s"}, {"x", "ab"}},
                       R"(%l = nd.log %s : (!s) -> !s
                          %zero = nd.constant(0.0 : f64) : !s
                          %c = nd.compare gt %x, %zero : (!ab, !s) -> !tab
                          %z = nd.select %c, %l, %zero : (!tab, !s, !s) -> !ab
                          %y = nd.reduce mean %z : (!ab) -> !a)",
                       "a"};
  auto found = differentiate(
      function,
      {{"s", floats({}, {0})}, {"x", floats({2, 3}, {-1, -2, -3, -4, -5, -6})}},
      floats({2}, {1, 2}));
  EXPECT_EQ(found["grad:s"], floats({}, {0}));
}

/// Inputs count as finite: what is NaN in one stays out of the gradient of what
/// it is multiplied by if a choice takes it out in front of the product.
TEST(GradientPoint, ANaNOfAnInputIsKeptOutInFrontOfAProduct) {
  const std::string product =
      "%e = nd.einsum %z, %w : (!ab, !bc) -> !ac\n"
      "%y = nd.select %t, %e, %zero : (!ta, !ac, !s) -> !ac\n";
  const std::string head =
      "%zero = nd.constant(0.0 : f64) : !s\n"
      "%i = nd.iota : !ia\n%one = nd.constant(1 : i32) : !is\n"
      "%t = nd.compare lt %i, %one : (!ia, !is) -> !ta\n";
  Function kept = {
      "kept_out",
      {{"x", "ab"}, {"w", "bc"}},
      head +
          "%n = nd.compare eq %x, %x : (!ab, !ab) -> !tab\n"
          "%z = nd.select %n, %x, %zero : (!tab, !ab, !s) -> !ab\n" +
          product,
      "ac"};
  F64Tensor x = floats({2, 3}, {2, 3, 5, nan, 7, nan});
  F64Tensor weights = floats({2, 5}, {1, 1, 1, 1, 1, 2, 2, 2, 2, 2});
  auto found = differentiate(kept, {{"x", x}}, weights);
  EXPECT_EQ(found["grad:w"],
            floats({3, 5}, {2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5}));
  for (size_t i = 3; i < 6; ++i)
    EXPECT_EQ(asNumber<F64>(found["grad:x"].elements[i]), 0);
}

TEST(GradientPoint, LargeNumbersDoNotOverflow) {
  for (double x : {1e3, -1e3}) {
    auto found =
        differentiate(unary("logistic"), {{"x", floats({3}, {x, 0, x})}},
                      floats({3}, {4, 4, 4}));
    EXPECT_EQ(found["grad:x"], floats({3}, {0, 1, 0}));
    found = differentiate(unary("tanh"), {{"x", floats({3}, {x, 0, x})}},
                          floats({3}, {4, 4, 4}));
    EXPECT_EQ(found["grad:x"], floats({3}, {0, 4, 0}));
  }
  Function entropy = {"cross_entropy",
                      {{"x", "ab"}, {"label", "ia"}},
                      R"(%m = nd.reduce max %x : (!ab) -> !a
                         %k = nd.stop_gradient %m : (!a) -> !a
                         %z = nd.sub %x, %k : (!ab, !a) -> !ab
                         %e = nd.exp %z : (!ab) -> !ab
                         %n = nd.reduce sum %e : (!ab) -> !a
                         %l = nd.log %n : (!a) -> !a
                         %p = nd.gather %z[%label] over "b"
                            : (!ab, !ia) -> !a
                         %y = nd.sub %l, %p : (!a, !a) -> !a)",
                      "a"};
  auto found = differentiate(
      entropy,
      {{"x", floats({2, 3}, {1e4, -1e4, 0, -1e300, 1e300, 1e300})},
       {"label", ints({2}, {2, 1})}},
      floats({2}, {1, 1}));
  EXPECT_EQ(found["grad:x"], floats({2, 3}, {1, 0, -1, 0, -0.5, 0.5}));
}

TEST(GradientPoint, SourcesThatDoNotMatterHaveZeroGradients) {
  Function function = {"unused",
                       {{"x", "ab"}, {"u", "c"}},
                       R"(%z = nd.exp %u : (!c) -> !c
                          %y = nd.neg %x : (!ab) -> !ab)",
                       "ab"};
  auto found = differentiate(function, {}, floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(found["grad:u"], floats({5}, {0, 0, 0, 0, 0}));
  EXPECT_EQ(found["grad:x"], floats({2, 3}, {-1, -2, -3, -4, -5, -6}));
}

} // namespace
