// Training steps with the library's optimizers and schedules against the same
// written out by hand, in f64. The loss is sum(c (w - t)^2), whose gradient
// 2 c (w - t) the reference computes itself; w is stacked, so that each layer
// has an update of its own.

#include "GradientCheck.h"

#include "frontend/Spec.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

using namespace meshc;
using namespace meshc::frontend;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

using Vector = std::vector<double>;

double getNorm(const Vector &x) {
  double squares = 0;
  for (double each : x)
    squares += each * each;
  return std::sqrt(squares);
}

/// One parameter, or one layer of a stack, under optimization by the book.
struct Reference {
  Vector w, m = Vector(w.size()), v = Vector(w.size());

  /// w[i] -= step(i) for each element.
  void move(const std::function<double(size_t)> &step) {
    Vector steps(w.size());
    for (size_t i = 0; i < w.size(); ++i)
      steps[i] = step(i);
    for (size_t i = 0; i < w.size(); ++i)
      w[i] -= steps[i];
  }
  /// The running means, and Adam's direction of an element.
  double getAdam(size_t i, double g, int t, double beta1, double beta2,
                 double epsilon) {
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    return m[i] / (1 - std::pow(beta1, t)) /
           (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + epsilon);
  }
};

using Update = std::function<void(Reference &, const Vector &g, int t)>;

/// Of each optimizer a line of the train block and what it does.
struct Case {
  std::string line;
  Update update;
};

void PrintTo(const Case &c, std::ostream *out) { *out << c.line; }

/// w - lr(t) g, for schedules.
Case plain(const std::string &rate, const std::function<double(int)> &lr) {
  return {"sgd(lr = " + rate + ")", [=](Reference &p, const Vector &g, int t) {
            p.move([&](size_t i) { return lr(t) * g[i]; });
          }};
}

