#include "passes/ContractionOrder.h"
#include "passes/GreedyRewrite.h"
#include "passes/Passes.h"
#include "passes/Simplifications.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_DECOMPOSE
#include "passes/Passes.h.inc"
} // namespace meshc

namespace {

/// arg_max(x) -> min(where(x == max(x) or x != x, position, size)): the first
/// of equal elements, a NaN counting as the extreme.
struct DecomposeArgReduce : OpRewritePattern<ArgReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ArgReduceOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Value input = op.getInput();
    NamedTensorType inputType = op.getInput().getType().withoutSharding();
    NamedTensorType positionType = op.getType();
    Type integer = positionType.getElementType();
    DimAttr dim = inputType.getDims()[inputType.findDim(op.getDim())];

    Reduction kind =
        op.getKind() == ArgKind::Max ? Reduction::Max : Reduction::Min;
    Value extreme = ReduceOp::create(
        rewriter, loc, positionType.withElementType(inputType.getElementType()),
        kind, input);
    Value isExtreme =
        CompareOp::create(rewriter, loc, Predicate::Eq, input, extreme);
    if (isa<FloatType>(inputType.getElementType())) {
      Value isNan =
          CompareOp::create(rewriter, loc, Predicate::Ne, input, input);
      isExtreme = OrOp::create(rewriter, loc, isExtreme, isNan);
    }
    Value position =
        IotaOp::create(rewriter, loc, NamedTensorType::get({dim}, integer));
    Value none =
        ConstantOp::create(rewriter, loc, NamedTensorType::get({}, integer),
                           IntegerAttr::get(integer, dim.getSize()));
    Value candidate =
        SelectOp::create(rewriter, loc, isExtreme, position, none);
    rewriter.replaceOpWithNewOp<ReduceOp>(op, positionType, Reduction::Min,
                                          candidate);
    return success();
  }
};

/// unstack(x) -> x at each position
struct DecomposeUnstack : OpRewritePattern<UnstackOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(UnstackOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> slices;
    for (auto [position, result] : llvm::enumerate(op.getResults())) {
      auto access =
          DimAccess(layout::Access::linear({}, int64_t(position)), {});
      slices.push_back(ViewOp::create(
          rewriter, op.getLoc(), result.getType(), op.getInput(),
          rewriter.getArrayAttr(AccessAttr::get(op.getDimAttr(), access))));
    }
    rewriter.replaceOp(op, slices);
    return success();
  }
};

/// mean(x) -> sum(x) (1 / n)
struct DecomposeMean : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getKind() != Reduction::Mean)
      return rewriter.notifyMatchFailure(op, "is no mean");
    Type elementType = op.getType().getElementType();
    double terms = double(op.getInput().getType().getNumElements()) /
                   double(op.getType().getNumElements());
    Value sum = ReduceOp::create(rewriter, op.getLoc(), op.getType(),
                                 Reduction::Sum, op.getInput());
    Value weight = ConstantOp::create(rewriter, op.getLoc(),
                                      NamedTensorType::get({}, elementType),
                                      FloatAttr::get(elementType, 1 / terms));
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), sum, weight);
    return success();
  }
};

/// Whether elements of `type` are added up in f32 and rounded afterwards.
static bool isSummedWider(NamedTensorType type) {
  auto element = dyn_cast<FloatType>(type.getElementType());
  return element && element.getWidth() < 32;
}

static Value widen(PatternRewriter &rewriter, Location loc, Value value) {
  if (!isSummedWider(getTensorType(value)))
    return value;
  return CastOp::create(rewriter, loc, value, rewriter.getF32Type());
}

/// sum(x) of 16-bit floats -> x as f32, summed, rounded
struct WidenSum : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    // Without a dimension to sum it only stores in another order.
    if (op.getKind() != Reduction::Sum || !isSummedWider(op.getType()) ||
        op.getType().getRank() == op.getInput().getType().getRank())
      return rewriter.notifyMatchFailure(op, "is no sum of 16-bit floats");
    Value sum = ReduceOp::create(
        rewriter, op.getLoc(),
        op.getType().withElementType(rewriter.getF32Type()), Reduction::Sum,
        widen(rewriter, op.getLoc(), op.getInput()));
    rewriter.replaceOpWithNewOp<CastOp>(op, op.getType(), sum);
    return success();
  }
};

/// put(x) of 16-bit floats -> put as f32, rounded
struct WidenPut : OpRewritePattern<PutOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PutOp op,
                                PatternRewriter &rewriter) const override {
    if (!isSummedWider(op.getType()))
      return rewriter.notifyMatchFailure(op, "is not of 16-bit floats");
    Value sum =
        PutOp::create(rewriter, op.getLoc(),
                      op.getType().withElementType(rewriter.getF32Type()),
                      op.getInput(), op.getIndex(), op.getDim());
    rewriter.replaceOpWithNewOp<CastOp>(op, op.getType(), sum);
    return success();
  }
};

