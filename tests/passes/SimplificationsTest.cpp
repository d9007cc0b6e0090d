// Random programs of what simplifications meet, through nd-decompose alone:
// they come to an end. A set of patterns that does not is stopped by the limit
// of GreedyRewrite.h, which fails the pass; ctest has the limit on time.

#include "tests/end_to_end/ModelBuilder.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc;
using namespace meshc::test;
using mlir::Value;

namespace {

/// Values of one element type at a time; several of them become repeated,
/// constant or negated on the way.
class Generator {
public:
  Generator(mlir::MLIRContext &context, uint64_t seed)
      : b(context, {{"p", 2}, {"q", 3}, {"r", 5}, {"s", 2}}), random(seed) {
    for (const char *name : {"x", "y", "z"})
      values.push_back(b.input(name, pickDims()));
    for (const char *name : {"v", "w"})
      values.push_back(b.parameter(name, pickDims()));
  }

  Model generate(int operations) {
    for (int i = 0; i < operations; ++i)
      values.push_back(addOperation());
    Value loss = b.constant(0);
    for (int i = 0; i < 4; ++i) {
      Value output = asF64(pickValue());
      b.output("y" + std::to_string(i), output);
      loss = b.make<nd::AddOp>(loss, b.reduce(nd::Reduction::Mean, output, {}));
    }
    // Something that a precision narrows, whatever was drawn.
    mlir::Type f32 = b.getBuilder().getF32Type();
    Value product =
        b.einsum({cast(values.front(), f32), cast(pickValue(), f32)}, {});
    loss = b.make<nd::AddOp>(loss, asF64(product));
    b.output("loss", loss);
    b.train("loss", "sgd", {{"lr", 0.5}});
    return b.take();
  }

private:
  using Names = llvm::SmallVector<llvm::StringRef>;

  uint64_t pick(uint64_t choices) { return random() % choices; }
  /// What is new more often: chains.
  Value pickValue() {
    size_t back = std::min(
        {pick(values.size()), pick(values.size()), pick(values.size())});
    return values[values.size() - 1 - back];
  }
  /// One in sixteen is so large or small that products leave the range.
  Value pickConstant() {
    static constexpr double numbers[] = {0.5, -0.1, 3, 1, -1, 0, 7, 0.25};
    double number = numbers[pick(std::size(numbers))];
    if (pick(16) == 0)
      number = pick(2) ? 1e200 : 1e-200;
    return b.constant(number, pick(3) == 0 ? pickDims() : Names());
  }
  Names pickDims() {
    Names dims = {"p", "q", "r"};
    std::shuffle(dims.begin(), dims.end(), random);
    dims.resize(pick(dims.size() + 1));
    return dims;
  }
  static nd::NamedTensorType typeOf(Value value) {
    return mlir::cast<nd::NamedTensorType>(value.getType());
  }
  static Names getDims(Value value) {
    Names names;
    for (nd::DimAttr dim : typeOf(value).getDims())
      names.push_back(dim.getName());
    return names;
  }
  Names pickSubset(Names dims) {
    std::shuffle(dims.begin(), dims.end(), random);
    dims.resize(pick(dims.size() + 1));
    return dims;
  }
  Value cast(Value value, mlir::Type element) {
    return typeOf(value).getElementType() == element ? value
                                                     : b.cast(value, element);
  }
  Value asF64(Value value) { return cast(value, b.getBuilder().getF64Type()); }
  /// `y` as of the element type of `x`.
  Value like(Value x, Value y) { return cast(y, typeOf(x).getElementType()); }

  Value addOperation() {
    Value x = pickValue();
    switch (pick(16)) {
    case 0:
    case 1:
    case 2:
      return scale(x, like(x, pickConstant()));
    case 3:
      return b.make<nd::NegOp>(x);
    case 4:
      return addBinary(x, like(x, pickValue()));
    case 5:
      return addBinary(x, like(x, pickConstant()));
    case 6:
      return addBinary(like(x, pickConstant()), like(x, pickConstant()));
    case 7:
    case 8:
      return addReduction(x);
    case 9:
      return addBroadcast(x);
    case 10:
      return addEinsum(x);
    case 11:
      return addRename(x);
    case 12:
      return addChoice(x);
    case 13:
      return b.make<nd::PowOp>(
          x, like(x, b.constant(double(pick(8)) - 4,
                                pick(2) ? pickDims() : Names())));
    case 14:
      return pick(2) ? Value(b.make<nd::StopGradientOp>(x))
                     : Value(b.make<nd::ExpOp>(x));
    case 15:
      return addCast(x);
    }
    llvm_unreachable("there are 16 choices");
  }

