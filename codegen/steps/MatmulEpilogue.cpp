#include "codegen/steps/MatmulEpilogue.h"

#include "codegen/kernels/StructuredOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

std::optional<APFloat> codegen::getFill(Value tensor) {
  OpFoldResult splat = getSplat(tensor);
  auto attr = dyn_cast_if_present<Attribute>(splat);
  if (auto scalar = dyn_cast_if_present<Value>(splat))
    matchPattern(scalar, m_Constant(&attr));
  if (auto number = dyn_cast_if_present<FloatAttr>(attr))
    return number.getValue();
  return std::nullopt;
}

bool codegen::isZeroFilled(Value tensor) {
  std::optional<APFloat> number = getFill(tensor);
  return number && number->isZero();
}

/// The input of a commutative `op` beside `value`; null if it has `value`
/// twice.
static OpOperand *getOther(linalg::GenericOp op, Value value) {
  OpOperand *other = nullptr;
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (input->get() == value)
      continue;
    if (other)
      return nullptr;
    other = input;
  }
  return other;
}

linalg::GenericOp codegen::getRounding(Operation *op, Value value) {
  return getElementwise<arith::TruncFOp>(op, value);
}

Value codegen::getAddend(linalg::GenericOp op, Value value, bool isBias) {
  auto add = getElementwise<arith::AddFOp>(op, value);
  OpOperand *other = add ? getOther(add, value) : nullptr;
  if (!other)
    return {};
  AffineMap map = add.getMatchingIndexingMap(other);
  unsigned rank = map.getNumResults();
  bool fits = isBias ? rank > 0 && rank < map.getNumDims() &&
                           map == AffineMap::getMinorIdentityMap(
                                      map.getNumDims(), rank, add.getContext())
                     : map.isIdentity();
  return fits ? other->get() : Value();
}

/// A user of `value` that applies `Scalar` to it and a tensor filled with
/// `number`; null if there is none.
template <typename Scalar>
static linalg::GenericOp getUserWith(Value value, float number) {
  for (Operation *user : value.getUsers()) {
    auto generic = getElementwise<Scalar>(user, value);
    OpOperand *other = generic ? getOther(generic, value) : nullptr;
    std::optional<APFloat> fill =
        other ? getFill(other->get()) : std::optional<APFloat>();
    if (fill && fill->bitwiseIsEqual(APFloat(number)))
      return generic;
  }
  return {};
}

/// The sum of 1 and erf of `value`, one operation (passes/FuseArithmetic.cpp),
/// if it is what reads `value`; null if not.
static linalg::GenericOp getOnePlusErf(Value value) {
  auto op = dyn_cast<linalg::GenericOp>(*value.user_begin());
  if (!value.hasOneUse() || !op || op.getNumReductionLoops() != 0 ||
      op.getNumDpsInputs() != 2 || op.getBody()->getOperations().size() != 3)
    return {};
  OpOperand *one = getOther(op, value);
  std::optional<APFloat> fill =
      one ? getFill(one->get()) : std::optional<APFloat>();
  auto erf = dyn_cast<math::ErfOp>(op.getBody()->front());
  auto sum = dyn_cast<arith::AddFOp>(*std::next(op.getBody()->begin()));
  if (!fill || !fill->isExactlyValue(1.0) || !erf || !sum ||
      erf.getOperand() != op.getMatchingBlockArgument(&*value.use_begin()) ||
      !llvm::is_contained(sum->getOperands(), erf.getResult()) ||
      !llvm::is_contained(sum->getOperands(),
                          op.getMatchingBlockArgument(one)) ||
      op.getBody()->getTerminator()->getOperand(0) != sum.getResult() ||
      !op.getMatchingIndexingMap(&*value.use_begin()).isIdentity())
    return {};
  return op;
}

SmallVector<linalg::GenericOp> codegen::matchGelu(Value argument) {
  // 16 bits are widened before and rounded behind.
  const bool isNarrow =
      argument.hasOneUse() &&
      getElementwise<arith::ExtFOp>(*argument.user_begin(), argument);
  Value x = isNarrow ? argument.user_begin()->getResult(0) : argument;
  if (!x.hasNUses(2))
    return {};
  auto half = getUserWith<arith::MulFOp>(x, 0.5f);
  auto scaled = getUserWith<arith::MulFOp>(x, float(M_SQRT1_2));
  if (!half || !scaled || !half->hasOneUse() || !scaled->hasOneUse())
    return {};
  linalg::GenericOp plusOne = getOnePlusErf(scaled->getResult(0));
  if (!plusOne || !plusOne->hasOneUse())
    return {};
  auto product = getElementwise<arith::MulFOp>(*plusOne->user_begin(),
                                               plusOne->getResult(0));
  OpOperand *other =
      product ? getOther(product, plusOne->getResult(0)) : nullptr;
  if (!other || other->get() != half->getResult(0) ||
      !product.getMatchingIndexingMap(other).isIdentity())
    return {};
  SmallVector<linalg::GenericOp> gelu = {half, scaled, plusOne, product};
  if (!isNarrow)
    return gelu;
  Value result = product->getResult(0);
  linalg::GenericOp rounding = result.hasOneUse()
                                   ? getRounding(*result.user_begin(), result)
                                   : linalg::GenericOp();
  if (!rounding || rounding->getResult(0).getType() != argument.getType())
    return {};
  gelu.push_back(rounding);
  return gelu;
}
