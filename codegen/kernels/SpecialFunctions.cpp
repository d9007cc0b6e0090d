// sin and cos on f32, and the inverse of the error function.

#include "codegen/kernels/Formula.h"
#include "codegen/kernels/MathFunctions.h"
#include "dialect/SPMD.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

//===-- sin, cos ----------------------------------------------------------===//

/// x = n pi/2 + r, then a polynomial of sine or cosine in r, |r| <= pi/4. The
/// rest is found in f64 with pi/2 in two parts: n times the first one is exact
/// for |n| < 2^52, and what rounding n times the second loses is 2^-54 at most,
/// where the least rest of any f32 is above 2^-32. Coefficients: Cephes 2.8,
/// sinf.c (Moshier).
static Value buildCircular(Formula &f, Value x, bool isCosine) {
  Formula wide = f.inF64();
  Value whole = wide.widen(x);
  Value shift = wide.constant(0x1.8p52);
  Value shifted = wide.fma(whole, wide.constant(0x1.45f306dc9c883p-1), shift);
  Value n = wide.sub(shifted, shift);
  Value rest = wide.fma(n, wide.constant(-0x1.921fb54442d18p0), whole);
  rest = wide.fma(n, wide.constant(-0x1.1a62633145c07p-54), rest);
  Value r = f.narrow(rest);
  Value z = f.mul(r, r);
  Value sine =
      f.polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  sine = f.fma(f.mul(r, z), sine, r);
  Value cosine = f.polynomial(
      z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  cosine =
      f.fma(f.mul(z, z), cosine, f.fma(z, f.constant(-0.5), f.constant(1)));
  Value quarter =
      f.narrowBits(wide.subBits(wide.toBits(shifted), wide.toBits(shift)));
  return f.selectQuarter(quarter, sine, cosine, x, 0x1p50, isCosine);
}

namespace {
template <class Op, bool isCosine>
struct ExpandCircular : OpRewritePattern<Op> {
  // Before the approximation of MLIR.
  explicit ExpandCircular(MLIRContext *context)
      : OpRewritePattern<Op>(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32() ||
        bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn))
      return rewriter.notifyMatchFailure(op, "not of f32, or approximate");
    Formula formula(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, buildCircular(formula, op.getOperand(), isCosine));
    return success();
  }
};
} // namespace

//===-- The inverse of the error function ---------------------------------===//

/// x p(w) with w = -log(1 - x^2), in parts of w. Coefficients and limits:
/// M. Giles 2012, "Approximating the erfinv function", GPU Computing Gems.
static Value buildErfInv(Formula &f, Value x) {
  Value one = f.constant(1.0);
  Value w = f.negate(buildLog(f, f.mul(f.sub(one, x), f.add(one, x))));
  Value near = f.polynomial(f.sub(w, f.constant(2.5)),
                            {2.81022636e-08, 3.43273939e-07, -3.5233877e-06,
                             -4.39150654e-06, 0.00021858087, -0.00125372503,
                             -0.00417768164, 0.246640727, 1.50140941});
  Value far = f.polynomial(f.sub(f.sqrt(w), f.constant(3.0)),
                           {-0.000200214257, 0.000100950558, 0.00134934322,
                            -0.00367342844, 0.00573950773, -0.0076224613,
                            0.00943887047, 1.00167406, 2.83297682});
  return f.mul(f.select(f.isBelow(w, 5.0), near, far), x);
}

/// The same of f64.
static Value buildWideErfInv(Formula &f, Value x) {
  Value one = f.constant(1.0);
  Value w = f.negate(buildWideLog(f, f.mul(f.sub(one, x), f.add(one, x))));
  Value near =
      f.polynomial(f.sub(w, f.constant(3.125)),
                   {-3.6444120640178196996e-21, -1.685059138182016589e-19,
                    1.2858480715256400167e-18,  1.115787767802518096e-17,
                    -1.333171662854620906e-16,  2.0972767875968561637e-17,
                    6.6376381343583238325e-15,  -4.0545662729752068639e-14,
                    -8.1519341976054721522e-14, 2.6335093153082322977e-12,
                    -1.2975133253453532498e-11, -5.4154120542946279317e-11,
                    1.051212273321532285e-09,   -4.1126339803469836976e-09,
                    -2.9070369957882005086e-08, 4.2347877827932403518e-07,
                    -1.3654692000834678645e-06, -1.3882523362786468719e-05,
                    0.0001867342080340571352,   -0.00074070253416626697512,
                    -0.0060336708714301490533,  0.24015818242558961693,
                    1.6536545626831027356});
  Value root = f.sqrt(w);
  Value middle = f.polynomial(
      f.sub(root, f.constant(3.25)),
      {2.2137376921775787049e-09, 9.0756561938885390979e-08,
       -2.7517406297064545428e-07, 1.8239629214389227755e-08,
       1.5027403968909827627e-06, -4.013867526981545969e-06,
       2.9234449089955446044e-06, 1.2475304481671778723e-05,
       -4.7318229009055733981e-05, 6.8284851459573175448e-05,
       2.4031110387097893999e-05, -0.0003550375203628474796,
       0.00095328937973738049703, -0.0016882755560235047313,
       0.0024914420961078508066, -0.0037512085075692412107,
       0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635});
  Value far =
      f.polynomial(f.sub(root, f.constant(5.0)),
                   {-2.7109920616438573243e-11, -2.5556418169965252055e-10,
                    1.5076572693500548083e-09, -3.7894654401267369937e-09,
                    7.6157012080783393804e-09, -1.4960026627149240478e-08,
                    2.9147953450901080826e-08, -6.7711997758452339498e-08,
                    2.2900482228026654717e-07, -9.9298272942317002539e-07,
                    4.5260625972231537039e-06, -1.9681778105531670567e-05,
                    7.5995277030017761139e-05, -0.00021503011930044477347,
                    -0.00013871931833623122026, 1.0103004648645343977,
                    4.8499064014085844221});
  Value p = f.select(f.isBelow(w, 16.0), middle, far);
  return f.mul(f.select(f.isBelow(w, 6.25), near, p), x);
}

namespace {
struct ExpandErfInv : OpRewritePattern<spmd::ErfInvOp> {
  using OpRewritePattern<spmd::ErfInvOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(spmd::ErfInvOp op,
                                PatternRewriter &rewriter) const override {
    Formula formula(rewriter, op.getLoc(), op.getType());
    Value x = op.getOperand();
    Value y = getElementTypeOrSelf(x).isF64() ? buildWideErfInv(formula, x)
                                              : buildErfInv(formula, x);
    // The polynomials are of finite numbers.
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Value end = formula.copySign(formula.constant(infinity), x);
    rewriter.replaceOp(
        op, formula.select(formula.isEqual(formula.abs(x), 1.0), end, y));
    return success();
  }
};
} // namespace

void meshc::codegen::populateSpecialFunctionPatterns(
    RewritePatternSet &patterns) {
  patterns.add<ExpandCircular<math::SinOp, false>,
               ExpandCircular<math::CosOp, true>, ExpandErfInv>(
      patterns.getContext());
}
