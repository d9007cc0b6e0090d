#include "passes/Simplifications.h"

#include "dialect/ND.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

static Value makeConstant(PatternRewriter &rewriter, Location loc,
                          TypedAttr value) {
  return ConstantOp::create(rewriter, loc,
                            NamedTensorType::get({}, value.getType()), value);
}

static Value makeConstant(PatternRewriter &rewriter, Location loc,
                          Type elementType, double value) {
  if (isa<FloatType>(elementType))
    return makeConstant(rewriter, loc, FloatAttr::get(elementType, value));
  return makeConstant(rewriter, loc,
                      IntegerAttr::get(elementType, int64_t(value)));
}

/// Whether `value` only repeats another.
static bool isRepeated(Value value) {
  return value.getDefiningOp<BroadcastOp>() ||
         (value.getDefiningOp<ConstantOp>() &&
          getTensorType(value).getRank() > 0);
}

/// What `value` repeats; itself if it does not.
static Value getRepeated(Value value, PatternRewriter &rewriter) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  auto constant = value.getDefiningOp<ConstantOp>();
  if (constant && constant.getType().getRank() > 0)
    return makeConstant(rewriter, constant.getLoc(),
                        cast<TypedAttr>(constant.getValue()));
  return value;
}

static bool anyHasDim(ValueRange values, DimAttr dim) {
  return llvm::any_of(
      values, [&](Value x) { return getTensorType(x).hasDim(dim.getName()); });
}

/// Those of the dimensions of `type` that some of `values` has, in its order.
static NamedTensorType keepDims(NamedTensorType type, ValueRange values) {
  SmallVector<DimAttr> dims;
  llvm::copy_if(type.getDims(), std::back_inserter(dims),
                [&](DimAttr dim) { return anyHasDim(values, dim); });
  return NamedTensorType::get(dims, type.getElementType());
}

static Value broadcastTo(PatternRewriter &rewriter, Location loc, Value value,
                         NamedTensorType type) {
  return rewriter.createOrFold<BroadcastOp>(loc, type, value);
}

/// `type` with elements in which a number of repetitions is exact: f32 in place
/// of 16 bits.
static NamedTensorType getCountable(NamedTensorType type) {
  auto element = dyn_cast<FloatType>(type.getElementType());
  if (!element || element.getWidth() >= 32)
    return type;
  return type.withElementType(Float32Type::get(type.getContext()));
}

/// `value` times `times`, rounded to `elementType` if it is narrower.
static Value repeat(PatternRewriter &rewriter, Location loc, Value value,
                    double times, Type elementType) {
  Value product = rewriter.createOrFold<MulOp>(
      loc, value,
      makeConstant(rewriter, loc, getTensorType(value).getElementType(),
                   times));
  if (getTensorType(product).getElementType() == elementType)
    return product;
  return CastOp::create(rewriter, loc, product, elementType);
}

namespace {

/// add(broadcast(x), y) -> add(x, y), broadcast afterwards if y does not have
/// all the dimensions. Every elementwise operation, every repeated operand.
struct ElementwiseOfRepeated
    : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    if (llvm::none_of(op->getOperands(), isRepeated))
      return rewriter.notifyMatchFailure(op, "no operand is repeated");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(getRepeated(operand, rewriter));
    NamedTensorType type = getTensorType(op->getResult(0));
    NamedTensorType kept = keepDims(type, operands);
    if (kept == type) {
      rewriter.modifyOpInPlace(op, [&] { op->setOperands(operands); });
      return success();
    }
    OperationState state(op.getLoc(), op->getName(), operands, {kept},
                         op->getAttrs());
    Value small = rewriter.create(state)->getResult(0);
    rewriter.replaceOp(op, broadcastTo(rewriter, op.getLoc(), small, type));
    return success();
  }
};

/// An elementwise operation on constants is a constant: its scalar form is
/// folded.
struct ElementwiseOfConstants
    : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    SmallVector<TypedAttr> values;
    for (Value operand : op->getOperands()) {
      auto constant = operand.getDefiningOp<ConstantOp>();
      if (!constant)
        return rewriter.notifyMatchFailure(op, "an operand is no constant");
      values.push_back(cast<TypedAttr>(constant.getValue()));
    }
    TypedAttr folded = fold(op, values, rewriter.getContext());
    if (!folded)
      return rewriter.notifyMatchFailure(op, "its scalar form does not fold");
    rewriter.replaceOpWithNewOp<ConstantOp>(op, getTensorType(op->getResult(0)),
                                            folded);
    return success();
  }

