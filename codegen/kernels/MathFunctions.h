#ifndef MESHC_CODEGEN_KERNELS_MATHFUNCTIONS_H
#define MESHC_CODEGEN_KERNELS_MATHFUNCTIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"

namespace meshc::codegen {

class Formula;

/// Rewrites exp, log, tanh and erf on f32, scalars and vectors, into
/// arithmetic.
///
/// Neither branches nor calls: a masked score of -inf costs what any other does
/// (vector libraries leave such lanes to a scalar function), and a loop keeps
/// its values in registers. Every function is defined for every input, NaN and
/// infinities included, and exact where the function is (exp 0, log 1, tanh and
/// erf of 0 with its sign, of infinity). Largest errors, in units in the last
/// place, over all floats: exp 1.1, log 0.9, tanh 1.4, erf 1.1
/// (tests/codegen/MathTest.cpp).
void populateMathFunctionPatterns(mlir::RewritePatternSet &patterns);

/// The same for exp, log, tanh, erf, sin and cos on f64 and pow on either, for
/// GPUs, where the functions are else those of a library of the CUDA toolkit.
/// sin and cos are for |x| < 10^6, and NaN beyond; pow knows the special cases
/// of C's Annex F. Largest errors measured, in units in the last place: exp
/// 1.6, log 0.8, tanh 1.3, erf 0.9, sin and cos 1.5, pow 1.8, pow of f32 0.5
/// (tests/codegen/WideMathTest.cpp).
void populateWideMathFunctionPatterns(mlir::RewritePatternSet &patterns);

/// The same for sin and cos on f32, and for spmd.erf_inv on f32 and f64, of
/// which no library has one. sin and cos are for |x| < 2^50, and NaN beyond;
/// a cos that may be approximate (`afn`) is left to whoever has a shorter one.
/// Largest errors measured, in units in the last place: sin and cos 1.6,
/// erf_inv 3.4, of f64 8 (tests/codegen/MathTest.cpp).
void populateSpecialFunctionPatterns(mlir::RewritePatternSet &patterns);

/// Rewrites spmd.random_bits and spmd.fold_in, on numbers and vectors of them,
/// into the arithmetic of Philox; `hasWideLanes`: of vectors in lanes of 64
/// bits, for processors.
void populateRandomPatterns(mlir::RewritePatternSet &patterns,
                            bool hasWideLanes);

/// For GPUs: exp, tanh and erf on f32 by the approximate instructions of PTX,
/// which are a few arithmetic instructions and no branch, and sqrt and rsqrt as
/// such. Defined for every input and exact where populateMathFunctionPatterns
/// is. `isEmulated`: for a HostImage.h, whose functions stand for the
/// instructions (declareHostMath).
///
/// What the instructions may err by (PTX ISA 9.0, section 9.7.3): div.full 2
/// ulps, rcp.approx 1 ulp, ex2.approx 2 ulps from the rounded result,
/// sqrt.approx 2^-23 and rsqrt.approx 2^-22.9 of the result; each defined for
/// zeros, infinities, NaN, negative and subnormal numbers. Largest errors that
/// follow, in units in the last place: exp 2.9 (3.2 from 88.3 on), tanh 2.8,
/// erf 2.1, sqrt 2, rsqrt 2.15 (tests/codegen/WideMathTest.cpp has the
/// derivations, and instructions that err by as much everywhere). The CPU's
/// quotients and roots are correctly rounded; so are those of f64 on either.
void populateGpuMathFunctionPatterns(mlir::RewritePatternSet &patterns,
                                     bool isEmulated);

/// What comes before these: quotients of f32 (2 ulps; with a constant, by its
/// reciprocal), 1 / sqrt x, 1 / (1 + exp x) (7.8 ulps, all of which but 2 are
/// the sum's; 0 for results below the normal range), and 1 + erf x and 1 + tanh
/// x, as in gelu: fewer instructions, and a sum that is off by at most 2^-21.5.
/// All but the quotients alone only where the program says that it is one
/// operation (passes/FuseArithmetic.cpp). A quotient that becomes an integer
/// stays correctly rounded.
void populateGpuCombinationPatterns(mlir::RewritePatternSet &patterns,
                                    bool isEmulated);

/// tanh x for |x| below this, an odd polynomial in x of f32: of CPUs and GPUs.
/// Coefficients and limit: Cephes 2.8, tanhf.c (Moshier).
inline constexpr double tanhNearZero = 0.625;
mlir::Value buildTanhNearZero(Formula &f, mlir::Value x);

/// erf x for |x| up to this, likewise. Coefficients and limit: N. Juffa,
/// "Vectorizable implementation of erff", stackoverflow.com/a/35148199.
inline constexpr double erfNearZero = 0.927734375;
mlir::Value buildErfNearZero(Formula &f, mlir::Value x);

/// log x of f32, and of f64.
mlir::Value buildLog(Formula &f, mlir::Value x);
mlir::Value buildWideLog(Formula &f, mlir::Value x);

/// Declares what these patterns call in kernels for the host.
void declareHostMath(mlir::ModuleOp module);

} // namespace meshc::codegen

#endif
