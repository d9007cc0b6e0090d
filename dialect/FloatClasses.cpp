// Which floats the result of each operation may hold: FloatClassOpInterface.
//
// A set of floats is a mask of LLVM's classes in which zeros of both signs, and
// numbers of every size, go together.

#include "dialect/ND.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/ConstantFPRange.h"

using namespace mlir;
using namespace meshc::nd;

using Classes = llvm::FPClassTest;
using llvm::fcFinite;
using llvm::fcInf;
using llvm::fcNan;
using llvm::fcNegInf;
using llvm::fcNone;
using llvm::fcPosInf;
using llvm::fcZero;

static constexpr Classes negative = llvm::fcNegNormal | llvm::fcNegSubnormal;
static constexpr Classes positive = llvm::fcPosNormal | llvm::fcPosSubnormal;

/// In ascending order, NaN last.
static constexpr Classes all[] = {fcNegInf, negative, fcZero,
                                  positive, fcPosInf, fcNan};

static bool mayBe(Classes set, Classes some) { return (set & some) != fcNone; }

/// Fills up what `set` holds a part of.
static Classes complete(Classes set) {
  Classes whole = fcNone;
  for (Classes one : all)
    if (mayBe(set, one))
      whole |= one;
  return whole;
}

/// The union of `rule` over the classes of a set, and over pairs of them.
static Classes map(Classes x, llvm::function_ref<Classes(Classes)> rule) {
  Classes result = fcNone;
  for (Classes one : all)
    if (mayBe(x, one))
      result |= one == fcNan ? fcNan : rule(one);
  return result;
}
static Classes map(Classes x, Classes y,
                   llvm::function_ref<Classes(Classes, Classes)> rule) {
  return map(x,
             [&](Classes a) {
               return map(y, [&](Classes b) { return rule(a, b); });
             }) |
         (y & fcNan);
}

//===-- Arithmetic --------------------------------------------------------===//

static Classes add(Classes x, Classes y) {
  return map(x, y, [](Classes a, Classes b) {
    if (mayBe(a, fcInf) && mayBe(b, fcInf))
      return a == b ? a : fcNan;
    if (mayBe(a, fcInf) || b == fcZero)
      return a;
    if (mayBe(b, fcInf) || a == fcZero)
      return b;
    return a == b ? a : fcFinite;
  });
}

static bool isNegative(Classes one) { return mayBe(one, negative | fcNegInf); }

static Classes multiply(Classes x, Classes y) {
  return map(x, y, [](Classes a, Classes b) {
    bool isInfinite = mayBe(a | b, fcInf);
    if (a == fcZero || b == fcZero)
      return isInfinite ? fcNan : fcZero;
    if (isNegative(a) == isNegative(b))
      return isInfinite ? fcPosInf : positive;
    return isInfinite ? fcNegInf : negative;
  });
}

/// 1 / x; a zero has either sign.
static Classes invert(Classes x) {
  return map(x, [](Classes one) {
    return one == fcZero ? fcInf : mayBe(one, fcInf) ? fcZero : one;
  });
}

static Classes square(Classes x) {
  return map(x, [](Classes one) { return multiply(one, one); });
}

/// Sums of any number of terms from `x`.
static Classes sum(Classes x) {
  Classes twice = x | add(x, x);
  return twice | add(twice, twice);
}

/// Whether two operands are one value: 16-bit programs convert it for each use.
static bool areSame(Value x, Value y) {
  auto castX = x.getDefiningOp<CastOp>(), castY = y.getDefiningOp<CastOp>();
  return x == y || (castX && castY && castX.getType() == castY.getType() &&
                    castX.getInput() == castY.getInput());
}

#define MESHC_FLOAT_CLASSES(OP)                                                \
  Classes OP::getResultClasses([[maybe_unused]] ArrayRef<Classes> x)
#define MESHC_EVERY_CLASS(OP, RULE)                                            \
  MESHC_FLOAT_CLASSES(OP) {                                                    \
    return map(x[0], [](Classes one) -> Classes { return RULE; });             \
  }
#define MESHC_SAME_CLASSES(OP)                                                 \
  MESHC_FLOAT_CLASSES(OP) { return x[0]; }
#define MESHC_NO_FLOATS(OP)                                                    \
  MESHC_FLOAT_CLASSES(OP) { return fcFinite; }

MESHC_FLOAT_CLASSES(AddOp) { return add(x[0], x[1]); }
MESHC_FLOAT_CLASSES(MulOp) {
  return areSame(getLhs(), getRhs()) ? square(x[0]) : multiply(x[0], x[1]);
}
MESHC_FLOAT_CLASSES(DivOp) { return multiply(x[0], invert(x[1])); }

