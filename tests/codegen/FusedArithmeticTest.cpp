// A kernel rounds what the program says, once or twice, on every target: LLVM
// and the GPU's assembler put nothing together.

#include "tests/codegen/KernelRunner.h"

#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::test;

namespace {

/// A product and what is added to it, such that rounding the product first
/// leaves nothing: (1 + h)^2 and -(1 + 2 h), where h^2 is half a unit in the
/// last place of 1 or less. Rounded once, h^2 is left.
struct Numbers {
  std::string type;
  double h;
};
const Numbers numbers[] = {{"f32", 0x1p-12}, {"f64", 0x1p-27}};

/// `sum` of the product %a0 and %a1. `isRead`: the product is an output too.
ProgramText getSum(const std::string &type, const std::string &sum,
                   bool isRead) {
  ProgramText text;
  text.dim("d", 37);
  for (const char *name : {"x", "y", "z"})
    text.input(name, "d", type);
  text.pointwise("p", "d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : " + type,
                 type);
  text.pointwise("s", "d", {"p", "z"}, "%r = " + sum + " : " + type, type);
  if (isRead)
    text.output("p");
  text.output("s");
  return text;
}

/// A sum of products over the rows.
ProgramText getRowSum(bool isRead) {
  ProgramText text;
  text.dim("r", 2);
  text.dim("d", 37);
  text.input("x", "r d");
  text.input("y", "r d");
  text.pointwise("p", "r d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("s", "d", {"p"}, "arith.addf", "0.0");
  if (isRead)
    text.output("p");
  text.output("s");
  return text;
}

F64Tensor makeFilled(llvm::ArrayRef<int64_t> sizes, double number) {
  F64Tensor tensor(sizes);
  llvm::fill(tensor.elements, interpreter::Scalar<interpreter::F64>(number));
  return tensor;
}

/// What every element of the output s is, on processors and on a GPU.
void expectSums(const ProgramText &text, const F64State &inputs,
                double expected) {
  std::vector<std::unique_ptr<KernelRunner>> runners;
  for (const char *cpu : {"native", "x86-64-v3"})
    runners.push_back(KernelRunner::create(text.str(), cpu));
  runners.push_back(KernelRunner::createGpu(text.str()));
  for (auto [target, runner] : llvm::enumerate(runners)) {
    ASSERT_TRUE(runner);
    F64State state = inputs;
    runner->run(state);
    EXPECT_EQ(state.outputs.at("s"),
              makeFilled(state.outputs.at("s").sizes, expected))
        << "target " << target << "\n"
        << text.str();
  }
}

TEST(FusedArithmetic, a_product_is_rounded_with_the_sum_that_alone_reads_it) {
  for (const auto &[type, h] : numbers) {
    F64State state;
    state.inputs["x"] = state.inputs["y"] = makeFilled({37}, 1 + h);
    for (bool isRead : {false, true}) {
      const double left = isRead ? 0 : h * h;
      state.inputs["z"] = makeFilled({37}, -1 - 2 * h);
      expectSums(getSum(type, "arith.addf %a0, %a1", isRead), state, left);
      expectSums(getSum(type, "arith.addf %a1, %a0", isRead), state, left);
      state.inputs["z"] = makeFilled({37}, 1 + 2 * h);
      expectSums(getSum(type, "arith.subf %a0, %a1", isRead), state, left);
      expectSums(getSum(type, "arith.subf %a1, %a0", isRead), state, -left);
    }
  }
}

TEST(FusedArithmetic, products_go_into_sums_over_rows_unless_they_are_read) {
  F64State state;
  state.inputs["x"] = F64Tensor({2, 37});
  state.inputs["y"] = F64Tensor({2, 37});
  for (int64_t i = 0; i < 37; ++i) {
    state.inputs["x"].elements[i] = -1 - 0x1p-11;
    state.inputs["y"].elements[i] = 1.0;
    state.inputs["x"].elements[37 + i] = 1 + 0x1p-12;
    state.inputs["y"].elements[37 + i] = 1 + 0x1p-12;
  }
  expectSums(getRowSum(false), state, 0x1p-24);
  expectSums(getRowSum(true), state, 0);
}

/// Whether the extreme of `body`, of f32 tensors x and y, is found where a
/// stage computes it again, in rows that stay in registers and others that do
/// not. `inner` is needed itself.
void expectFound(const std::string &inner, const std::string &body) {
  for (int64_t columns : {40, 70000}) {
    ProgramText text;
    text.dim("r", columns == 40 ? 500 : 2);
    text.dim("d", columns);
    text.input("x", "r d");
    text.input("y", "r d");
    text.pointwise("i", "r d", {"x", "y"}, inner);
    text.output("i");
    text.pointwise("s", "r d", {"i", "y"}, body);
    text.reduce("m", "r", {"s"}, "arith.maximumf", "0xFF800000");
    text.pointwise("e", "r d", {"s", "m"},
                   "%one = arith.constant 1.0 : f32\n"
                   "%zero = arith.constant 0.0 : f32\n"
                   "%e = arith.cmpf oeq, %a0, %a1 : f32\n"
                   "%r = arith.select %e, %one, %zero : f32");
    text.reduce("found", "r", {"e"}, "arith.maximumf", "0.0");
    text.output("found");
    expectAgreement(text);
  }
}

TEST(FusedArithmetic, an_extreme_is_found_where_it_is_computed_again) {
  expectFound("%r = arith.mulf %a0, %a1 : f32",
              "%r = arith.addf %a0, %a1 : f32");
  expectFound("%r = arith.mulf %a0, %a0 : f32",
              "%r = arith.subf %a1, %a0 : f32");
  expectFound("%r = math.tanh %a0 : f32", "%one = arith.constant 1.0 : f32\n"
                                          "%r = arith.addf %one, %a0 : f32");
  expectFound("%r = math.erf %a0 : f32", "%one = arith.constant 1.0 : f32\n"
                                         "%r = arith.addf %one, %a0 : f32");
  expectFound("%c = arith.constant 0.5 : f32\n"
              "%n = arith.mulf %a0, %a0 : f32\n"
              "%m = arith.addf %n, %c : f32\n"
              "%r = math.sqrt %m : f32",
              "%one = arith.constant 1.0 : f32\n"
              "%r = arith.divf %one, %a0 : f32");
}

/// A quotient is another one where it becomes an integer, on GPUs: of its own.
TEST(FusedArithmetic, an_integer_does_not_change_the_quotient_it_comes_from) {
  ProgramText text;
  text.dim("r", 500);
  text.dim("d", 40);
  text.input("x", "r d");
  text.input("y", "r d");
  text.pointwise("q", "r d", {"x", "y"},
                 "%two = arith.constant 2.0 : f32\n"
                 "%n = math.absf %a1 : f32\n"
                 "%d = arith.addf %n, %two : f32\n"
                 "%r = arith.divf %a0, %d : f32");
  text.reduce("m", "r", {"q"}, "arith.maximumf", "0xFF800000");
  text.pointwise("i", "r d", {"q"}, "%r = arith.fptosi %a0 : f32 to i32",
                 "i32");
  text.output("i");
  text.pointwise("e", "r d", {"q", "m"},
                 "%one = arith.constant 1.0 : f32\n"
                 "%zero = arith.constant 0.0 : f32\n"
                 "%e = arith.cmpf oeq, %a0, %a1 : f32\n"
                 "%r = arith.select %e, %one, %zero : f32");
  text.reduce("found", "r", {"e"}, "arith.maximumf", "0.0");
  text.output("found");
  expectAgreement(text);
}

} // namespace
