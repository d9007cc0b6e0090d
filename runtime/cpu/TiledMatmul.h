#ifndef MESHC_RUNTIME_CPU_TILEDMATMUL_H
#define MESHC_RUNTIME_CPU_TILEDMATMUL_H

/// Products that are made of smaller ones: a tile of the result at a time is
/// summed as f32 in scratch memory, from products of blocks of the factors, and
/// then written: bias, activation, accumulation, rounding. Two kinds:
///
/// - *Widening*: bf16 and f16 on processors that multiply neither. Blocks of
///   both factors are converted to f32 first, and each product adds to the tile
///   itself. What the conversions cost shrinks with the size of the blocks,
///   which together fit a second-level cache.
/// - *Long*: many terms. The contracted dimension is cut into blocks, whose
///   results are added up in blocks (SumBlock.h), so that the error grows with
///   the logarithm of the length. Factors are used where they lie.

#include "runtime/cpu/Matmul.h"

namespace meshc::runtime {

/// Terms of a block of a long product. oneDNN adds up 192 to 4096 terms in
/// registers and then these sums one after the other in memory, so that a block
/// has some 64 sums of some 256 terms; a product as long costs hundreds of
/// times what adding its result does.
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

/// As Matmul::create, for a shape whose factors have 16 bits, whose result has
/// the same 16 bits or f32, and which has no more terms than that.
Result<std::unique_ptr<Matmul>>
createWideningMatmul(const MatmulShape &shape, int64_t pieces, int workers);

} // namespace meshc::runtime

#endif
