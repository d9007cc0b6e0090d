#ifndef MESHC_RUNTIME_PLANS_ONEDNNPLAN_H
#define MESHC_RUNTIME_PLANS_ONEDNNPLAN_H

/// What oneDNN takes of how a product's operands lie in memory; arithmetic
/// alone, without the library. `findRefused` of MatmulPlan.h is the same of
/// cuBLASLt.

#include "runtime/exec/MatmulShape.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace meshc::runtime {

/// Batch dimensions of one call, at most; there is a loop over others, which
/// are the first ones. Source: with three, oneDNN 2.6.3 computes as slowly as
/// with its reference implementation.
inline constexpr size_t maxOneDnnBatch = 2;

/// Whether a dimension steps over all that lies inside of it, the gaps behind
/// that included: of 4 rows, 6 elements apart, 21 elements apart from the next
/// 4, it does not. oneDNN describes no other tensor. Dimensions of one element
/// and stride 0 count for nothing.
/// Source: memory_desc_strides_check() of oneDNN 2.6.3.
bool isNested(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// Which of a, b and c of `shape` oneDNN does not multiply where they lie:
/// those that are not nested, and those in which neither dimension of the
/// matrix steps from one element to the next, which it has its reference
/// implementation for: 0.8 Gflop/s where it reaches 100 (ensemble of 8, 512 x
/// 256 x 384, one thread of a Zen 4).
std::array<bool, 3> findRefused(const MatmulShape &shape);

} // namespace meshc::runtime

#endif
