#ifndef MESHC_PASSES_CHOOSEORDERS_H
#define MESHC_PASSES_CHOOSEORDERS_H

#include "dialect/ND.h"

#include "llvm/ADT/DenseMap.h"

namespace meshc {

/// The dimensions of a value as they are stored, the outermost first.
using Order = llvm::SmallVector<nd::DimAttr>;
/// The orders that values have, whatever their readers like.
using PinnedOrders = llvm::DenseMap<mlir::Value, Order>;

/// Chooses the storage order of values between operations; that of `pinned` is
/// given. May be called again.
void chooseOrders(nd::ProgramOp program,
                  const PinnedOrders &pinned = PinnedOrders());

/// What an order costs those who read a value, and the contraction that makes
/// it.
struct StorageCost {
  int ofContractions = 0; ///< in figures that only rank orders
  bool hasOthers = false; ///< whether others read it than contractions
};
StorageCost getStorageCost(mlir::Value value,
                           llvm::ArrayRef<nd::DimAttr> order);

} // namespace meshc

#endif
