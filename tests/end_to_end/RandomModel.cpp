#include "tests/end_to_end/RandomModel.h"

#include <random>

using namespace meshc;
using namespace meshc::test;
using mlir::Value;

namespace {

constexpr int64_t sizes[] = {3, 4, 5, 2, 7}; // of d0 to d4
constexpr int64_t maxElements = 500;

class Generator {
public:
  Generator(mlir::MLIRContext &context, uint64_t seed)
      : b(context, {{"d0", sizes[0]},
                    {"d1", sizes[1]},
                    {"d2", sizes[2]},
                    {"d3", sizes[3]},
                    {"d4", sizes[4]},
                    {"e0", sizes[0]},
                    {"e1", sizes[1]}}),
        random(seed) {}

  Model generate(int operations) {
    for (int i = 0; i < 3; ++i) {
      auto dims = pickDims(1 + pick(3));
      floats.push_back(b.parameter("p" + std::to_string(i), dims));
    }
    floats.push_back(b.input("x0", pickDims(2)));
    conditions.push_back(b.compare(nd::Predicate::Gt,
                                   b.input("c0", pickDims(2)), b.constant(0)));
    for (int i = 0; i < operations; ++i)
      addOperation();
    finish();
    return b.take();
  }

private:
  using Names = llvm::SmallVector<llvm::StringRef>;

  uint64_t pick(uint64_t choices) { return random() % choices; }
  Value pickFrom(const std::vector<Value> &values) {
    // Prefer what is new: long chains find more.
    size_t back = std::min(pick(values.size()), pick(values.size()));
    return values[values.size() - 1 - back];
  }
  double pickNumber(double low, double high) {
    return low + (high - low) * double(random() >> 11) * 0x1p-53;
  }

  static Names getDims(Value value) {
    Names names;
    for (nd::DimAttr dim :
         mlir::cast<nd::NamedTensorType>(value.getType()).getDims())
      names.push_back(dim.getName());
    return names;
  }

  Names pickDims(size_t count) {
    static constexpr const char *names[] = {"d0", "d1", "d2", "d3", "d4"};
    Names dims(std::begin(names), std::end(names));
    std::shuffle(dims.begin(), dims.end(), random);
    dims.resize(count);
    return dims;
  }
  Names pickSubset(Names dims) {
    std::shuffle(dims.begin(), dims.end(), random);
    dims.resize(pick(dims.size() + 1));
    return dims;
  }

  /// Whether one tensor over all of these dimensions is small enough.
  static bool fits(llvm::ArrayRef<Value> values) {
    std::map<std::string, int64_t> all;
    for (Value value : values)
      for (nd::DimAttr dim :
           mlir::cast<nd::NamedTensorType>(value.getType()).getDims())
        all[dim.getName().str()] = dim.getSize();
    int64_t elements = 1;
    for (const auto &[name, size] : all)
      elements *= size;
    return elements <= maxElements;
  }

  void addOperation() {
    Value x = pickFrom(floats), y = pickFrom(floats);
    switch (pick(17)) {
    case 0:
      return addUnary(x);
    case 1:
    case 2:
      return addBinary(x, y);
    case 3:
    case 4:
    case 5:
      return addEinsum(x, y);
    case 6:
      return addReduction(x);
    case 7:
      return floats.push_back(b.scale(x, pickNumber(-1.5, 1.5)));
    case 8:
      if (Value condition = pickFrom(conditions); fits({condition, x, y}))
        floats.push_back(b.make<nd::SelectOp>(condition, x, y));
      return;
    case 9:
      return conditions.push_back(
          b.compare(pick(2) ? nd::Predicate::Lt : nd::Predicate::Ge, x,
                    b.constant(pickNumber(-0.5, 0.5))));
    case 10:
      return addCondition();
    case 11:
      return addIndexing(x);
    case 12:
      return addRename(x);
    case 13:
      if (!getDims(x).empty())
        floats.push_back(
            b.softmax(bounded(x), getDims(x)[pick(getDims(x).size())]));
      return;
    case 14:
      return addConstraint(x);
    case 15:
      return addSumOfProduct(x, y);
    case 16:
      return addView(x);
    }
    llvm_unreachable("there are 17 choices");
  }

  /// In (-1, 1).
  Value bounded(Value x) { return b.make<nd::TanhOp>(x); }
  /// At least 1/2.
  Value positive(Value x) {
    return b.make<nd::AddOp>(b.make<nd::AbsOp>(bounded(x)), b.constant(0.5));
  }

