#ifndef MESHC_DIALECT_SPMD_H
#define MESHC_DIALECT_SPMD_H

#include "dialect/ND.h"
#include "layout/Collective.h"

#include "dialect/SPMDDialect.h.inc"

namespace meshc::spmd {

/// A part of a tensor that is dense and row-major: its first element and, by
/// dimension of the part, the stride, both in elements of the whole.
struct Slice {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;

  /// Whether a part of this shape lies in one piece, row-major.
  bool isDense(llvm::ArrayRef<int64_t> shape) const;
};

} // namespace meshc::spmd

#include "dialect/SPMDInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialect/SPMDOps.h.inc"

namespace meshc::spmd {

/// Checks what a put (spmd.put) of `op` is of: (C1) to (C3).
llvm::LogicalResult verifyPut(mlir::Operation *op, mlir::Value input,
                              mlir::Value index, mlir::ArrayAttr indexingMaps,
                              mlir::Value result);

/// Builds the collective of this kind. The result has the local shape of
/// `target`.
CollectiveOpInterface
createCollective(mlir::OpBuilder &builder, mlir::Location loc,
                 layout::CollectiveKind kind, mlir::Value input,
                 nd::NamedTensorType source, nd::NamedTensorType target,
                 mlir::ArrayAttr causes);

} // namespace meshc::spmd

#endif
