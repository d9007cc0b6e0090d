#include "dialect/interpreter/NDInterpreter.h"
#include "dialect/interpreter/SpecialFunctions.h"

#include "tests/dialect/Programs.h"

#include "gmock/gmock.h"

#include <cmath>
#include <numbers>

using namespace meshc;
using namespace meshc::interpreter;
using meshc::test::F64State;
using meshc::test::F64Tensor;
using meshc::test::floats;
using meshc::test::ints;

namespace {

const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();

class NDInterpreterTest : public ::testing::Test {
protected:
  /// Runs a program of these lines; types of one letter per dimension: !ab.
  F64Tensor run(llvm::StringRef lines) {
    std::string text = R"(
      !s = !nd.tensor<[], f64>
      !l = !nd.tensor<[], i64>
      !a = !nd.tensor<["a"=2], f64>
      !b = !nd.tensor<["b"=3], f64>
      !c = !nd.tensor<["c"=5], f64>
      !ab = !nd.tensor<["a"=2, "b"=3], f64>
      !ba = !nd.tensor<["b"=3, "a"=2], f64>
      !cb = !nd.tensor<["c"=5, "b"=3], f64>
      !ia = !nd.tensor<["a"=2], i32>
      !ib = !nd.tensor<["b"=3], i32>
      !lb = !nd.tensor<["b"=3], i64>
      !iba = !nd.tensor<["b"=3, "a"=2], i32>
      !pb = !nd.tensor<["b"=3], i1>
      !ub = !nd.tensor<["b"=3], ui8>
      !sb = !nd.tensor<["b"=3], i8>
      !hb = !nd.tensor<["b"=3], i16>
      module {
        nd.variable parameter @v : !b = #nd.fill<0.0 : f64>
        nd.program @p {)" +
                       lines.str() + "}}";
    auto module = meshc::test::parse(*context, text);
    if (!module) {
      ADD_FAILURE() << "the program does not parse";
      return {};
    }
    auto program = module->lookupSymbol<nd::ProgramOp>("p");
    EXPECT_TRUE(llvm::succeeded(runProgram(program, state)));
    return state.outputs["y"];
  }

  std::unique_ptr<mlir::MLIRContext> context = meshc::test::makeContext();
  F64State state;
};

TEST_F(NDInterpreterTest, BroadcastsByName) {
  state.inputs["x"] = floats({2}, {10, 20});
  state.inputs["z"] = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !a
    %z = nd.input "z" : !ba
    %y = nd.sub %x, %z : (!a, !ba) -> !ab
    nd.output "y", %y : !ab)"),
            floats({2, 3}, {9, 7, 5, 18, 16, 14}));
}

TEST_F(NDInterpreterTest, EveryUnary) {
  struct Case {
    const char *name;
    double (*expected)(double);
  };
  for (auto [name, expected] : {
           Case{"neg", [](double x) { return -x; }},
           Case{"exp", [](double x) { return std::exp(x); }},
           Case{"log", [](double x) { return std::log(x); }},
           Case{"tanh", [](double x) { return std::tanh(x); }},
           Case{"logistic", [](double x) { return 1 / (1 + std::exp(-x)); }},
           Case{"erf", [](double x) { return std::erf(x); }},
           Case{"sin", [](double x) { return std::sin(x); }},
           Case{"cos", [](double x) { return std::cos(x); }},
           Case{"sqrt", [](double x) { return std::sqrt(x); }},
           Case{"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
           Case{"abs", [](double x) { return std::fabs(x); }},
           Case{"sign", [](double x) { return x == 0 ? 0 : x / x; }},
           Case{"stop_gradient", [](double x) { return x; }},
       }) {
    state.inputs["x"] = floats({3}, {0.25, 1.5, 3});
    EXPECT_EQ(run(std::string("%x = nd.input \"x\" : !b\n%y = nd.") + name +
                  " %x : (!b) -> !b\n nd.output \"y\", %y : !b"),
              floats({3}, {expected(0.25), expected(1.5), expected(3)}))
        << name;
  }
}

/// Against erf itself: what an error of a unit in the last place of y makes of
/// its error function, and a rounding of that.
TEST_F(NDInterpreterTest, InvertsTheErrorFunction) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (double x : {1e-300, 1e-9, 0.01, 0.25, 0.4999, 0.5, 0.75, 0.999, 1 - 1e-9,
                   1 - 0x1p-53}) {
    state.inputs["x"] = floats({3}, {x, -x, 0});
    F64Tensor y = run("%x = nd.input \"x\" : !b\n%y = nd.erf_inv %x : (!b) -> "
                      "!b\n nd.output \"y\", %y : !b");
    const double inverse = asNumber<F64>(y.elements[0]);
    const double slope =
        2 * std::numbers::inv_sqrtpi * std::exp(-inverse * inverse);
    const double error =
        x < 0.5 ? std::erf(inverse) - x : (1 - x) - std::erfc(inverse);
    EXPECT_LE(std::abs(error),
              4 * 0x1p-53 * (slope * inverse + (x < 0.5 ? x : 1 - x)))
        << x;
    EXPECT_EQ(asNumber<F64>(y.elements[1]), -inverse);
    EXPECT_EQ(asNumber<F64>(y.elements[2]), 0);
  }
  EXPECT_EQ(invertErf(1), infinity);
  EXPECT_EQ(invertErf(-1), -infinity);
  EXPECT_TRUE(std::isnan(invertErf(1.5)));
}

