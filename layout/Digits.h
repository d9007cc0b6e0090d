#ifndef MESHC_LAYOUT_DIGITS_H
#define MESHC_LAYOUT_DIGITS_H

#include "layout/Access.h"

namespace meshc::layout {

/// The blocks of a dimension that is a digit of a loop, or the number whose
/// digits are loops.
///
/// Heads and their elements as one dimension, n = 4 h + d, of 3 heads of 4
/// elements on a mesh of a = 3, c = 2:
///
///   n over (a, c)   device a1 c1 has the positions 6 and 7
///   h over a        its block is the head 1: floor(n / 4)
///   d over c        its block is the elements 2 and 3: n mod 4
///
/// What a device reads is a block in every dimension only where each digit in
/// front of the last split one has one position there: 3 heads on 3 devices.
struct DigitBlocks {
  DimSplit split;
  /// The position in a device's block that is read at positions in its blocks
  /// of the loops.
  Access local;
};

/// The blocks of a dimension of `size` that is read at `access`, of loops of
/// these sizes, split so, all by their numbers. The access is a number whose
/// digits the loops are, the quotient of one or the remainder:
///
///   4 h + d             (h, d) as n
///   floor(n / 4)        n as (h, d): h
///   n mod 4             and d
///   floor((4 p + q) / 2)  (p, q) as (a, b): a
///
/// Nothing where the dimension has no such blocks, does not divide, or needs no
/// axes, and where the blocks of one loop are blocks of the dimension, which is
/// a window then (Access::getWindow).
std::optional<DigitBlocks> findDigitBlocks(const Access &access,
                                           std::span<const int64_t> sizes,
                                           std::span<const DimSplit> splits,
                                           int64_t size);

} // namespace meshc::layout

#endif