private:
  /// Builds the scalar form in a block of its own and folds it operation by
  /// operation; null if one does not fold.
  static TypedAttr fold(ElementwiseOpInterface op, ArrayRef<TypedAttr> values,
                        MLIRContext *context) {
    Block block;
    OpBuilder builder(context);
    builder.setInsertionPointToEnd(&block);
    llvm::DenseMap<Value, Attribute> known;
    SmallVector<Value> scalars;
    for (TypedAttr value : values) {
      value = withType(value, getSignless(value.getType()));
      scalars.push_back(block.addArgument(value.getType(), op.getLoc()));
      known[scalars.back()] = value;
    }
    Value result = op.buildScalar(builder, op.getLoc(), scalars);
    for (Operation &scalarOp : block) {
      SmallVector<Attribute> operands;
      for (Value operand : scalarOp.getOperands())
        operands.push_back(known.lookup(operand));
      SmallVector<OpFoldResult> results;
      if (failed(scalarOp.fold(operands, results)) || results.size() != 1)
        return {};
      auto asValue = llvm::dyn_cast_if_present<Value>(results.front());
      known[scalarOp.getResult(0)] =
          asValue ? known.lookup(asValue)
                  : llvm::cast<Attribute>(results.front());
    }
    auto folded = dyn_cast_or_null<TypedAttr>(known.lookup(result));
    return folded ? withType(folded,
                             getTensorType(op->getResult(0)).getElementType())
                  : folded;
  }

  /// A constant whose type differs from `type` at most in the sign.
  static TypedAttr withType(TypedAttr value, Type type) {
    if (value.getType() == type)
      return value;
    return IntegerAttr::get(type, cast<IntegerAttr>(value).getValue());
  }
};

/// sum(broadcast(x)) -> n sum(x); the other reductions drop the repetition.
struct ReduceOfRepeated : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    if (!isRepeated(op.getInput()))
      return rewriter.notifyMatchFailure(op, "the input is not repeated");
    Value input = getRepeated(op.getInput(), rewriter);
    double times = 1;
    for (DimAttr dim : op.getInput().getType().getDims())
      if (!getTensorType(input).hasDim(dim.getName()) &&
          !op.getType().hasDim(dim.getName()))
        times *= double(dim.getSize());
    NamedTensorType type = op.getType();
    bool isMultiple = op.getKind() == Reduction::Sum && times != 1;
    if (isMultiple && getCountable(type) != type) {
      type = getCountable(type);
      input =
          CastOp::create(rewriter, op.getLoc(), input, type.getElementType());
    }
    Value result = rewriter.createOrFold<ReduceOp>(
        op.getLoc(), keepDims(type, input), op.getKindAttr(), input);
    if (isMultiple)
      result = repeat(rewriter, op.getLoc(), result, times,
                      op.getType().getElementType());
    rewriter.replaceOp(
        op, broadcastTo(rewriter, op.getLoc(), result, op.getType()));
    return success();
  }
};

/// einsum(x, broadcast(y)) -> einsum(x, y), times the number of repetitions
/// that were summed.
struct EinsumOfRepeated : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const override {
    if (llvm::none_of(op.getInputs(), isRepeated))
      return rewriter.notifyMatchFailure(op, "no input is repeated");
    SmallVector<Value> inputs;
    for (Value input : op.getInputs())
      inputs.push_back(getRepeated(input, rewriter));
    double times = 1;
    for (DimAttr dim : getUnionOfDims(op))
      if (!op.getType().hasDim(dim.getName()) && !anyHasDim(inputs, dim))
        times *= double(dim.getSize());
    NamedTensorType type = op.getType();
    if (times != 1)
      type = getCountable(type);
    Value result =
        EinsumOp::create(rewriter, op.getLoc(), keepDims(type, inputs), inputs);
    if (times != 1)
      result = repeat(rewriter, op.getLoc(), result, times,
                      op.getType().getElementType());
    rewriter.replaceOp(
        op, broadcastTo(rewriter, op.getLoc(), result, op.getType()));
    return success();
  }
};

