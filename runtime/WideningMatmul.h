#ifndef MESHC_RUNTIME_WIDENINGMATMUL_H
#define MESHC_RUNTIME_WIDENINGMATMUL_H

/// Products of bf16 and f16 matrices on processors that multiply neither:
/// blocks of both factors are converted to f32, multiplied and added up as f32,
/// and each element of the result is rounded once. What the conversions cost
/// shrinks with the size of the blocks, which together fit a second-level
/// cache.

#include "runtime/Matmul.h"

namespace meshc::runtime {

/// As Matmul::create, for a shape whose factors have 16 bits and whose result
/// has the same 16 bits or f32.
Result<std::unique_ptr<Matmul>>
createWideningMatmul(const MatmulShape &shape, int64_t pieces, int workers);

} // namespace meshc::runtime

#endif
