#include "passes/Pipelines.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void meshc::buildShardingPipeline(OpPassManager &manager,
                                  const GradientOptions &gradients) {
  manager.addPass(createHoist());          // what iterations share
  manager.addPass(createMapLoops());       // a loop that carries nothing
  manager.addPass(createUnroll());         // loops -> straight-line code
  manager.addPass(createCheckLayout());    // two dimensions of one tensor?
  manager.addPass(createLowerPrecision()); // f32 -> 16 bits where that is asked
  DifferentiateOptions differentiate;
  differentiate.wanted = SmallVector<std::string>(gradients.names);
  differentiate.inputsOf = gradients.inputsOf;
  if (gradients.isWanted)
    manager.addPass(createDifferentiate(differentiate)); // -> and gradients
  manager.addPass(createBuildStep()); // forward -> eval, step with updates
  manager.addPass(createBuildInit()); // variables' initial values
  manager.addPass(createDecompose()); // arg_reduce, mean, n-ary einsum
  manager.addPass(createCSEPass());
  manager.addPass(createShrinkResiduals()); // what backward keeps of forward
  manager.addPass(createChooseOrders());    // storage order of values
  manager.addPass(createAssignShardings()); // each value: who holds which part
  manager.addPass(createWriteStacks());     // stacks -> choices by position
  manager.addPass(createCSEPass());
}

void meshc::buildPartitionPipeline(OpPassManager &manager) {
  manager.addPass(createPartition()); // nd -> spmd: local shapes
  manager.addPass(createEliminateEqual());
  manager.addPass(createFuseArithmetic()); // what is rounded as one operation
  // Last: CSE would make one of what is computed twice.
  manager.addPass(createRecomputeResiduals()); // what backward need not keep
  manager.addPass(createRecomputeScopes());    // and what it is not to keep
  manager.addPass(createGatherAgain());        // nor of split parameters
}

void meshc::registerPipelines() {
  PassPipelineRegistration<>(
      "meshc-shard", "from @forward to programs with shardings",
      [](OpPassManager &manager) { buildShardingPipeline(manager); });
  PassPipelineRegistration<>("meshc-partition",
                             "from @forward to one device's programs",
                             [](OpPassManager &manager) {
                               buildShardingPipeline(manager);
                               buildPartitionPipeline(manager);
                             });
}
