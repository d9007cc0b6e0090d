// Scalar forms, folds and rules shared by the elementwise operations.

#include "dialect/ND.h"
#include "dialect/PartitionBuilder.h"
#include "dialect/SPMD.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace meshc::nd;

LogicalResult meshc::nd::verifyElementwise(Operation *op, ValueRange typed) {
  // One operand agrees with itself: its constraints begin one further on.
  bool isUnary = op->getNumOperands() == 1;
  StringRef dimsLabel = isUnary ? "(C1)" : "(C2)";
  StringRef elementsLabel = isUnary ? "(C2)" : "(C3)";
  llvm::SmallDenseMap<StringAttr, int64_t> sizes;
  for (Value operand : op->getOperands())
    for (DimAttr dim : cast<NamedTensorType>(operand.getType()).getDims()) {
      auto [known, isFirst] = sizes.try_emplace(dim.getName(), dim.getSize());
      if (!isFirst && known->second != dim.getSize())
        return op->emitOpError("(C1) dimension ")
               << dim.getName() << " has size " << known->second << " and "
               << dim.getSize();
    }
  auto result = cast<NamedTensorType>(op->getResult(0).getType());
  if (result.getDims().size() != sizes.size() ||
      llvm::any_of(result.getDims(), [&](DimAttr dim) {
        auto known = sizes.find(dim.getName());
        return known == sizes.end() || known->second != dim.getSize();
      }))
    return op->emitOpError(dimsLabel)
           << " the result must have the "
           << (isUnary ? "operand's dimensions"
                       : "union of the operands' dimensions");
  for (Value value : typed) {
    Type first =
        cast<NamedTensorType>(typed.front().getType()).getElementType();
    Type other = cast<NamedTensorType>(value.getType()).getElementType();
    if (first != other)
      return op->emitOpError(elementsLabel)
             << " expected one element type, found " << first << " and "
             << other;
  }
  if (isa<CompareOp>(op) && !result.getElementType().isInteger(1))
    return op->emitOpError("(C3) the result of a comparison is boolean");
  return success();
}

LocalResults meshc::nd::buildElementwise(Operation *op,
                                         PartitionBuilder &builder,
                                         ValueRange shards) {
  auto elementwise = cast<ElementwiseOpInterface>(op);
  Value result = builder.buildPointwise(
      cast<NamedTensorType>(op->getResult(0).getType()),
      builder.getOperands(cast<PartitionOpInterface>(op), shards),
      [&](OpBuilder &inner, Location loc, ValueRange scalars,
          PartitionBuilder::GlobalIndex) {
        return elementwise.buildScalar(inner, loc, scalars);
      });
  return SmallVector{result};
}

//===-- Scalar forms ------------------------------------------------------===//

static Value constant(OpBuilder &b, Location loc, Type type, double value) {
  TypedAttr attr = isa<FloatType>(type)
                       ? TypedAttr(b.getFloatAttr(type, value))
                       : TypedAttr(b.getIntegerAttr(type, int64_t(value)));
  return arith::ConstantOp::create(b, loc, attr);
}

/// Builds `FloatOp` or `IntOp` by the element type of the operands.
template <typename FloatOp, typename IntOp>
static Value byType(OpBuilder &b, Location loc, ValueRange operands) {
  if (isa<FloatType>(operands.front().getType()))
    return FloatOp::create(b, loc, operands);
  return IntOp::create(b, loc, operands);
}

#define MESHC_SCALAR(OP)                                                       \
  Value OP::buildScalar(OpBuilder &b, Location loc, ValueRange x)

