// The gradient of every operation, as nd operations. What is undefined at a
// point is stated in each operation's declaration: ties of extremes share the
// gradient, abs and sign have none at 0.
//
// A zero that a choice left in a gradient stays zero: in the gradient of
// select(x > 0, log(x), 0) the slope of log at 0 must not make it NaN. So where
// a gradient comes from a choice, its product with a slope is a choice too.
//
// A contraction adds what was taken to what was not, and cannot choose for each
// term. So in the gradient of select(c, einsum(x, y), 0) the elements of x are
// set to 0 that go into no result that was taken: they are multiplied by
// zeros only. If an element that is not a number goes into a result that was
// taken, that is none either. Beyond a contraction nearly every gradient comes
// from some choice, a relu's or a loss's; so there, and for its operands, only
// what may be infinite or NaN is guarded (FloatClassOpInterface).

#include "dialect/GradientBuilder.h"
#include "dialect/Locations.h"
#include "dialect/ND.h"

#include "mlir/IR/Matchers.h"

#include <numbers>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {
/// Builds the gradient with respect to one operand. Splat operands are scalars:
/// they take the other operand's dimensions by broadcasting.
class ExpressionBuilder {
public:
  ExpressionBuilder(GradientBuilder &builder, Location loc, Type elementType)
      : builder(builder), loc(loc), elementType(elementType) {}

  Location getLoc() const { return loc; }

  Value splat(double value) {
    auto type = NamedTensorType::get({}, elementType);
    return ConstantOp::create(builder, loc, type,
                              FloatAttr::get(elementType, value));
  }
  /// `gradient` times `slope`.
  Value scale(Value gradient, Value slope) {
    return guard(gradient, slope, llvm::fcInf | llvm::fcNan,
                 mul(gradient, slope));
  }
  /// `gradient` over `divisor`.
  Value divide(Value gradient, Value divisor) {
    return guard(gradient, divisor, llvm::fcZero | llvm::fcNan,
                 div(gradient, divisor));
  }
  /// `factor`, which is multiplied by `gradient`, but 0 where choices made that
  /// 0 for every term that the factor goes into.
  Value mask(Value factor, Value gradient);
  Value neg(Value x) { return NegOp::create(builder, loc, plain(x), x); }
  Value log(Value x) { return LogOp::create(builder, loc, plain(x), x); }
  Value exp(Value x) { return ExpOp::create(builder, loc, plain(x), x); }
  Value sin(Value x) { return SinOp::create(builder, loc, plain(x), x); }
  Value cos(Value x) { return CosOp::create(builder, loc, plain(x), x); }
  Value sign(Value x) { return SignOp::create(builder, loc, plain(x), x); }
  Value sub(Value x, Value y) { return SubOp::create(builder, loc, x, y); }
  Value mul(Value x, Value y) { return MulOp::create(builder, loc, x, y); }
  Value div(Value x, Value y) { return DivOp::create(builder, loc, x, y); }
  Value pow(Value x, Value y) { return PowOp::create(builder, loc, x, y); }
  Value compare(Predicate predicate, Value x, Value y) {
    return CompareOp::create(builder, loc, predicate, x, y);
  }
  Value select(Value condition, Value whenTrue, Value whenFalse) {
    return SelectOp::create(builder, loc, condition, whenTrue, whenFalse);
  }
  /// A choice whose dimensions are stored in the order `dims`.
  Value select(Value condition, Value whenTrue, Value whenFalse,
               ArrayRef<DimAttr> dims) {
    return SelectOp::create(builder, loc,
                            NamedTensorType::get(dims, elementType), condition,
                            whenTrue, whenFalse);
  }
  Value cast(Value x, Type type) {
    return CastOp::create(builder, loc, plain(x).withElementType(type), x);
  }
  Value broadcast(Value x, NamedTensorType type) {
    return BroadcastOp::create(builder, loc, type.withoutSharding(), x);
  }
  Value sum(Value x, NamedTensorType type) {
    return ReduceOp::create(builder, loc, type.withoutSharding(),
                            Reduction::Sum, x);
  }
  Value rename(Value x, ArrayAttr from, ArrayAttr to) {
    return RenameOp::create(builder, loc, x, from, to);
  }
  Value iota(DimAttr dim, Type type) {
    return IotaOp::create(builder, loc, NamedTensorType::get({dim}, type));
  }
  Value einsum(ValueRange inputs, ArrayRef<DimAttr> dims) {
    return EinsumOp::create(builder, loc,
                            NamedTensorType::get(dims, elementType), inputs);
  }

private:
  /// `product` of `gradient` and a function of `factor`, but 0 where a choice
  /// made the gradient 0. `harmful` are the factors whose product with 0 is
  /// not.
  Value guard(Value gradient, Value factor, llvm::FPClassTest harmful,
              Value product);

