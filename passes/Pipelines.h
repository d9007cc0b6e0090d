#ifndef MESHC_PASSES_PIPELINES_H
#define MESHC_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

namespace meshc {

/// From a module with the program @forward to one device's programs. The same
/// for `meshc` and, as pipeline "meshc-partition", for `meshc-opt`.
void buildPartitionPipeline(mlir::OpPassManager &manager);

void registerPipelines();

} // namespace meshc

#endif
