#ifndef MESHC_CODEGEN_STEPS_EXPANDVIEWS_H
#define MESHC_CODEGEN_STEPS_EXPANDVIEWS_H

#include "codegen/steps/StepGraph.h"

namespace meshc::codegen {

/// Moves views that only split or merge dimensions out from between kernels,
/// which could not be fused with one there: all that kernels do on either side
/// of it is done along the dimensions that are split, and what a kernel reads
/// or leaves along merged ones is viewed where it comes from or goes to, which
/// costs nothing. Whether there was one; if so, `graph`, that of `block`, is no
/// longer its graph.
/// Fails with a diagnostic if it does not come to an end, which is a mistake of
/// meshc's.
mlir::FailureOr<bool> expandViews(mlir::Block &block, const StepGraph &graph);

} // namespace meshc::codegen

#endif
