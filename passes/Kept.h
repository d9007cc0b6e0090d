#ifndef MESHC_PASSES_KEPT_H
#define MESHC_PASSES_KEPT_H

/// What the passes on values that are kept for the backward phase ask of them.

#include "dialect/Locations.h"

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/Support/MathExtras.h"

namespace meshc {

inline bool isForward(mlir::Operation *op) {
  return getPhase(op->getLoc()) == nd::Phase::Forward;
}

/// What a tensor takes in the memory of a device; 0 of anything else. A truth
/// value takes a byte.
inline int64_t getBytes(mlir::Value value) {
  auto type = llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
  return type ? type.getNumElements() *
                    int64_t(llvm::divideCeil(type.getElementTypeBitWidth(), 8))
              : 0;
}

} // namespace meshc

#endif
