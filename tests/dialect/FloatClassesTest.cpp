// Every class that an operation's result falls into, for operands of every
// class, is one that it says it may hold.

#include "Programs.h"

#include "dialect/GradientBuilder.h"

#include "llvm/ADT/APFloat.h"

#include <gtest/gtest.h>

#include <limits>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double samples[] = {
    -infinity, -3,       -0.5,
    0,         0.5,      1,
    3,         infinity, std::numeric_limits<double>::quiet_NaN()};
constexpr int64_t count = std::size(samples);

/// Zeros of both signs and numbers of every size go together.
llvm::FPClassTest classify(double number) {
  llvm::FPClassTest one = llvm::APFloat(number).classify();
  if (one & llvm::fcZero)
    return llvm::fcZero;
  if (one & llvm::fcNan)
    return llvm::fcNan;
  if (one & llvm::fcFinite)
    return number < 0 ? llvm::fcNegNormal | llvm::fcNegSubnormal
                      : llvm::fcPosNormal | llvm::fcPosSubnormal;
  return one;
}

/// Runs `body`, which makes %z of %x and %y, for all pairs of samples.
void check(const std::string &body) {
  SCOPED_TRACE(body);
  auto context = makeContext();
  const std::string size = std::to_string(count);
  auto module = parse(*context, "!x = !nd.tensor<[\"x\"=" + size +
                                    "], f64>\n!y = !nd.tensor<[\"y\"=" + size +
                                    "], f64>\n!z = !nd.tensor<[\"x\"=" + size +
                                    ", \"y\"=" + size +
                                    "], f64>\n!s = !nd.tensor<[], f64>\n"
                                    "!c = !nd.tensor<[\"x\"=" +
                                    size + R"(], i1>
    module {
      nd.program @forward {
        %x = nd.input "x" : !x
        %y = nd.input "y" : !y
        )" + body + R"(
        nd.output "z", %z : !z
      }
    })");
  ASSERT_TRUE(module);
  F64State state;
  F64Tensor values({count});
  for (int64_t i = 0; i < count; ++i)
    values.elements[i] = samples[i];
  state.inputs["x"] = state.inputs["y"] = values;
  auto program = module->lookupSymbol<nd::ProgramOp>("forward");
  ASSERT_TRUE(succeeded(runProgram(program, state)));
  const F64Tensor &found = state.outputs.at("z");
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < count; ++j) {
      llvm::DenseMap<mlir::Value, llvm::FPClassTest> classes;
      llvm::FPClassTest last = llvm::fcNone;
      for (mlir::Operation &op : program.getBody().front()) {
        if (auto input = llvm::dyn_cast<nd::InputOp>(op)) {
          classes[input] = classify(samples[input.getName() == "x" ? i : j]);
          continue;
        }
        auto told = llvm::dyn_cast<nd::FloatClassOpInterface>(op);
        if (!told)
          continue;
        llvm::SmallVector<llvm::FPClassTest> operands;
        for (mlir::Value operand : op.getOperands())
          operands.push_back(classes.lookup(operand));
        last = classes[op.getResult(0)] = told.getResultClasses(operands);
      }
      double number = asNumber<F64>(found.elements[i * count + j]);
      EXPECT_TRUE(classify(number) & last)
          << samples[i] << ", " << samples[j] << ": " << number << " is not in "
          << unsigned(last);
    }
}

TEST(FloatClasses, OfFunctionsOfOneNumber) {
  for (const char *op :
       {"neg", "exp", "log", "tanh", "logistic", "erf", "erf_inv", "sin", "cos",
        "sqrt", "rsqrt", "abs", "sign", "stop_gradient"})
    check("%f = nd." + std::string(op) + R"( %x : (!x) -> !x
        %z = nd.broadcast %f : (!x) -> !z)");
}

TEST(FloatClasses, OfFunctionsOfTwoNumbers) {
  for (const char *op :
       {"add", "sub", "mul", "div", "maximum", "minimum", "pow"})
    check("%z = nd." + std::string(op) + " %x, %y : (!x, !y) -> !z");
  check("%z = nd.einsum %x, %y : (!x, !y) -> !z");
}

TEST(FloatClasses, OfSquaresAndPowers) {
  check(R"(%f = nd.mul %x, %x : (!x, !x) -> !x
        %z = nd.add %f, %y : (!x, !y) -> !z)");
  check("%z = nd.einsum %x, %x, %y : (!x, !x, !y) -> !z");
  for (const char *power : {"3.0", "0.5", "-1.0", "-0.5", "0.0"})
    check("%n = nd.constant(" + std::string(power) + R"( : f64) : !s
        %f = nd.pow %x, %n : (!x, !s) -> !x
        %z = nd.broadcast %f : (!x) -> !z)");
}

