#include "codegen/kernels/MathFunctions.h"

#include "codegen/kernels/Formula.h"

#include <limits>

using namespace mlir;
using namespace meshc::codegen;

namespace {
/// A product that is still to be rounded, by itself or with what is added.
struct Product {
  Value a, b;
};
} // namespace

/// exp x = 2^n exp r with r = x - n log 2, |r| <= log(2) / 2. Coefficients:
/// Cephes 2.8, expf.c (Moshier). 2^n in two factors, so that results below the
/// normal range are rounded and not flushed.
static Product buildExpFactors(Formula &f, Value x) {
  // Beyond these the result is infinite, or less than half the least positive.
  Value clamped = f.atLeast(f.atMost(x, 89.0f), -105.0f);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits;
  // unlike a conversion it takes NaN.
  Value shift = f.constant(0x1.8p23f);
  Value shifted = f.fma(clamped, f.constant(1.44269504088896341f), shift);
  Value n = f.sub(shifted, shift);
  Value r = f.fma(n, f.constant(-0.693359375f), clamped);
  r = f.fma(n, f.constant(2.12194440e-4f), r);
  Value p =
      f.polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                       4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
  p = f.add(f.fma(p, f.mul(r, r), r), f.constant(1.0f));
  Value integer = f.subBits(f.toBits(shifted), f.toBits(shift));
  Value half = f.shiftRight(integer, 1);
  auto power = [&](Value exponent) {
    return f.fromBits(f.shiftLeft(f.addBits(exponent, f.bits(127)), 23));
  };
  return {f.mul(p, power(half)), power(f.subBits(integer, half))};
}

static Value buildExp(Formula &f, Value x) {
  const Product result = buildExpFactors(f, x);
  return f.mul(result.a, result.b);
}

/// log x = e log 2 + log m with m in [sqrt(1/2), sqrt 2). Coefficients: Cephes
/// 2.8, logf.c (Moshier).
Value meshc::codegen::buildLog(Formula &f, Value x) {
  // Numbers below the normal range are scaled into it.
  Value isSmall = f.isBelow(x, 0x1p-126f);
  Value scaled = f.select(isSmall, f.mul(x, f.constant(0x1p23f)), x);
  Value offset = f.bits(0x3f3504f3); // sqrt(1/2)
  Value e = f.shiftRight(f.subBits(f.toBits(scaled), offset), 23);
  Value m = f.sub(f.fromBits(f.subBits(f.toBits(scaled), f.shiftLeft(e, 23))),
                  f.constant(1.0f));
  Value exponent = f.toFloat(e);
  exponent = f.select(isSmall, f.sub(exponent, f.constant(23.0f)), exponent);
  Value p =
      f.polynomial(m, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                       -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                       2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
  Value square = f.mul(m, m);
  Value y = f.mul(f.mul(p, m), square);
  y = f.fma(exponent, f.constant(-2.12194440e-4f), y);
  y = f.fma(square, f.constant(-0.5f), y);
  y = f.fma(exponent, f.constant(0.693359375f), f.add(m, y));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  y = f.select(f.isEqual(x, 0.0f), f.constant(-infinity), y);
  y = f.select(f.isEqual(x, infinity), x, y);
  // Negative numbers: NaN. NaN passed through the bits; it is put back.
  Value isNumber = f.select(f.isBelow(x, 0.0f), f.isAbove(x, 0.0f),
                            f.isAbove(f.abs(x), -1.0f));
  return f.select(isNumber, y,
                  f.constant(std::numeric_limits<float>::quiet_NaN()));
}

Value meshc::codegen::buildTanhNearZero(Formula &f, Value x) {
  Value square = f.mul(x, x);
  Value p = f.polynomial(square, {-5.70498872745e-3f, 2.06390887954e-2f,
                                  -5.37397155531e-2f, 1.33314422036e-1f,
                                  -3.33332819422e-1f});
  return f.fma(f.mul(p, square), x, x);
}

Value meshc::codegen::buildErfNearZero(Formula &f, Value x) {
  Value q = f.polynomial(f.mul(x, x),
                         {-5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f,
                          1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f});
  return f.fma(q, x, x);
}

/// Near 0 an odd polynomial, elsewhere 1 - 2 / (exp 2|x| + 1).
static Value buildTanh(Formula &f, Value x) {
  Value magnitude = f.abs(x);
  // From here on the result rounds to 1.
  Value clamped = f.atMost(magnitude, 9.1f);
  const Product power = buildExpFactors(f, f.add(clamped, clamped));
  Value one = f.constant(1.0f);
  Value sum = f.fma(power.a, power.b, one);
  Value far = f.sub(one, f.div(f.constant(2.0f), sum));
  Value near = buildTanhNearZero(f, clamped);
  return f.copySign(f.select(f.isBelow(magnitude, tanhNearZero), near, far), x);
}

/// Near 0 an odd polynomial, elsewhere 1 - exp of a polynomial in |x|.
/// Coefficients: as of buildErfNearZero.
static Value buildErf(Formula &f, Value x) {
  Value magnitude = f.abs(x);
  // From here on the result rounds to 1.
  Value clamped = f.atMost(magnitude, 4.0f);
  Value p =
      f.polynomial(clamped, {-1.72853470e-5f, 3.83197126e-4f, -3.88396438e-3f,
                             2.42546219e-2f, -1.06777877e-1f, -6.34846687e-1f,
                             -1.28717512e-1f});
  p = f.fma(p, clamped, f.sub(f.constant(0.0f), clamped));
  const Product power = buildExpFactors(f, p);
  Value far = f.fma(f.negate(power.a), power.b, f.constant(1.0f));
  Value near = buildErfNearZero(f, clamped);
  return f.copySign(f.select(f.isAbove(magnitude, erfNearZero), far, near), x);
}

namespace {
template <class Op, Value (*build)(Formula &, Value)>
struct ExpandFunction : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "only f32 has a formula");
    Formula formula(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, build(formula, op.getOperand()));
    return success();
  }
};
} // namespace

void meshc::codegen::populateMathFunctionPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandFunction<math::ExpOp, buildExp>,
               ExpandFunction<math::LogOp, buildLog>,
               ExpandFunction<math::TanhOp, buildTanh>,
               ExpandFunction<math::ErfOp, buildErf>>(patterns.getContext());
}