  void addUnary(Value x) {
    switch (pick(9)) {
    case 0:
      return floats.push_back(b.make<nd::NegOp>(x));
    case 1:
      return floats.push_back(b.make<nd::ExpOp>(bounded(x)));
    case 2:
      return floats.push_back(b.make<nd::LogOp>(positive(x)));
    case 3:
      return floats.push_back(bounded(x));
    case 4:
      return floats.push_back(b.make<nd::LogisticOp>(x));
    case 5:
      return floats.push_back(b.gelu(bounded(x)));
    case 6:
      return floats.push_back(b.make<nd::RsqrtOp>(positive(x)));
    case 7:
      return floats.push_back(b.make<nd::StopGradientOp>(x));
    case 8:
      return floats.push_back(
          b.make<nd::MaximumOp>(x, b.constant(pickNumber(-0.5, 0.5))));
    }
    llvm_unreachable("there are 9 choices");
  }

  void addBinary(Value x, Value y) {
    if (!fits({x, y}))
      return;
    switch (pick(4)) {
    case 0:
      return floats.push_back(b.make<nd::AddOp>(x, y));
    case 1:
      return floats.push_back(b.make<nd::SubOp>(x, y));
    case 2:
      return floats.push_back(b.make<nd::MulOp>(bounded(x), y));
    case 3:
      return floats.push_back(b.make<nd::DivOp>(x, positive(y)));
    }
    llvm_unreachable("there are 4 choices");
  }

  /// A product plus or minus something, its extreme and the position of that;
  /// the product, too, is there for others.
  void addSumOfProduct(Value x, Value y) {
    if (!fits({x, y}))
      return;
    Value product = b.make<nd::MulOp>(bounded(x), y);
    Value sum =
        pick(2) ? b.make<nd::AddOp>(product, y) : b.make<nd::SubOp>(x, product);
    if (pick(2))
      floats.push_back(product);
    Names dims = getDims(sum);
    if (!dims.empty()) {
      floats.push_back(
          b.reduce(pick(2) ? nd::Reduction::Max : nd::Reduction::Min, sum,
                   pickSubset(dims)));
      Value position =
          b.argReduce(nd::ArgKind::Max, sum, dims[pick(dims.size())]);
      floats.push_back(b.cast(position, b.getBuilder().getF64Type()));
    }
    floats.push_back(sum);
  }

  void addEinsum(Value x, Value y) {
    llvm::SmallVector<Value> inputs = {bounded(x), y};
    if (pick(3) == 0)
      inputs.push_back(bounded(pickFrom(floats)));
    if (!fits(inputs))
      return;
    Names dims;
    for (Value input : inputs)
      for (llvm::StringRef dim : getDims(input))
        if (!llvm::is_contained(dims, dim))
          dims.push_back(dim);
    floats.push_back(b.einsum(inputs, pickSubset(dims)));
  }

  void addReduction(Value x) {
    constexpr nd::Reduction kinds[] = {nd::Reduction::Sum, nd::Reduction::Mean,
                                       nd::Reduction::Max, nd::Reduction::Min};
    floats.push_back(b.reduce(kinds[pick(4)], x, pickSubset(getDims(x))));
  }

  void addCondition() {
    Value x = pickFrom(conditions), y = pickFrom(conditions);
    if (!fits({x, y}))
      return;
    switch (pick(4)) {
    case 0:
      return conditions.push_back(b.make<nd::AndOp>(x, y));
    case 1:
      return conditions.push_back(b.make<nd::OrOp>(x, y));
    case 2:
      return conditions.push_back(b.make<nd::NotOp>(x));
    case 3:
      return floats.push_back(b.cast(x, b.getBuilder().getF64Type()));
    }
    llvm_unreachable("there are 4 choices");
  }