const std::vector<Case> cases = {
    plain("0.05", [](int) { return 0.05; }),
    {"momentum(lr = 0.03, beta = 0.7)",
     [](Reference &p, const Vector &g, int) {
       p.move([&](size_t i) { return 0.03 * (p.m[i] = 0.7 * p.m[i] + g[i]); });
     }},
    {"nesterov(lr = 0.03, beta = 0.7)",
     [](Reference &p, const Vector &g, int) {
       p.move([&](size_t i) {
         p.m[i] = 0.7 * p.m[i] + g[i];
         return 0.03 * (g[i] + 0.7 * p.m[i]);
       });
     }},
    {"adam(lr = 0.2, beta1 = 0.8, beta2 = 0.95, epsilon = 0.001)",
     [](Reference &p, const Vector &g, int t) {
       p.move([&](size_t i) {
         return 0.2 * p.getAdam(i, g[i], t, 0.8, 0.95, 1e-3);
       });
     }},
    {"adam",
     [](Reference &p, const Vector &g, int t) {
       p.move([&](size_t i) {
         return 0.001 * p.getAdam(i, g[i], t, 0.9, 0.999, 1e-8);
       });
     }},
    // Without memory it follows the sign.
    {"adam(lr = 0.2, beta1 = 0, beta2 = 0)",
     [](Reference &p, const Vector &g, int) {
       p.move([&](size_t i) { return 0.2 * g[i] / (std::abs(g[i]) + 1e-8); });
     }},
    {"adamw(lr = 0.1 * warmup(3), decay = 0.2)",
     [](Reference &p, const Vector &g, int t) {
       const double lr = 0.1 * std::min(t / 3.0, 1.0);
       p.move([&](size_t i) {
         return lr * (p.getAdam(i, g[i], t, 0.9, 0.999, 1e-8) + 0.2 * p.w[i]);
       });
     }},
    {"lamb(lr = 0.1, decay = 0.2)",
     [](Reference &p, const Vector &g, int t) {
       Vector u(g.size());
       for (size_t i = 0; i < g.size(); ++i)
         u[i] = p.getAdam(i, g[i], t, 0.9, 0.999, 1e-6) + 0.2 * p.w[i];
       const double trust = getNorm(p.w) / getNorm(u);
       p.move([&](size_t i) { return 0.1 * trust * u[i]; });
     }},
    {"lion(lr = 0.01, decay = 0.3)",
     [](Reference &p, const Vector &g, int) {
       p.move([&](size_t i) {
         const double u = 0.9 * p.m[i] + 0.1 * g[i];
         p.m[i] = 0.99 * p.m[i] + 0.01 * g[i];
         return 0.01 * (double(u > 0) - double(u < 0) + 0.3 * p.w[i]);
       });
     }},
    // A hyper-parameter of the step that is none of the learning rate.
    {"momentum(lr = 0.03, beta = 0.5 * warmup(4))",
     [](Reference &p, const Vector &g, int t) {
       const double beta = 0.5 * std::min(t / 4.0, 1.0);
       p.move([&](size_t i) { return 0.03 * (p.m[i] = beta * p.m[i] + g[i]); });
     }},
    plain("0.02 * cosine(2, 6, low = 0.1)",
          [](int t) {
            const double at = std::clamp((t - 2) / 4.0, 0.0, 1.0);
            return 0.02 *
                   (0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * at)));
          }),
    plain("0.02 * linear(2, 6, low = 0.1)",
          [](int t) {
            return 0.02 * (1 - 0.9 * std::clamp((t - 2) / 4.0, 0.0, 1.0));
          }),
    plain("0.02 * polynomial(2, 6)",
          [](int t) {
            return 0.02 * std::pow(1 - std::clamp((t - 2) / 4.0, 0.0, 1.0), 2);
          }),
    plain("0.02 * inverse_sqrt(3)",
          [](int t) { return 0.02 * std::sqrt(3.0 / std::max(t, 3)); }),
    plain("0.02 * staircase(3)",
          [](int t) { return 0.02 * std::pow(0.1, (t - 1) / 3); }),
    // One of the spec's own, with state of fewer dims and of a call in it.
    {"mine(lr = 0.1)",
     [](Reference &p, const Vector &g, int) {
       // v[0] is the state of all elements.
       const double size = getNorm(g);
       p.v[0] = 0.5 * p.v[0] + size;
       p.move([&](size_t i) {
         p.m[i] = 0.25 * p.m[i] + g[i];
         return 0.1 * p.m[i] / p.v[0];
       });
     }},
};

/// The spec's own optimizer; two parameters, one stacked over three layers of
/// 2 x 2 and one without dims.
std::string getText(const std::string &optimizer) {
  return R"(
    dim layer = 3
    dim a = 2
    dim b = 2
    fn mean_of(x, keep) {
      state m: [dims(x)] = 0
      m = keep * m + x
      return m
    }
    fn mine(w, g, lr) {
      state size: [] = 0
      size = 0.5 * size + norm(g)
      return w - lr * mean_of(g, 0.25) / size
    }
    model m(c: f64[b], t: f64[layer, a, b]) {
      param bias: f64 = -2
      let loss: f64 = bias * bias
      for i in layer {
        param w: f64[a, b] = 1
        loss += sum(c * (w - t[layer = i]) ^ 2)
      }
      output result = loss
    }
    train { minimize result steps 1 optimizer )" +
         optimizer + "}";
}

class OptimizerTest : public ::testing::TestWithParam<Case> {};

} // namespace

