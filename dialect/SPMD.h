#ifndef MESHC_DIALECT_SPMD_H
#define MESHC_DIALECT_SPMD_H

#include "dialect/ND.h"
#include "layout/CostModel.h"

#include "dialect/SPMDDialect.h.inc"

#include "dialect/SPMDInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialect/SPMDOps.h.inc"

namespace meshc::spmd {

/// Builds the collective of this kind. The result has the local shape of
/// `target`.
CollectiveOpInterface
createCollective(mlir::OpBuilder &builder, mlir::Location loc,
                 layout::CollectiveKind kind, mlir::Value input,
                 nd::NamedTensorType source, nd::NamedTensorType target,
                 mlir::ArrayAttr causes);

} // namespace meshc::spmd

#endif