  /// Looks up at random positions, or at positions that were computed.
  void addIndexing(Value x) {
    if (getDims(x).empty())
      return;
    std::string dim = getDims(x)[pick(getDims(x).size())].str();
    Value index;
    if (pick(2) == 0) {
      Names dims;
      for (llvm::StringRef candidate : pickDims(2))
        if (candidate != dim)
          dims.push_back(candidate);
      index = b.indexInput("i" + std::to_string(inputs++), dims,
                           Model::Bounds{-2, 6});
    } else {
      Value y = pickFrom(floats);
      if (getDims(y).empty())
        return;
      // Of distinct random inputs: the extreme is no matter of rounding.
      index = b.argReduce(pick(2) ? nd::ArgKind::Max : nd::ArgKind::Min,
                          b.input("x" + std::to_string(++inputs), getDims(y)),
                          getDims(y)[pick(getDims(y).size())]);
      if (llvm::is_contained(getDims(index), dim))
        return;
    }
    if (fits({x, index}))
      floats.push_back(b.gather(x, index, dim));
  }

  /// Reads a dimension at positions that one or two dimensions determine.
  void addView(Value x) {
    using layout::Access;
    if (getDims(x).empty())
      return;
    std::string dim = getDims(x)[pick(getDims(x).size())].str();
    Names loops = pickDims(1 + pick(2));
    std::vector<layout::AccessTerm> terms;
    for (size_t i = 0; i < loops.size(); ++i)
      terms.push_back(
          {int32_t(i), (pick(3) == 0 ? -1 : 1) * int64_t(1 + pick(2))});
    int64_t offset = int64_t(pick(7)) - 3, divisor = int64_t(2 + pick(4));
    Access access = Access::linear(terms, offset);
    switch (pick(6)) {
    case 0:
      access = Access::quotient(Access::Kind::Exact, terms, offset, divisor);
      break;
    case 1:
      access = Access::quotient(Access::Kind::Floor, terms, offset, divisor);
      break;
    case 2:
      access = Access::modulo(terms, offset, divisor);
      break;
    default:
      break;
    }
    // A loop that the form lost would determine nothing.
    if (access.getTerms().size() != loops.size())
      return;
    Value y = b.view(x, dim, access, loops);
    if (fits({y}))
      floats.push_back(y);
  }

  /// d0 and d1 have second names.
  void addRename(Value x) {
    for (llvm::StringRef dim : getDims(x)) {
      std::string to = (dim[0] == 'd' ? "e" : "d") + dim.drop_front().str();
      if ((dim.drop_front() == "0" || dim.drop_front() == "1") &&
          !llvm::is_contained(getDims(x), to)) {
        floats.push_back(b.rename(x, dim, to));
        return;
      }
    }
  }

  /// Every mesh that a random layout has names an axis "a".
  void addConstraint(Value x) {
    Names dims = getDims(x);
    if (dims.empty() || pick(4) == 0)
      return floats.push_back(b.constrain(x, {}, {}));
    floats.push_back(b.constrain(x, dims[pick(dims.size())], "a"));
  }

  void finish() {
    Value loss = b.constant(0);
    for (int i = 0; i < 3; ++i) {
      Value y =
          floats[floats.size() - 1 - pick(std::min<size_t>(5, floats.size()))];
      b.output("y" + std::to_string(i), y);
      Value weight = b.input("w" + std::to_string(i), pickSubset(getDims(y)));
      loss = b.make<nd::AddOp>(loss, b.einsum({bounded(y), weight}, {}));
    }
    b.output("condition", conditions.back());
    b.output("loss", loss);
    b.train("loss", "sgd", {{"lr", 0.5}});
  }

  ModelBuilder b;
  std::mt19937_64 random;
  std::vector<Value> floats, conditions;
  int inputs = 0;
};

} // namespace

Model meshc::test::makeRandomModel(mlir::MLIRContext &context, uint64_t seed,
                                   int operations) {
  return Generator(context, seed).generate(operations);
}

Layout meshc::test::makeRandomLayout(const Model &model, uint64_t seed) {
  static constexpr const char *meshes[] = {"a=2",     "a=3",     "a=4",
                                           "a=2,b=2", "a=2,b=3", "a=3,b=2",
                                           "a=8",     "a=2,b=4", "a=2,b=2,c=2"};
  std::mt19937_64 random(seed);
  const std::vector<std::string> dims = {"d0", "d1", "d2", "d3",
                                         "d4", "e0", "e1"};
  llvm::StringRef mesh = meshes[random() % std::size(meshes)];
  if (random() % 10 == 0) {
    std::vector<Layout> tables = enumerateLayouts(mesh, {"d0", "d1"}, 2);
    return tables[random() % tables.size()];
  }
  return drawLegalLayout(model.module.get(), mesh, dims, 2, random);
}
