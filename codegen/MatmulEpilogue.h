#ifndef MESHC_CODEGEN_MATMULEPILOGUE_H
#define MESHC_CODEGEN_MATMULEPILOGUE_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

/// Operations on a matmul's result that its library call can do on the way.
namespace meshc::codegen {

/// Whether `tensor` is filled with zeros.
bool isZeroFilled(mlir::Value tensor);

/// The other operand of `op`, if it adds one value to `value` and does nothing
/// else; null if not. `isBias`: the other one has the result's last dimension
/// alone.
mlir::Value getAddend(mlir::linalg::GenericOp op, mlir::Value value,
                      bool isBias);

/// `op` if it rounds `value` to a narrower float and does nothing else; null if
/// not.
mlir::linalg::GenericOp getRounding(mlir::Operation *op, mlir::Value value);

/// The operations, in order, that compute the exact gelu of `x`,
/// 0.5 x (1 + erf(x / sqrt(2))), from `x`, if they are all that uses it; empty
/// if not.
///
/// There is none for relu: oneDNN's forward relu makes 0 of NaN, which would
/// hide that a training diverged.
llvm::SmallVector<mlir::linalg::GenericOp> matchGelu(mlir::Value x);

} // namespace meshc::codegen

#endif
