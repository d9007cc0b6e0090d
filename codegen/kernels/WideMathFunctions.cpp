// Functions on f64 as arithmetic, and powers.

#include "codegen/kernels/Formula.h"
#include "codegen/kernels/MathFunctions.h"

#include <limits>

using namespace mlir;
using namespace meshc::codegen;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// log 2 in two parts, the first of 32 bits: its product with an exponent is
/// exact. Source: FreeBSD msun, e_log.c (Sun Microsystems).
static constexpr double log2High = 6.93147180369123816490e-01;
static constexpr double log2Low = 1.90821492927058770002e-10;

//===-- exp ---------------------------------------------------------------===//

/// exp(x + tail), tail far below x: 2^n exp r with |r| <= log(2) / 2 and
/// exp r = 1 + 2 r P(r^2) / (Q(r^2) - r P(r^2)). Coefficients: Cephes 2.8,
/// exp.c (Moshier). 2^n in two factors, so that results below the normal range
/// are rounded and not flushed.
static Value buildExpWithTail(Formula &f, Value x, Value tail) {
  // Beyond these the result is infinite, or less than half the least positive.
  Value clamped = f.atLeast(f.atMost(x, 710.0), -746.0);
  // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
  Value shift = f.constant(0x1.8p52);
  Value shifted = f.fma(clamped, f.constant(1.44269504088896340736), shift);
  Value n = f.sub(shifted, shift);
  Value r = f.fma(n, f.constant(-log2High), clamped);
  r = f.fma(n, f.constant(-log2Low), r);
  if (tail)
    r = f.add(r, tail);
  Value square = f.mul(r, r);
  Value p = f.mul(r, f.polynomial(square, {1.26177193074810590878e-4,
                                           3.02994407707441961300e-2,
                                           9.99999999999999999910e-1}));
  Value q = f.polynomial(square,
                         {3.00198505138664455042e-6, 2.52448340349684104192e-3,
                          2.27265548208155028766e-1, 2.00000000000000000009});
  Value result = f.fma(f.constant(2.0), f.div(p, f.sub(q, p)), f.constant(1.0));
  Value integer = f.subBits(f.toBits(shifted), f.toBits(shift));
  Value half = f.shiftRight(integer, 1);
  auto power = [&](Value exponent) {
    return f.fromBits(f.shiftLeft(f.addBits(exponent, f.bits(1023)), 52));
  };
  return f.mul(f.mul(result, power(half)), power(f.subBits(integer, half)));
}

static Value buildExp(Formula &f, Value x) {
  return buildExpWithTail(f, x, {});
}

//===-- log ---------------------------------------------------------------===//

namespace {
/// x = 2^exponent (1 + fraction) with 1 + fraction in [sqrt(1/2), sqrt 2), for
/// positive finite x.
struct Parts {
  Value exponent, fraction;
};
} // namespace

static Parts split(Formula &f, Value x) {
  // Numbers below the normal range are scaled into it.
  Value isSmall = f.isBelow(x, 0x1p-1022);
  Value scaled = f.select(isSmall, f.mul(x, f.constant(0x1p54)), x);
  Value word = f.toBits(scaled);
  Value e = f.shiftRight(f.subBits(word, f.bits(0x3fe6a09e667f3bcd)),
                         52); // sqrt(1/2)
  Value fraction =
      f.sub(f.fromBits(f.subBits(word, f.shiftLeft(e, 52))), f.constant(1.0));
  Value exponent = f.toFloat(e);
  exponent = f.select(isSmall, f.sub(exponent, f.constant(54.0)), exponent);
  return {exponent, fraction};
}

/// log(1 + g) = g - g^2/2 + s (g^2/2 + R(s^2)) with s = g / (2 + g).
/// Coefficients and order of additions: FreeBSD msun, e_log.c (Sun
/// Microsystems).
Value meshc::codegen::buildWideLog(Formula &f, Value x) {
  auto [exponent, g] = split(f, x);
  Value s = f.div(g, f.add(g, f.constant(2.0)));
  Value z = f.mul(s, s), w = f.mul(z, z);
  Value odd = f.mul(
      z, f.polynomial(w, {1.479819860511658591e-01, 1.818357216161805012e-01,
                          2.857142874366239149e-01, 6.666666666666735130e-01}));
  Value even = f.mul(
      w, f.polynomial(w, {1.531383769920937332e-01, 2.222219843214978396e-01,
                          3.999999999940941908e-01}));
  Value r = f.add(odd, even);
  Value half = f.mul(f.mul(g, f.constant(0.5)), g);
  Value low = f.fma(s, f.add(half, r), f.mul(exponent, f.constant(log2Low)));
  Value y =
      f.sub(f.mul(exponent, f.constant(log2High)), f.sub(f.sub(half, low), g));
  y = f.select(f.isEqual(x, 0.0), f.constant(-infinity), y);
  y = f.select(f.isEqual(x, infinity), x, y);
  // Negative numbers: NaN. NaN passed through the bits; it is put back.
  Value isNumber = f.either(f.isAbove(x, 0.0), f.isEqual(x, 0.0));
  return f.select(isNumber, y,
                  f.constant(std::numeric_limits<double>::quiet_NaN()));
}

