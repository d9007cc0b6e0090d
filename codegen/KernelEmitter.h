#ifndef MESHC_CODEGEN_KERNELEMITTER_H
#define MESHC_CODEGEN_KERNELEMITTER_H

#include "codegen/CompileObject.h"
#include "codegen/Steps.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace meshc::codegen {

/// One launch of a GPU kernel; see exec::Launch.
struct KernelLaunch {
  std::string symbol;
  int64_t grid;
  int64_t block;
  int64_t sharedBytes = 0;
};

/// A kernel's function and how many independent iterations it has.
struct EmittedKernel {
  std::string symbol;
  int64_t extent = 1;
  std::vector<KernelLaunch> launches; ///< on a GPU
  uint64_t workspaceBytes = 0;        ///< on a GPU
};

/// Emits the CPU code of a kernel step into `kernels` as function `name`,
///   void(void *const *operands, const int64_t *coordinates,
///        int64_t begin, int64_t end)
/// with operands = inputs then outputs of the step, dense row-major, aligned to
/// their element, distinct unless the step says that they may share;
/// `coordinates` the device's coordinate on each mesh axis; [begin, end) a part
/// of [0, extent) of independent iterations. Fails with a diagnostic.
mlir::FailureOr<EmittedKernel>
emitCpuKernel(const Step &step, llvm::StringRef name, mlir::ModuleOp kernels);

} // namespace meshc::codegen

#endif
