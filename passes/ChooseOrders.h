#ifndef MESHC_PASSES_CHOOSEORDERS_H
#define MESHC_PASSES_CHOOSEORDERS_H

#include "passes/StoragePrice.h"

#include "llvm/ADT/DenseMap.h"

namespace meshc {

/// The orders that values have, whatever their readers like.
using PinnedOrders = llvm::DenseMap<mlir::Value, Order>;

/// Chooses the storage order of values between operations; that of `pinned` is
/// given. May be called again.
void chooseOrders(nd::ProgramOp program,
                  const PinnedOrders &pinned = PinnedOrders());

/// What an order costs the contraction that makes a value, and those who read
/// it (StoragePrice).
struct StorageCost {
  int64_t ofWriterPs = 0;
  int64_t ofReadersPs = 0; ///< contractions, which take it as it is stored
  bool hasOthers = false;  ///< whether others read it
};
StorageCost getStorageCost(mlir::Value value,
                           llvm::ArrayRef<nd::DimAttr> order);

} // namespace meshc

#endif