/// einsum(x, y, scalar) -> einsum(x, y) scalar
struct EinsumOfScalar : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const override {
    auto isScalar = [](Value x) { return getTensorType(x).getRank() == 0; };
    auto scalar = llvm::find_if(op.getInputs(), isScalar);
    if (op.getInputs().size() < 2 || scalar == op.getInputs().end())
      return rewriter.notifyMatchFailure(op, "no input is a scalar factor");
    SmallVector<Value> others;
    for (Value input : op.getInputs())
      if (input != *scalar)
        others.push_back(input);
    // A scalar that occurs twice stays as a factor.
    others.append(llvm::count(op.getInputs(), *scalar) - 1, *scalar);
    Value product =
        EinsumOp::create(rewriter, op.getLoc(), op.getType(), others);
    Value factor = *scalar;
    Type elementType = op.getType().getElementType();
    if (getTensorType(factor).getElementType() != elementType)
      factor = CastOp::create(rewriter, op.getLoc(), factor, elementType);
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), product, factor);
    return success();
  }
};

/// sum(einsum(x, y)) -> einsum(x, y), over dimensions that several inputs have:
/// what only one has nd-decompose sums before.
struct SumOfEinsum : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto einsum = op.getInput().getDefiningOp<EinsumOp>();
    if (op.getKind() != Reduction::Sum || !einsum || !einsum->hasOneUse())
      return rewriter.notifyMatchFailure(op, "is no sum of an einsum");
    for (DimAttr dim : einsum.getType().getDims())
      if (!op.getType().hasDim(dim.getName()) &&
          llvm::count_if(einsum.getInputs(), [&](Value input) {
            return getTensorType(input).hasDim(dim.getName());
          }) < 2)
        return rewriter.notifyMatchFailure(op, "sums what one input has");
    rewriter.replaceOpWithNewOp<EinsumOp>(op, op.getType(), einsum.getInputs());
    return success();
  }
};

/// view(einsum(g, w)) -> einsum(view(g), w), where w goes along a window of g:
/// the gradient of what a convolution reads. It is a convolution too then, of
/// few channels of g, where the einsum made a tensor of all that windows see.
///
/// view(einsum(g, q)) -> einsum(view(g), view(q)) of a product that sums
/// nothing and is much larger than its factors: what is seen of these need not
/// be in memory, as in the gradient of keys that a window of positions read.
struct ViewOfEinsum : OpRewritePattern<ViewOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ViewOp op,
                                PatternRewriter &rewriter) const override {
    auto einsum = op.getInput().getDefiningOp<EinsumOp>();
    if (!einsum || !einsum->hasOneUse())
      return rewriter.notifyMatchFailure(op, "is no view of an einsum");
    SmallVector<unsigned> sources;
    if (std::optional<unsigned> source = findSource(op, einsum))
      sources.push_back(*source);
    else if (isLargeProduct(op, einsum))
      sources = llvm::to_vector(
          llvm::seq<unsigned>(0, unsigned(einsum.getInputs().size())));
    else
      return rewriter.notifyMatchFailure(
          op, "sees no window of one input, nor a large product");
    SmallVector<Value> inputs(einsum.getInputs());
    for (unsigned source : sources)
      inputs[source] = viewInput(op, einsum, inputs[source], rewriter);
    rewriter.replaceOpWithNewOp<EinsumOp>(op, op.getType(), inputs);
    return success();
  }

