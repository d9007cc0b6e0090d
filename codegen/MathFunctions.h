#ifndef MESHC_CODEGEN_MATHFUNCTIONS_H
#define MESHC_CODEGEN_MATHFUNCTIONS_H

#include "mlir/IR/PatternMatch.h"

namespace meshc::codegen {

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

/// The same for exp, log, tanh, erf and cos on f64 and pow on either, for GPUs,
/// where the functions are else those of a library of the CUDA toolkit. cos is
/// for |x| < 10^6; pow knows the special cases of C's Annex F. Largest errors
/// measured, in units in the last place: exp 1.6, log 0.8, tanh 1.3, erf 0.9,
/// cos 1.5, pow 1.8, pow of f32 0.5 (tests/codegen/WideMathTest.cpp).
void populateWideMathFunctionPatterns(mlir::RewritePatternSet &patterns);

} // namespace meshc::codegen

#endif
