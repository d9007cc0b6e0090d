#ifndef MESHC_CODEGEN_KERNELS_NARROWFLOATS_H
#define MESHC_CODEGEN_KERNELS_NARROWFLOATS_H

#include "mlir/IR/Operation.h"

namespace meshc::codegen {

/// Rewrites kernels so that bf16 and f16 are in memory only: a 16-bit float is
/// the f32 of equal value in registers, loads widen it, stores narrow it, and
/// what an operation computes is rounded to the 16 bits of its result, to
/// nearest, ties to even. Sums, products, quotients and square roots are
/// thereby rounded once in effect, since f32 has more than twice the digits and
/// two (Figueroa, "When is double rounding innocuous?", 1995); the other
/// functions, and on GPUs quotients and square roots, are as exact as their f32
/// form, whose error decides only next to the middle of two 16-bit numbers.
///
/// bf16 is converted by integer arithmetic, for two reasons: processors without
/// AVX512-BF16 have no instruction, and LLVM then calls a library function per
/// lane; and the instruction flushes denormal numbers, so that results would
/// depend on the processor. f16 is converted by `arith` operations, which are
/// instructions wherever there is F16C. With `hasConversions` bf16 is as well:
/// for targets whose instructions round to nearest and keep denormal numbers,
/// as those of GPUs from sm_80 on do. Either way gives the same bits, but for
/// those of a NaN.
///
/// `kernels` is anything that contains functions of `arith`, `math`, `scf`,
/// `vector` and memory operations of the LLVM dialect. Runs before math
/// functions are expanded. Fails with an error at an operation on 16-bit floats
/// that it does not know.
mlir::LogicalResult narrowFloats(mlir::Operation *kernels,
                                 bool hasConversions = false);

} // namespace meshc::codegen

#endif