//===-- tanh, erf, sin, cos -----------------------------------------------===//

/// Near 0 a rational function, elsewhere 1 - 2 / (exp 2|x| + 1). Coefficients
/// and limit: Cephes 2.8, tanh.c (Moshier).
static Value buildTanh(Formula &f, Value x) {
  Value magnitude = f.abs(x);
  // From here on the result rounds to 1.
  Value clamped = f.atMost(magnitude, 22.0);
  Value power = buildExp(f, f.add(clamped, clamped));
  Value one = f.constant(1.0);
  Value far = f.sub(one, f.div(f.constant(2.0), f.add(power, one)));
  Value square = f.mul(clamped, clamped);
  Value p = f.polynomial(square,
                         {-9.64399179425052238628e-1, -9.92877231001918586564e1,
                          -1.61468768441708447952e3});
  Value q = f.monicPolynomial(square, {1.12811678491632931402e2,
                                       2.23548839060100448583e3,
                                       4.84406305325125486048e3});
  Value near = f.fma(f.mul(clamped, square), f.div(p, q), clamped);
  return f.copySign(f.select(f.isBelow(magnitude, 0.625), near, far), x);
}

/// Near 0 x + x R(x^2) / S(x^2), around 1 a constant + A(x - 1) / B(x - 1),
/// beyond 1 - exp(-x^2) P(x) / Q(x). Coefficients and limits: the first two,
/// FreeBSD msun, s_erf.c (Sun Microsystems); the last, Cephes 2.8, ndtr.c
/// (Moshier).
static Value buildErf(Formula &f, Value x) {
  Value magnitude = f.abs(x);
  // From here on the result rounds to 1.
  Value clamped = f.atMost(magnitude, 6.0);
  Value square = f.mul(clamped, clamped);
  Value p = f.polynomial(clamped,
                         {2.46196981473530512524e-10, 5.64189564831068821977e-1,
                          7.46321056442269912687, 4.86371970985681366614e1,
                          1.96520832956077098242e2, 5.26445194995477358631e2,
                          9.34528527171957607540e2, 1.02755188689515710272e3,
                          5.57535335369399327526e2});
  Value q = f.monicPolynomial(
      clamped, {1.32281951154744992508e1, 8.67072140885989742329e1,
                3.54937778887819891062e2, 9.75708501743205489753e2,
                1.82390916687909736289e3, 2.24633760818710981792e3,
                1.65666309194161350182e3, 5.57535340817727675546e2});
  Value far = f.fma(buildExp(f, f.negate(square)), f.negate(f.div(p, q)),
                    f.constant(1.0));
  // Around 1, from a number near erf 1.
  Value d = f.sub(clamped, f.constant(1.0));
  Value a =
      f.polynomial(d, {-2.16637559486879084300e-03, 3.54783043256182359371e-02,
                       -1.10894694282396677476e-01, 3.18346619901161753674e-01,
                       -3.72207876035701323847e-01, 4.14856118683748331666e-01,
                       -2.36211856075265944077e-03});
  Value b = f.polynomial(
      d, {1.19844998467991074170e-02, 1.36370839120290507362e-02,
          1.26171219808761642112e-01, 7.18286544141962662868e-02,
          5.40397917702171048937e-01, 1.06420880400844228286e-01, 1.0});
  Value middle = f.add(f.constant(8.45062911510467529297e-01), f.div(a, b));
  Value r = f.polynomial(
      square, {-2.37630166566501626084e-05, -5.77027029648944159157e-03,
               -2.84817495755985104766e-02, -3.25042107247001499370e-01,
               1.28379167095512558561e-01});
  Value s = f.polynomial(
      square, {-3.96022827877536812320e-06, 1.32494738004321644526e-04,
               5.08130628187576562776e-03, 6.50222499887672944485e-02,
               3.97917223959155352819e-01, 1.0});
  Value near = f.fma(clamped, f.div(r, s), clamped);
  Value result = f.select(f.isBelow(magnitude, 1.25), middle, far);
  result = f.select(f.isBelow(magnitude, 0.84375), near, result);
  return f.copySign(result, x);
}

