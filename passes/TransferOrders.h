#ifndef MESHC_PASSES_TRANSFERORDERS_H
#define MESHC_PASSES_TRANSFERORDERS_H

#include "passes/ModuleLayout.h"

namespace meshc {

/// A value that some of its readers need in other shardings than it has.
struct ValueTransfer {
  struct Change {
    layout::Sharding had, wanted;

    bool operator==(const Change &) const = default;
  };
  mlir::Value value;
  std::vector<Change> changes; ///< each once
  llvm::SmallVector<mlir::OpOperand *> uses;
};

/// Marks a copy of a value in the order in which it is sent: the copy is made
/// where the value is, terms of a sum included.
inline constexpr llvm::StringLiteral copyToSendAttr = "nd.copy_to_send";

/// Stores values that are sent in an order in which sending takes less, where
/// the machine's library sends contiguous blocks: the gradient of w: f32[e, d']
/// that is scattered over d' as [d', e]. The product that makes it writes it
/// so; a parameter, which keeps the order that was declared, is copied on each
/// device before it is sent. Returns whether orders, and so shardings, have
/// changed.
///
/// An order is taken if sending and copies take less together, by the prices
/// of the machine, and no contraction is slower for it.
bool orderTransfers(nd::ProgramOp program, const ModuleLayout &layout,
                    llvm::ArrayRef<ValueTransfer> transfers);

} // namespace meshc

#endif