TEST_F(NDInterpreterTest, EveryBinary) {
  state.inputs["x"] = floats({3}, {2, 3, -1});
  state.inputs["z"] = floats({3}, {3, 2, 2});
  auto binary = [&](const char *name) {
    return run(
        std::string("%x = nd.input \"x\" : !b\n%z = nd.input \"z\" : !b\n"
                    "%y = nd.") +
        name + " %x, %z : (!b, !b) -> !b\n nd.output \"y\", %y : !b");
  };
  EXPECT_EQ(binary("add"), floats({3}, {5, 5, 1}));
  EXPECT_EQ(binary("sub"), floats({3}, {-1, 1, -3}));
  EXPECT_EQ(binary("mul"), floats({3}, {6, 6, -2}));
  EXPECT_EQ(binary("div"), floats({3}, {2.0 / 3, 1.5, -0.5}));
  EXPECT_EQ(binary("minimum"), floats({3}, {2, 2, -1}));
  EXPECT_EQ(binary("maximum"), floats({3}, {3, 3, 2}));
  EXPECT_EQ(binary("pow"), floats({3}, {8, 9, 1}));
}

TEST_F(NDInterpreterTest, IntegersWrapAndTruncate) {
  state.inputs["x"] = ints({3}, {2147483647, -7, 7});
  state.inputs["z"] = ints({3}, {1, 2, -2});
  auto binary = [&](const char *name) {
    return run(
        std::string("%x = nd.input \"x\" : !ib\n%z = nd.input \"z\" : !ib\n"
                    "%y = nd.") +
        name + " %x, %z : (!ib, !ib) -> !ib\n nd.output \"y\", %y : !ib");
  };
  EXPECT_EQ(binary("add"), ints({3}, {-2147483648, -5, 5}));
  EXPECT_EQ(binary("div"), ints({3}, {2147483647, -3, -3}));
  EXPECT_EQ(binary("maximum"), ints({3}, {2147483647, 2, 7}));
}

TEST_F(NDInterpreterTest, UndefinedQuotientsAreTheDividend) {
  state.inputs["x"] = ints({3}, {7, -2147483648, 4});
  state.inputs["z"] = ints({3}, {0, -1, 2});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ib
    %z = nd.input "z" : !ib
    %y = nd.div %x, %z : (!ib, !ib) -> !ib
    nd.output "y", %y : !ib)"),
            ints({3}, {7, -2147483648, 2}));
}