/// Sums an input over the dimensions that nothing else has.
struct SumLoneDims : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> inputs;
    bool anyLone = false;
    for (OpOperand &input : op->getOpOperands()) {
      NamedTensorType type = getTensorType(input.get());
      SmallVector<DimAttr> kept;
      for (DimAttr dim : type.getDims())
        if (op.getType().hasDim(dim.getName()) ||
            llvm::any_of(op->getOpOperands(), [&](OpOperand &other) {
              return other.getOperandNumber() != input.getOperandNumber() &&
                     getTensorType(other.get()).hasDim(dim.getName());
            }))
          kept.push_back(dim);
      Value value = input.get();
      if (kept.size() < type.getDims().size()) {
        anyLone = true;
        value =
            ReduceOp::create(rewriter, op.getLoc(),
                             NamedTensorType::get(kept, type.getElementType()),
                             Reduction::Sum, value);
      }
      inputs.push_back(value);
    }
    if (!anyLone)
      return rewriter.notifyMatchFailure(op, "no dimension is alone");
    rewriter.modifyOpInPlace(op, [&] { op->setOperands(inputs); });
    return success();
  }
};

/// A contraction of many becomes contractions of two, in the cheapest order.
struct DecomposeManyInputs : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getInputs().size() < 3)
      return rewriter.notifyMatchFailure(op, "has no more than two inputs");
    SmallVector<NamedTensorType> types;
    for (Value input : op.getInputs())
      types.push_back(getTensorType(input).withoutSharding());
    SmallVector<Value> values(op.getInputs());
    for (const Contraction &step :
         orderContractions(types, op.getType(), nd::getMachine(op)))
      values.push_back(
          EinsumOp::create(rewriter, op.getLoc(), step.result,
                           ValueRange{values[step.lhs], values[step.rhs]}));
    rewriter.replaceOp(op, values.back());
    return success();
  }
};

/// A product in which one side has no dimension of its own needs no matrix
/// multiplication: it is elementwise, followed by a sum if it contracts.
struct DecomposeProduct : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 2)
      return rewriter.notifyMatchFailure(op, "is no product of two");
    Value lhs = op.getInputs()[0], rhs = op.getInputs()[1];
    bool contracts = llvm::any_of(getUnionOfDims(op), [&](DimAttr dim) {
      return !op.getType().hasDim(dim.getName());
    });
    auto isWithin = [](Value inner, Value outer) {
      return llvm::all_of(getTensorType(inner).getDims(), [&](DimAttr dim) {
        return getTensorType(outer).hasDim(dim.getName());
      });
    };
    if (contracts && !isWithin(lhs, rhs) && !isWithin(rhs, lhs))
      return rewriter.notifyMatchFailure(op, "is a matrix product");
    Location loc = op.getLoc();
    if (!contracts &&
        getTensorType(lhs).getElementType() == op.getType().getElementType()) {
      rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), lhs, rhs);
      return success();
    }
    if (isWithin(lhs, rhs)) // the order of storage of the larger one
      std::swap(lhs, rhs);
    NamedTensorType sumType = op.getType();
    if (isSummedWider(sumType))
      sumType = sumType.withElementType(rewriter.getF32Type());
    lhs = widen(rewriter, loc, lhs);
    rhs = widen(rewriter, loc, rhs);
    Value result;
    if (contracts) {
      Value product = MulOp::create(rewriter, loc, lhs, rhs);
      result =
          ReduceOp::create(rewriter, loc, sumType, Reduction::Sum, product);
    } else {
      result = MulOp::create(rewriter, loc, sumType, lhs, rhs);
    }
    if (sumType != op.getType())
      result = CastOp::create(rewriter, loc, op.getType(), result);
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct Decompose : meshc::impl::DecomposeBase<Decompose> {
  using DecomposeBase::DecomposeBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<DecomposeArgReduce, DecomposeManyInputs, DecomposeMean,
                 DecomposeUnstack, SumLoneDims, WidenPut, WidenSum>(
        &getContext());
    // Last, so that what can be summed before the product is.
    patterns.add<DecomposeProduct>(&getContext(), /*benefit=*/0);
    EinsumOp::getCanonicalizationPatterns(patterns, &getContext());
    ReduceOp::getCanonicalizationPatterns(patterns, &getContext());
    addSimplifications(patterns);
    if (failed(rewriteGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
