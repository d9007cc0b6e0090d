#ifndef MESHC_RUNTIME_LONGMATMUL_H
#define MESHC_RUNTIME_LONGMATMUL_H

/// Products of floats that add up many terms: the contracted dimension is cut
/// into blocks, each a product of its own, and their results are added up in
/// blocks (SumBlock.h), so that the error grows with the logarithm of the
/// length.

#include "runtime/Matmul.h"

namespace meshc::runtime {

/// Terms of a block. oneDNN adds up 192 to 4096 terms in registers and then
/// these sums one after the other in memory, so that a block has some 64 sums
/// of some 256 terms; a product as long costs hundreds of times what adding its
/// result does.
/// Source: error of sums of 0.1f with oneDNN 2.6.3, in units of 2^-24, 64x64
/// results of row-major factors, and of a transposed left one:
///
///   terms                 4096    16384    65536      2^20
///   brg:avx512_core     163  68  161  66  171  86   236  261
///   gemm:jit (AVX2)      43   6   45  26   59 108   648 1726
inline constexpr int64_t longestMatmul = 16384;

/// As Matmul::create, for f32 or 16-bit factors and more terms than that.
Result<std::unique_ptr<Matmul>> createLongMatmul(const MatmulShape &shape,
                                                 int64_t pieces, int workers);

/// Writes a block of a product's sums, `numRows` rows of `numColumns`, at most
/// `maxResultColumns`, to `c`: bias, activation, accumulation, rounding.
/// `sums` is used up.
inline constexpr int64_t maxResultColumns = 384;
void writeResult(const MatmulShape &shape, const MatmulOperands &operands,
                 std::byte *c, int64_t firstColumn, int64_t numRows,
                 int64_t numColumns, float *sums, int64_t rowStride);

} // namespace meshc::runtime

#endif
