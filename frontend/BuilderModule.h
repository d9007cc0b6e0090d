#ifndef MESHC_FRONTEND_BUILDERMODULE_H
#define MESHC_FRONTEND_BUILDERMODULE_H

#include "frontend/Builder.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace meshc::frontend {

/// The module that `builder` made, which is empty afterwards. Null if there
/// were errors or the module does not verify. Requires: finish was called.
mlir::OwningOpRef<mlir::ModuleOp> takeModule(Builder &builder);

} // namespace meshc::frontend

#endif