/// x = n pi/2 + r, then a polynomial of sine or cosine. pi/2 in three parts, of
/// which n times the first two is exact for |n| < 2^20: exact enough for
/// |x| < 10^6, beyond which the result is NaN. Parts and coefficients: FreeBSD
/// msun, e_rem_pio2.c, k_cos.c, k_sin.c (Sun Microsystems).
static Value buildCircular(Formula &f, Value x, bool isCosine) {
  Value shift = f.constant(0x1.8p52);
  Value shifted = f.fma(x, f.constant(6.36619772367581382433e-01), shift);
  Value n = f.sub(shifted, shift);
  Value r = f.fma(n, f.constant(-1.57079632673412561417), x);
  r = f.fma(n, f.constant(-6.07710050630396597660e-11), r);
  r = f.fma(n, f.constant(-2.02226624879595063154e-21), r);
  Value z = f.mul(r, r);
  Value cosine = f.polynomial(
      z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
          -2.75573143513506633035e-07, 2.48015872894767294178e-05,
          -1.38888888888741095749e-03, 4.16666666666666019037e-02});
  Value half = f.mul(z, f.constant(0.5));
  Value rest = f.sub(f.constant(1.0), half);
  // What 1 - z/2 lost by rounding is added again.
  Value lost = f.sub(f.sub(f.constant(1.0), rest), half);
  cosine = f.add(rest, f.fma(f.mul(z, z), cosine, lost));
  Value sine = f.polynomial(
      z, {1.58969099521155010221e-10, -2.50507602534068634195e-08,
          2.75573137070700676789e-06, -1.98412698298579493134e-04,
          8.33333333332248946124e-03, -1.66666666666666324348e-01});
  sine = f.fma(f.mul(r, z), sine, r);
  return f.selectQuarter(f.subBits(f.toBits(shifted), f.toBits(shift)), sine,
                         cosine, x, 1e6, isCosine);
}

static Value buildSin(Formula &f, Value x) {
  return buildCircular(f, x, /*isCosine=*/false);
}
static Value buildCos(Formula &f, Value x) {
  return buildCircular(f, x, /*isCosine=*/true);
}

//===-- pow ---------------------------------------------------------------===//

namespace {
/// high + low, the latter below half a unit in the last place of the former or
/// not far above.
struct Pair {
  Value high, low;
};
} // namespace

/// a b with the lower part of the product; of the lower factors' product
/// nothing.
static Pair multiply(Formula &f, Pair a, Pair b) {
  Value high = f.mul(a.high, b.high);
  Value low = f.fma(a.high, b.high, f.negate(high));
  low = f.fma(a.high, b.low, low);
  return {high, f.fma(a.low, b.high, low)};
}

/// a + b for |a| >= |b| or a = 0 (Dekker 1971).
static Pair addSmaller(Formula &f, Pair a, Pair b) {
  Value high = f.add(a.high, b.high);
  Value low = f.add(f.sub(a.high, high), b.high);
  return {high, f.add(low, f.add(a.low, b.low))};
}

/// log x of a positive finite x to about 63 bits: with s = g / (2 + g),
/// log(1 + g) = 2 s (1 + s^2/3 + s^4/5 + ...), where |s| < 0.172. The terms up
/// to s^2/3 are pairs; those up to s^26/27 are needed.
static Pair buildPreciseLog(Formula &f, Value x) {
  auto [exponent, g] = split(f, x);
  Value two = f.constant(2.0), zero = f.constant(0.0);
  Value sum = f.add(g, two);
  Value sumLow = f.sub(g, f.sub(sum, two));
  Pair s{f.div(g, sum), {}};
  Value remainder = f.fma(f.negate(s.high), sum, g);
  remainder = f.fma(f.negate(s.high), sumLow, remainder);
  s.low = f.div(remainder, sum);
  Pair z = multiply(f, s, s);
  Pair third = multiply(
      f, z,
      {f.constant(0x1.5555555555555p-2), f.constant(0x1.5555555555555p-56)});
  Value rest = f.polynomial(z.high, {1.0 / 27, 1.0 / 25, 1.0 / 23, 1.0 / 21,
                                     1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                     1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5});
  rest = f.mul(f.mul(z.high, z.high), rest);
  Pair series = addSmaller(f, third, {rest, zero});
  Pair half = addSmaller(f, s, multiply(f, s, series));
  Pair whole{f.mul(two, half.high), f.mul(two, half.low)};
  Pair power{f.mul(exponent, f.constant(log2High)),
             f.mul(exponent, f.constant(log2Low))};
  Pair result = addSmaller(f, power, whole);
  Value high = f.add(result.high, result.low);
  return {high, f.add(f.sub(result.high, high), result.low)};
}

