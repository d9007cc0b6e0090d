// Views of what every device can say by itself: constants, positions, and
// values along dimensions that they are repeated along. Nothing is sent for
// them.

#include "passes/Simplifications.h"

#include "dialect/ND.h"
#include "layout/AccessBounds.h"

#include <limits>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {

/// Builds, of the positions of a view's loops, where it reads a dimension.
class ReadPositions {
public:
  ReadPositions(ViewOp op, PatternRewriter &rewriter)
      : op(op), rewriter(rewriter), loc(op.getLoc()) {}

  /// Whether the positions can be said in integers of 32 bits: sums of those
  /// that a gradient composes may be larger.
  bool fits(DimAttr dim) {
    const DimAccess access = op.getInputAccess(dim.getName());
    const layout::Access form = access.getForm();
    const layout::Range sums = getSums(access);
    constexpr int64_t limit = std::numeric_limits<int32_t>::max();
    return std::abs(sums.offset) + sums.count + 2 * form.getDivisor() < limit &&
           dim.getSize() * form.getDivisor() < limit;
  }

  bool mayMiss(DimAttr dim) {
    const DimAccess access = op.getInputAccess(dim.getName());
    return layout::mayMiss(access.getForm(), getRanges(access), dim.getSize());
  }

  /// Where dimension `dim` is read, in integers; anything where that is
  /// outside. Its loops are its dimensions.
  /// Requires: fits.
  Value getPosition(DimAttr dim) {
    const DimAccess access = op.getInputAccess(dim.getName());
    const layout::Access form = access.getForm();
    const int64_t divisor = form.getDivisor();
    Value sum = getSum(access);
    if (divisor == 1)
      return sum;
    // Rounded down: of what is not negative.
    Value quotient = DivOp::create(rewriter, loc, sum, get(divisor));
    if (form.getKind() != layout::Access::Kind::Modulo)
      return SubOp::create(rewriter, loc, quotient, get(getMultiple(access)));
    return SubOp::create(rewriter, loc, sum,
                         MulOp::create(rewriter, loc, quotient, get(divisor)));
  }

  /// Whether a position is there; null where all of `dims` are.
  Value isInside(ArrayRef<DimAttr> dims) {
    Value inside;
    auto require = [&](Predicate predicate, Value lhs, Value rhs) {
      Value holds = CompareOp::create(rewriter, loc, predicate, lhs, rhs);
      inside = inside ? AndOp::create(rewriter, loc, inside, holds) : holds;
    };
    for (DimAttr dim : dims) {
      if (!mayMiss(dim))
        continue;
      const DimAccess access = op.getInputAccess(dim.getName());
      const layout::Access form = access.getForm();
      Value position = getPosition(dim);
      require(Predicate::Ge, position, get(0));
      require(Predicate::Lt, position, get(dim.getSize()));
      if (form.getKind() != layout::Access::Kind::Exact ||
          form.getDivisor() == 1)
        continue;
      Value whole =
          AddOp::create(rewriter, loc, position, get(getMultiple(access)));
      require(Predicate::Eq, getSum(access),
              MulOp::create(rewriter, loc, whole, get(form.getDivisor())));
    }
    return inside;
  }

private:
  Value get(int64_t number) {
    const IntegerType type = rewriter.getI32Type();
    return ConstantOp::create(rewriter, loc, NamedTensorType::get({}, type),
                              IntegerAttr::get(type, number));
  }

  std::vector<layout::Range> getRanges(const DimAccess &access) {
    std::vector<layout::Range> ranges;
    for (StringAttr loop : access.getLoops())
      ranges.push_back({0, getLoop(loop).getSize()});
    return ranges;
  }
  DimAttr getLoop(StringAttr name) {
    return op.getType().getDims()[op.getType().findDim(name)];
  }
  layout::Range getSums(const DimAccess &access) {
    const layout::Access form = access.getForm();
    return layout::Access::linear(form.getTerms(), form.getOffset())
        .getImage(getRanges(access));
  }
  /// Of the divisor, by which sums are not negative.
  int64_t getMultiple(const DimAccess &access) {
    const int64_t divisor = access.getForm().getDivisor();
    return divisor == 1
               ? 0
               : std::max<int64_t>(
                     -layout::divideDown(getSums(access).offset, divisor), 0);
  }
  Value getSum(const DimAccess &access) {
    const layout::Access form = access.getForm();
    Value sum = get(form.getOffset() + getMultiple(access) * form.getDivisor());
    for (const layout::AccessTerm &term : form.getTerms()) {
      const DimAttr loop = getLoop(access.getLoops()[size_t(term.loop)]);
      Value position = IotaOp::create(
          rewriter, loc, NamedTensorType::get(loop, rewriter.getI32Type()));
      if (term.factor != 1)
        position = MulOp::create(rewriter, loc, position, get(term.factor));
      sum = AddOp::create(rewriter, loc, sum, position);
    }
    return sum;
  }