TEST_P(OptimizerTest, StepsAreThoseByTheBook) {
  SourceSet sources;
  Diagnostics diagnostics(sources);
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  SpecOptions options{"test.mesh"};
  options.text = getText(GetParam().line);
  auto module = compileSpec(options, *context, sources, diagnostics);
  ASSERT_TRUE(module) << render(diagnostics, MessageFormat::Text);
  mlir::PassManager passes(context.get());
  passes.addPass(createMapLoops());
  passes.addPass(createUnroll());
  passes.addPass(createBuildStep());
  passes.addPass(createBuildInit());
  passes.addPass(createDecompose());
  ASSERT_TRUE(succeeded(passes.run(*module)));

  F64State state;
  const Vector c = {0.5, 2},
               t = {1, -1, 0.25, 3, 0.1, -7, 2, 0.3, -0.4, 5, -6, 0.7};
  state.inputs["random seed"] = ints({}, {11});
  state.inputs["c"] = F64Tensor({2}, 0.0);
  llvm::copy(c, state.inputs["c"].elements.begin());
  state.inputs["t"] = F64Tensor({3, 2, 2}, 0.0);
  llvm::copy(t, state.inputs["t"].elements.begin());
  ASSERT_TRUE(succeeded(
      runProgram(module->lookupSymbol<nd::ProgramOp>("init"), state)));

  std::vector<Reference> layers(3, Reference{Vector(4, 1.0)});
  Reference bias{{-2}};
  for (int step = 1; step <= 10; ++step) {
    for (size_t layer = 0; layer < 3; ++layer) {
      Vector g(4);
      for (size_t i = 0; i < 4; ++i)
        g[i] = 2 * c[i % 2] * (layers[layer].w[i] - t[4 * layer + i]);
      GetParam().update(layers[layer], g, step);
    }
    GetParam().update(bias, {2 * bias.w[0]}, step);
    state.inputs[nd::InputOp::stepName.str()] = ints({}, {step});
    ASSERT_TRUE(succeeded(
        runProgram(module->lookupSymbol<nd::ProgramOp>("step"), state)));
    auto check = [&](const std::string &name, size_t i, double expected) {
      EXPECT_NEAR(asNumber<F64>(state.variables.at(name).elements[i]), expected,
                  1e-11 * std::max(1.0, std::abs(expected)))
          << name << " after step " << step << ", element " << i;
    };
    for (size_t i = 0; i < 12; ++i)
      check("i/w", i, layers[i / 4].w[i % 4]);
    check("bias", 0, bias.w[0]);
  }
}

/// Two outputs, each for its own parameter: both gradients are taken where both
/// parameters were before the step.
TEST(Objectives, EachParameterFollowsItsOwn) {
  SourceSet sources;
  Diagnostics diagnostics(sources);
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  SpecOptions options{"test.mesh"};
  options.text = R"(
    model gan(x: f64) {
      param critic: f64 = 3
      param maker: f64 = 2
      let made = maker * x
      output critic_loss = critic * made + critic ^ 2
      output maker_loss = critic * critic * made
    }
    train { minimize critic_loss minimize maker_loss for "maker"
            steps 1 optimizer sgd(lr = 0.1) })";
  auto module = compileSpec(options, *context, sources, diagnostics);
  ASSERT_TRUE(module) << render(diagnostics, MessageFormat::Text);
  mlir::PassManager passes(context.get());
  passes.addPass(createDifferentiate());
  passes.addPass(createBuildStep());
  ASSERT_TRUE(succeeded(passes.run(*module)));

  F64State state;
  state.inputs["x"] = F64Tensor({}, 0.5);
  state.variables["critic"] = F64Tensor({}, 3.0);
  state.variables["maker"] = F64Tensor({}, 2.0);
  ASSERT_TRUE(succeeded(
      runProgram(module->lookupSymbol<nd::ProgramOp>("gradient"), state)));
  auto get = [](const F64Tensor &tensor) {
    return asNumber<F64>(tensor.elements[0]);
  };
  const double ofCritic = 2 * 0.5 + 2 * 3, ofMaker = 3 * 3 * 0.5;
  EXPECT_DOUBLE_EQ(get(state.outputs.at("grad:critic")), ofCritic);
  EXPECT_DOUBLE_EQ(get(state.outputs.at("grad:maker")), ofMaker);
  ASSERT_TRUE(succeeded(
      runProgram(module->lookupSymbol<nd::ProgramOp>("step"), state)));
  EXPECT_DOUBLE_EQ(get(state.variables.at("critic")), 3 - 0.1 * ofCritic);
  EXPECT_DOUBLE_EQ(get(state.variables.at("maker")), 2 - 0.1 * ofMaker);
}

INSTANTIATE_TEST_SUITE_P(Lines, OptimizerTest, ::testing::ValuesIn(cases));
