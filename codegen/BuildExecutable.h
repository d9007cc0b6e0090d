#ifndef MESHC_CODEGEN_BUILDEXECUTABLE_H
#define MESHC_CODEGEN_BUILDEXECUTABLE_H

#include "codegen/kernels/KernelTarget.h"
#include "codegen/steps/MergeCollectives.h"

#include <string>

namespace meshc::codegen {

/// Builds the command lists of every spmd program of `module`, plans memory and
/// emits kernels with `target`. Fills everything of `executable` but `tensors`
/// (collectTensors, before partitioning) and what only the driver knows:
/// producer, model, spec_sha256, cpu, cpu_features, images. `bucketBytes` as
/// for mergeCollectives. Fails with a diagnostic.
mlir::LogicalResult buildExecutable(mlir::ModuleOp module,
                                    exec::ExecutableT &executable,
                                    KernelTarget &target,
                                    int64_t bucketBytes = defaultBucketBytes);

/// The FlatBuffer of `executable`.
std::string serialize(const exec::ExecutableT &executable);

} // namespace meshc::codegen

#endif