  /// A user's constraint on an operand says nothing about its gradient.
  static NamedTensorType plain(Value x) {
    return llvm::cast<NamedTensorType>(x.getType()).withoutSharding();
  }

  GradientBuilder &builder;
  Location loc;
  Type elementType;
};
} // namespace

Value ExpressionBuilder::guard(Value gradient, Value factor,
                               llvm::FPClassTest harmful, Value product) {
  FloatAttr constant;
  if (matchPattern(factor, m_Constant(&constant)) &&
      constant.getValue().isFiniteNonZero())
    return product;
  GradientBuilder::ChoiceZeros zeros = builder.getChoiceZeros(gradient);
  // Products overflow: next to a choice no factor counts as harmless.
  if (!zeros.anyTerm && !(zeros.allTerms && builder.mayHold(factor, harmful)))
    return product;
  return select(compare(Predicate::Eq, gradient, splat(0)), splat(0), product);
}

Value ExpressionBuilder::mask(Value factor, Value gradient) {
  if (!builder.getChoiceZeros(gradient).allTerms ||
      !builder.mayHold(factor, llvm::fcInf | llvm::fcNan))
    return factor;
  NamedTensorType type = plain(factor), from = plain(gradient);
  SmallVector<DimAttr> shared;
  for (DimAttr dim : from.getDims())
    if (type.hasDim(dim.getName()))
      shared.push_back(dim);
  Value taken = gradient;
  if (shared.size() < from.getDims().size())
    taken = ReduceOp::create(
        builder, loc, NamedTensorType::get(shared, from.getElementType()),
        Reduction::Max, AbsOp::create(builder, loc, from, gradient));
  return select(compare(Predicate::Ne, taken, splat(0)), factor, splat(0),
                type.getDims());
}

/// For each operand of `op` that has float elements, the value of `build` with
/// the operand's number and a builder located at its gradient; null for others.
static SmallVector<Value>
forFloats(Operation *op, GradientBuilder &builder,
          llvm::function_ref<Value(unsigned, ExpressionBuilder &)> build) {
  SmallVector<Value> gradients;
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    Type type = cast<NamedTensorType>(operand.getType()).getElementType();
    ExpressionBuilder expressions(builder, getGradientLoc(op, operand), type);
    gradients.push_back(isa<FloatType>(type) ? build(number, expressions)
                                             : Value());
  }
  return gradients;
}

#define MESHC_NO_GRADIENT(OP)                                                  \
  SmallVector<Value> OP::buildGradients(GradientBuilder &, ValueRange) {       \
    return SmallVector<Value>((*this)->getNumOperands());                      \
  }

/// `EXPRESSION` is the gradient of a unary operation y = f(x) in terms of x, y,
/// the gradient g of y, and `t` to build with.
#define MESHC_UNARY_GRADIENT(OP, EXPRESSION)                                   \
  SmallVector<Value> OP::buildGradients(GradientBuilder &builder,              \
                                        ValueRange arrived) {                  \
    Value g = arrived.front();                                                 \
    return forFloats(*this, builder,                                           \
                     [&](unsigned, ExpressionBuilder &t) -> Value {            \
                       [[maybe_unused]] Value x = getInput(), y = getResult(); \
                       return EXPRESSION;                                      \
                     });                                                       \
  }

