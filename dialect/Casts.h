#ifndef MESHC_DIALECT_CASTS_H
#define MESHC_DIALECT_CASTS_H

#include "dialect/ND.h"

namespace meshc::nd {

/// How many bits more the floats of the result of `op` have than those of its
/// operand; nothing unless it makes floats of floats.
inline std::optional<int> getAddedBits(mlir::Operation *op) {
  auto cast = llvm::dyn_cast_or_null<CastOp>(op);
  if (!cast)
    return std::nullopt;
  auto from = llvm::dyn_cast<mlir::FloatType>(
      cast.getInput().getType().getElementType());
  auto to = llvm::dyn_cast<mlir::FloatType>(cast.getType().getElementType());
  if (!from || !to)
    return std::nullopt;
  return static_cast<int>(to.getWidth()) - static_cast<int>(from.getWidth());
}

inline bool isFloatCast(mlir::Operation *op) {
  return getAddedBits(op).has_value();
}
inline bool isWideningCast(mlir::Operation *op) {
  return getAddedBits(op).value_or(0) > 0;
}
inline bool isNarrowingCast(mlir::Operation *op) {
  return getAddedBits(op).value_or(0) < 0;
}

} // namespace meshc::nd

#endif
