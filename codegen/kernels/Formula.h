#ifndef MESHC_CODEGEN_KERNELS_FORMULA_H
#define MESHC_CODEGEN_KERNELS_FORMULA_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

namespace meshc::codegen {

/// Writes formulas on f32 or f64 values of one shape and on their bits, which
/// are integers of the same width. Constants are rounded to the type.
class Formula {
public:
  using Value = mlir::Value;

  Formula(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type)
      : builder(builder), loc(loc), type(type),
        element(llvm::cast<mlir::FloatType>(mlir::getElementTypeOrSelf(type))),
        word(builder.getIntegerType(element.getWidth())),
        bitsType(withElement(word)) {}

  Value constant(double value) {
    return splat(type, mlir::FloatAttr::get(element, value));
  }
  Value bits(int64_t value) {
    return splat(bitsType, mlir::IntegerAttr::get(word, value));
  }
  Value add(Value a, Value b) { return create<mlir::arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) { return create<mlir::arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) { return create<mlir::arith::MulFOp>(a, b); }
  Value div(Value a, Value b) { return create<mlir::arith::DivFOp>(a, b); }
  Value negate(Value a) { return create<mlir::arith::NegFOp>(a); }
  Value fma(Value a, Value b, Value c) {
    return create<mlir::math::FmaOp>(a, b, c);
  }
  Value abs(Value a) { return create<mlir::math::AbsFOp>(a); }
  Value sqrt(Value a) { return create<mlir::math::SqrtOp>(a); }
  Value floor(Value a) { return create<mlir::math::FloorOp>(a); }
  Value copySign(Value magnitude, Value sign) {
    return create<mlir::math::CopySignOp>(magnitude, sign);
  }
  /// Coefficients from the highest power down.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients) {
    Value value = constant(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      value = fma(value, x, constant(coefficient));
    return value;
  }
  /// The same with 1 as the highest one.
  Value monicPolynomial(Value x, llvm::ArrayRef<double> coefficients) {
    Value value = add(x, constant(coefficients.front()));
    for (double coefficient : coefficients.drop_front())
      value = fma(value, x, constant(coefficient));
    return value;
  }

  Value isAbove(Value a, double limit) {
    return compare(mlir::arith::CmpFPredicate::OGT, a, limit);
  }
  Value isBelow(Value a, double limit) {
    return compare(mlir::arith::CmpFPredicate::OLT, a, limit);
  }
  Value isEqual(Value a, double value) {
    return compare(mlir::arith::CmpFPredicate::OEQ, a, value);
  }
  Value areEqual(Value a, Value b) {
    return create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OEQ, a, b);
  }
  Value both(Value a, Value b) { return create<mlir::arith::AndIOp>(a, b); }
  Value either(Value a, Value b) { return create<mlir::arith::OrIOp>(a, b); }
  Value differ(Value a, Value b) { return create<mlir::arith::XOrIOp>(a, b); }
  Value select(Value condition, Value a, Value b) {
    return create<mlir::arith::SelectOp>(condition, a, b);
  }
  /// NaN stays NaN.
  Value atMost(Value a, double limit) {
    return select(isAbove(a, limit), constant(limit), a);
  }
  Value atLeast(Value a, double limit) {
    return select(isBelow(a, limit), constant(limit), a);
  }

  Value toBits(Value a) { return create<mlir::arith::BitcastOp>(bitsType, a); }
  Value fromBits(Value a) { return create<mlir::arith::BitcastOp>(type, a); }
  Value addBits(Value a, Value b) { return create<mlir::arith::AddIOp>(a, b); }
  Value subBits(Value a, Value b) { return create<mlir::arith::SubIOp>(a, b); }
  Value andBits(Value a, int64_t mask) {
    return create<mlir::arith::AndIOp>(a, bits(mask));
  }
  Value areBits(Value a, int64_t value) {
    return create<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::eq, a,
                                       bits(value));
  }
  Value shiftLeft(Value a, int64_t count) {
    return create<mlir::arith::ShLIOp>(a, bits(count));
  }
  Value shiftRight(Value a, int64_t count) { // arithmetic
    return create<mlir::arith::ShRSIOp>(a, bits(count));
  }
  Value toFloat(Value a) { return create<mlir::arith::SIToFPOp>(type, a); }

  /// The sine or cosine of `x`, of which the sine and the cosine of the rest
  /// after `quarter` quarters of a turn are given: they go through cos, -sin,
  /// -cos, sin and sin, cos, -sin, -cos. NaN from `limit` on.
  Value selectQuarter(Value quarter, Value sine, Value cosine, Value x,
                      double limit, bool isCosine) {
    Value isOdd = areBits(andBits(quarter, 1), 1);
    Value turned = isCosine ? addBits(quarter, bits(1)) : quarter;
    Value isNegative = areBits(andBits(turned, 2), 2);
    Value result =
        isCosine ? select(isOdd, sine, cosine) : select(isOdd, cosine, sine);
    result = select(isNegative, negate(result), result);
    if (!isCosine) // -0
      result = select(isEqual(x, 0.0), x, result);
    return select(isBelow(abs(x), limit), result,
                  constant(std::numeric_limits<double>::quiet_NaN()));
  }

  /// Formulas on values of the same shape in f64.
  Formula inF64() { return {builder, loc, withElement(builder.getF64Type())}; }
  /// Values of a formula in f32, exactly.
  Value widen(Value a) { return create<mlir::arith::ExtFOp>(type, a); }
  /// Values of a formula in f64, and the low halves of their bits.
  Value narrow(Value a) { return create<mlir::arith::TruncFOp>(type, a); }
  Value narrowBits(Value a) {
    return create<mlir::arith::TruncIOp>(bitsType, a);
  }

private:
  mlir::Type withElement(mlir::Type newElement) {
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type))
      return vector.clone(newElement);
    return newElement;
  }
  Value splat(mlir::Type valueType, mlir::TypedAttr attr) {
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(valueType))
      attr = mlir::DenseElementsAttr::get(vector, mlir::Attribute(attr));
    return mlir::arith::ConstantOp::create(builder, loc, attr);
  }
  Value compare(mlir::arith::CmpFPredicate predicate, Value a, double limit) {
    return create<mlir::arith::CmpFOp>(predicate, a, constant(limit));
  }
  template <class Op, class... Arguments> Value create(Arguments... arguments) {
    return Op::create(builder, loc, arguments...);
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Type type;
  mlir::FloatType element;
  mlir::IntegerType word;
  mlir::Type bitsType;
};

} // namespace meshc::codegen

#endif
