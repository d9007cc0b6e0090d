#ifndef MESHC_RUNTIME_CPU_BLOCKEDMATMUL_H
#define MESHC_RUNTIME_CPU_BLOCKEDMATMUL_H

#include "runtime/cpu/Matmul.h"

namespace meshc::runtime {

/// Runs rows [rowBegin, rowEnd) of one product of `shape` (its batch dimensions
/// are not looked at) with plain blocked loops: any strides, f32, f64, i32 and
/// i64. Integers wrap around.
void runBlockedMatmul(const MatmulShape &shape, const MatmulOperands &operands,
                      int64_t rowBegin, int64_t rowEnd);

/// The activation of one element of a result.
float activate(float value, exec::Activation activation);

} // namespace meshc::runtime

#endif