TEST_F(NDInterpreterTest, ComparisonsWithNaN) {
  state.inputs["x"] = floats({3}, {nan, 1, 2});
  state.inputs["z"] = floats({3}, {1, nan, 2});
  auto compare = [&](const char *predicate) {
    return run(
        std::string("%x = nd.input \"x\" : !b\n%z = nd.input \"z\" : !b\n"
                    "%y = nd.compare ") +
        predicate + " %x, %z : (!b, !b) -> !pb\n nd.output \"y\", %y : !pb");
  };
  EXPECT_EQ(compare("eq"), ints({3}, {0, 0, 1}));
  EXPECT_EQ(compare("ne"), ints({3}, {1, 1, 0}));
  EXPECT_EQ(compare("lt"), ints({3}, {0, 0, 0}));
  EXPECT_EQ(compare("le"), ints({3}, {0, 0, 1}));
  EXPECT_EQ(compare("gt"), ints({3}, {0, 0, 0}));
  EXPECT_EQ(compare("ge"), ints({3}, {0, 0, 1}));
}

TEST_F(NDInterpreterTest, SelectIgnoresWhatIsNotTaken) {
  state.inputs["c"] = ints({3}, {1, 0, 1});
  state.inputs["x"] = floats({3}, {1, nan, 3});
  F64Tensor other = floats({3}, {nan, 5, 0});
  other.elements[2] = Poison();
  state.inputs["z"] = other;
  EXPECT_EQ(run(R"(
    %c = nd.input "c" : !pb
    %x = nd.input "x" : !b
    %z = nd.input "z" : !b
    %y = nd.select %c, %x, %z : (!pb, !b, !b) -> !b
    nd.output "y", %y : !b)"),
            floats({3}, {1, 5, 3}));
}

TEST_F(NDInterpreterTest, LogicIsNotStrictInPoison) {
  state.inputs["x"] = ints({3}, {0, 1, 1});
  F64Tensor other = ints({3}, {0, 0, 1});
  other.elements[0] = Poison();
  state.inputs["z"] = other;
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !pb
    %z = nd.input "z" : !pb
    %both = nd.and %x, %z : (!pb, !pb) -> !pb
    %y = nd.not %both : (!pb) -> !pb
    nd.output "y", %y : !pb)"),
            ints({3}, {1, 1, 0}));
}

TEST_F(NDInterpreterTest, Casts) {
  state.inputs["x"] = floats({3}, {-2.75, 3.5, nan});
  F64Tensor expected = ints({3}, {-2, 3, 0});
  expected.elements[2] = Poison();
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !b
    %y = nd.cast %x : (!b) -> !ib
    nd.output "y", %y : !ib)"),
            expected);
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !b
    %c = nd.cast %x : (!b) -> !pb
    %y = nd.cast %c : (!pb) -> !b
    nd.output "y", %y : !b)"),
            floats({3}, {1, 1, 1}));
}

TEST_F(NDInterpreterTest, CastsOfData) {
  F64Tensor kept = ints({3}, {255, 0, 127});
  kept.elements[1] = Poison();
  // Toward zero; 256 and -1 are no values of u8.
  state.inputs["x"] = floats({3}, {255.9, 256, 127.5});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !b
    %y = nd.cast %x : (!b) -> !ub
    nd.output "y", %y : !ub)"),
            kept);
  state.inputs["x"] = floats({3}, {-0.9, -1, 1});
  F64Tensor least = ints({3}, {0, 0, 1});
  least.elements[1] = Poison();
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !b
    %y = nd.cast %x : (!b) -> !ub
    nd.output "y", %y : !ub)"),
            least);
  // Integers keep their low bits, and are widened by their sign.
  state.inputs["x"] = ints({3}, {200, 255, 7});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ub
    %s = nd.cast %x : (!ub) -> !sb
    %y = nd.cast %s : (!sb) -> !ib
    nd.output "y", %y : !ib)"),
            ints({3}, {-56, -1, 7}));
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ub
    %y = nd.cast %x : (!ub) -> !hb
    nd.output "y", %y : !hb)"),
            ints({3}, {200, 255, 7}));
  state.inputs["x"] = ints({3}, {-1, 456, -32768});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !hb
    %y = nd.cast %x : (!hb) -> !ub
    nd.output "y", %y : !ub)"),
            ints({3}, {255, 200, 0}));
}

