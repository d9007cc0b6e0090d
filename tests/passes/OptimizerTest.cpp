// Training steps against optimizers written out by hand. The loss is
// sum(c (w - t)^2), whose gradient 2 c (w - t) the reference computes itself.

#include "GradientCheck.h"

#include "passes/Optimizers.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

/// Two parameters, one with two dimensions and one a scalar.
std::string getText(const std::string &optimizer) {
  return getAliases() + R"(module {
    nd.variable parameter @w : !ab = #nd.fill<1.0 : f64>
    nd.variable parameter @bias : !s = #nd.fill<-2.0 : f64>
    nd.training minimize "loss" by )" +
         optimizer + R"( epochs 1 steps 0
    nd.program @forward {
      %c = nd.input "c" : !b
      %t = nd.input "t" : !ab
      %w = nd.read @w : !ab
      %bias = nd.read @bias : !s
      %d = nd.sub %w, %t : (!ab, !ab) -> !ab
      %q = nd.mul %d, %d : (!ab, !ab) -> !ab
      %s = nd.mul %q, %c : (!ab, !b) -> !ab
      %lw = nd.reduce sum %s : (!ab) -> !s
      %lb = nd.mul %bias, %bias : (!s, !s) -> !s
      %loss = nd.add %lw, %lb : (!s, !s) -> !s
      nd.output "loss", %loss : !s
    }
  })";
}

/// One number under optimization, by the book.
struct Reference {
  double w, m = 0, v = 0;
  int t = 0;

  void sgd(double g, double lr) { w -= lr * g; }
  void momentum(double g, double lr, double beta) {
    v = beta * v + g;
    w -= lr * v;
  }
  void adam(double g, double lr, double beta1, double beta2, double epsilon) {
    ++t;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    double mean = m / (1 - std::pow(beta1, t));
    double variance = v / (1 - std::pow(beta2, t));
    w -= lr * mean / (std::sqrt(variance) + epsilon);
  }
};

/// Runs five steps and compares parameters after each of them.
void checkSteps(const std::string &optimizer,
                std::function<void(Reference &, double)> update,
                bool decompose) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  auto module = parse(*context, getText(optimizer));
  ASSERT_TRUE(module);
  mlir::PassManager passes(context.get());
  passes.addPass(createBuildStep());
  passes.addPass(createBuildInit());
  if (decompose) {
    passes.addPass(createDecompose());
    passes.addPass(mlir::createCSEPass());
  }
  ASSERT_TRUE(succeeded(passes.run(*module)));

  F64State state;
  state.inputs["random seed"] = ints({}, {11});
  state.inputs["c"] = floats({3}, {0.5, 2, 3});
  state.inputs["t"] = floats({2, 3}, {1, -1, 0.25, 3, 0.1, -7});
  ASSERT_TRUE(succeeded(
      runProgram(module->lookupSymbol<nd::ProgramOp>("init"), state)));

  std::vector<Reference> weights(6, Reference{1});
  Reference bias{-2};
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < 6; ++i) {
      double c = asNumber<F64>(state.inputs["c"].elements[i % 3]);
      double t = asNumber<F64>(state.inputs["t"].elements[i]);
      update(weights[i], 2 * c * (weights[i].w - t));
    }
    update(bias, 2 * bias.w);
    ASSERT_TRUE(succeeded(
        runProgram(module->lookupSymbol<nd::ProgramOp>("step"), state)));
    // Hyper-parameters are f64 constants, but adam's scalars of the step are
    // f32 ones: beta = 0.999 rounds to within 3e-8, which 1 - beta^t magnifies
    // a thousand times.
    for (int i = 0; i < 6; ++i)
      EXPECT_NEAR(asNumber<F64>(state.variables["w"].elements[i]), weights[i].w,
                  3e-5)
          << "step " << step << " element " << i;
    EXPECT_NEAR(asNumber<F64>(state.variables["bias"].elements[0]), bias.w,
                3e-5);
  }
}

class OptimizerTest : public ::testing::TestWithParam<bool> {};

TEST_P(OptimizerTest, Sgd) {
  checkSteps(
      "\"sgd\" {lr = 0.05}", [](Reference &w, double g) { w.sgd(g, 0.05); },
      GetParam());
}

TEST_P(OptimizerTest, Momentum) {
  checkSteps(
      "\"momentum\" {lr = 0.03, beta = 0.7}",
      [](Reference &w, double g) { w.momentum(g, 0.03, 0.7); }, GetParam());
}

TEST_P(OptimizerTest, Adam) {
  checkSteps(
      "\"adam\" {lr = 0.2, beta1 = 0.8, beta2 = 0.95, epsilon = 1.0e-3}",
      [](Reference &w, double g) { w.adam(g, 0.2, 0.8, 0.95, 1e-3); },
      GetParam());
  checkSteps(
      "\"adam\" {lr = 0.2, beta1 = 0.9, beta2 = 0.999, epsilon = 1.0e-8}",
      [](Reference &w, double g) { w.adam(g, 0.2, 0.9, 0.999, 1e-8); },
      GetParam());
}

TEST_P(OptimizerTest, AdamWithoutMemoryFollowsTheSign) {
  checkSteps(
      "\"adam\" {lr = 0.2, beta1 = 0.0, beta2 = 0.0, epsilon = 1.0e-8}",
      [](Reference &w, double g) { w.w -= 0.2 * g / (std::abs(g) + 1e-8); },
      GetParam());
}

INSTANTIATE_TEST_SUITE_P(BeforeAndAfterDecomposition, OptimizerTest,
                         ::testing::Bool());

TEST(OptimizerTable, KnowsNamesDefaultsAndRanges) {
  EXPECT_EQ(findOptimizer("adagrad"), nullptr);
  const Optimizer *adam = findOptimizer("adam");
  ASSERT_NE(adam, nullptr);
  EXPECT_EQ(adam->findHyper("momentum"), nullptr);
  EXPECT_EQ(adam->findHyper("beta2")->fallback, 0.999);
  EXPECT_TRUE(adam->findHyper("beta2")->accepts(0));
  EXPECT_FALSE(adam->findHyper("beta2")->accepts(1));
  EXPECT_FALSE(adam->findHyper("epsilon")->accepts(0));
  EXPECT_FALSE(adam->findHyper("lr")->accepts(std::nan("")));
  EXPECT_FALSE(adam->findHyper("lr")->accepts(INFINITY));
  EXPECT_FALSE(findOptimizer("sgd")->findHyper("lr")->fallback);
}

} // namespace