MESHC_SCALAR(NegOp) {
  if (isa<FloatType>(x[0].getType()))
    return arith::NegFOp::create(b, loc, x[0]);
  return arith::SubIOp::create(b, loc, constant(b, loc, x[0].getType(), 0),
                               x[0]);
}
MESHC_SCALAR(ExpOp) { return math::ExpOp::create(b, loc, x[0]); }
MESHC_SCALAR(LogOp) { return math::LogOp::create(b, loc, x[0]); }
MESHC_SCALAR(TanhOp) { return math::TanhOp::create(b, loc, x[0]); }
MESHC_SCALAR(LogisticOp) {
  Value one = constant(b, loc, x[0].getType(), 1);
  Value exp = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x[0]));
  return arith::DivFOp::create(b, loc, one,
                               arith::AddFOp::create(b, loc, one, exp));
}
MESHC_SCALAR(ErfOp) { return math::ErfOp::create(b, loc, x[0]); }
MESHC_SCALAR(ErfInvOp) { return spmd::ErfInvOp::create(b, loc, x[0]); }
MESHC_SCALAR(SinOp) { return math::SinOp::create(b, loc, x[0]); }
MESHC_SCALAR(CosOp) { return math::CosOp::create(b, loc, x[0]); }
MESHC_SCALAR(SqrtOp) { return math::SqrtOp::create(b, loc, x[0]); }
MESHC_SCALAR(RsqrtOp) {
  return arith::DivFOp::create(b, loc, constant(b, loc, x[0].getType(), 1),
                               math::SqrtOp::create(b, loc, x[0]));
}
MESHC_SCALAR(AbsOp) { return byType<math::AbsFOp, math::AbsIOp>(b, loc, x); }
MESHC_SCALAR(SignOp) {
  Type type = x[0].getType();
  Value zero = constant(b, loc, type, 0);
  Value above, below;
  if (isa<FloatType>(type)) {
    above =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x[0], zero);
    below =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x[0], zero);
  } else {
    above =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, x[0], zero);
    below =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x[0], zero);
  }
  Value minus =
      arith::SelectOp::create(b, loc, below, constant(b, loc, type, -1), zero);
  return arith::SelectOp::create(b, loc, above, constant(b, loc, type, 1),
                                 minus);
}
MESHC_SCALAR(NotOp) {
  return arith::XOrIOp::create(b, loc, x[0],
                               constant(b, loc, b.getI1Type(), 1));
}
MESHC_SCALAR(StopGradientOp) { return x[0]; }
MESHC_SCALAR(AddOp) { return byType<arith::AddFOp, arith::AddIOp>(b, loc, x); }
MESHC_SCALAR(SubOp) { return byType<arith::SubFOp, arith::SubIOp>(b, loc, x); }
MESHC_SCALAR(MulOp) { return byType<arith::MulFOp, arith::MulIOp>(b, loc, x); }
MESHC_SCALAR(DivOp) {
  if (isa<FloatType>(x[0].getType()))
    return arith::DivFOp::create(b, loc, x);
  // Where the quotient is undefined, and the processor traps, the divisor is 1:
  // x / 0 = x, and the lowest integer over -1 is itself, as negation wraps.
  // Padding is divided too: a program whose tensors have no zeros meets some.
  auto type = cast<IntegerType>(x[0].getType());
  if (type.getWidth() == 1)
    return x[0];
  auto isEqual = [&](Value value, Value other) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, value,
                                 other);
  };
  Value lowest = arith::ConstantOp::create(
      b, loc,
      b.getIntegerAttr(type, llvm::APInt::getSignedMinValue(type.getWidth())));
  Value overflows = arith::AndIOp::create(
      b, loc, isEqual(x[0], lowest), isEqual(x[1], constant(b, loc, type, -1)));
  Value isUndefined = arith::OrIOp::create(
      b, loc, isEqual(x[1], constant(b, loc, type, 0)), overflows);
  Value divisor = arith::SelectOp::create(b, loc, isUndefined,
                                          constant(b, loc, type, 1), x[1]);
  return arith::DivSIOp::create(b, loc, x[0], divisor);
}
MESHC_SCALAR(MinimumOp) {
  return byType<arith::MinimumFOp, arith::MinSIOp>(b, loc, x);
}
MESHC_SCALAR(MaximumOp) {
  return byType<arith::MaximumFOp, arith::MaxSIOp>(b, loc, x);
}
MESHC_SCALAR(PowOp) { return math::PowFOp::create(b, loc, x[0], x[1]); }
MESHC_SCALAR(AndOp) { return arith::AndIOp::create(b, loc, x[0], x[1]); }
MESHC_SCALAR(OrOp) { return arith::OrIOp::create(b, loc, x[0], x[1]); }
MESHC_SCALAR(FoldInOp) { return spmd::FoldInOp::create(b, loc, x[0], x[1]); }
MESHC_SCALAR(SelectOp) {
  return arith::SelectOp::create(b, loc, x[0], x[1], x[2]);
}

/// Whether integers of this type are compared and widened without a sign.
static bool hasNoSign(Type elementType) {
  return elementType.isInteger(1) || elementType.isUnsignedInteger();
}

static arith::CmpFPredicate getFloatPredicate(Predicate predicate) {
  switch (predicate) {
  case Predicate::Eq:
    return arith::CmpFPredicate::OEQ;
  case Predicate::Ne:
    return arith::CmpFPredicate::UNE;
  case Predicate::Lt:
    return arith::CmpFPredicate::OLT;
  case Predicate::Le:
    return arith::CmpFPredicate::OLE;
  case Predicate::Gt:
    return arith::CmpFPredicate::OGT;
  case Predicate::Ge:
    return arith::CmpFPredicate::OGE;
  }
  llvm_unreachable("not a predicate");
}

static arith::CmpIPredicate getIntPredicate(Predicate predicate,
                                            bool isUnsigned) {
  switch (predicate) {
  case Predicate::Eq:
    return arith::CmpIPredicate::eq;
  case Predicate::Ne:
    return arith::CmpIPredicate::ne;
  case Predicate::Lt:
    return isUnsigned ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  case Predicate::Le:
    return isUnsigned ? arith::CmpIPredicate::ule : arith::CmpIPredicate::sle;
  case Predicate::Gt:
    return isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
  case Predicate::Ge:
    return isUnsigned ? arith::CmpIPredicate::uge : arith::CmpIPredicate::sge;
  }
  llvm_unreachable("not a predicate");
}