/// The same for z = f(x, y), one expression per operand.
#define MESHC_BINARY_GRADIENT(OP, OF_LHS, OF_RHS)                              \
  SmallVector<Value> OP::buildGradients(GradientBuilder &builder,              \
                                        ValueRange arrived) {                  \
    Value g = arrived.front();                                                 \
    return forFloats(                                                          \
        *this, builder, [&](unsigned number, ExpressionBuilder &t) -> Value {  \
          [[maybe_unused]] Value x = getLhs(), y = getRhs(), z = getResult();  \
          return number == 0 ? OF_LHS : OF_RHS;                                \
        });                                                                    \
  }

//===-- Elementwise -------------------------------------------------------===//

MESHC_NO_GRADIENT(SignOp)
MESHC_NO_GRADIENT(NotOp)
MESHC_NO_GRADIENT(AndOp)
MESHC_NO_GRADIENT(OrOp)
MESHC_NO_GRADIENT(CompareOp)
MESHC_NO_GRADIENT(FoldInOp)
MESHC_NO_GRADIENT(StopGradientOp)

MESHC_UNARY_GRADIENT(NegOp, t.neg(g))
MESHC_UNARY_GRADIENT(ExpOp, t.scale(g, y))
MESHC_UNARY_GRADIENT(LogOp, t.divide(g, x))
static bool isOne(Value x) {
  FloatAttr constant;
  return matchPattern(x, m_Constant(&constant)) &&
         constant.getValue().isExactlyValue(1.0);
}

/// 1 - y^2; in terms of s = 1 + y where nothing else reads y, as in gelu:
/// s (2 - s), so that y need be neither kept nor computed beside s.
static Value slopeOfTanh(ExpressionBuilder &t, Value y) {
  auto sum = y.hasOneUse() ? dyn_cast<AddOp>(*y.user_begin()) : AddOp();
  if (sum && sum.getType() == y.getType() &&
      (isOne(sum.getLhs()) || isOne(sum.getRhs())))
    return t.mul(sum, t.sub(t.splat(2), sum));
  return t.sub(t.splat(1), t.mul(y, y));
}

MESHC_UNARY_GRADIENT(TanhOp, t.scale(g, slopeOfTanh(t, y)))
// In terms of y, so that no exponential overflows.
MESHC_UNARY_GRADIENT(LogisticOp, t.scale(g, t.mul(y, t.sub(t.splat(1), y))))
MESHC_UNARY_GRADIENT(ErfOp,
                     t.scale(g, t.mul(t.splat(2 * std::numbers::inv_sqrtpi),
                                      t.exp(t.neg(t.mul(x, x))))))
MESHC_UNARY_GRADIENT(ErfInvOp,
                     t.scale(g,
                             t.mul(t.splat(1 / (2 * std::numbers::inv_sqrtpi)),
                                   t.exp(t.mul(y, y)))))
MESHC_UNARY_GRADIENT(SinOp, t.scale(g, t.cos(x)))
MESHC_UNARY_GRADIENT(CosOp, t.scale(g, t.neg(t.sin(x))))
MESHC_UNARY_GRADIENT(SqrtOp, t.divide(t.scale(g, t.splat(0.5)), y))
MESHC_UNARY_GRADIENT(RsqrtOp,
                     t.scale(t.scale(g, t.splat(-0.5)), t.mul(y, t.mul(y, y))))
MESHC_UNARY_GRADIENT(AbsOp, t.scale(g, t.sign(x)))