TEST_F(NDInterpreterTest, ComparesDataByItsSign) {
  const auto compare = [&](const std::string &type) {
    return run("%x = nd.input \"x\" : " + type + "\n%c = nd.constant(1 : " +
               (type == "!ub"   ? "ui8"
                : type == "!sb" ? "i8"
                                : "i16") +
               ") : " + type + "\n%y = nd.compare lt %x, %c : (" + type + ", " +
               type + ") -> !pb\nnd.output \"y\", %y : !pb");
  };
  state.inputs["x"] = ints({3}, {0, 1, 200});
  EXPECT_EQ(compare("!ub"), ints({3}, {1, 0, 0}));
  state.inputs["x"] = ints({3}, {0, 1, -56});
  EXPECT_EQ(compare("!sb"), ints({3}, {1, 0, 1}));
  EXPECT_EQ(compare("!hb"), ints({3}, {1, 0, 1}));
}

TEST_F(NDInterpreterTest, EinsumOfThree) {
  state.inputs["x"] = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  state.inputs["w"] = floats({5, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, //
                                      1, 1, 1, 2, 0, 0});
  state.inputs["s"] = floats({2}, {1, 10});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ab
    %w = nd.input "w" : !cb
    %s = nd.input "s" : !a
    %y = nd.einsum %x, %w, %s : (!ab, !cb, !a) -> !c
    nd.output "y", %y : !c)"),
            floats({5}, {41, 52, 63, 156, 82}));
}

TEST_F(NDInterpreterTest, EinsumOfOneSumsAndTransposes) {
  state.inputs["x"] = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ab
    %y = nd.einsum %x : (!ab) -> !ba
    nd.output "y", %y : !ba)"),
            floats({3, 2}, {1, 4, 2, 5, 3, 6}));
}

TEST_F(NDInterpreterTest, Reductions) {
  state.inputs["x"] = floats({2, 3}, {3, -1, 1, 4, nan, 6});
  auto reduce = [&](const char *kind, const char *type) {
    return run(std::string("%x = nd.input \"x\" : !ab\n%y = nd.reduce ") +
               kind + " %x : (!ab) -> " + type +
               "\nnd.output \"y\", %y : " + type);
  };
  EXPECT_EQ(reduce("sum", "!a").elements[0], Scalar<F64>(3.0));
  EXPECT_EQ(reduce("mean", "!a").elements[0], Scalar<F64>(1.0));
  EXPECT_EQ(reduce("min", "!a").elements[0], Scalar<F64>(-1.0));
  EXPECT_TRUE(std::isnan(asNumber<F64>(reduce("max", "!a").elements[1])));
  EXPECT_EQ(reduce("max", "!b").elements[2], Scalar<F64>(6.0));
}

TEST_F(NDInterpreterTest, ArgReduceTakesTheFirstAndNaN) {
  state.inputs["x"] = floats({2, 3}, {1, 7, 7, 2, nan, inf});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ab
    %y = nd.arg_reduce max %x over "b" : (!ab) -> !ia
    nd.output "y", %y : !ia)"),
            ints({2}, {1, 1}));
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ab
    %y = nd.arg_reduce min %x over "b" : (!ab) -> !ia
    nd.output "y", %y : !ia)"),
            ints({2}, {0, 1}));
}

TEST_F(NDInterpreterTest, ShapesWithoutArithmetic) {
  state.inputs["x"] = floats({2}, {1, 2});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !a
    %y = nd.broadcast %x : (!a) -> !ba
    nd.output "y", %y : !ba)"),
            floats({3, 2}, {1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !a
    %z = nd.rename %x "a" -> "q" : (!a) -> !nd.tensor<["q"=2], f64>
    %y = nd.add %x, %z
      : (!a, !nd.tensor<["q"=2], f64>) -> !nd.tensor<["a"=2, "q"=2], f64>
    nd.output "y", %y : !nd.tensor<["a"=2, "q"=2], f64>)"),
            floats({2, 2}, {2, 3, 3, 4}));
  EXPECT_EQ(run(R"(
    %y = nd.iota : !ib
    nd.output "y", %y : !ib)"),
            ints({3}, {0, 1, 2}));
}