MESHC_SCALAR(CompareOp) {
  if (isa<FloatType>(x[0].getType()))
    return arith::CmpFOp::create(b, loc, getFloatPredicate(getPredicate()),
                                 x[0], x[1]);
  return arith::CmpIOp::create(
      b, loc,
      getIntPredicate(getPredicate(),
                      hasNoSign(getLhs().getType().getElementType())),
      x[0], x[1]);
}

MESHC_SCALAR(CastOp) {
  Type from = getInput().getType().getElementType();
  Type to = getResult().getType().getElementType();
  if (from == to)
    return x[0];
  const bool fromUnsigned = hasNoSign(from), toUnsigned = hasNoSign(to);
  from = getSignless(from);
  to = getSignless(to);
  if (to.isInteger(1)) {
    Value zero = constant(b, loc, from, 0);
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, x[0],
                                   zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, x[0], zero);
  }
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  if (fromFloat && !toFloat) {
    if (toUnsigned)
      return arith::FPToUIOp::create(b, loc, to, x[0]);
    return arith::FPToSIOp::create(b, loc, to, x[0]);
  }
  if (!fromFloat && toFloat) {
    if (fromUnsigned)
      return arith::UIToFPOp::create(b, loc, to, x[0]);
    return arith::SIToFPOp::create(b, loc, to, x[0]);
  }
  unsigned fromWidth = from.getIntOrFloatBitWidth();
  unsigned toWidth = to.getIntOrFloatBitWidth();
  if (fromFloat) {
    if (fromWidth == toWidth) // f16 and bf16 meet in f32
      return arith::TruncFOp::create(
          b, loc, to, arith::ExtFOp::create(b, loc, b.getF32Type(), x[0]));
    if (fromWidth < toWidth)
      return arith::ExtFOp::create(b, loc, to, x[0]);
    return arith::TruncFOp::create(b, loc, to, x[0]);
  }
  if (fromWidth > toWidth)
    return arith::TruncIOp::create(b, loc, to, x[0]);
  if (fromWidth == toWidth) // u8 and i8 are the same bits
    return x[0];
  if (fromUnsigned)
    return arith::ExtUIOp::create(b, loc, to, x[0]);
  return arith::ExtSIOp::create(b, loc, to, x[0]);
}

//===-- Folds -------------------------------------------------------------===//

/// Whether `attr` is the number `value`.
static bool isNumber(Attribute attr, double value) {
  if (auto number = dyn_cast_or_null<FloatAttr>(attr))
    return number.getValueAsDouble() == value;
  if (auto number = dyn_cast_or_null<IntegerAttr>(attr))
    return double(number.getValue().getSExtValue()) == value;
  return false;
}

/// `value` if it has the type of the result, broadcasting being a change.
static OpFoldResult ifSameType(Value value, Value result) {
  return value.getType() == result.getType() ? OpFoldResult(value)
                                             : OpFoldResult();
}

/// Folds two splats. Sizes never matter: nothing is materialised.
template <typename FloatFn, typename IntFn>
static Attribute foldSplats(Attribute lhs, Attribute rhs, FloatFn onFloats,
                            IntFn onInts) {
  if (auto a = dyn_cast_or_null<FloatAttr>(lhs))
    if (auto b = dyn_cast_or_null<FloatAttr>(rhs))
      return FloatAttr::get(a.getType(), onFloats(a.getValue(), b.getValue()));
  if (auto a = dyn_cast_or_null<IntegerAttr>(lhs))
    if (auto b = dyn_cast_or_null<IntegerAttr>(rhs))
      return IntegerAttr::get(a.getType(), onInts(a.getValue(), b.getValue()));
  return {};
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isNumber(adaptor.getRhs(), 0))
    if (OpFoldResult kept = ifSameType(getLhs(), getResult()))
      return kept;
  if (isNumber(adaptor.getLhs(), 0))
    if (OpFoldResult kept = ifSameType(getRhs(), getResult()))
      return kept;
  return foldSplats(adaptor.getLhs(), adaptor.getRhs(), std::plus<APFloat>(),
                    std::plus<APInt>());
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isNumber(adaptor.getRhs(), 0))
    if (OpFoldResult kept = ifSameType(getLhs(), getResult()))
      return kept;
  return foldSplats(adaptor.getLhs(), adaptor.getRhs(), std::minus<APFloat>(),
                    std::minus<APInt>());
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isNumber(adaptor.getRhs(), 1))
    if (OpFoldResult kept = ifSameType(getLhs(), getResult()))
      return kept;
  if (isNumber(adaptor.getLhs(), 1))
    if (OpFoldResult kept = ifSameType(getRhs(), getResult()))
      return kept;
  return foldSplats(adaptor.getLhs(), adaptor.getRhs(),
                    std::multiplies<APFloat>(), std::multiplies<APInt>());
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isNumber(adaptor.getRhs(), 1))
    if (OpFoldResult kept = ifSameType(getLhs(), getResult()))
      return kept;
  auto a = dyn_cast_or_null<FloatAttr>(adaptor.getLhs());
  auto b = dyn_cast_or_null<FloatAttr>(adaptor.getRhs());
  if (!a || !b)
    return {};
  return FloatAttr::get(a.getType(), a.getValue() / b.getValue());
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  return ifSameType(getInput(), getResult());
}