  ViewOp op;
  PatternRewriter &rewriter;
  Location loc;
};

/// `value` where `inside` holds, else 0, as `type`.
Value selectInside(PatternRewriter &rewriter, Location loc, Value inside,
                   Value value, NamedTensorType type) {
  if (inside) {
    Value zero = ConstantOp::create(
        rewriter, loc, NamedTensorType::get({}, type.getElementType()),
        cast<TypedAttr>(rewriter.getZeroAttr(type.getElementType())));
    value = SelectOp::create(rewriter, loc, inside, value, zero);
  }
  return rewriter.createOrFold<BroadcastOp>(loc, type, value);
}

/// view(constant) -> constant, or where(inside, constant, 0)
struct ViewOfConstant : OpRewritePattern<ViewOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ViewOp op,
                                PatternRewriter &rewriter) const override {
    Value input = op.getInput();
    if (auto broadcast = input.getDefiningOp<BroadcastOp>())
      input = broadcast.getInput();
    auto constant = input.getDefiningOp<ConstantOp>();
    if (!constant)
      return rewriter.notifyMatchFailure(op, "the input is no constant");
    const auto value = cast<TypedAttr>(constant.getValue());
    ReadPositions positions(op, rewriter);
    ArrayRef<DimAttr> dims = op.getInput().getType().getDims();
    const bool isZero =
        value == rewriter.getZeroAttr(op.getType().getElementType());
    if (!isZero &&
        !llvm::all_of(dims, [&](DimAttr dim) { return positions.fits(dim); }))
      return rewriter.notifyMatchFailure(op, "positions go beyond 32 bits");
    Value scalar =
        ConstantOp::create(rewriter, op.getLoc(),
                           NamedTensorType::get({}, value.getType()), value);
    Value inside = isZero ? Value() : positions.isInside(dims);
    rewriter.replaceOp(
        op, selectInside(rewriter, op.getLoc(), inside, scalar, op.getType()));
    return success();
  }
};

/// view(iota) -> the position, or where(inside, the position, 0)
struct ViewOfPositions : OpRewritePattern<ViewOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ViewOp op,
                                PatternRewriter &rewriter) const override {
    auto iota = op.getInput().getDefiningOp<IotaOp>();
    if (!iota || !op.getType().getElementType().isInteger(32))
      return rewriter.notifyMatchFailure(op, "the input is no position");
    const DimAttr dim = iota.getType().getDims().front();
    ReadPositions positions(op, rewriter);
    if (!positions.fits(dim))
      return rewriter.notifyMatchFailure(op, "positions go beyond 32 bits");
    Value inside = positions.isInside(dim);
    rewriter.replaceOp(op,
                       selectInside(rewriter, op.getLoc(), inside,
                                    positions.getPosition(dim), op.getType()));
    return success();
  }
};

/// view(broadcast(x)) -> broadcast(view(x)), where all that is read of what x
/// is repeated along is there.
struct ViewOfRepeated : OpRewritePattern<ViewOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ViewOp op,
                                PatternRewriter &rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return rewriter.notifyMatchFailure(op, "the input is no broadcast");
    auto input = cast<NamedTensorType>(broadcast.getInput().getType());
    ReadPositions positions(op, rewriter);
    SmallVector<DimAttr> used;
    for (DimAttr dim : op.getInput().getType().getDims()) {
      if (!input.hasDim(dim.getName()) && positions.mayMiss(dim))
        return rewriter.notifyMatchFailure(op,
                                           "what it repeats may be outside");
      if (!input.hasDim(dim.getName()))
        continue;
      const DimAccess access = op.getInputAccess(dim.getName());
      for (StringAttr loop : access.getLoops())
        for (DimAttr known : op.getType().getDims())
          if (known.getName() == loop && !llvm::is_contained(used, known))
            used.push_back(known);
    }
    SmallVector<Attribute> accesses;
    for (auto access : op.getAccesses().getAsRange<AccessAttr>())
      if (input.hasDim(access.getDim()))
        accesses.push_back(access);
    SmallVector<DimAttr> dims;
    for (DimAttr dim : op.getType().getDims())
      if (llvm::is_contained(used, dim))
        dims.push_back(dim);
    Value read = rewriter.createOrFold<ViewOp>(
        op.getLoc(), NamedTensorType::get(dims, input.getElementType()),
        broadcast.getInput(), rewriter.getArrayAttr(accesses));
    rewriter.replaceOp(op, rewriter.createOrFold<BroadcastOp>(
                               op.getLoc(), op.getType(), read));
    return success();
  }
};

} // namespace

void meshc::addGeneratedViews(RewritePatternSet &patterns) {
  patterns.add<ViewOfConstant, ViewOfPositions, ViewOfRepeated>(
      patterns.getContext());
}
