// Layers of the standard library, run through the f64 interpreter, against
// plain loops written here.

#include "SpecTesting.h"

#include "frontend/elaborate/Library.h"
#include "tests/dialect/Programs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <random>

using namespace meshc;
using namespace meshc::frontend;
using meshc::test::F64State;
using meshc::test::F64Tensor;

namespace {

/// A model of one output y, of random inputs and parameters: integers in
/// [-1, 2), floats in [-1, 1). `name` is "training" for its training step.
class Layer {
public:
  explicit Layer(const std::string &text, const std::string &name = "forward")
      : run(text) {
    if (!run.module) {
      ADD_FAILURE() << run.getText();
      return;
    }
    std::mt19937_64 bits(11);
    auto program = run.module->lookupSymbol<nd::ProgramOp>(name);
    for (mlir::Operation &op : program.getBody().front()) {
      auto entry = llvm::dyn_cast<nd::BorderOpInterface>(op);
      if (!entry || entry.isExit())
        continue;
      nd::NamedTensorType type = entry.getGlobalType();
      F64Tensor tensor(type.getSizes());
      const bool isFloat = llvm::isa<mlir::FloatType>(type.getElementType());
      for (interpreter::Scalar<interpreter::F64> &element : tensor.elements)
        if (isFloat)
          element = double(bits() >> 11) * 0x1p-52 - 1;
        else
          element = int64_t(bits() % 3) - 1;
      (entry.isVariable() ? state.variables
                          : state.inputs)[entry.getBorderName().str()] = tensor;
    }
    EXPECT_TRUE(llvm::succeeded(interpreter::runProgram(program, state)));
  }

  /// An element of an input, parameter or output.
  double get(const std::string &name, std::vector<int> position) const {
    for (const auto *tensors :
         {&state.inputs, &state.variables, &state.outputs})
      if (auto found = tensors->find(name); found != tensors->end()) {
        const F64Tensor &tensor = found->second;
        size_t at = 0;
        EXPECT_EQ(position.size(), tensor.sizes.size()) << name;
        for (size_t i = 0; i < position.size(); ++i)
          at = at * size_t(tensor.sizes[i]) + size_t(position[i]);
        const auto &element = tensor.elements.at(at);
        if (const auto *integer = std::get_if<int64_t>(&element))
          return double(*integer);
        return interpreter::asNumber<interpreter::F64>(element);
      }
    ADD_FAILURE() << "there is no " << name;
    return 0;
  }

  /// That y of these sizes is f(position) everywhere.
  void expect(std::vector<int> sizes,
              const std::function<double(const std::vector<int> &)> &right) {
    ASSERT_TRUE(run.module);
    std::vector<int> at(sizes.size(), 0);
    for (size_t i = 0; i <= sizes.size();) {
      EXPECT_NEAR(get("y", at), right(at), 1e-11)
          << ::testing::PrintToString(at);
      for (i = 0; i < sizes.size() && ++at[i] == sizes[i]; ++i)
        at[i] = 0;
      if (i == sizes.size())
        return;
    }
  }

  /// Whether nothing tells the training step from an evaluation.
  bool hasOneProgram() { return !run.module->lookupSymbol("training"); }

private:
  SpecRun run;
  F64State state;
};

double sum(int n, const std::function<double(int)> &term) {
  double total = 0;
  for (int i = 0; i < n; ++i)
    total += term(i);
  return total;
}
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

} // namespace

TEST(Layers, EachSaysWhatItIs) {
  for (const LibraryFunction &function : readLibrary()) {
    EXPECT_FALSE(function.getSummary().empty()) << function.name;
    EXPECT_LE(function.getSummary().size(), 76u) << function.name;
    EXPECT_TRUE(function.text.starts_with("fn " + function.name + "("));
    EXPECT_TRUE(function.text.ends_with("\n}")) << function.name;
  }
}