TEST(FloatClasses, OfChoices) {
  for (const char *predicate : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (const char *bound : {"-1.0", "0.0", "1.0"})
      for (const char *operands :
           {"%x, %y : (!c, !x, !y)", "%y, %x : (!c, !y, !x)"})
        check("%n = nd.constant(" + std::string(bound) +
              R"( : f64) : !s
        %c = nd.compare )" +
              predicate + R"( %x, %n : (!x, !s) -> !c
        %z = nd.select %c, )" +
              operands + " -> !z");
}

/// What may be there of float inputs, which are finite.
bool mayHold(const std::string &body, llvm::FPClassTest classes) {
  auto context = makeContext();
  auto module = parse(*context, R"(
    !v = !nd.tensor<["a"=2, "b"=3], f32>
    !a = !nd.tensor<["a"=2], f32>
    !t = !nd.tensor<["a"=2, "b"=3], i1>
    !s = !nd.tensor<[], f32>
    module {
      nd.program @forward {
        %x = nd.input "x" : !v
        %t = nd.input "t" : !t
        %zero = nd.constant(0.0 : f32) : !s
        %one = nd.constant(1.0 : f32) : !s
        %low = nd.constant(0xFF800000 : f32) : !s
        )" + body + R"(
        nd.output "z", %z : !v
      }
    })");
  EXPECT_TRUE(module);
  nd::GradientBuilder builder(context.get());
  for (auto output :
       module->lookupSymbol<nd::ProgramOp>("forward").getOps<nd::OutputOp>())
    return builder.mayHold(output.getValue(), classes);
  return false;
}

/// %z, the softmax of `input`.
std::string getSoftmax(const std::string &input) {
  return R"(%m = nd.reduce max )" + input + R"( : (!v) -> !a
      %k = nd.stop_gradient %m : (!a) -> !a
      %d = nd.sub )" +
         input + R"(, %k : (!v, !a) -> !v
      %e = nd.exp %d : (!v) -> !v
      %n = nd.reduce sum %e : (!v) -> !a
      %z = nd.div %e, %n : (!v, !a) -> !v)";
}

constexpr llvm::FPClassTest wrong = llvm::fcInf | llvm::fcNan;

/// What ordinary programs contract needs no guard.
TEST(FloatClasses, OrdinaryValuesAreFinite) {
  EXPECT_FALSE(mayHold(getSoftmax("%x"), wrong));
  EXPECT_FALSE(mayHold(R"(
      %y = nd.select %t, %x, %low : (!t, !v, !s) -> !v
      )" + getSoftmax("%y"),
                       wrong));
  EXPECT_FALSE(mayHold(R"(
      %m = nd.reduce mean %x : (!v) -> !a
      %d = nd.sub %x, %m : (!v, !a) -> !v
      %q = nd.mul %d, %d : (!v, !v) -> !v
      %v = nd.reduce mean %q : (!v) -> !a
      %p = nd.add %v, %one : (!a, !s) -> !a
      %r = nd.rsqrt %p : (!a) -> !a
      %z = nd.mul %d, %r : (!v, !a) -> !v)",
                       wrong));
  EXPECT_FALSE(mayHold(R"(
      %f = nd.erf %x : (!v) -> !v
      %g = nd.logistic %x : (!v) -> !v
      %h = nd.tanh %g : (!v) -> !v
      %i = nd.mul %f, %h : (!v, !v) -> !v
      %z = nd.maximum %i, %zero : (!v, !s) -> !v)",
                       wrong));
  // The operand made harmless.
  EXPECT_FALSE(mayHold(R"(
      %c = nd.compare gt %x, %zero : (!v, !s) -> !t
      %y = nd.select %c, %x, %one : (!t, !v, !s) -> !v
      %z = nd.log %y : (!v) -> !v)",
                       wrong));
}

TEST(FloatClasses, PolesAreNot) {
  for (const char *op : {"log", "sqrt", "rsqrt", "exp"})
    EXPECT_TRUE(
        mayHold("%z = nd." + std::string(op) + " %x : (!v) -> !v", wrong));
  EXPECT_TRUE(mayHold("%z = nd.div %x, %x : (!v, !v) -> !v", wrong));
  EXPECT_TRUE(mayHold("%z = nd.select %t, %x, %low : (!t, !v, !s) -> !v",
                      llvm::fcNegInf));
  EXPECT_FALSE(mayHold("%z = nd.select %t, %x, %low : (!t, !v, !s) -> !v",
                       llvm::fcNan | llvm::fcPosInf));
}

} // namespace
