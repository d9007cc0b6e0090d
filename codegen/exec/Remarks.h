#ifndef MESHC_CODEGEN_EXEC_REMARKS_H
#define MESHC_CODEGEN_EXEC_REMARKS_H

#include "codegen/exec/Exec.h"

#include <optional>

namespace meshc::codegen {

/// What a step stores that was not written: what has the attribute `nd.remark`
/// (Locations.h), and what is stored in another order for a library that sends
/// or multiplies it; nothing if it is none. A copy of what is computed beside
/// it and not stored takes no more memory than that would: the value is stored
/// in another order, and there is no copy.
std::optional<nd::RemarkKind> findRemark(mlir::Value result);

/// What a stored value is for: what the first step that reads it computes; null
/// if none does.
nd::OriginAttr findPurpose(mlir::Value result);

} // namespace meshc::codegen

#endif
