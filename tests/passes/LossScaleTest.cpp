// Training steps in fp16, in the interpreter, which overflows as f16 does.

#include "tests/dialect/Programs.h"
#include "tests/dialect/Updates.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

/// y = x w through an f16 product; loss = sum(y): the gradient of w is x, and
/// on the way the scale itself goes through f16.
std::string getText(double scale, int growthSteps) {
  return R"(
  !x = !nd.tensor<["b"=2, "i"=3], f32>
  !w = !nd.tensor<["i"=3, "o"=2], f32>
  !y = !nd.tensor<["b"=2, "o"=2], f32>
  !s = !nd.tensor<[], f32>
  module {
    nd.precision fp16 {scale = )" +
         llvm::formatv("{0:e20}", scale).str() +
         " : f64, growth_steps = " + std::to_string(growthSteps) + R"( : i64}
    nd.variable parameter @w : !w = #nd.fill<1.0 : f64>
    nd.training minimize "loss" by "" epochs 1 steps 0
    nd.program @forward {
      %x = nd.input "x" : !x
      %w = nd.read @w : !w
      %y = nd.einsum %x, %w : (!x, !w) -> !y
      %loss = nd.reduce sum %y : (!y) -> !s
      nd.output "loss", %loss : !s
    }
  })";
}

const UpdateBuilder::Hyper hyper = {
    {"lr", 0.5}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}};

class LossScaleTest : public ::testing::Test {
protected:
  /// Builds @step and sets what it reads.
  void build(double scale, int growthSteps, const char *optimizer = "sgd") {
    context = makeContext();
    module = parse(*context, getText(scale, growthSteps));
    ASSERT_TRUE(module);
    UpdateBuilder::add(*module, optimizer, hyper);
    state.inputs[nd::InputOp::stepName.str()] = ints({}, {1});
    mlir::PassManager manager(context.get());
    manager.addPass(createLowerPrecision());
    manager.addPass(createBuildStep());
    ASSERT_TRUE(succeeded(manager.run(*module)));
    for (auto variable : module->getOps<nd::VariableOp>()) {
      nd::NamedTensorType type = variable.getTensorType();
      double start = llvm::cast<nd::FillAttr>(variable.getInit())
                         .getValue()
                         .getValueAsDouble();
      bool isInteger = llvm::isa<mlir::IntegerType>(type.getElementType());
      state.variables[variable.getSymName().str()] =
          F64Tensor(type.getSizes(), isInteger ? Scalar<F64>(int64_t(start))
                                               : Scalar<F64>(start));
    }
  }

  /// One step on inputs that are all `x`.
  void step(double x) {
    state.inputs["x"] = F64Tensor({2, 3}, x);
    ASSERT_TRUE(succeeded(
        runProgram(module->lookupSymbol<nd::ProgramOp>("step"), state)));
  }

  double getNumber(const std::string &name) {
    const Scalar<F64> &element = state.variables.at(name).elements[0];
    return std::holds_alternative<double>(element)
               ? std::get<double>(element)
               : double(std::get<int64_t>(element));
  }
  double getScale() { return getNumber("fp16/loss_scale"); }

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  F64State state;
};

TEST_F(LossScaleTest, gradients_are_unscaled) {
  build(1024, 100);
  step(0.25); // gradient 2 * 0.25
  EXPECT_EQ(getNumber("w"), 1 - 0.5 * 0.5);
  EXPECT_EQ(getScale(), 1024);
  EXPECT_EQ(getNumber("fp16/good_steps"), 1);
  EXPECT_EQ(getNumber("fp16/skipped_steps"), 0);
}

/// Below 2^-24 an f16 is 0: without a scale there would be no gradient.
TEST_F(LossScaleTest, small_gradients_survive) {
  build(1024, 100);
  state.inputs["x"] = F64Tensor({2, 3}, 0.0);
  step(0x1p-24);
  EXPECT_EQ(getNumber("w"), 1 - 0.5 * 2 * 0x1p-24);
}

