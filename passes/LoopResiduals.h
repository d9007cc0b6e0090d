#ifndef MESHC_PASSES_LOOPRESIDUALS_H
#define MESHC_PASSES_LOOPRESIDUALS_H

#include "dialect/ND.h"

namespace meshc {

/// Whether `value` is of `region` or of one inside it. Regions need not be in
/// operations yet.
bool isWithin(mlir::Value value, const mlir::Region &region);

/// Lets `body`, the block of the gradient of `loop`, read the values of the
/// loop's region that it uses: the same iteration's position; slices of the
/// same operands; constants made again; anything else is stacked by the loop in
/// addition, and sliced. A value that has the dimension of the loop itself is
/// renamed while it is stacked.
///
/// The first argument of `body` is the position. Slices become arguments behind
/// the others; what they are slices of is added to `sliced`, in that order.
///
/// Returns the loop that stacks them all: `loop`, or another one that has taken
/// its place, its region and its uses. Then `loop` is left for the caller to
/// erase.
nd::LoopOp keepResiduals(nd::LoopOp loop, mlir::Block &body,
                         llvm::SmallVectorImpl<mlir::Value> &sliced);

} // namespace meshc

#endif