/// |x|^y as exp(y log|x|), then the cases that C's Annex F.10.4.4 lists.
static Value buildPow(Formula &f, Value x, Value y) {
  Value magnitude = f.abs(x);
  Value zero = f.constant(0.0);
  // Beyond these every power of a number other than 1 is 0 or infinite.
  Value exponent = f.atLeast(f.atMost(y, 0x1p66), -0x1p66);
  Pair product = multiply(f, {exponent, zero}, buildPreciseLog(f, magnitude));
  Value isFinite = f.isBelow(f.abs(product.high), 746.0);
  Value power =
      buildExpWithTail(f, product.high, f.select(isFinite, product.low, zero));

  Value isPositive = f.isAbove(y, 0.0);
  Value large = f.constant(infinity);
  power = f.select(f.isEqual(magnitude, 0.0), f.select(isPositive, zero, large),
                   power);
  power = f.select(f.isEqual(magnitude, infinity),
                   f.select(isPositive, large, zero), power);
  // The sign of odd powers of negative numbers, -0 among them.
  Value isInteger = f.areEqual(f.floor(y), y);
  Value halved = f.mul(y, f.constant(0.5));
  Value isEven = f.areEqual(f.floor(halved), halved);
  Value isOdd = f.differ(isInteger, f.both(isInteger, isEven));
  Value isBelowZero = f.areBits(f.shiftRight(f.toBits(x), 63), -1);
  power = f.select(f.both(isBelowZero, isOdd), f.negate(power), power);

  // Other powers of negative finite numbers are not real.
  Value isReal =
      f.either(isInteger, f.either(f.isAbove(x, 0.0), f.isEqual(x, 0.0)));
  isReal = f.either(isReal, f.isEqual(x, -infinity));
  Value isNumber = f.both(f.areEqual(x, x), f.areEqual(y, y));
  power = f.select(f.both(isReal, isNumber), power,
                   f.constant(std::numeric_limits<double>::quiet_NaN()));
  Value isOne = f.either(f.isEqual(x, 1.0), f.isEqual(y, 0.0));
  Value isUnitToInfinity =
      f.both(f.isEqual(magnitude, 1.0), f.isEqual(f.abs(y), infinity));
  return f.select(f.either(isOne, isUnitToInfinity), f.constant(1.0), power);
}

//===-- Patterns ----------------------------------------------------------===//

namespace {
template <class Op, Value (*build)(Formula &, Value)>
struct ExpandWideFunction : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF64())
      return rewriter.notifyMatchFailure(op, "not of f64");
    Formula formula(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, build(formula, op.getOperand()));
    return success();
  }
};

/// Powers of f32 go through f64, so that nothing is lost by rounding log x.
struct ExpandPower : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern<math::PowFOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(math::PowFOp op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType();
    Type wide = rewriter.getF64Type();
    if (auto vector = dyn_cast<VectorType>(type))
      wide = vector.clone(wide);
    Value x = op.getLhs(), y = op.getRhs();
    if (type != wide) {
      x = arith::ExtFOp::create(rewriter, op.getLoc(), wide, x);
      y = arith::ExtFOp::create(rewriter, op.getLoc(), wide, y);
    }
    Formula formula(rewriter, op.getLoc(), wide);
    Value power = buildPow(formula, x, y);
    if (type != wide)
      power = arith::TruncFOp::create(rewriter, op.getLoc(), type, power);
    rewriter.replaceOp(op, power);
    return success();
  }
};
} // namespace

void meshc::codegen::populateWideMathFunctionPatterns(
    RewritePatternSet &patterns) {
  patterns.add<ExpandWideFunction<math::ExpOp, buildExp>,
               ExpandWideFunction<math::LogOp, buildWideLog>,
               ExpandWideFunction<math::TanhOp, buildTanh>,
               ExpandWideFunction<math::ErfOp, buildErf>,
               ExpandWideFunction<math::SinOp, buildSin>,
               ExpandWideFunction<math::CosOp, buildCos>, ExpandPower>(
      patterns.getContext());
}
