#ifndef MESHC_LAYOUT_TRANSFERS_H
#define MESHC_LAYOUT_TRANSFERS_H

#include "layout/Sharding.h"

#include <cstdint>
#include <span>
#include <vector>

namespace meshc::layout {

/// Where a box lies in one device's local block.
struct TransferEnd {
  int64_t device = 0;
  std::vector<int64_t> offset; ///< per dimension, in elements

  bool operator==(const TransferEnd &) const = default;
};

/// One box of elements on its way from one sharding to another: read from every
/// source, combined in the order of the list, written to every target.
///
/// - one source: a copy; `reduce` is None.
/// - several sources: terms of a partial value, in ascending device order,
///   combined by `reduce`.
/// - no source: the targets are filled with the identity of `reduce` (a whole
///   value made partial keeps the value on one device only; what a window
///   holds outside the dimension is 0, the identity of sum).
///
/// A source may also be among the targets, at another offset or the same.
struct Transfer {
  std::vector<TransferEnd> sources;
  std::vector<TransferEnd> targets;
  std::vector<int64_t> shape; ///< of the box, no size is 0
  ReduceKind reduce = ReduceKind::None;
};

/// What has to move so that every device ends with its block of a tensor of
/// these global sizes under `target`, when it starts with its block under
/// `source`. This is the meaning of every ReshardStep.
///
/// Every owned element of every target block is in exactly one transfer;
/// padding is never read nor written. Of several devices that hold the same
/// block, a target takes the one that differs from it only on the axes that
/// `source` splits or reduces over: itself, if it holds the block. Targets that
/// take one box from the same sources share one Transfer.
///
/// Partial values: axes that both are partial over keep their terms where they
/// are; other partial axes of `source` are reduced; on other partial axes of
/// `target` the first coordinate gets the value and the rest the identity.
///
/// A target may have windows: several devices then hold one element, each takes
/// it from its owner.
///
/// Order:    by the lowest target device, then by position in its block.
/// Requires: getViolation is empty for both; equal partial kinds if both are
///           partial; `source` has no window, for no device owns a part of one.
std::vector<Transfer> getTransfers(const Mesh &mesh,
                                   std::span<const int64_t> sizes,
                                   const Sharding &source,
                                   const Sharding &target);

} // namespace meshc::layout

#endif
