#ifndef MESHC_PASSES_PIPELINES_H
#define MESHC_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

namespace meshc {

/// From a module with the program @forward to its programs with a sharding on
/// every value. `meshc-opt` has it as "meshc-shard".
void buildShardingPipeline(mlir::OpPassManager &manager);

/// From sharded programs to one device's programs. The two pipelines in
/// sequence are "meshc-partition" in `meshc-opt`.
void buildPartitionPipeline(mlir::OpPassManager &manager);

void registerPipelines();

} // namespace meshc

#endif
