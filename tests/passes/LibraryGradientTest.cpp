// Gradients of the library's layers that slide windows, from specs.

#include "GradientCheck.h"

#include "frontend/Spec.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc;
using namespace meshc::frontend;
using namespace meshc::test;

namespace {

struct Layer {
  std::string name;
  std::string dims; ///< besides a = 2, n = 5, m = 7, c = 3, k = 2
  std::string call; ///< of x[a, n, m, c]
  bool hasWeight = true;
};

void PrintTo(const Layer &layer, std::ostream *out) { *out << layer.name; }

const std::vector<Layer> layers = {
    {"plain", "dim u = 3\ndim v = 2", "conv(x, (n, m), (u, v), c, k) as f"},
    {"strided", "dim u = 3\ndim v = 3\ndim p = 3\ndim q = 4",
     "conv(x, (n, m), (u, v), c, k, at = (p, q), stride = 2) as f"},
    {"strided_by_more_than_the_window", "dim u = 2\ndim q = 3",
     "conv(x, m, u, c, k, at = q, stride = 3) as f"},
    {"dilated", "dim u = 3\ndim v = 2",
     "conv(x, (n, m), (u, v), c, k, dilation = 2) as f"},
    {"strided_and_dilated", "dim u = 3\ndim v = 2\ndim p = 3\ndim q = 4",
     "conv(x, (n, m), (u, v), c, k, at = (p, q), stride = 2, dilation = 2) "
     "as f"},
    {"for_each_channel", "dim u = 3\ndim q = 4",
     "conv(x, m, u, (), k, at = q, stride = 2, each = c) as f"},
    {"larger_window_than_input", "dim u = 7", "conv(x, n, u, c, k) as f"},
    {"transposed", "dim u = 2\ndim v = 3\ndim p = 10\ndim q = 21",
     "grow(x, (n, m), (p, q), (u, v), c, k) as f"},
    {"max_pool", "dim u = 3\ndim v = 3\ndim p = 3\ndim q = 4",
     "max_pool(x, (n, m), (p, q), (u, v))", false},
    {"max_pool_in_steps_of_three", "dim u = 2\ndim q = 3",
     "max_pool(x, m, q, u, stride = 3)", false},
    {"mean_pool", "dim u = 3\ndim v = 3\ndim p = 3\ndim q = 4",
     "mean_pool(x, (n, m), (p, q), (u, v))", false},
    {"mean_pool_in_steps_of_one", "dim u = 5",
     "mean_pool(x, n, n, u, stride = 1)", false},
};

class LibraryGradient : public ::testing::TestWithParam<Layer> {};

} // namespace

/// Elements of x are as far apart as differences step at least, so that none
/// of them changes which one is the largest.
TEST_P(LibraryGradient, IsTheDifference) {
  const Layer &layer = GetParam();
  SourceSet sources;
  Diagnostics diagnostics(sources);
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  SpecOptions options{"test.mesh"};
  // Parameters of the library are f32; in programs without any, numbers such as
  // the 1/9 of a mean are not rounded to 24 bits by decomposition.
  const std::string element = layer.hasWeight ? "f32" : "f64";
  // The derivative of the loss differs from element to element.
  options.text = "dim a = 2\ndim n = 5\ndim m = 7\ndim c = 3\ndim k = 2\n" +
                 layer.dims + "\nmodel l(x: " + element +
                 "[a, n, m, c]) {\n  let y = " + layer.call +
                 "\n  output y = y\n"
                 "  output loss = sum(y * tanh(y + 0.3))\n}\n";
  auto module = compileSpec(options, *context, sources, diagnostics);
  ASSERT_TRUE(module) << render(diagnostics, MessageFormat::Text);

  std::mt19937_64 bits(7);
  F64State state;
  F64Tensor x(llvm::ArrayRef<int64_t>{2, 5, 7, 3});
  std::vector<double> values;
  for (size_t i = 0; i < x.elements.size(); ++i)
    values.push_back(0.01 * (double(i) - 105));
  std::shuffle(values.begin(), values.end(), bits);
  llvm::copy(values, x.elements.begin());
  state.inputs = {{"x", x}};
  std::vector<std::string> wanted = {"x"};
  module->walk([&](nd::VariableOp op) {
    wanted.push_back(op.getSymName().str());
    F64Tensor weight(op.getType().getSizes());
    for (interpreter::Scalar<interpreter::F64> &element : weight.elements)
      element = double(bits() >> 11) * 0x1p-52 - 1;
    state.variables[wanted.back()] = weight;
  });
  ASSERT_EQ(wanted.size(), layer.hasWeight ? 2u : 1u);

  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  checkGradients(text, wanted, state);
}

INSTANTIATE_TEST_SUITE_P(Layers, LibraryGradient, ::testing::ValuesIn(layers),
                         [](const auto &info) { return info.param.name; });
