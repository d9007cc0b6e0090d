#ifndef MESHC_FRONTEND_RATES_H
#define MESHC_FRONTEND_RATES_H

#include "mlir/IR/BuiltinOps.h"

namespace meshc::frontend {

/// Computes the rates that the updates of a module give out, with its settings
/// as they are, at steps 1, 10, 100 and so on, and at the last one, where the
/// recipe says which that is; notes them in the recipe, for messages. A rate
/// that hangs on more than the step is left out.
void addRates(mlir::ModuleOp module);

} // namespace meshc::frontend

#endif