TEST_F(NDInterpreterTest, GatherMatchesByNameAndGivesZeroOutside) {
  state.inputs["x"] =
      floats({5, 3}, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42});
  state.inputs["i"] = ints({3, 2}, {4, 0, -1, 3, 5, 2});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !cb
    %i = nd.input "i" : !iba
    %y = nd.gather %x[%i] over "c" : (!cb, !iba) -> !ba
    nd.output "y", %y : !ba)"),
            floats({3, 2}, {40, 0, 0, 31, 0, 22}));
}

TEST_F(NDInterpreterTest, PutAddsUpByNameAndLeavesOutWhatIsOutside) {
  state.inputs["x"] = floats({3, 2}, {1, 2, 4, 8, 16, 32});
  state.inputs["i"] = ints({3, 2}, {4, 0, -1, 3, 4, 5});
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ba
    %i = nd.input "i" : !iba
    %y = nd.put %x[%i] over "c" : (!ba, !iba) -> !nd.tensor<["c"=5], f64>
    nd.output "y", %y : !nd.tensor<["c"=5], f64>)"),
            floats({5}, {2, 0, 0, 8, 17}));
  EXPECT_EQ(run(R"(
    %x = nd.input "x" : !ba
    %i = nd.input "i" : !iba
    %y = nd.put %x[%i] over "c" : (!ba, !iba) -> !cb
    nd.output "y", %y : !cb)"),
            floats({5, 3}, {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1, 0, 16}));
}

TEST_F(NDInterpreterTest, ViewsReadPositionsAndGiveZeroOutside) {
  state.inputs["x"] =
      floats({5, 3}, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42});
  auto view = [&](const std::string &accesses, const std::string &result) {
    return run("%x = nd.input \"x\" : !cb\n%y = nd.view %x [" + accesses +
               "] : (!cb) -> !nd.tensor<[" + result +
               "], f64>\nnd.output \"y\", %y : !nd.tensor<[" + result +
               "], f64>");
  };
  EXPECT_EQ(view(R"("c" = 2 "a" + "b")", R"("a"=2, "b"=3)"),
            floats({2, 3}, {0, 11, 22, 20, 31, 42}));
  EXPECT_EQ(view(R"("c" = 3 "a" + 1, "b" = "p" - 1)", R"("p"=2, "a"=3)"),
            floats({2, 3}, {0, 0, 0, 10, 40, 0}));
  EXPECT_EQ(view(R"("c" = ("p" - 1) / 2, "b" = 1)", R"("p"=6)"),
            floats({6}, {0, 1, 0, 11, 0, 21}));
  EXPECT_EQ(view(R"("c" = floor(("p" - 1) / 2), "b" = 1)", R"("p"=4)"),
            floats({4}, {0, 1, 1, 11}));
  EXPECT_EQ(view(R"("c" = (-"p" + 1) mod 6, "b" = 2)", R"("p"=4)"),
            floats({4}, {12, 2, 0, 42}));
}

TEST_F(NDInterpreterTest, RandomNumbersFollowTheDefinition) {
  // Known answer of Philox4x32-10 for key and counter 0: 6627e8d5 e169c58d.
  auto [u0, u1] = getUniformNumbers(5, 5, 0);
  EXPECT_EQ(u0, 0x6627e8 * 0x1p-24 + 0x1p-25);
  EXPECT_EQ(u1, 0xe169c5 * 0x1p-24 + 0x1p-25);
  // Both words of key and counter matter.
  EXPECT_NE(getUniformNumbers(1ull << 32, 0, 0).first, u0);
  EXPECT_NE(getUniformNumbers(0, 0, 1ull << 32).first, u0);

  state.inputs["seed"] = ints({}, {5});
  F64Tensor uniform = run(R"(
    %s = nd.input "seed" : !l
    %y = nd.random uniform(-1.0, 3.0) key 5 seed %s : (!l) -> !ab
    nd.output "y", %y : !ab)");
  EXPECT_EQ(uniform.elements[0], Scalar<F64>(-1 + 4 * u0));
  EXPECT_EQ(uniform.elements[4],
            Scalar<F64>(-1 + 4 * getUniformNumbers(0, 0, 4).first));
  F64Tensor normal = run(R"(
    %s = nd.input "seed" : !l
    %y = nd.random normal(1.0, 0.5) key 5 seed %s : (!l) -> !ab
    nd.output "y", %y : !ab)");
  EXPECT_NEAR(asNumber<F64>(normal.elements[0]),
              1 + 0.5 * std::sqrt(-2 * std::log(u0)) * std::cos(2 * M_PI * u1),
              1e-15);
}