TEST(Layers, Norms) {
  Layer rms("dim a = 3\ndim b = 5\nmodel m(x: f32[a, b]) {\n"
            "  output y = rms_norm(x, over = b, epsilon = 0.5) as n\n}\n");
  rms.expect({3, 5}, [&](const std::vector<int> &at) {
    double square = sum(5, [&](int j) {
      return std::pow(rms.get("x", {at[0], j}), 2) / 5;
    });
    return rms.get("x", at) / std::sqrt(square + 0.5) *
           rms.get("n/gain", {at[1]});
  });
  Layer group("dim a = 2\ndim g = 3\ndim c = 2\ndim i = 5\n"
              "model m(x: f32[a, g, c, i]) {\n"
              "  output y = group_norm(x, g, c, i, epsilon = 0.5) as n\n}\n");
  group.expect({2, 3, 2, 5}, [&](const std::vector<int> &at) {
    auto x = [&](int k) {
      return group.get("x", {at[0], at[1], k / 5, k % 5});
    };
    double mean = sum(10, x) / 10;
    double variance =
        sum(10, [&](int k) { return std::pow(x(k) - mean, 2) / 10; });
    return (group.get("x", at) - mean) / std::sqrt(variance + 0.5) *
               group.get("n/gain", {at[1], at[2]}) +
           group.get("n/bias", {at[1], at[2]});
  });
}

TEST(Layers, Swiglu) {
  Layer layer("dim a = 2\ndim d = 3\ndim wide = 5\nmodel m(x: f32[a, d]) {\n"
              "  output y = swiglu(x, d, wide) as f\n}\n");
  layer.expect({2, 3}, [&](const std::vector<int> &at) {
    return sum(5, [&](int w) {
      auto product = [&](const std::string &name) {
        return sum(3, [&](int i) {
          return layer.get("x", {at[0], i}) * layer.get(name, {i, w});
        });
      };
      double gate = product("f/gate/weight");
      return gate * logistic(gate) * product("f/expand/weight") *
             layer.get("f/project/weight", {w, at[1]});
    });
  });
}

/// Three heads of two groups, each of which sees two positions.
TEST(Layers, GroupedAttentionThroughAWindow) {
  Layer layer(
      "dim pos = 5\ndim d = 3\ndim g = 2\ndim each = 3\ndim e = 4\n"
      "model m(x: f32[pos, d]) {\n  output y = self_attention(x, pos, d, "
      "g, e, causal(pos, 2), each, biased = false) as f\n}\n");
  auto projected = [&](const std::string &name, int p, std::vector<int> to) {
    return sum(3, [&](int i) {
      std::vector<int> at = to;
      at.insert(at.begin(), i);
      return layer.get("x", {p, i}) * layer.get(name, at);
    });
  };
  layer.expect({5, 3}, [&](const std::vector<int> &at) {
    return sum(2 * 3 * 4, [&](int k) {
      const int g = k / 12, each = k / 4 % 3, e = k % 4;
      double total = 0, read = 0;
      for (int key = std::max(at[0] - 1, 0); key <= at[0]; ++key) {
        double weight = std::exp(
            sum(4,
                [&](int i) {
                  return projected("f/query/weight", at[0], {g, each, i}) *
                         projected("f/key/weight", key, {g, i});
                }) /
            2);
        total += weight;
        read += weight * projected("f/value/weight", key, {g, e});
      }
      return read / total * layer.get("f/out/weight", {g, each, e, at[1]});
    });
  });
}

/// In evaluation it is nothing; in the training step what is left is scaled,
/// and dims that have no draw of their own are left out together.
TEST(Layers, Dropout) {
  auto getSpec = [](const std::string &call) {
    return "dim a = 20\ndim b = 15\nmodel m(x: f32[a, b]) {\n"
           "  param w: f32[b] = ones\n  output y = " +
           call + "\n  output loss = mean(y * w)\n}\ntrain { minimize loss }\n";
  };
  const std::string each = getSpec("dropout(x, rate = 0.25)");
  Layer evaluation(each);
  evaluation.expect({20, 15}, [&](const std::vector<int> &at) {
    return evaluation.get("x", at);
  });
  // The number of zeros where each has a draw, and where each row has one.
  for (const auto &[spec, dropped] :
       {std::pair(each, 300), std::pair(getSpec("dropout(x, 0.25, a)"), 20)}) {
    Layer step(spec, "training");
    int zeros = 0, numRows = 0;
    step.expect({20, 15}, [&](const std::vector<int> &at) {
      const bool isDropped = step.get("y", at) == 0;
      zeros += isDropped;
      numRows += isDropped && step.get("y", {at[0], 0}) == 0;
      return isDropped ? 0 : step.get("x", at) / 0.75;
    });
    const double share = zeros / 300.0;
    EXPECT_NEAR(share, 0.25, 4 * std::sqrt(0.25 * 0.75 / dropped));
    EXPECT_EQ(numRows == zeros, dropped == 20);
  }
  Layer none(getSpec("dropout(x, 0)"));
  EXPECT_TRUE(none.hasOneProgram());
}