/// What `value` repeats, or holds in more bits: the order of numbers stays.
static Value getOrigin(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto cast = dyn_cast<CastOp>(op);
    bool widens =
        cast && isa<FloatType>(cast.getInput().getType().getElementType()) &&
        cast.getType().getElementType().getIntOrFloatBitWidth() >
            cast.getInput().getType().getElementType().getIntOrFloatBitWidth();
    if (!widens && !isa<BroadcastOp, StopGradientOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The max(x) of `value`, if that is x - max(x), the exponent of a softmax.
static ReduceOp findHighest(Value value) {
  auto sub = value.getDefiningOp<SubOp>();
  if (!sub)
    return {};
  auto reduce = getOrigin(sub.getRhs()).getDefiningOp<ReduceOp>();
  bool isHighest = reduce && reduce.getKind() == Reduction::Max &&
                   getOrigin(reduce.getInput()) == getOrigin(sub.getLhs());
  return isHighest ? reduce : ReduceOp();
}

MESHC_FLOAT_CLASSES(SubOp) {
  Classes difference = add(x[0], llvm::fneg(x[1]));
  if (findHighest(getResult()))
    difference &= ~(positive | fcPosInf);
  return difference;
}

/// The extreme of two; `isMaximum` or the minimum.
static Classes extreme(Classes x, Classes y, bool isMaximum) {
  return map(x, y, [&](Classes a, Classes b) {
    auto rank = [](Classes one) { return llvm::find(all, one); };
    return (rank(a) > rank(b)) == isMaximum ? a : b;
  });
}
MESHC_FLOAT_CLASSES(MaximumOp) { return extreme(x[0], x[1], true); }
MESHC_FLOAT_CLASSES(MinimumOp) { return extreme(x[0], x[1], false); }

MESHC_FLOAT_CLASSES(PowOp) {
  FloatAttr exponent;
  bool isConstant = matchPattern(getRhs(), m_Constant(&exponent));
  if (isConstant && exponent.getValue().isInteger() &&
      !exponent.getValue().isNegative() && !mayBe(x[0], fcInf | fcNan))
    return fcFinite;
  if (!mayBe(x[0], ~positive) && !mayBe(x[1], fcInf | fcNan))
    return positive;
  if (!mayBe(x[0], ~(positive | fcZero)) && !mayBe(x[1], ~(positive | fcZero)))
    return positive | fcZero;
  return llvm::fcAllFlags;
}

//===-- Functions of one number -------------------------------------------===//

MESHC_FLOAT_CLASSES(NegOp) { return llvm::fneg(x[0]); }
MESHC_EVERY_CLASS(AbsOp, isNegative(one) ? llvm::fneg(one) : one)
MESHC_EVERY_CLASS(ExpOp, one == fcNegInf   ? fcZero
                         : one == positive ? positive | fcPosInf
                         : one == fcPosInf ? fcPosInf
                                           : positive)
MESHC_EVERY_CLASS(LogOp, one == fcZero     ? fcNegInf
                         : one == positive ? fcFinite
                         : one == fcPosInf ? fcPosInf
                                           : fcNan)
MESHC_EVERY_CLASS(LogisticOp, one == fcNegInf ? fcZero : positive)
MESHC_EVERY_CLASS(SqrtOp, isNegative(one) ? fcNan : one)
MESHC_FLOAT_CLASSES(RsqrtOp) {
  return invert(
      map(x[0], [](Classes one) { return isNegative(one) ? fcNan : one; }));
}

/// A bounded function with the sign of its argument.
static Classes bound(Classes one) {
  return one == fcZero ? fcZero : isNegative(one) ? negative : positive;
}
MESHC_EVERY_CLASS(ErfOp, bound(one))
MESHC_EVERY_CLASS(TanhOp, bound(one))
MESHC_EVERY_CLASS(ErfInvOp, one == fcZero ? fcZero
                            : isNegative(one) && one != fcNegInf
                                ? negative | fcNegInf | fcNan
                            : one == positive ? positive | fcPosInf | fcNan
                                              : fcNan)
MESHC_EVERY_CLASS(SinOp, mayBe(one, fcInf) ? fcNan
                         : one == fcZero   ? fcZero
                                           : fcFinite)
MESHC_EVERY_CLASS(CosOp, mayBe(one, fcInf) ? fcNan
                         : one == fcZero   ? positive
                                           : fcFinite)
MESHC_FLOAT_CLASSES(SignOp) { // 0 of NaN
  return map(x[0] & ~fcNan, bound) | (mayBe(x[0], fcNan) ? fcZero : fcNone);
}

//===-- Choices and conditions --------------------------------------------===//

MESHC_NO_FLOATS(AndOp)
MESHC_NO_FLOATS(OrOp)
MESHC_NO_FLOATS(NotOp)
MESHC_NO_FLOATS(CompareOp)
MESHC_NO_FLOATS(FoldInOp)

static llvm::CmpInst::Predicate getPredicate(Predicate predicate) {
  switch (predicate) {
  case Predicate::Eq:
    return llvm::CmpInst::FCMP_OEQ;
  case Predicate::Ne:
    return llvm::CmpInst::FCMP_UNE;
  case Predicate::Lt:
    return llvm::CmpInst::FCMP_OLT;
  case Predicate::Le:
    return llvm::CmpInst::FCMP_OLE;
  case Predicate::Gt:
    return llvm::CmpInst::FCMP_OGT;
  case Predicate::Ge:
    return llvm::CmpInst::FCMP_OGE;
  }
  llvm_unreachable("not a predicate");
}

/// What is left of `set`, the classes of `value`, where `condition` is as
/// `holds` says: where(x > 0, x, 1) is positive.
static Classes narrow(Classes set, Value value, Value condition, bool holds) {
  auto compare = condition.getDefiningOp<CompareOp>();
  FloatAttr bound;
  if (!compare || compare.getLhs() != value ||
      !matchPattern(compare.getRhs(), m_Constant(&bound)))
    return set;
  llvm::CmpInst::Predicate predicate = getPredicate(compare.getPredicate());
  if (!holds)
    predicate = llvm::CmpInst::getInversePredicate(predicate);
  auto range = llvm::ConstantFPRange::makeAllowedFCmpRegion(
      predicate, llvm::ConstantFPRange(bound.getValue()));
  // A range cannot leave out a single number.
  Classes allowed = complete(range.classify());
  if (predicate == llvm::CmpInst::FCMP_UNE && bound.getValue().isZero())
    allowed &= ~fcZero;
  return set & allowed;
}

MESHC_FLOAT_CLASSES(SelectOp) {
  return narrow(x[1], getWhenTrue(), getCondition(), true) |
         narrow(x[2], getWhenFalse(), getCondition(), false);
}

//===-- Everything else ---------------------------------------------------===//

MESHC_FLOAT_CLASSES(ConstantOp) {
  auto number = dyn_cast<FloatAttr>(getValue());
  return number ? complete(number.getValue().classify()) : fcFinite;
}
MESHC_FLOAT_CLASSES(IotaOp) { return positive | fcZero; }
MESHC_NO_FLOATS(RandomOp) // finite
MESHC_FLOAT_CLASSES(CastOp) {
  bool isCondition = getInput().getType().getElementType().isInteger(1);
  return isCondition ? positive | fcZero : x[0];
}
MESHC_SAME_CLASSES(BroadcastOp)
MESHC_SAME_CLASSES(RenameOp)
MESHC_SAME_CLASSES(ReshardOp)
MESHC_SAME_CLASSES(StopGradientOp)
MESHC_FLOAT_CLASSES(GatherOp) { return x[0] | fcZero; } // 0 outside
MESHC_FLOAT_CLASSES(PutOp) { return sum(x[0]) | fcZero; }

MESHC_FLOAT_CLASSES(ReduceOp) {
  switch (getKind()) {
  case Reduction::Sum:
  case Reduction::Mean: {
    // The largest exponential of a softmax is 1.
    auto exp = getOrigin(getInput()).getDefiningOp<ExpOp>();
    ReduceOp highest = exp ? findHighest(exp.getInput()) : ReduceOp();
    bool hasOne =
        highest && llvm::all_of(getType().getDims(), [&](DimAttr dim) {
          return highest.getType().hasDim(dim.getName());
        });
    return hasOne ? sum(x[0]) & ~fcZero : sum(x[0]);
  }
  case Reduction::Max:
    return mayBe(x[0], fcFinite) ? x[0] & ~fcNegInf : x[0];
  case Reduction::Min:
    return mayBe(x[0], fcFinite) ? x[0] & ~fcPosInf : x[0];
  }
  llvm_unreachable("not a reduction");
}

MESHC_FLOAT_CLASSES(EinsumOp) {
  Classes product = positive;
  SmallVector<bool> isUsed(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (isUsed[i])
      continue;
    size_t same = i + 1;
    while (same < x.size() &&
           (isUsed[same] || !areSame(getInputs()[i], getInputs()[same])))
      ++same;
    if (same < x.size())
      isUsed[same] = true;
    product = multiply(product, same < x.size() ? square(x[i]) : x[i]);
  }
  return sum(product);
}