// Both operands of a sum have one gradient.
MESHC_BINARY_GRADIENT(AddOp, g, g) // NOLINT(bugprone-branch-clone)
MESHC_BINARY_GRADIENT(SubOp, g, t.neg(g))
MESHC_BINARY_GRADIENT(MulOp, t.scale(g, y), t.scale(g, x))
MESHC_BINARY_GRADIENT(DivOp, t.divide(g, y), t.neg(t.scale(t.divide(g, y), z)))

/// The gradient of the operand `x` of the extreme `z` of x and y. In terms of z
/// where that is enough, so that relu(x) need not keep x.
static Value shareOfExtreme(ExpressionBuilder &t, Predicate wins, Value x,
                            Value y, Value z, Value g) {
  if (matchPattern(y, m_Constant()))
    return t.select(t.compare(wins, z, y), g, t.splat(0));
  Value shared = t.select(t.compare(Predicate::Eq, x, y),
                          t.mul(g, t.splat(0.5)), t.splat(0));
  return t.select(t.compare(wins, x, y), g, shared);
}

MESHC_BINARY_GRADIENT(MaximumOp, shareOfExtreme(t, Predicate::Gt, x, y, z, g),
                      shareOfExtreme(t, Predicate::Gt, y, x, z, g))
MESHC_BINARY_GRADIENT(MinimumOp, shareOfExtreme(t, Predicate::Lt, x, y, z, g),
                      shareOfExtreme(t, Predicate::Lt, y, x, z, g))

/// y x^(y - 1), but 0 where y is 0, at x = 0 too.
static Value powGradientOfBase(ExpressionBuilder &t, Value x, Value y,
                               Value g) {
  Value slope = t.mul(y, t.pow(x, t.sub(y, t.splat(1))));
  return t.select(t.compare(Predicate::Eq, y, t.splat(0)), t.splat(0),
                  t.scale(g, slope));
}

/// x^y log(x), but 0 at x = 0, its limit for every y > 0.
static Value powGradientOfExponent(ExpressionBuilder &t, Value x, Value z,
                                   Value g) {
  Value isZero = t.compare(Predicate::Eq, x, t.splat(0));
  Value slope = t.mul(z, t.log(t.select(isZero, t.splat(1), x)));
  return t.select(isZero, t.splat(0), t.scale(g, slope));
}

MESHC_BINARY_GRADIENT(PowOp, powGradientOfBase(t, x, y, g),
                      powGradientOfExponent(t, x, z, g))

SmallVector<Value> SelectOp::buildGradients(GradientBuilder &builder,
                                            ValueRange arrived) {
  Value g = arrived.front();
  return forFloats(*this, builder, [&](unsigned number, ExpressionBuilder &t) {
    return number == 1 ? t.select(getCondition(), g, t.splat(0))
                       : t.select(getCondition(), t.splat(0), g);
  });
}

SmallVector<Value> CastOp::buildGradients(GradientBuilder &builder,
                                          ValueRange arrived) {
  Value g = arrived.front();
  if (!isa<FloatType>(getType().getElementType()))
    return {Value()};
  return forFloats(*this, builder, [&](unsigned, ExpressionBuilder &t) {
    return t.cast(g, getInput().getType().getElementType());
  });
}

//===-- Operations on the set of dimensions -------------------------------===//

SmallVector<Value> EinsumOp::buildGradients(GradientBuilder &builder,
                                            ValueRange arrived) {
  Value g = arrived.front();
  return forFloats(*this, builder, [&](unsigned number, ExpressionBuilder &t) {
    auto type = cast<NamedTensorType>(getInputs()[number].getType());
    bool isWider = getType().getElementType() != type.getElementType();
    SmallVector<Value> factors{isWider ? t.cast(g, type.getElementType()) : g};
    for (auto [other, input] : llvm::enumerate(getInputs()))
      if (other != number)
        factors.push_back(t.mask(input, factors.front()));
    // A dimension that only this operand has was summed: the gradient is the
    // same all along it.
    SmallVector<DimAttr> dims;
    for (DimAttr dim : type.getDims())
      if (llvm::any_of(factors, [&](Value factor) {
            return cast<NamedTensorType>(factor.getType())
                .hasDim(dim.getName());
          }))
        dims.push_back(dim);
    Value product = t.einsum(factors, dims);
    return dims.size() == type.getDims().size() ? product
                                                : t.broadcast(product, type);
  });
}

