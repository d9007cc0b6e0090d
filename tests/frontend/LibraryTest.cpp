// What the operators, built-in functions and the standard library compute:
// specs run through the f64 interpreter against formulas written here.

#include "SpecTesting.h"

#include "tests/dialect/Programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace meshc;
using namespace meshc::frontend;
using meshc::test::F64State;
using meshc::test::F64Tensor;

namespace {

constexpr int a = 3, b = 5;

/// A 3 x 5 matrix x, a vector v of 3, and labels in [0, 5).
class LibraryTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::mt19937 generator(7);
    std::normal_distribution<double> normal(0, 2);
    for (int i = 0; i < a; ++i) {
      for (int j = 0; j < b; ++j)
        x[i][j] = normal(generator);
      v[i] = normal(generator);
      label[i] = int(generator() % b);
    }
  }

  /// The output of an expression on x, v and label.
  F64Tensor evaluate(const std::string &expression) {
    SpecRun run("dim a = 3\ndim b = 5\ndim k = b\nlet half = 1 / 2\n"
                "model m(x: " +
                element + "[a, b], v: " + element +
                "[a], label: i32[a]) {\n  output y = " + expression + "\n}\n");
    if (!run.module) {
      ADD_FAILURE() << run.getText();
      return {};
    }
    F64State state;
    F64Tensor matrix(llvm::ArrayRef<int64_t>{a, b}),
        vector(llvm::ArrayRef<int64_t>{a}), labels(llvm::ArrayRef<int64_t>{a});
    for (int i = 0; i < a; ++i) {
      for (int j = 0; j < b; ++j)
        matrix.elements[size_t(i * b + j)] = x[i][j];
      vector.elements[size_t(i)] = v[i];
      labels.elements[size_t(i)] = int64_t(label[i]);
    }
    state.inputs = {{"x", matrix}, {"v", vector}, {"label", labels}};
    state.variables = parameters;
    auto program = run.module->lookupSymbol<nd::ProgramOp>("forward");
    EXPECT_TRUE(llvm::succeeded(interpreter::runProgram(program, state)));
    return state.outputs["y"];
  }

  /// That an expression of dims a, b is f(i, j) everywhere.
  template <typename Function>
  void expectMatrix(const std::string &expression, Function expected) {
    F64Tensor y = evaluate(expression);
    ASSERT_EQ(y.sizes, (interpreter::Sizes{a, b})) << expression;
    for (int i = 0; i < a; ++i)
      for (int j = 0; j < b; ++j)
        // Relative to the largest intermediate, some ten units in size.
        EXPECT_NEAR(interpreter::asNumber<interpreter::F64>(
                        y.elements[size_t(i * b + j)]),
                    expected(i, j), 1e-12)
            << expression << " at " << i << ", " << j;
  }
  template <typename Function>
  void expectVector(const std::string &expression, Function expected) {
    F64Tensor y = evaluate(expression);
    ASSERT_EQ(y.sizes, (interpreter::Sizes{a})) << expression;
    for (int i = 0; i < a; ++i)
      EXPECT_NEAR(
          interpreter::asNumber<interpreter::F64>(y.elements[size_t(i)]),
          expected(i), 1e-12)
          << expression << " at " << i;
  }

  /// sum over j of f(x[i][j]).
  template <typename Function> double sumRow(int i, Function function) {
    double sum = 0;
    for (int j = 0; j < b; ++j)
      sum += function(x[i][j]);
    return sum;
  }

  /// Of x and v, and so of the numbers that meet them.
  std::string element = "f32";
  double x[a][b], v[a];
  int label[a];
  std::map<std::string, F64Tensor> parameters;
};

} // namespace

TEST_F(LibraryTest, Operators) {
  expectMatrix("x + v * 2 - x / 4",
               [&](int i, int j) { return x[i][j] * 0.75 + 2 * v[i]; });
  expectMatrix("-x ^ 2", [&](int i, int j) { return -x[i][j] * x[i][j]; });
  expectMatrix("exp(x) ^ -half",
               [&](int i, int j) { return std::exp(-x[i][j] / 2); });
  expectMatrix("2 ^ x", [&](int i, int j) { return std::pow(2, x[i][j]); });
  expectMatrix("1 - x / b", [&](int i, int j) { return 1 - x[i][j] / b; });
  expectMatrix("where(x > v and not (x < 1), x, -1)", [&](int i, int j) {
    return x[i][j] > v[i] && x[i][j] >= 1 ? x[i][j] : -1;
  });
  expectMatrix("where(x <= v or x != x, f32(x >= 0), f32(1 == 2))",
               [&](int i, int j) { return x[i][j] <= v[i] && x[i][j] >= 0; });
  expectMatrix("minimum(maximum(x, v), 1)", [&](int i, int j) {
    return std::min(std::max(x[i][j], v[i]), 1.0);
  });
}

