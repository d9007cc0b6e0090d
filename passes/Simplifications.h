#ifndef MESHC_PASSES_SIMPLIFICATIONS_H
#define MESHC_PASSES_SIMPLIFICATIONS_H

#include "mlir/IR/PatternMatch.h"

namespace meshc {

/// Patterns that keep splats and repeated values from being stored and worked
/// on in full: gradients are made of them. Constants are reassociated, which
/// may change the last bit of a result. For programs without shardings, after
/// gradients are taken.
void addSimplifications(mlir::RewritePatternSet &patterns);

} // namespace meshc

#endif
