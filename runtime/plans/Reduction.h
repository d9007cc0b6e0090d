#ifndef MESHC_RUNTIME_PLANS_REDUCTION_H
#define MESHC_RUNTIME_PLANS_REDUCTION_H

#include "runtime/exec/exec_generated.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace meshc::runtime {

/// Combines `count` contiguous elements of the sources in their order, from
/// left to right, and writes the result to every target. One source is copied;
/// none writes the identity of `kind`. A target may be a source, but may not
/// overlap one otherwise.
///
/// Floats of more than 64 sources are added up in blocks of 64 (SumBlock.h).
///
/// 16-bit floats are combined in f32 and rounded once. Integers wrap around;
/// max and min of floats give NaN where a source is NaN; max and min of
/// booleans are "or" and "and".
void reduceRow(exec::ElementType element, exec::ReduceKind kind,
               std::span<const std::byte *const> sources,
               std::span<std::byte *const> targets, int64_t count);

/// In what rows of `element` are combined: f32 for 16-bit floats, else the
/// same.
exec::ElementType getSumElement(exec::ElementType element);
/// Bytes of a row of sum elements that combineRows makes, at most.
inline constexpr int64_t maxCombinedBytes = 4096;
/// The same of strided rows, `count` elements from `start` on; `strides` are
/// all 1 if there are none. The result is a contiguous row of the sum element.
void combineRows(exec::ElementType element, exec::ReduceKind kind,
                 std::span<const std::byte *const> sources,
                 std::span<const int64_t> strides, int64_t start,
                 std::byte *sum, int64_t count);
/// Such a row back to a strided row of `element`: rounds.
void copyFromSum(exec::ElementType element, const std::byte *sum,
                 std::byte *target, int64_t targetStride, int64_t count);

/// Combines two strided rows: target = combine(target, source). Not of 16-bit
/// floats, which it would round each time.
void combineInto(exec::ElementType element, exec::ReduceKind kind,
                 const std::byte *source, int64_t sourceStride,
                 std::byte *target, int64_t targetStride, int64_t count);

/// Copies elements between two strided rows.
void copyRow(int64_t elementBytes, const std::byte *source,
             int64_t sourceStride, std::byte *target, int64_t targetStride,
             int64_t count);

/// Writes the identity of `kind` to a strided row.
void fillIdentity(exec::ElementType element, exec::ReduceKind kind,
                  std::byte *target, int64_t targetStride, int64_t count);

} // namespace meshc::runtime

#endif
