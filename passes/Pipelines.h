#ifndef MESHC_PASSES_PIPELINES_H
#define MESHC_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

#include <string>

namespace meshc {

/// Whether to make the program @gradient, and the parameters and inputs that it
/// differentiates by; empty: all parameters.
struct GradientOptions {
  bool isWanted = true;
  llvm::ArrayRef<std::string> names = {};
  /// The output that gradients by inputs are of; empty: what is minimized.
  std::string inputsOf = {};
};

/// From a module with the program @forward to its programs with a sharding on
/// every value. `meshc-opt` has it as "meshc-shard".
void buildShardingPipeline(mlir::OpPassManager &manager,
                           const GradientOptions &gradients = {});

/// From sharded programs to one device's programs. The two pipelines in
/// sequence are "meshc-partition" in `meshc-opt`.
void buildPartitionPipeline(mlir::OpPassManager &manager);

void registerPipelines();

} // namespace meshc

#endif
