#include "GradientCheck.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

std::string meshc::test::getAliases() {
  const std::pair<char, int> sizes[] = {{'a', 2}, {'b', 3}, {'c', 5},
                                        {'d', 7}, {'p', 5}, {'q', 2}};
  const std::pair<const char *, const char *> kinds[] = {
      {"", "f64"}, {"i", "i32"}, {"t", "i1"}, {"h", "f32"}};
  std::vector<std::string> names = {"s"};
  for (auto [x, sizeX] : sizes) {
    names.push_back({x});
    for (auto [y, sizeY] : sizes)
      if (x != y) {
        names.push_back({x, y});
        for (auto [z, sizeZ] : sizes)
          if (x != z && y != z)
            names.push_back({x, y, z});
      }
  }
  std::string text;
  for (auto [prefix, element] : kinds)
    for (const std::string &name : names) {
      std::string dims;
      for (char letter : name)
        for (auto [dim, size] : sizes)
          if (dim == letter)
            dims += (dims.empty() ? "" : ", ") + ("\"" + std::string(1, dim)) +
                    "\"=" + std::to_string(size);
      text += "!" + (prefix + name) + " = !nd.tensor<[" + dims + "], " +
              element + ">\n";
    }
  return text;
}

static bool isInteger(const Input &input) { return input.type[0] == 'i'; }

static std::string getText(const Function &function) {
  std::string result = "!" + function.result;
  std::string text = getAliases() + R"(module {
    nd.mesh ["x"=2]
    nd.program @forward {
)";
  for (const Input &input : function.inputs)
    text += "%" + input.name + " = nd.input \"" + input.name + "\" : !" +
            input.type + "\n";
  text += function.body + "\nnd.output \"y\", %y : " + result +
          "\n%weights = nd.input \"weights\" : " + result +
          "\n%weighted = nd.mul %y, %weights : (" + result + ", " + result +
          ") -> " + result + "\n%loss = nd.reduce sum %weighted : (" + result +
          ") -> !s\nnd.output \"loss\", %loss : !s\n}}";
  return text;
}

static Sizes getSizes(const std::string &alias) {
  Sizes sizes;
  for (char letter : alias) {
    size_t known = std::string("abcdpq").find(letter);
    if (known != std::string::npos)
      sizes.push_back((const int64_t[]){2, 3, 5, 7, 5, 2}[known]);
  }
  return sizes;
}

F64State meshc::test::makeState(const Function &function, uint64_t seed) {
  std::mt19937_64 bits(seed);
  auto uniform = [&](double low, double high) {
    return low + (high - low) * double(bits() >> 11) * 0x1p-53;
  };
  F64State state;
  auto fill = [&](const Input &input) {
    F64Tensor &tensor = state.inputs[input.name] =
        F64Tensor(getSizes(input.type));
    for (Scalar<F64> &element : tensor.elements) {
      double value = uniform(input.low, input.high);
      if (isInteger(input))
        element = int64_t(std::floor(value));
      else
        element = value;
    }
  };
  for (const Input &input : function.inputs)
    fill(input);
  fill({"weights", function.result, 0.5, 2});
  return state;
}

static std::vector<std::string> getWanted(const Function &function) {
  std::vector<std::string> wanted;
  for (const Input &input : function.inputs)
    if (!isInteger(input))
      wanted.push_back(input.name);
  return wanted;
}

namespace {
/// A module whose programs can be run.
struct Runner {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module;

  explicit Runner(const std::string &text) : module(parse(*context, text)) {
    if (!module)
      ADD_FAILURE() << text;
  }

  void derive(const std::vector<std::string> &wanted, bool decompose,
              Loops loops) {
    mlir::PassManager passes(context.get());
    DifferentiateOptions options;
    options.output = "loss";
    llvm::append_range(options.wanted, wanted);
    if (loops == Loops::WrittenOutFirst) {
      passes.addPass(createMapLoops());
      passes.addPass(createUnroll());
    }
    passes.addPass(createDifferentiate(options));
    if (loops == Loops::WrittenOutLast)
      passes.addPass(createUnroll());
    if (loops == Loops::Hoisted)
      passes.addPass(createHoist());
    if (decompose) {
      passes.addPass(createDecompose());
      passes.addPass(mlir::createCSEPass());
    }
    if (failed(passes.run(*module)))
      ADD_FAILURE() << "the passes fail";
  }