TEST_F(LossScaleTest, an_overflow_changes_the_scale_alone) {
  build(0x1p24, 100, "adam"); // more than f16 holds
  F64State before = state;
  step(1);
  EXPECT_EQ(getScale(), 0x1p23);
  EXPECT_EQ(getNumber("fp16/skipped_steps"), 1);
  for (const auto &[name, tensor] : before.variables)
    if (!llvm::StringRef(name).starts_with("fp16/"))
      EXPECT_EQ(state.variables.at(name), tensor) << name;
  // The outputs are those after the step.
  EXPECT_EQ(std::get<double>(state.outputs.at("fp16/loss_scale").elements[0]),
            0x1p23);
  EXPECT_EQ(
      std::get<int64_t>(state.outputs.at("fp16/skipped_steps").elements[0]), 1);
  // Until the scale fits f16, whose largest number is 65504; then training
  // goes on as if nothing had been.
  double skipped = 0;
  while (getNumber("fp16/skipped_steps") > skipped) {
    ASSERT_EQ(getNumber("w"), 1);
    ASSERT_LE(++skipped, 24);
    step(1);
  }
  EXPECT_EQ(getScale(), 0x1p15);
  EXPECT_EQ(skipped, 9);
  EXPECT_NEAR(getNumber("w"), 1 - 0.5, 1e-6); // adam's first step is lr
}

TEST_F(LossScaleTest, a_nan_is_no_gradient) {
  build(4, 100);
  step(NAN);
  EXPECT_EQ(getNumber("w"), 1);
  EXPECT_EQ(getScale(), 2);
  EXPECT_EQ(getNumber("fp16/skipped_steps"), 1);
}

TEST_F(LossScaleTest, good_steps_in_a_row_double_it) {
  build(4, 3);
  for (double expected : {4.0, 4.0, 8.0, 8.0, 8.0, 16.0}) {
    step(1);
    EXPECT_EQ(getScale(), expected);
  }
  // An overflow begins the row anew.
  step(1);
  step(1);
  step(NAN);
  EXPECT_EQ(getScale(), 8);
  for (double expected : {8.0, 8.0, 16.0}) {
    step(1);
    EXPECT_EQ(getScale(), expected);
  }
}

TEST_F(LossScaleTest, stays_in_its_range) {
  build(0x1p-23, 1);
  for (int i = 0; i < 5; ++i)
    step(NAN);
  EXPECT_EQ(getScale(), 0x1p-24);
  // Gradients of 0 overflow at no scale.
  for (int i = 0; i < 60; ++i) {
    state.variables["fp16/loss_scale"] = F64Tensor({}, 0x1p24);
    step(0);
  }
  EXPECT_LE(getScale(), 0x1p24);
}

/// The gradients of an evaluation with inputs that are all `x`, after `runs` of
/// @gradient, each of which but the last asks for another.
F64Tensor evaluate(double scale, double x, int &runs, double &scaleAfter) {
  auto context = makeContext();
  auto module = parse(*context, getText(scale, 100));
  mlir::PassManager manager(context.get());
  manager.addPass(createLowerPrecision());
  manager.addPass(createDifferentiate());
  EXPECT_TRUE(succeeded(manager.run(*module)));
  F64State state;
  state.variables["w"] = F64Tensor({3, 2}, 1.0);
  state.variables["fp16/loss_scale"] = F64Tensor({}, scale);
  auto program = module->lookupSymbol<nd::ProgramOp>("gradient");
  for (runs = 1; runs < 100; ++runs) {
    state.inputs["x"] = F64Tensor({2, 3}, x);
    EXPECT_TRUE(succeeded(runProgram(program, state)));
    if (asInteger<F64>(state.outputs.at("fp16/retry").elements[0]) == 0)
      break;
  }
  scaleAfter = asNumber<F64>(state.variables.at("fp16/loss_scale").elements[0]);
  return state.outputs.at("grad:w");
}

/// The gradient is 2 x; what flows back is the scale, and in the end their
/// product, in f32: the largest f16 is 65504.
TEST(LossScaleOfAnEvaluation, FallsUntilGradientsFit) {
  int runs;
  double scale;
  EXPECT_EQ(evaluate(65536, 1, runs, scale), F64Tensor({3, 2}, 2.0));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(scale, 32768);
  EXPECT_EQ(evaluate(0x1p24, 0.5, runs, scale), F64Tensor({3, 2}, 1.0));
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(evaluate(1024, 0x1p-20, runs, scale), F64Tensor({3, 2}, 0x1p-19));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(scale, 1024);
}

/// Nothing is gained by a smaller scale where the loss is no number.
TEST(LossScaleOfAnEvaluation, IsLeftAloneWithoutALoss) {
  int runs;
  double scale;
  evaluate(65536, HUGE_VAL, runs, scale);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(scale, 65536);
}

} // namespace
