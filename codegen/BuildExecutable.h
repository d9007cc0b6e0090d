#ifndef MESHC_CODEGEN_BUILDEXECUTABLE_H
#define MESHC_CODEGEN_BUILDEXECUTABLE_H

#include "mlir/IR/BuiltinOps.h"

#include "runtime/exec_generated.h"

#include <memory>
#include <string>

namespace meshc::codegen {

/// A partitioned module as commands over one arena. `kernels` holds the code of
/// the kernel commands, not yet compiled.
struct BuiltExecutable {
  std::unique_ptr<exec::ExecutableT> executable;
  mlir::OwningOpRef<mlir::ModuleOp> kernels;
};

/// Builds the command lists of every spmd program of `module`, plans memory and
/// emits kernels. `executable` has everything but the fields only the driver
/// knows (producer, model, spec_sha256, cpu, cpu_features).
mlir::FailureOr<BuiltExecutable> buildExecutable(mlir::ModuleOp module);

/// The FlatBuffer of `executable`.
std::string serialize(const exec::ExecutableT &executable);

} // namespace meshc::codegen

#endif
