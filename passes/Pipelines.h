#ifndef MESHC_PASSES_PIPELINES_H
#define MESHC_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

#include <string>

namespace meshc {

/// From a module with the program @forward to its programs with a sharding on
/// every value. `gradients` are the parameters and inputs that the program
/// @gradient differentiates by; empty: all parameters. `meshc-opt` has it as
/// "meshc-shard".
void buildShardingPipeline(mlir::OpPassManager &manager,
                           llvm::ArrayRef<std::string> gradients = {});

/// From sharded programs to one device's programs. The two pipelines in
/// sequence are "meshc-partition" in `meshc-opt`.
void buildPartitionPipeline(mlir::OpPassManager &manager);

void registerPipelines();

} // namespace meshc

#endif