TEST_F(LibraryTest, NumbersAndDims) {
  expectMatrix("x * 0 + a ^ 2 + b % 3 + floor(b / 2) + ceil(b / 2)",
               [](int, int) { return 9 + 2 + 2 + 3; });
  expectMatrix("x * 0 + sqrt(4) * exp(0) + maximum(a, b)",
               [](int, int) { return 2 + 5; });
  expectMatrix("x * 0 + where(a < b, 1, 2)", [](int, int) { return 1; });
}

TEST_F(LibraryTest, Reductions) {
  expectVector("sum(x, over = b)",
               [&](int i) { return sumRow(i, [](double t) { return t; }); });
  expectVector("mean(x, b)", [&](int i) {
    return sumRow(i, [](double t) { return t; }) / b;
  });
  expectVector("max(x, b) - min(x, b)", [&](int i) {
    return *std::max_element(x[i], x[i] + b) -
           *std::min_element(x[i], x[i] + b);
  });
  expectVector("f32(argmax(x, over = b)) - f32(argmin(x, over = b))",
               [&](int i) {
                 return double(std::max_element(x[i], x[i] + b) -
                               std::min_element(x[i], x[i] + b));
               });
  expectVector("v * 0 + mean(x)", [&](int) {
    double sum = 0;
    for (int i = 0; i < a; ++i)
      sum += sumRow(i, [](double t) { return t; });
    return sum / (a * b);
  });
  expectVector("v * 0 + sum(x, over = (a, b))", [&](int) {
    double sum = 0;
    for (int i = 0; i < a; ++i)
      sum += sumRow(i, [](double t) { return t; });
    return sum;
  });
}

TEST_F(LibraryTest, Dimensions) {
  expectVector("einsum(x, x, v -> a)", [&](int i) {
    return v[i] * sumRow(i, [](double t) { return t * t; });
  });
  expectVector("einsum(x, v, over = b)", [&](int i) {
    return v[i] * sumRow(i, [](double t) { return t; });
  });
  expectVector("v * 0 + einsum(v, v ->)",
               [&](int) { return v[0] * v[0] + v[1] * v[1] + v[2] * v[2]; });
  // Sum over k of x[i][k] minus b times x[i][j].
  expectMatrix("sum(rename(x, b -> k) - x, over = k)", [&](int i, int j) {
    return sumRow(i, [](double t) { return t; }) - b * x[i][j];
  });
  // The same with the roles of b and k exchanged, and 2 in front of x.
  expectMatrix("sum(rename(x - 2 * rename(x, b -> k), b -> k, k -> b), "
               "over = k)",
               [&](int i, int j) {
                 return sumRow(i, [](double t) { return t; }) - 2 * b * x[i][j];
               });
  expectMatrix("0 * x + broadcast(v, b)", [&](int i, int) { return v[i]; });
  expectVector("gather(x, label, over = b)",
               [&](int i) { return x[i][label[i]]; });
  expectMatrix("f32(iota(a) - iota(b)) + 0 * x",
               [](int i, int j) { return i - j; });
}

TEST_F(LibraryTest, Elements) {
  auto at = [&](int i, int j) {
    return i >= 0 && i < a && j >= 0 && j < b ? x[i][j] : 0;
  };
  expectVector("x[b = 2]", [&](int i) { return x[i][2]; });
  expectVector("x[b = 2 * a]", [&](int i) { return x[i][2 * i]; });
  expectMatrix("x[b = size(b) - 1 - b]",
               [&](int i, int j) { return x[i][b - 1 - j]; });
  expectMatrix("x[b = b - 1 else 0]",
               [&](int i, int j) { return at(i, j - 1); });
  expectMatrix("maximum(x[(a, b) = (a, b) + (1, -2) else -inf], -9)",
               [&](int i, int j) {
                 bool isInside = i + 1 < a && j >= 2;
                 return isInside ? std::max(x[i + 1][j - 2], -9.0) : -9;
               });
  expectMatrix("x[b = (b - 2) % size(b)]",
               [&](int i, int j) { return x[i][(j + b - 2) % b]; });
  expectMatrix("x[b = floor((b - 1) / 2) else 3]",
               [&](int i, int j) { return j == 0 ? 3 : x[i][(j - 1) / 2]; });
  expectMatrix("x[b = (b + 1) / 2 else 7]", [&](int i, int j) {
    return (j + 1) % 2 == 0 ? x[i][(j + 1) / 2] : 7;
  });
  expectMatrix("0 * x + x[b = (b + 2) % 6 else 8][a = 1]", [&](int, int j) {
    return (j + 2) % 6 < b ? x[1][(j + 2) % 6] : 8;
  });
  // Windows under the dim's own name, and a second role of it.
  expectMatrix("sum(x[b = b + a' - 1 else 0], over = a')", [&](int i, int j) {
    return at(i, j - 1) + at(i, j) + at(i, j + 1);
  });
  expectMatrix("sum(x[a = a'], over = a') + 0 * x",
               [&](int, int j) { return x[0][j] + x[1][j] + x[2][j]; });
  // By tensors: label is in [0, 5).
  expectVector("x[b = label]", [&](int i) { return x[i][label[i]]; });
  expectVector("x[b = label + 1 else -1]", [&](int i) {
    return label[i] + 1 < b ? x[i][label[i] + 1] : -1;
  });
  expectVector("x[b = label - a else 4]",
               [&](int i) { return label[i] >= i ? x[i][label[i] - i] : 4; });
  expectVector("x[b = label, a = 2 - a]",
               [&](int i) { return x[2 - i][label[i]]; });
  expectVector("0 * v + v[a = 1] + size(b) + size((a, b))",
               [&](int) { return v[1] + 5 + 15; });
}

