// Gradients of models in the language, whose loops stay loops or are written
// out, against differences of the loss.

#include "GradientCheck.h"

#include "tests/frontend/SpecTesting.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

class ModelGradient : public ::testing::TestWithParam<const char *> {};

/// Numbers of the model's size for each of its floats that `wanted` names.
F64State makeState(nd::ProgramOp program, std::vector<std::string> &wanted) {
  std::mt19937_64 bits(1);
  F64State state;
  for (mlir::Operation &op : program.getBody().front()) {
    auto entry = llvm::dyn_cast<nd::BorderOpInterface>(op);
    if (!entry || entry.isExit())
      continue;
    nd::NamedTensorType type = entry.getGlobalType();
    F64Tensor tensor(type.getSizes());
    bool isFloat = llvm::isa<mlir::FloatType>(type.getElementType());
    for (Scalar<F64> &element : tensor.elements)
      if (isFloat)
        element = double(bits() >> 11) * 0x1p-52 - 1;
      else
        element = int64_t(bits() % 3);
    std::string name = entry.getBorderName().str();
    (entry.isVariable() ? state.variables : state.inputs)[name] = tensor;
    if (isFloat && !llvm::is_contained(wanted, name))
      wanted.push_back(name);
  }
  return state;
}

TEST_P(ModelGradient, MatchesDifferences) {
  auto text = llvm::MemoryBuffer::getFile(std::string(MESHC_SOURCE_DIR) +
                                          "/tests/end_to_end/" + GetParam());
  ASSERT_TRUE(bool(text));
  for (bool loopsStay : {false, true}) {
    SCOPED_TRACE(loopsStay ? "loops stay" : "loops are written out");
    frontend::SpecRun run((*text)->getBuffer().str());
    ASSERT_TRUE(run.module) << run.getText();
    auto forward = run.module->lookupSymbol<nd::ProgramOp>("forward");
    DifferentiateOptions options;
    std::vector<std::string> wanted;
    F64State state = makeState(forward, wanted);
    options.wanted =
        llvm::SmallVector<std::string>(wanted.begin(), wanted.end());
    mlir::PassManager passes(run.module->getContext());
    if (!loopsStay)
      passes.addPass(createUnroll());
    passes.addPass(createDifferentiate(options));
    ASSERT_TRUE(succeeded(passes.run(*run.module)));
    auto evaluate = [&](const char *program) {
      EXPECT_TRUE(succeeded(
          runProgram(run.module->lookupSymbol<nd::ProgramOp>(program), state)));
      return state.outputs;
    };
    const auto gradients = evaluate("gradient");
    for (const std::string &name : wanted) {
      F64Tensor &values = state.variables.contains(name)
                              ? state.variables.at(name)
                              : state.inputs.at(name);
      // Every seventh element: all are many.
      for (size_t i = 0; i < values.elements.size(); i += 7) {
        constexpr double h = 1e-3;
        double x = asNumber<F64>(values.elements[i]);
        auto at = [&](double step) {
          values.elements[i] = x + step;
          return asNumber<F64>(evaluate("forward").at("loss").elements[0]);
        };
        double slope =
            (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        values.elements[i] = x;
        double found = asNumber<F64>(gradients.at("grad:" + name).elements[i]);
        EXPECT_NEAR(found, slope, 1e-8 * (1 + std::abs(slope)))
            << name << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Loops, ModelGradient,
                         ::testing::Values("gru.mesh", "loops.mesh",
                                           "maps.mesh",
                                           "recurrent_layers.mesh"),
                         [](const auto &info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

} // namespace