/// What is not in the window is not read; keys that there are not have no
/// weight.
TEST(Layers, WindowsOfAttention) {
  for (int window : {2, 5, 7}) {
    Layer layer(
        "dim a = 2\ndim pos = 5\ndim e = 4\n"
        "model m(q: f32[a, pos, e], k: f32[a, pos, e], v: f32[a, pos, e]) "
        "{\n  output y = windowed_attention(q, k, v, pos, " +
        std::to_string(window) + ", e)\n}\n");
    layer.expect({2, 5, 4}, [&](const std::vector<int> &at) {
      double total = 0, read = 0;
      for (int key = std::max(at[1] + 1 - window, 0); key <= at[1]; ++key) {
        double weight = std::exp(sum(4, [&](int i) {
          return layer.get("q", {at[0], at[1], i}) *
                 layer.get("k", {at[0], key, i}) / 2;
        }));
        total += weight;
        read += weight * layer.get("v", {at[0], key, at[2]});
      }
      return read / total;
    });
  }
}

/// Of pairs as complex numbers, the turn by an angle is a product.
TEST(Layers, RotaryPositions) {
  Layer layer("dim a = 2\ndim pos = 5\ndim e = 6\n"
              "model m(x: f32[a, pos, e]) {\n"
              "  output y = rotary(x, pos, e, base = 50)\n}\n");
  layer.expect({2, 5, 6}, [&](const std::vector<int> &at) {
    const int pair = at[2] % 3;
    const double angle = at[1] * std::pow(50.0, -pair / 3.0);
    const std::complex<double> turned =
        std::complex(layer.get("x", {at[0], at[1], pair}),
                     layer.get("x", {at[0], at[1], pair + 3})) *
        std::polar(1.0, angle);
    return at[2] < 3 ? turned.real() : turned.imag();
  });
}

/// Weights of attention, its result and that of what follows are left out.
TEST(Layers, RatesAreThoseOfDropout) {
  auto countDraws = [](const std::string &rate) {
    SpecRun run(
        "dim pos = 5\ndim d = 6\ndim h = 2\ndim e = 4\ndim w = 3\n"
        "model m(x: f32[pos, d]) {\n"
        "  let s = causal(pos)\n"
        "  let y = decoder_block(x, pos, d, h, e, w, rate = " +
        rate + ")\n  let z = encoder_block(y, pos, d, h, e, w, s, rate = " +
        rate + ")\n  let u = swiglu(z, d, w, rate = " + rate +
        ")\n  let v = windowed_attention(u, u, u, pos, 2, d, rate = " + rate +
        ")\n  let a = decoder(v, pos, d, h', h, e, w, rate = " + rate +
        ")\n  let b = encoder(a, pos, d, h', h, e, w, s, rate = " + rate +
        ")\n  output loss = mean(b)\n}\ntrain { minimize loss }\n");
    if (!run.module) {
      ADD_FAILURE() << run.getText();
      return -1;
    }
    int count = 0;
    run.module->walk([&](nd::RandomOp op) {
      count += op->getParentOfType<nd::ProgramOp>().getName() != "init";
    });
    return count;
  };
  EXPECT_EQ(countDraws("0"), 0);
  // Of stacks what is in their loops.
  EXPECT_EQ(countDraws("0.1"), 3 + 3 + 1 + 1 + 3 + 3);
}