SmallVector<Value> ReduceOp::buildGradients(GradientBuilder &builder,
                                            ValueRange arrived) {
  Value g = arrived.front();
  return forFloats(*this, builder, [&](unsigned, ExpressionBuilder &t) {
    NamedTensorType type = getInput().getType();
    const int64_t terms = type.getNumElements() / getType().getNumElements();
    switch (getKind()) {
    case Reduction::Sum:
      return t.broadcast(g, type);
    case Reduction::Mean:
      return t.broadcast(t.scale(g, t.splat(1 / double(terms))), type);
    case Reduction::Max:
    case Reduction::Min: {
      Value isExtreme = t.compare(Predicate::Eq, getInput(), getResult());
      Value count = t.sum(t.cast(isExtreme, type.getElementType()), getType());
      return t.select(isExtreme, t.div(g, count), t.splat(0));
    }
    }
    llvm_unreachable("not a reduction");
  });
}

SmallVector<Value> BroadcastOp::buildGradients(GradientBuilder &,
                                               ValueRange arrived) {
  Value g = arrived.front();
  bool isFloat = isa<FloatType>(getType().getElementType());
  return {isFloat ? g : Value()};
}

SmallVector<Value> RenameOp::buildGradients(GradientBuilder &builder,
                                            ValueRange arrived) {
  Value g = arrived.front();
  return forFloats(*this, builder, [&](unsigned, ExpressionBuilder &t) {
    return t.rename(g, getTo(), getFrom());
  });
}

SmallVector<Value> GatherOp::buildGradients(GradientBuilder &builder,
                                            ValueRange arrived) {
  Value g = arrived.front();
  return forFloats(
      *this, builder, [&](unsigned, ExpressionBuilder &t) -> Value {
        NamedTensorType type = getInput().getType();
        Value index = getIndex();
        if (llvm::any_of(getIndex().getType().getDims(), [&](DimAttr dim) {
              return !type.hasDim(dim.getName());
            }))
          return PutOp::create(builder, t.getLoc(), type.withoutSharding(), g,
                               index, getDimAttr());
        // Nothing is added up: to choose each element is no more work than to
        // write it, and is done on the way to whatever needs it.
        DimAttr dim = type.getDims()[type.findDim(getDim())];
        // There may be more positions than the index can name.
        if (getIndex().getType().getElementType().isInteger(32) &&
            !llvm::isInt<32>(dim.getSize() - 1))
          index =
              CastOp::create(builder, getLoc(), index, builder.getI64Type());
        Value position = t.iota(
            dim, cast<NamedTensorType>(index.getType()).getElementType());
        Value isPicked = t.compare(Predicate::Eq, position, index);
        return t.select(isPicked, g, t.splat(0), type.getDims());
      });
}

SmallVector<Value> PutOp::buildGradients(GradientBuilder &builder,
                                         ValueRange arrived) {
  Value g = arrived.front();
  return forFloats(*this, builder, [&](unsigned, ExpressionBuilder &t) {
    NamedTensorType type = getInput().getType().withoutSharding();
    Type element = cast<NamedTensorType>(g.getType()).getElementType();
    Value picked =
        GatherOp::create(builder, t.getLoc(), type.withElementType(element), g,
                         getIndex(), getDimAttr());
    return element == type.getElementType()
               ? picked
               : t.cast(picked, type.getElementType());
  });
}

/// A constraint on a value says nothing of its gradient.
SmallVector<Value> ReshardOp::buildGradients(GradientBuilder &builder,
                                             ValueRange arrived) {
  Value g = arrived.front();
  return forFloats(*this, builder,
                   [&](unsigned, ExpressionBuilder &) { return g; });
}
