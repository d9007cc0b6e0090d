#ifndef MESHC_CODEGEN_BUILDEXECUTABLE_H
#define MESHC_CODEGEN_BUILDEXECUTABLE_H

#include "codegen/kernels/KernelTarget.h"
#include "codegen/steps/MergeTransfers.h"

#include <string>

namespace meshc::codegen {

struct StepOptions {
  std::optional<int64_t> bucketBytes; ///< see mergeTransfers
  /// See prefetchGathers; without, as the target has it.
  std::optional<int64_t> prefetchLayers = std::nullopt;
  bool fuses = true; ///< no: each operation is a step (formSteps)
  /// See findTileGroups; 0: no tiles. Without, as the target has it.
  std::optional<int64_t> tileBytes = std::nullopt;
  /// Of which sizes of 16-bit matmuls that are one dimension are made
  /// multiples; 1: none. Without, where the target saves time by it.
  std::optional<int64_t> matmulMultiple = std::nullopt;
};

/// Puts an exec.program in the place of every spmd program of `module`, for
/// `target`: its steps, with kernels grouped and collectives merged. Fails with
/// a diagnostic.
mlir::LogicalResult planSteps(mlir::ModuleOp module, KernelTarget &target,
                              const StepOptions &options = {});

/// Builds the command list of every exec.program of `module`, plans memory and
/// emits kernels with `target`. Fills everything of `executable` but `tensors`
/// (collectTensors, before partitioning) and what only the driver knows:
/// producer, model, spec_sha256, cpu, cpu_features, images. Fails with a
/// diagnostic.
mlir::LogicalResult buildExecutable(mlir::ModuleOp module,
                                    exec::ExecutableT &executable,
                                    KernelTarget &target);

/// The FlatBuffer of `executable`.
std::string serialize(const exec::ExecutableT &executable);

} // namespace meshc::codegen

#endif