/// A stack is its blocks one after the other, given what it was given.
TEST(Layers, Stacks) {
  const std::string dims = "dim pos = 3\ndim d = 4\ndim h = 2\ndim e = 2\n"
                           "dim w = 3\ndim layers = 2\n";
  auto getModel = [](const std::string &call) {
    return "model m(x: f32[pos, d]) {\n  output y = " + call +
           "(x, iota(pos') != 1) as s\n}\n";
  };
  auto expectSame = [&](const std::string &stack, const std::string &blocks) {
    const std::string head = dims + "fn own(x, seen) {\n";
    Layer found(head + "  return " + stack + "\n}\n" + getModel("own"));
    Layer right(head + blocks + "\n}\n" + getModel("own"));
    found.expect({3, 4}, [&](const auto &at) { return right.get("y", at); });
  };
  expectSame("decoder(x, pos, d, layers, h, e, w, 0.5, 0.25, false, 50, false, "
             "-2, 0.125, 0)",
             "  for layer in layers {\n"
             "    x = decoder_block(x, pos, d, h, e, w, biased = false, "
             "rotary_base = 50, exact = false, hidden = -2, epsilon = 0.125) "
             "as block\n  }\n  return layer_norm(x, d, 0.125) as norm");
  expectSame("encoder(x, pos, d, layers, h, e, w, seen, -2, 0.125, 0.5, 0)",
             "  for layer in layers {\n"
             "    x = encoder_block(x, pos, d, h, e, w, seen, hidden = -2, "
             "epsilon = 0.125) as block\n  }\n  return x");
}

/// GPT-2's: of what is added up in 2 * layers places.
TEST(Layers, StacksStartSmall) {
  SpecRun run("dim pos = 3\ndim d = 4\ndim layers = 8\ndim e = 3\ndim w = 2\n"
              "model m(x: f32[pos, d]) {\n"
              "  output y = decoder(x, pos, d, layers, (), e, w, 0.5)\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  auto getDeviation = [&](const std::string &name) {
    auto variable =
        run.module->lookupSymbol<nd::VariableOp>("decoder/layer/block/" + name);
    return llvm::cast<nd::RandomAttr>(variable.getInit())
        .getSecond()
        .getValueAsDouble();
  };
  EXPECT_EQ(getDeviation("attn/query/weight"), 0.5);
  EXPECT_EQ(getDeviation("attn/out/weight"), 0.125);
  EXPECT_EQ(getDeviation("ff/expand/weight"), 0.5);
  EXPECT_EQ(getDeviation("ff/project/weight"), 0.125);
}

TEST(Layers, PositionsAndMaskedWords) {
  Layer places("dim pos = 3\ndim places = 5\ndim d = 2\n"
               "model m(x: f32[pos, d]) {\n"
               "  output y = x + positions(pos, d, places) as p\n}\n");
  places.expect({3, 2}, [&](const std::vector<int> &at) {
    return places.get("x", at) + places.get("p/weight", at);
  });
  Layer head("dim pos = 3\ndim d = 4\ndim words = 5\n"
             "model m(x: f32[pos, d], table: f32[words, d]) {\n"
             "  output y = masked_words(x, table, d, words, 0.5) as h\n}\n");
  head.expect({3, 5}, [&](const std::vector<int> &at) {
    auto t = [&](int j) {
      const double z = head.get("h/transform/bias", {j}) + sum(4, [&](int i) {
                         return head.get("x", {at[0], i}) *
                                head.get("h/transform/weight", {i, j});
                       });
      // The library's factor is one of f32.
      return z * std::erfc(-z * double(float(std::sqrt(0.5)))) / 2;
    };
    const double mean = sum(4, t) / 4;
    const double variance =
        sum(4, [&](int j) { return std::pow(t(j) - mean, 2) / 4; });
    return head.get("h/bias", {at[1]}) + sum(4, [&](int j) {
             return head.get("table", {at[1], j}) *
                    ((t(j) - mean) / std::sqrt(variance + 0.5) *
                         head.get("h/norm/gain", {j}) +
                     head.get("h/norm/bias", {j}));
           });
  });
}