TEST_F(LibraryTest, Windows) {
  element = "f64";
  expectMatrix("max_pool(x, b, b, a', stride = 1)", [&](int i, int j) {
    double most = x[i][j];
    for (int k = std::max(j - 1, 0); k <= std::min(j + 1, b - 1); ++k)
      most = std::max(most, x[i][k]);
    return most;
  });
  expectVector("mean_pool(x, b, a', (a''))[a' = a]", [&](int i) {
    double sum = 0;
    for (int k = 2 * i - 1; k <= 2 * i + 1; ++k)
      sum += k >= 0 && k < b ? x[i][k] : 0;
    return sum / 3;
  });
}

TEST_F(LibraryTest, Activations) {
  // Numbers in the library that f32 would round.
  element = "f64";
  expectMatrix("relu(x)", [&](int i, int j) { return std::max(x[i][j], 0.0); });
  // 2 Phi(t) = erfc(-t / sqrt 2): another function than the library's erf.
  expectMatrix("gelu(x)", [&](int i, int j) {
    return x[i][j] * std::erfc(-x[i][j] / std::sqrt(2)) / 2;
  });
  expectMatrix("gelu_tanh(x)", [&](int i, int j) {
    double t = x[i][j], pi = std::acos(-1);
    return t / 2 *
           (1 + std::tanh(std::sqrt(2 / pi) * (t + 0.044715 * t * t * t)));
  });
  expectMatrix("silu(x)", [&](int i, int j) {
    return x[i][j] / (1 + std::exp(-x[i][j]));
  });
}

TEST_F(LibraryTest, Angles) {
  element = "f64";
  expectMatrix("sin(x) + 2 * cos(x)", [&](int i, int j) {
    return std::sin(x[i][j]) + 2 * std::cos(x[i][j]);
  });
  expectMatrix("x + cos(0.5) * sin(2)", [&](int i, int j) {
    return x[i][j] + std::cos(0.5) * std::sin(2.0);
  });
  expectMatrix("erf(erf_inv(x / 10))",
               [&](int i, int j) { return x[i][j] / 10; });
}

/// Variables of a function have f64 where a tensor that it takes has.
TEST_F(LibraryTest, LayersHaveTheElementsOfX) {
  for (const std::string type : {"f32", "f64"})
    for (const char *layer :
         {"dense(x, from = b, to = k)", "layer_norm(x, over = b)",
          "rms_norm(x, over = b)", "batch_norm(x, over = b)",
          "conv(x, over = a, window = w, from = b, to = k)"}) {
      SpecRun run("dim a = 3\ndim b = 5\ndim k = 2\ndim w = 2\nmodel m(x: " +
                  type + "[a, b]) {\n  output y = " + layer + "\n}\n");
      ASSERT_TRUE(run.module) << layer << "\n" << run.getText();
      size_t count = 0;
      for (auto variable : run.module->getOps<nd::VariableOp>()) {
        ++count;
        EXPECT_EQ(variable.getTensorType().getElementType().isF64(),
                  type == "f64")
            << layer;
      }
      EXPECT_GT(count, 0u) << layer;
    }
  SpecRun ids("dim n = 3\ndim words = 7\ndim d = 2\n"
              "model m(x: i32[n]) {\n"
              "  output y = embedding(x, over = words, to = d)\n}\n");
  ASSERT_TRUE(ids.module) << ids.getText();
  SpecRun none("dim n = 3\nmodel m(x: f32[n]) {\n  param w: [n] = ones\n"
               "  output y = x * w\n}\n");
  EXPECT_THAT(none.getText(),
              testing::HasSubstr("expected an element type in front of the "
                                 "dimensions"));
}