  std::map<std::string, F64Tensor> run(const char *program, F64State &state) {
    EXPECT_TRUE(succeeded(
        runProgram(module->lookupSymbol<nd::ProgramOp>(program), state)));
    return state.outputs;
  }
};
} // namespace

static std::map<std::string, F64Tensor>
runGradient(const std::string &module, const std::vector<std::string> &wanted,
            F64State state, bool decompose, Loops loops) {
  Runner runner(module);
  runner.derive(wanted, decompose, loops);
  return runner.run("gradient", state);
}

std::map<std::string, F64Tensor>
meshc::test::runGradient(const Function &function, F64State state,
                         bool decompose, Loops loops) {
  SCOPED_TRACE(function.name);
  return ::runGradient(getText(function), getWanted(function), std::move(state),
                       decompose, loops);
}

/// The derivative of the loss by one element, by differences of fourth order:
/// (8 (f(x + h) - f(x - h)) - (f(x + 2h) - f(x - 2h))) / 12h. With h = 1e-3 the
/// formula's error is h^4 f^(5) / 30, that of rounding about 1e-13 f.
static double getDifference(Runner &runner, F64State &state,
                            Scalar<F64> &element) {
  constexpr double h = 1e-3;
  double x = asNumber<F64>(element);
  auto at = [&](double step) {
    element = x + step;
    return asNumber<F64>(runner.run("forward", state).at("loss").elements[0]);
  };
  double slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  element = x;
  return slope;
}

/// That gradients do not depend on what becomes of loops.
static void checkLoops(const Function &function, const F64State &state,
                       const std::map<std::string, F64Tensor> &expected) {
  if (function.body.find("nd.loop") == std::string::npos)
    return;
  for (Loops loops : {Loops::Stay, Loops::WrittenOutLast, Loops::Hoisted})
    for (bool decompose : {false, true}) {
      auto found = runGradient(function, state, decompose, loops);
      for (const auto &[name, tensor] : expected) {
        ASSERT_EQ(found.at(name).sizes, tensor.sizes) << name;
        for (size_t i = 0; i < tensor.elements.size(); ++i) {
          double wanted = asNumber<F64>(tensor.elements[i]);
          EXPECT_NEAR(asNumber<F64>(found.at(name).elements[i]), wanted,
                      1e-12 * (1 + std::abs(wanted)))
              << name << " " << i << ", loops " << int(loops)
              << (decompose ? ", decomposed" : "");
        }
      }
    }
}

void meshc::test::checkGradients(const Function &function, uint64_t seed) {
  SCOPED_TRACE(function.name);
  F64State state = makeState(function, seed);
  checkLoops(function, state,
             runGradient(function, state, /*decompose=*/false));
  checkGradients(getText(function), getWanted(function), std::move(state));
}

void meshc::test::checkGradients(const std::string &module,
                                 const std::vector<std::string> &wanted,
                                 F64State state) {
  auto plain = ::runGradient(module, wanted, state, /*decompose=*/false,
                             Loops::WrittenOutFirst);
  auto decomposed = ::runGradient(module, wanted, state, /*decompose=*/true,
                                  Loops::WrittenOutFirst);
  Runner forward(module);
  ASSERT_EQ(plain.at("y"), forward.run("forward", state).at("y"));
  for (auto [before, after] :
       llvm::zip_equal(plain.at("y").elements, decomposed.at("y").elements))
    EXPECT_NEAR(asNumber<F64>(after), asNumber<F64>(before),
                1e-12 * (1 + std::abs(asNumber<F64>(before))));
  for (const std::string &name : wanted) {
    const F64Tensor &gradient = plain.at("grad:" + name);
    const F64Tensor &after = decomposed.at("grad:" + name);
    auto input = state.inputs.find(name);
    F64Tensor &values =
        input != state.inputs.end() ? input->second : state.variables.at(name);
    ASSERT_EQ(gradient.sizes, values.sizes) << name;
    ASSERT_EQ(after.sizes, values.sizes) << name;
    for (size_t i = 0; i < values.elements.size(); ++i) {
      double slope = getDifference(forward, state, values.elements[i]);
      double found = asNumber<F64>(gradient.elements[i]);
      EXPECT_NEAR(found, slope, 1e-8 * (1 + std::abs(slope)))
          << name << " " << i;
      EXPECT_NEAR(asNumber<F64>(after.elements[i]), found,
                  1e-12 * (1 + std::abs(found)))
          << name << " " << i << " after decomposition";
    }
  }
}