private:
  /// What `op` sees of `input` alone.
  static Value viewInput(ViewOp op, EinsumOp einsum, Value input,
                         PatternRewriter &rewriter) {
    NamedTensorType type = getTensorType(input);
    SmallVector<DimAttr> dims;
    auto add = [&](StringAttr name) {
      DimAttr dim = op.getType().getDims()[op.getType().findDim(name)];
      if (!llvm::is_contained(dims, dim))
        dims.push_back(dim);
    };
    for (DimAttr dim : type.getDims())
      if (!einsum.getType().hasDim(dim.getName())) {
        dims.push_back(dim); // is summed
      } else {
        // Stored in the order of what was seen.
        DimAccess access = op.getInputAccess(dim.getName());
        SmallVector<StringAttr> loops(access.getLoops());
        llvm::sort(loops, [&](StringAttr a, StringAttr b) {
          return op.getType().findDim(a) < op.getType().findDim(b);
        });
        llvm::for_each(loops, add);
      }
    SmallVector<Attribute> accesses;
    for (auto access : op.getAccesses().getAsRange<AccessAttr>())
      if (type.hasDim(access.getDim()))
        accesses.push_back(access);
    return ViewOp::create(rewriter, op.getLoc(),
                          NamedTensorType::get(dims, type.getElementType()),
                          input, rewriter.getArrayAttr(accesses));
  }

  /// Whether `einsum` sums nothing and has many times the elements of its
  /// inputs, of which each is read elsewhere than at itself. Then all of them
  /// are 0 outside, whatever the others are there.
  static bool isLargeProduct(ViewOp op, EinsumOp einsum) {
    // The factors that are seen are read as often as the product was.
    constexpr int64_t manyTimes = 4;
    int64_t elements = 0;
    for (Value input : einsum.getInputs()) {
      NamedTensorType type = getTensorType(input);
      elements += type.getNumElements();
      for (DimAttr dim : type.getDims())
        if (!einsum.getType().hasDim(dim.getName()))
          return false;
      for (auto access : op.getAccesses().getAsRange<AccessAttr>())
        if (!type.hasDim(access.getDim()))
          return false;
    }
    return einsum.getType().getNumElements() >= manyTimes * elements;
  }

  /// The one input whose dimensions are read elsewhere than at themselves.
  static std::optional<unsigned> findSource(ViewOp op, EinsumOp einsum) {
    std::optional<unsigned> source;
    for (auto access : op.getAccesses().getAsRange<AccessAttr>())
      for (auto [number, input] : llvm::enumerate(einsum.getInputs())) {
        if (!getTensorType(input).hasDim(access.getDim()))
          continue;
        if (source && *source != number)
          return std::nullopt;
        source = number;
      }
    for (auto access : op.getAccesses().getAsRange<AccessAttr>()) {
      bool seesWindow = false;
      for (StringAttr loop : access.getLoops()) {
        // A dimension that is summed would be another of the same name.
        bool isKept = einsum.getType().hasDim(loop);
        for (auto [number, input] : llvm::enumerate(einsum.getInputs())) {
          if (!getTensorType(input).hasDim(loop))
            continue;
          if (!isKept)
            return std::nullopt;
          if (number == *source)
            continue;
          if (op.getInputAccess(loop).getLoop() != loop)
            return std::nullopt;
          seesWindow = true;
        }
      }
      if (!seesWindow)
        return std::nullopt;
    }
    return source;
  }
};

/// broadcast(broadcast(x)) -> broadcast(x)
struct BroadcastOfRepeated : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<BroadcastOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "the input is no broadcast");
    rewriter.modifyOpInPlace(
        op, [&] { op.getInputMutable().assign(inner.getInput()); });
    return success();
  }
};

/// rename(broadcast(x)) -> broadcast(rename(x))
struct RenameOfRepeated : OpRewritePattern<RenameOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RenameOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<BroadcastOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "the input is no broadcast");
    Value input = inner.getInput();
    SmallVector<Attribute> from, to;
    for (DimAttr dim : getTensorType(input).getDims())
      if (StringAttr name = op.getNewName(dim.getName());
          name != dim.getName()) {
        from.push_back(dim.getName());
        to.push_back(name);
      }
    if (!from.empty())
      input = RenameOp::create(rewriter, op.getLoc(), input,
                               rewriter.getArrayAttr(from),
                               rewriter.getArrayAttr(to));
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), input);
    return success();
  }
};

/// The factors of a product with a constant.
struct ConstantFactor {
  Value other;
  ConstantOp constant;

  static std::optional<ConstantFactor> find(MulOp op) {
    if (!op)
      return std::nullopt;
    if (auto constant = op.getRhs().getDefiningOp<ConstantOp>())
      return ConstantFactor{op.getLhs(), constant};
    if (auto constant = op.getLhs().getDefiningOp<ConstantOp>())
      return ConstantFactor{op.getRhs(), constant};
    return std::nullopt;
  }
};

