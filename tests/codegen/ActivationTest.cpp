// Which activations and gradients the products of GPUs take along, and that the
// values are those of the program.

#include "tests/codegen/KernelRunner.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::codegen;
using namespace meshc::test;

namespace {

/// Two layers and their gradients as differentiation and simplification leave
/// them: x = a w + b, h = act(x), y = h v; from the gradient `dy` of y, those
/// of v, x, b and w. In 16 bits the parameters are f32, each rounded where it
/// is needed first, and so are the gradients.
struct Layers {
  ProgramText text;
  std::string type;

  Layers(int64_t rows, int64_t features, int64_t width, int64_t out,
         bool hasBias = true, const std::string &type = "f32")
      : type(type) {
    text.dim("r", rows);
    text.dim("k", features);
    text.dim("n", width);
    text.dim("o", out);
    text.input("a", "r k", type);
    text.input("w", "k n", type);
    text.input("v", "n o", type);
    text.input("dy", "r o", type);
    for (auto [name, value] :
         {std::pair("zero", "0.0"), std::pair("half", "0.5"),
          std::pair("one", "1.0"), std::pair("cubic", "4.471500e-02"),
          std::pair("scale", "0.797884583")})
      text.constant(name, "", value, type);
    if (hasBias)
      text.input(isNarrow() ? "b32" : "b", "n");
    addProduct("product", "r n", "a", "w");
    if (hasBias && isNarrow())
      addRounding("b", "n", "b32");
    if (hasBias)
      op("x", {"product", "b"}, "arith.addf");
  }
  bool isNarrow() const { return type != "f32"; }
  void addRounding(const std::string &name, const std::string &dims,
                   const std::string &from) {
    text.pointwise(name, dims, {from}, "%r = arith.truncf %a0 : f32 to " + type,
                   type);
  }
  void addProduct(const std::string &name, const std::string &dims,
                  const std::string &lhs, const std::string &rhs) {
    if (!isNarrow())
      return text.contraction(name, dims, lhs, rhs);
    text.contraction(name + "32", dims, lhs, rhs);
    addRounding(name, dims, name + "32");
  }
  /// z = op(x..), element by element.
  void op(const std::string &name, const std::vector<std::string> &inputs,
          const std::string &scalar, const std::string &dims = "r n") {
    const std::string arguments = inputs.size() == 1 ? "%a0" : "%a0, %a1";
    text.pointwise(name, dims, inputs,
                   "%r = " + scalar + " " + arguments + " : " + type, type);
  }
  void addUpstream() {
    addProduct("y", "r o", "h", "v");
    text.output("y");
    addProduct("dh", "r n", "dy", "v");
  }
  void addWeightGradients() {
    if (isNarrow())
      text.pointwise("dx32", "r n", {"dx"},
                     "%r = arith.extf %a0 : " + type + " to f32");
    text.reduce("db", "n", {isNarrow() ? "dx32" : "dx"}, "arith.addf", "0.0");
    text.contraction("dw", "k n", "dx", "a");
    text.contraction("dv", "n o", "dy", "h");
    for (const char *name : {"db", "dw", "dv"})
      text.output(name);
  }
  void addRelu(const std::string &x = "x", const std::string &compare = "ogt") {
    op("h", {x, "zero"}, "arith.maximumf");
    addUpstream();
    text.pointwise("positive", "r n", {"h", "zero"},
                   "%r = arith.cmpf " + compare + ", %a0, %a1 : " + type, "i1");
    text.pointwise("dx", "r n", {"positive", "dh", "zero"},
                   "%r = arith.select %a0, %a1, %a2 : " + type, type);
    addWeightGradients();
  }
  void addGelu(const std::string &x = "x") {
    op("low", {"half", x}, "arith.mulf");
    op("c1", {"cubic", x}, "arith.mulf");
    op("c2", {"c1", x}, "arith.mulf");
    op("c3", {"c2", x}, "arith.mulf");
    op("u", {x, "c3"}, "arith.addf");
    op("s", {"scale", "u"}, "arith.mulf");
    op("t", {"s"}, "math.tanh");
    op("p", {"one", "t"}, "arith.addf");
    op("h", {"low", "p"}, "arith.mulf");
  }
  void addGeluGradient(const std::string &x = "x") {
    op("g1", {"dh", "p"}, "arith.mulf");
    op("g2", {"dh", "low"}, "arith.mulf");
    op("tt", {"t", "t"}, "arith.mulf");
    op("slope", {"one", "tt"}, "arith.subf");
    op("g3", {"g2", "slope"}, "arith.mulf");
    op("g4", {"g3", "scale"}, "arith.mulf");
    op("g5", {"g4", x}, "arith.mulf");
    op("g6", {"g4", "c2"}, "arith.mulf");
    op("g7", {"g4", "g6"}, "arith.addf");
    op("g8", {"g5", x}, "arith.mulf");
    op("g9", {"g5", "c1"}, "arith.mulf");
    op("g10", {"g7", "g9"}, "arith.addf");
    op("g11", {"g8", "cubic"}, "arith.mulf");
    op("g12", {"g10", "g11"}, "arith.addf");
    op("g13", {"g1", "half"}, "arith.mulf");
    op("dx", {"g12", "g13"}, "arith.addf");
    addWeightGradients();
  }
};

/// The steps for GPUs: "gelu_aux+bias", "relu_gradient+sum", ..., "kernel".
std::vector<std::string> describe(const ProgramText &text) {
  std::unique_ptr<KernelRunner> runner = KernelRunner::createGpu(text.str());
  if (!runner)
    return {"no steps"};
  std::vector<std::string> words;
  for (steps::StepOpInterface op : runner->getSteps()) {
    auto step = mlir::dyn_cast<steps::MatmulOp>(op.getOperation());
    if (!step) {
      words.push_back("kernel");
      continue;
    }
    std::string word;
    switch (step.getActivation()) {
    case MatmulActivation::None:
      word = "matmul";
      break;
    case MatmulActivation::Relu:
      word = "relu";
      break;
    case MatmulActivation::GeluTanh:
      word = "gelu";
      break;
    case MatmulActivation::GeluErf:
      word = "gelu_erf";
      break;
    }
    if (step.isGradient())
      word += "_gradient";
    else if (step.getAux())
      word += "_aux";
    if (step.getBias())
      word += "+bias";
    if (step.getColumnSumOf() == ColumnSum::Result)
      word += "+sum";
    else if (step.getColumnSum())
      word += "+factor_sum";
    words.push_back(word);
  }
  return words;
}

using Words = std::vector<std::string>;

TEST(Activation, ReluAndItsGradientLeaveNoKernel) {
  Layers layers(6, 7, 16, 5);
  layers.addRelu();
  EXPECT_EQ(describe(layers.text),
            (Words{"relu_aux+bias", "matmul", "relu_gradient+sum", "matmul",
                   "matmul"}));
  expectAgreement(layers.text);
}

TEST(Activation, GeluAndItsGradientLeaveNoKernel) {
  Layers layers(6, 7, 24, 5);
  layers.addGelu();
  layers.addUpstream();
  layers.addGeluGradient();
  EXPECT_EQ(describe(layers.text),
            (Words{"gelu_aux+bias", "matmul", "gelu_gradient+sum", "matmul",
                   "matmul"}));
  expectAgreement(layers.text);
}

/// In 16 bits the sum of a gradient's columns is f32: the product beside it has
/// such a result, the gradient has not. The kernel
/// rounds the bias.
TEST(Activation, SixteenBitsLeaveNoKernelToo) {
  Layers relu(6, 7, 16, 5, /*hasBias=*/true, "bf16");
  relu.addRelu();
  EXPECT_EQ(describe(relu.text),
            (Words{"kernel", "relu_aux+bias", "matmul", "relu_gradient",
                   "matmul+factor_sum", "matmul"}));
  // A product, a bias and the product behind them are rounded, and so are
  // their gradients.
  expectAgreement(relu.text, {}, 6 * 0x1p-8);
  for (const auto &[type, unit] :
       {std::pair("bf16", 0x1p-8), std::pair("f16", 0x1p-11)}) {
    Layers gelu(6, 7, 24, 5, /*hasBias=*/true, type);
    gelu.addGelu();
    gelu.addUpstream();
    gelu.addGeluGradient();
    EXPECT_EQ(describe(gelu.text),
              (Words{"kernel", "gelu_aux+bias", "matmul", "gelu_gradient",
                     "matmul+factor_sum", "matmul"}))
        << type;
    // The operations of gelu, 9, and of its gradient, 16, as well.
    expectAgreement(gelu.text, {}, (6 + 9 + 16) * unit);
  }
}

/// The library makes 0 of NaN, which in f16 would hide that the loss scale is
/// too large. A result of f32 comes from factors of f16, too.
TEST(Activation, ReluOfF16IsAKernel) {
  Layers relu(6, 7, 16, 5, /*hasBias=*/true, "f16");
  relu.addRelu();
  EXPECT_EQ(describe(relu.text),
            (Words{"kernel", "matmul+bias", "matmul", "kernel", "matmul",
                   "matmul", "matmul"}));
  expectAgreement(relu.text, {}, 6 * 0x1p-11);
  for (const char *type : {"f16", "bf16"}) {
    ProgramText text;
    text.dim("r", 6);
    text.dim("k", 7);
    text.dim("n", 16);
    text.input("a", "r k", type);
    text.input("w", "k n", type);
    text.constant("zero", "", "0.0");
    text.contraction("x", "r n", "a", "w");
    text.pointwise("h", "r n", {"x", "zero"},
                   "%r = arith.maximumf %a0, %a1 : f32");
    text.output("h");
    EXPECT_EQ(describe(text),
              type[0] == 'b' ? Words{"relu"} : (Words{"matmul", "kernel"}));
    expectAgreement(text);
  }
}

TEST(Activation, WithoutABiasToo) {
  Layers relu(3, 5, 8, 7, /*hasBias=*/false);
  relu.addRelu("product");
  EXPECT_EQ(describe(relu.text)[0], "relu_aux");
  expectAgreement(relu.text);
  Layers gelu(3, 5, 8, 7, /*hasBias=*/false);
  gelu.addGelu("product");
  gelu.addUpstream();
  gelu.addGeluGradient("product");
  EXPECT_EQ(describe(gelu.text)[0], "gelu_aux");
  expectAgreement(gelu.text);
}

/// The update of a parameter reads its gradient twice under adam.
TEST(Activation, SumsOfAFactorGoWithAProductThatIsReadTwice) {
  Layers layers(6, 16, 8, 5);
  layers.op("h", {"x", "x"}, "arith.mulf");
  layers.addUpstream();
  layers.text.reduce("db", "n", {"dh"}, "arith.addf", "0.0");
  layers.text.contraction("dw", "k n", "dh", "a");
  layers.op("twice", {"dw", "dw"}, "arith.addf", "k n");
  layers.op("square", {"dw", "dw"}, "arith.mulf", "k n");
  for (const char *name : {"db", "twice", "square"})
    layers.text.output(name);
  Words words = describe(layers.text);
  EXPECT_EQ(std::count(words.begin(), words.end(), "matmul+factor_sum"), 1);
  expectAgreement(layers.text);
}

/// A bias of heads and their depths, which the product's columns are together.
TEST(Activation, ABiasMayHaveSeveralDimensions) {
  for (bool isWhole : {true, false}) {
    ProgramText text;
    text.dim("r", 6);
    text.dim("k", 7);
    text.dim("g", 3);
    text.dim("d", 5);
    text.input("a", "r k");
    text.input("w", "k g d");
    text.input("b", isWhole ? "g d" : "d");
    text.contraction("product", "r g d", "a", "w");
    text.pointwise("x", "r g d", {"product", "b"},
                   "%r = arith.addf %a0, %a1 : f32");
    text.output("x");
    EXPECT_EQ(describe(text),
              isWhole ? Words{"matmul+bias"} : (Words{"matmul", "kernel"}));
    expectAgreement(text);
  }
}

TEST(Activation, RowsThatTheLibraryDoesNotTakeKeepTheGradientAKernel) {
  for (int64_t width : {2, 3, 5, 7, 12}) {
    Layers relu(6, 7, width, 5);
    relu.addRelu();
    EXPECT_EQ(describe(relu.text), (Words{"relu+bias", "matmul", "matmul",
                                          "kernel", "matmul", "matmul"}))
        << width;
    expectAgreement(relu.text);
    Layers gelu(6, 7, width, 5);
    gelu.addGelu();
    gelu.addUpstream();
    gelu.addGeluGradient();
    EXPECT_EQ(describe(gelu.text)[0], "matmul+bias") << width;
    expectAgreement(gelu.text);
  }
}

/// The library takes neither the gradient of an activation nor sums of a factor
/// beside a sum over one term: a layer with one output, and a batch of one row.
TEST(Activation, ProductsOfOneTermHaveNoGradientAndNoSum) {
  Layers relu(6, 7, 16, /*out=*/1);
  relu.addRelu();
  EXPECT_EQ(describe(relu.text),
            (Words{"relu+bias", "matmul", "kernel", "matmul"}));
  expectAgreement(relu.text);
  Layers gelu(6, 7, 24, /*out=*/1);
  gelu.addGelu();
  gelu.addUpstream();
  gelu.addGeluGradient();
  EXPECT_EQ(describe(gelu.text)[0], "matmul+bias");
  expectAgreement(gelu.text);
  for (int64_t rows : {1, 2}) {
    ProgramText text;
    text.dim("r", rows);
    text.dim("q", 3);
    text.dim("n", 8);
    text.dim("k", 16);
    text.dim("o", 5);
    text.input("dy", "r q o");
    text.input("v", "n o");
    text.input("a", "r k");
    text.contraction("dh", "r q n", "dy", "v");
    text.reduce("db", "q n", {"dh"}, "arith.addf", "0.0");
    text.contraction("dw", "q n k", "dh", "a");
    text.output("db");
    text.output("dw");
    Words words = describe(text);
    EXPECT_EQ(std::count(words.begin(), words.end(), "matmul+factor_sum"),
              rows > 1);
    expectAgreement(text);
  }
}

TEST(Activation, WithoutAGradientNothingIsLeftBehind) {
  for (int64_t width : {5, 16}) {
    Layers gelu(6, 7, width, 5);
    gelu.addGelu();
    gelu.text.output("h");
    EXPECT_EQ(describe(gelu.text), (Words{"gelu+bias"}));
    expectAgreement(gelu.text);
    Layers relu(6, 7, width, 5);
    relu.op("h", {"zero", "x"}, "arith.maximumf");
    relu.text.output("h");
    EXPECT_EQ(describe(relu.text), (Words{"relu+bias"}));
    expectAgreement(relu.text);
  }
}

TEST(Activation, AnArgumentThatIsReadOtherwiseIsLeftBehind) {
  Layers layers(6, 7, 16, 5);
  layers.addGelu();
  layers.text.output("h");
  layers.text.output("x");
  EXPECT_EQ(describe(layers.text), (Words{"gelu_aux+bias"}));
  expectAgreement(layers.text);
}

TEST(Activation, OtherFunctionsStayKernels) {
  // One factor of 0.5 is 0.51.
  Layers almost(6, 7, 16, 5);
  almost.text.constant("about", "", "0.51");
  almost.addGelu();
  almost.op("z", {"about", "p"}, "arith.mulf");
  almost.text.output("z");
  EXPECT_EQ(describe(almost.text), (Words{"matmul+bias", "kernel"}));
  expectAgreement(almost.text);
  // What tanh gave is read by another one.
  Layers read(6, 7, 16, 5);
  read.addGelu();
  read.text.output("h");
  read.text.output("t");
  EXPECT_EQ(describe(read.text), (Words{"matmul+bias", "kernel"}));
  expectAgreement(read.text);
  // A gradient at 0 that differentiation does not give.
  Layers other(6, 7, 16, 5);
  other.addRelu("x", "oge");
  EXPECT_EQ(describe(other.text)[0], "relu+bias");
  EXPECT_EQ(describe(other.text)[2], "matmul");
  expectAgreement(other.text);
}

TEST(Activation, AMaskThatIsReadTwiceIsNoMask) {
  Layers layers(6, 7, 16, 5);
  layers.addRelu();
  layers.text.pointwise("count", "r n", {"positive", "one", "zero"},
                        "%r = arith.select %a0, %a1, %a2 : f32");
  layers.text.output("count");
  EXPECT_EQ(describe(layers.text)[0], "relu+bias");
  expectAgreement(layers.text);
}

TEST(Activation, SumsOfAFactorAreTakenWhereNoKernelPassesOverIt) {
  // Two layers without an activation between them: dh is a product's result.
  for (int64_t width : {8, 7}) {
    Layers layers(6, 16, width, 5);
    layers.op("h", {"x", "x"}, "arith.mulf");
    layers.addUpstream();
    layers.text.reduce("db", "n", {"dh"}, "arith.addf", "0.0");
    layers.text.contraction("dw", "k n", "dh", "a");
    layers.text.output("db");
    layers.text.output("dw");
    Words words = describe(layers.text);
    EXPECT_EQ(std::count(words.begin(), words.end(), "matmul+factor_sum"),
              width % 8 == 0);
    EXPECT_EQ(std::count(words.begin(), words.end(), "kernel"),
              width % 8 == 0 ? 1 : 2);
    expectAgreement(layers.text);
  }
}

TEST(Activation, AnAddendThatIsReadAgainIsAddedFromWhereItIs) {
  ProgramText text;
  text.dim("r", 6);
  text.dim("k", 7);
  text.dim("n", 5);
  text.input("a", "r k");
  text.input("w", "k n");
  text.input("b", "n");
  text.input("z", "r n");
  text.pointwise("before", "r n", {"z"}, "%r = arith.mulf %a0, %a0 : f32");
  text.contraction("product", "r n", "a", "w");
  text.pointwise("x", "r n", {"product", "b"},
                 "%r = arith.addf %a0, %a1 : f32");
  text.pointwise("sum", "r n", {"x", "before"},
                 "%r = arith.addf %a0, %a1 : f32");
  text.pointwise("after", "r n", {"before", "sum"},
                 "%r = arith.mulf %a0, %a1 : f32");
  text.output("after");
  text.output("sum");
  EXPECT_EQ(describe(text), (Words{"kernel", "matmul+bias", "kernel"}));
  std::unique_ptr<KernelRunner> runner = KernelRunner::createGpu(text.str());
  ASSERT_TRUE(runner);
  EXPECT_TRUE(runner->getStep<steps::MatmulOp>(1).getAddend());
  expectAgreement(text);
}

TEST(Activation, SumsOfAFactorThatAKernelMakesAreItsOwn) {
  Layers layers(6, 16, 8, 5);
  layers.op("h", {"x", "x"}, "arith.mulf");
  layers.addUpstream();
  layers.op("dx", {"dh", "x"}, "arith.mulf");
  layers.addWeightGradients();
  Words words = describe(layers.text);
  EXPECT_EQ(std::count(words.begin(), words.end(), "matmul+factor_sum"), 0);
  expectAgreement(layers.text);
}

} // namespace