  Value scale(Value x, Value factor) {
    if (pick(2))
      std::swap(x, factor);
    return pick(4) ? Value(b.make<nd::MulOp>(x, factor))
                   : Value(b.make<nd::DivOp>(x, factor));
  }
  Value addBinary(Value x, Value y) {
    switch (pick(4)) {
    case 0:
      return b.make<nd::SubOp>(x, y);
    case 1:
      return b.make<nd::MulOp>(x, y);
    default:
      return b.make<nd::AddOp>(x, y);
    }
  }
  Value addReduction(Value x) {
    constexpr nd::Reduction kinds[] = {nd::Reduction::Sum, nd::Reduction::Mean,
                                       nd::Reduction::Max};
    return b.reduce(kinds[pick(3)], x, pickSubset(getDims(x)));
  }
  /// Along what it lacks, or in another order of storage.
  Value addBroadcast(Value x) {
    Names dims = getDims(x);
    for (llvm::StringRef dim : pickDims())
      if (!llvm::is_contained(dims, dim))
        dims.push_back(dim);
    std::shuffle(dims.begin(), dims.end(), random);
    return b.broadcast(x, dims);
  }
  Value addEinsum(Value x) {
    llvm::SmallVector<Value> inputs = {x};
    for (uint64_t more = pick(3); more-- > 0;)
      inputs.push_back(like(x, pick(3) ? pickValue() : pickConstant()));
    Names dims;
    for (Value input : inputs)
      for (llvm::StringRef dim : getDims(input))
        if (!llvm::is_contained(dims, dim))
          dims.push_back(dim);
    return b.einsum(inputs, pickSubset(dims));
  }
  Value addRename(Value x) {
    Names dims = getDims(x);
    for (auto [from, to] : {std::pair("p", "s"), std::pair("s", "p")})
      if (llvm::is_contained(dims, from) && !llvm::is_contained(dims, to))
        return b.rename(x, from, to);
    return x;
  }
  /// By a constant as often as not, and an argument of an extreme.
  Value addChoice(Value x) {
    if (!getDims(x).empty() && pick(3) == 0)
      return asF64(b.argReduce(nd::ArgKind::Max, x,
                               getDims(x)[pick(getDims(x).size())]));
    Value bound = like(x, pickConstant());
    Value condition = b.compare(nd::Predicate::Lt,
                                pick(2) ? x : like(x, pickConstant()), bound);
    return b.make<nd::SelectOp>(condition, x, like(x, pickValue()));
  }
  /// What is f32 is computed in 16 bits under a precision.
  Value addCast(Value x) {
    mlir::OpBuilder &builder = b.getBuilder();
    return pick(4) ? cast(x, builder.getF32Type()) : asF64(x);
  }

  ModelBuilder b;
  std::mt19937_64 random;
  std::vector<Value> values;
};

mlir::LogicalResult simplify(mlir::ModuleOp module) {
  mlir::PassManager passes(module.getContext());
  passes.addPass(createLowerPrecision());
  passes.addPass(createBuildStep()); // and gradients
  passes.addPass(createDecompose());
  return passes.run(module);
}

TEST(Simplifications, EndForRandomPrograms) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    auto context = makeContext();
    Model model = Generator(*context, seed).generate(int(seed % 60) + 3);
    if (seed % 2 == 1) {
      mlir::OpBuilder builder(model.module->getBodyRegion());
      nd::PrecisionOp::create(builder, builder.getUnknownLoc(),
                              nd::Precision::BF16, llvm::APFloat(65536.0),
                              2000);
    }
    ASSERT_TRUE(succeeded(simplify(*model.module))) << "seed " << seed;
  }
}

/// Chains are what takes most rewrites: each operation meets what the others
/// have become.
TEST(Simplifications, EndForChains) {
  constexpr int length = 2000;
  using Link = std::function<Value(ModelBuilder &, Value, int)>;
  const std::map<std::string, Link> links = {
      {"constant factors",
       [](ModelBuilder &b, Value x, int i) {
         return b.scale(x, i % 2 ? 1.25 : 0.8);
       }},
      {"negations",
       [](ModelBuilder &b, Value x, int i) -> Value {
         return i % 2 ? Value(b.make<nd::NegOp>(x)) : b.scale(x, 0.5 + i % 2);
       }},
      {"broadcasts and sums",
       [](ModelBuilder &b, Value x, int i) {
         return i % 2 ? b.broadcast(x, {"q", "p"})
                      : b.reduce(nd::Reduction::Mean, x, {"q"});
       }},
      {"constants with dimensions",
       [](ModelBuilder &b, Value x, int i) -> Value {
         return b.make<nd::AddOp>(b.constant(i, {"q"}),
                                  b.make<nd::MulOp>(x, b.constant(1.5, {"q"})));
       }},
      {"constants alone",
       [](ModelBuilder &b, Value x, int i) -> Value {
         Value c = b.make<nd::MulOp>(b.constant(1.0 / (i + 1), {"q"}),
                                     b.constant(0.5));
         return b.make<nd::SubOp>(x, b.make<nd::NegOp>(c));
       }},
  };
  for (const auto &[name, link] : links) {
    auto context = makeContext();
    ModelBuilder b(*context, {{"p", 2}, {"q", 3}});
    Value x = b.parameter("w", {"q"});
    for (int i = 0; i < length; ++i)
      x = link(b, x, i);
    b.output("y", x);
    b.output("loss", b.reduce(nd::Reduction::Mean, x, {}));
    b.train("loss", "sgd", {{"lr", 0.5}});
    Model model = b.take();
    EXPECT_TRUE(succeeded(simplify(*model.module))) << name;
  }
}

/// What did not end: a product of constants that is made where a product of
/// products was.
TEST(Simplifications, EndForProductsOfConstants) {
  auto context = makeContext();
  ModelBuilder b(*context, {{"p", 2}, {"q", 3}});
  Value x = b.input("x", {"p", "q"});
  Value centred = b.make<nd::SubOp>(x, b.reduce(nd::Reduction::Sum, x, {}));
  b.parameter("w", {});
  b.output("loss", b.scale(b.reduce(nd::Reduction::Mean, centred, {}), 3));
  b.output("y", b.reduce(nd::Reduction::Mean,
                         b.make<nd::MulOp>(b.constant(-0.1, {"q"}),
                                           b.constant(0.3, {"p", "q"})),
                         {}));
  b.train("loss", "sgd", {{"lr", 0.5}});
  Model model = b.take();
  EXPECT_TRUE(succeeded(simplify(*model.module)));
}

} // namespace