TEST_F(LibraryTest, Norms) {
  element = "f64";
  expectVector("norm(x, over = b)", [&](int i) {
    return std::sqrt(sumRow(i, [](double t) { return t * t; }));
  });
  // Of all dims, and what "dims" gives of them.
  expectVector("norm(x) + 0 * v", [&](int) {
    double sum = 0;
    for (int i = 0; i < a; ++i)
      sum += sumRow(i, [](double t) { return t * t; });
    return std::sqrt(sum);
  });
  expectVector("sum(x, over = dims(x, except = a))",
               [&](int i) { return sumRow(i, [](double t) { return t; }); });
}

TEST_F(LibraryTest, Softmax) {
  auto total = [&](int i) {
    return sumRow(i, [](double t) { return std::exp(t); });
  };
  expectMatrix("softmax(x, over = b)",
               [&](int i, int j) { return std::exp(x[i][j]) / total(i); });
  expectMatrix("log_softmax(x, over = b)",
               [&](int i, int j) { return x[i][j] - std::log(total(i)); });
  expectVector("cross_entropy(x, label, over = b)",
               [&](int i) { return std::log(total(i)) - x[i][label[i]]; });
  expectMatrix("softmax(x, over = (a, b))", [&](int i, int j) {
    return std::exp(x[i][j]) / (total(0) + total(1) + total(2));
  });
  // Large numbers neither overflow nor underflow.
  expectMatrix("softmax(x + 5000, over = b) + softmax(x - 5000, over = b)",
               [&](int i, int j) { return 2 * std::exp(x[i][j]) / total(i); });
}

/// The numbers and infinities of log_softmax, bit by bit, whatever is added to
/// all logits.
TEST_F(LibraryTest, CrossEntropyIsTheLogarithmOfASoftmax) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double size : {1.0, 1e30, 1e300, infinity})
    for (int shape = 0; shape < 32; ++shape) {
      for (int i = 0; i < a; ++i)
        for (int j = 0; j < b; ++j)
          if (shape >> j & 1)
            x[i][j] = i == 1 ? -size : size;
      F64Tensor logarithms = evaluate("log_softmax(x, over = b)");
      F64Tensor entropies = evaluate("cross_entropy(x, label, over = b)");
      for (int i = 0; i < a; ++i) {
        double expected = -interpreter::asNumber<interpreter::F64>(
            logarithms.elements[size_t(i * b + label[i])]);
        double found = interpreter::asNumber<interpreter::F64>(
            entropies.elements[size_t(i)]);
        EXPECT_TRUE(found == expected ||
                    (std::isnan(found) && std::isnan(expected)))
            << found << " and " << expected << ", " << size << ", " << shape;
      }
    }
  for (auto &row : x)
    for (double &logit : row)
      logit = 1e30;
  expectVector("cross_entropy(x, label, over = b)",
               [](int) { return std::log(b); });
}

TEST_F(LibraryTest, LayerNorm) {
  F64Tensor gain(llvm::ArrayRef<int64_t>{b}), bias(llvm::ArrayRef<int64_t>{b});
  for (int j = 0; j < b; ++j) {
    gain.elements[size_t(j)] = 1.5 + j;
    bias.elements[size_t(j)] = 0.25 * j - 1;
  }
  parameters = {{"norm/gain", gain}, {"norm/bias", bias}};
  auto expected = [&](int i, int j, double epsilon) {
    double mean = sumRow(i, [](double t) { return t; }) / b;
    double square = sumRow(i, [](double t) { return t * t; }) / b;
    return (x[i][j] - mean) / std::sqrt(square - mean * mean + epsilon) *
               (1.5 + j) +
           (0.25 * j - 1);
  };
  expectMatrix("layer_norm(x, over = b) as norm",
               [&](int i, int j) { return expected(i, j, 1e-5); });
  expectMatrix("layer_norm(x, b, epsilon = 0.5) as norm",
               [&](int i, int j) { return expected(i, j, 0.5); });
}

TEST_F(LibraryTest, Dense) {
  F64Tensor weight(llvm::ArrayRef<int64_t>{a, b}),
      bias(llvm::ArrayRef<int64_t>{b});
  for (int k = 0; k < a * b; ++k)
    weight.elements[size_t(k)] = 0.5 * k - 2;
  for (int j = 0; j < b; ++j)
    bias.elements[size_t(j)] = 10.0 + j;
  parameters = {{"dense/weight", weight}, {"dense/bias", bias}};
  expectMatrix("0 * x + dense(v, from = a, to = b)", [&](int, int j) {
    double sum = 10.0 + j;
    for (int i = 0; i < a; ++i)
      sum += v[i] * (0.5 * (i * b + j) - 2);
    return sum;
  });
}