/// Positions count over the order that is given, however the result is stored;
/// a seed with dimensions is another one at each of their positions.
TEST_F(NDInterpreterTest, RandomNumbersHaveAnOrderAndSeeds) {
  state.inputs["seed"] = ints({}, {5});
  state.inputs["i"] = ints({3}, {0, 1, int64_t(1) << 40});
  auto draw = [&](const std::string &seed, const std::string &rest) {
    return run("%s = nd.input \"seed\" : !l\n%i = nd.input \"i\" : !lb\n"
               "%f = nd.fold_in %s, %i : (!l, !lb) -> !lb\n"
               "%y = nd.random uniform(0.0, 1.0) key 7 seed " +
               seed + " order " + rest + "nd.output \"y\", %y : !ab");
  };
  F64Tensor counted = draw("%s", "[\"b\", \"a\"] : (!l) -> !ab\n");
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      EXPECT_EQ(
          counted.elements[size_t(3 * a + b)],
          Scalar<F64>(getUniformNumbers(7, 5, uint64_t(2 * b + a)).first));
  F64Tensor folded = draw("%f", "[\"a\"] : (!lb) -> !ab\n");
  for (int64_t a = 0; a < 2; ++a) {
    EXPECT_EQ(folded.elements[size_t(3 * a)],
              Scalar<F64>(getUniformNumbers(7, 5, uint64_t(a)).first));
    const uint64_t mixed = foldIn(5, uint64_t(1) << 40);
    EXPECT_NE(mixed, foldIn(5, 1));
    EXPECT_EQ(folded.elements[size_t(3 * a + 2)],
              Scalar<F64>(getUniformNumbers(7, mixed, uint64_t(a)).first));
  }
}

TEST_F(NDInterpreterTest, TruncatedNormalNumbersLieWithinTwoDeviations) {
  state.inputs["seed"] = ints({}, {5});
  F64Tensor y = run(R"(
    %s = nd.input "seed" : !l
    %y = nd.random truncated_normal(1.0, 0.5) key 7 seed %s : (!l) -> !ab
    nd.output "y", %y : !ab)");
  for (size_t i = 0; i < 6; ++i) {
    const double number = (asNumber<F64>(y.elements[i]) - 1) / 0.5;
    EXPECT_LE(std::abs(number), 2);
    // The share of what is left below it is the uniform number.
    EXPECT_NEAR((std::erf(number / std::numbers::sqrt2) /
                     std::erf(std::numbers::sqrt2) +
                 1) /
                    2,
                getUniformNumbers(7, 5, i).first, 1e-15);
  }
}

TEST_F(NDInterpreterTest, ReadsSeeTheStart) {
  state.variables["v"] = floats({3}, {1, 2, 3});
  EXPECT_EQ(run(R"(
    %v = nd.read @v : !b
    %w = nd.add %v, %v : (!b, !b) -> !b
    nd.write @v, %w : !b
    %y = nd.read @v : !b
    nd.output "y", %y : !b)"),
            floats({3}, {1, 2, 3}));
  EXPECT_EQ(state.variables["v"], floats({3}, {2, 4, 6}));
}

TEST_F(NDInterpreterTest, MissingInputIsAnError) {
  auto module = meshc::test::parse(*context, R"(module { nd.program @p {
    %x = nd.input "image" : !nd.tensor<["a"=2], f32> } })");
  std::string message;
  mlir::ScopedDiagnosticHandler handler(
      context.get(),
      [&](mlir::Diagnostic &diagnostic) { message = diagnostic.str(); });
  EXPECT_TRUE(llvm::failed(
      runProgram(module->lookupSymbol<nd::ProgramOp>("p"), state)));
  EXPECT_EQ(message, "'nd.input' op was given no tensor 'image'");
}

} // namespace