/// (x c) d -> x (c d), for floats, if c d neither overflows nor underflows:
/// (x 1e30) 1e30 1e-30 keeps its value.
struct ReassociateConstants : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    auto outer = ConstantFactor::find(op);
    if (!outer || !isa<FloatType>(op.getType().getElementType()))
      return rewriter.notifyMatchFailure(op, "has no constant float factor");
    auto inner = ConstantFactor::find(outer->other.getDefiningOp<MulOp>());
    if (!inner)
      return rewriter.notifyMatchFailure(op, "is no product of a product");
    llvm::APFloat product = getFloat(inner->constant);
    product.multiply(getFloat(outer->constant),
                     llvm::APFloat::rmNearestTiesToEven);
    if (!product.isNormal())
      return rewriter.notifyMatchFailure(op, "the product leaves the range");
    // Folded here: as an operation it would be a product of two constants,
    // which this pattern takes for (x c) where x is a constant too.
    auto constant = rewriter.createOrFold<MulOp>(op.getLoc(), inner->constant,
                                                 outer->constant);
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), inner->other,
                                       constant);
    return success();
  }

private:
  static llvm::APFloat getFloat(ConstantOp constant) {
    return cast<FloatAttr>(constant.getValue()).getValue();
  }
};

/// -(x c) -> x (-c)
struct NegateConstant : OpRewritePattern<NegOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(NegOp op,
                                PatternRewriter &rewriter) const override {
    auto factor = ConstantFactor::find(op.getInput().getDefiningOp<MulOp>());
    if (!factor)
      return rewriter.notifyMatchFailure(op, "has no constant factor");
    Value constant = NegOp::create(rewriter, op.getLoc(), factor->constant);
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), factor->other,
                                       constant);
    return success();
  }
};

/// x + -y -> x - y
struct AddOfNegated : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    if (auto negated = op.getRhs().getDefiningOp<NegOp>())
      rewriter.replaceOpWithNewOp<SubOp>(op, op.getType(), op.getLhs(),
                                         negated.getInput());
    else if (auto negated = op.getLhs().getDefiningOp<NegOp>())
      rewriter.replaceOpWithNewOp<SubOp>(op, op.getType(), op.getRhs(),
                                         negated.getInput());
    else
      return rewriter.notifyMatchFailure(op, "adds nothing negated");
    return success();
  }
};

/// A choice by a constant condition is what it chooses.
struct SelectByConstant : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp op,
                                PatternRewriter &rewriter) const override {
    IntegerAttr condition;
    if (!matchPattern(op.getCondition(), m_Constant(&condition)))
      return rewriter.notifyMatchFailure(op, "the condition varies");
    Value chosen =
        condition.getValue().isZero() ? op.getWhenFalse() : op.getWhenTrue();
    rewriter.replaceOp(
        op, broadcastTo(rewriter, op.getLoc(), chosen, op.getType()));
    return success();
  }
};

/// Once gradients are taken it only passes its operand on.
struct DropStopGradient : OpRewritePattern<StopGradientOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(StopGradientOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(
        op, broadcastTo(rewriter, op.getLoc(), op.getInput(), op.getType()));
    return success();
  }
};

/// x^n as products, for the integers n with 1 <= |n| <= 3: at most three
/// roundings instead of a logarithm and an exponential.
struct PowOfInteger : OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PowOp op,
                                PatternRewriter &rewriter) const override {
    FloatAttr exponent;
    if (!matchPattern(op.getRhs(), m_Constant(&exponent)))
      return rewriter.notifyMatchFailure(op, "the exponent varies");
    double n = exponent.getValueAsDouble();
    if (std::abs(n) != 1 && std::abs(n) != 2 && std::abs(n) != 3)
      return rewriter.notifyMatchFailure(op, "the exponent is not 1, 2 or 3");
    Value product = op.getLhs();
    for (int factor = 1; factor < std::abs(n); ++factor)
      product = MulOp::create(rewriter, op.getLoc(), product, op.getLhs());
    if (n < 0)
      product = DivOp::create(
          rewriter, op.getLoc(), getTensorType(product),
          makeConstant(rewriter, op.getLoc(), op.getType().getElementType(), 1),
          product);
    rewriter.replaceOp(
        op, broadcastTo(rewriter, op.getLoc(), product, op.getType()));
    return success();
  }
};

} // namespace

void meshc::addSimplifications(RewritePatternSet &patterns) {
  patterns.add<AddOfNegated, BroadcastOfRepeated, DropStopGradient,
               EinsumOfRepeated, EinsumOfScalar, ElementwiseOfConstants,
               ElementwiseOfRepeated, NegateConstant, PowOfInteger,
               ReassociateConstants, ReduceOfRepeated, RenameOfRepeated,
               SelectByConstant, SumOfEinsum, ViewOfEinsum>(
      patterns.getContext());
  addGeneratedViews(patterns);
  addComposedViews(patterns);
}