/// What the input layer and the units of the time before give to a gate.
static double getInput(const Layer &layer, int a, int t, int gate, int i) {
  return sum(2,
             [&](int j) {
               return layer.get("x", {a, t, j}) *
                      layer.get("f/input/weight", {j, gate, i});
             }) +
         layer.get("f/input/bias", {gate, i});
}
static double getRecurrent(const Layer &layer, int gate, int i,
                           const std::vector<double> &h) {
  return sum(3, [&](int j) {
    return h[size_t(j)] * layer.get("f/recurrent", {j, gate, i});
  });
}

TEST(Layers, GatedRecurrentUnits) {
  Layer layer("dim a = 2\ndim t = 5\ndim from = 2\ndim to = 3\n"
              "model m(x: f32[a, t, from]) {\n"
              "  output y = gru(x, t, from, to) as f\n}\n");
  layer.expect({5, 2, 3}, [&](const std::vector<int> &at) {
    std::vector<double> h(3, 0);
    for (int t = 0; t <= at[0]; ++t) {
      std::vector<double> before = h;
      for (int i = 0; i < 3; ++i) {
        auto s = [&](int gate) { return getInput(layer, at[1], t, gate, i); };
        auto g = [&](int gate) { return getRecurrent(layer, gate, i, before); };
        double reset = logistic(s(0) + g(0)), update = logistic(s(1) + g(1));
        h[size_t(i)] = (1 - update) * std::tanh(s(2) + reset * g(2)) +
                       update * before[size_t(i)];
      }
    }
    return h[size_t(at[2])];
  });
}

TEST(Layers, LongShortTermMemory) {
  Layer layer("dim a = 2\ndim t = 5\ndim from = 2\ndim to = 3\n"
              "model m(x: f32[a, t, from]) {\n"
              "  output y = lstm(x, t, from, to) as f\n}\n");
  layer.expect({5, 2, 3}, [&](const std::vector<int> &at) {
    std::vector<double> h(3, 0), c(3, 0);
    for (int t = 0; t <= at[0]; ++t) {
      std::vector<double> before = h;
      for (int i = 0; i < 3; ++i) {
        auto s = [&](int gate) {
          return getInput(layer, at[1], t, gate, i) +
                 getRecurrent(layer, gate, i, before);
        };
        double &cell = c[size_t(i)];
        cell = logistic(s(1)) * cell + logistic(s(0)) * std::tanh(s(3));
        h[size_t(i)] = logistic(s(2)) * std::tanh(cell);
      }
    }
    return h[size_t(at[2])];
  });
}

/// Labels are -1 to 1: -1 is ignored, or taken as 0 by `maximum`.
TEST(Layers, CrossEntropies) {
  const std::string head = "dim a = 13\ndim c = 5\n"
                           "model m(x: f32[a, c], label: i32[a]) {\n";
  auto getLog = [](const Layer &layer, int i, int label) {
    return layer.get("x", {i, label}) - std::log(sum(5, [&](int j) {
             return std::exp(layer.get("x", {i, j}));
           }));
  };
  Layer smooth(head + "  output y = smooth_cross_entropy(x, maximum(label, 0), "
                      "over = c, smoothing = 0.25)\n}\n");
  smooth.expect({13}, [&](const std::vector<int> &at) {
    const int label = std::max(int(smooth.get("label", at)), 0);
    return -0.75 * getLog(smooth, at[0], label) -
           0.25 / 5 * sum(5, [&](int j) { return getLog(smooth, at[0], j); });
  });
  Layer mean(head + "  let e = cross_entropy_ignoring(x, label, over = c)\n"
                    "  output y = e + mean_where(e, label != -1)\n}\n");
  auto getLoss = [&](int i) {
    const int label = int(mean.get("label", {i}));
    return label < 0 ? 0 : -getLog(mean, i, label);
  };
  const double counted =
      sum(13, [&](int i) { return mean.get("label", {i}) >= 0; });
  ASSERT_GT(counted, 0);
  ASSERT_LT(counted, 13);
  mean.expect({13}, [&](const std::vector<int> &at) {
    return getLoss(at[0]) + sum(13, getLoss) / counted;
  });
}
