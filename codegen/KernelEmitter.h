#ifndef MESHC_CODEGEN_KERNELEMITTER_H
#define MESHC_CODEGEN_KERNELEMITTER_H

#include "codegen/CompileObject.h"
#include "codegen/RowParts.h"
#include "codegen/Steps.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace meshc::codegen {

/// One launch of a GPU kernel; see exec::Launch.
struct KernelLaunch {
  std::string symbol;
  int64_t grid;
  int64_t block;
  int64_t sharedBytes = 0;
};

/// A second function of a CPU kernel that sums across rows in parts
/// (RowParts.h): it adds them up, in their order. Its operands are the
/// workspace and then `outputs`, the numbers of outputs of the step.
struct PartSum {
  std::string symbol;
  int64_t extent = 1;
  int64_t parts = 1;
  std::vector<unsigned> outputs;
};

/// A kernel's function and how many independent iterations it has.
struct EmittedKernel {
  std::string symbol;
  int64_t extent = 1;
  std::vector<KernelLaunch> launches; ///< on a GPU
  uint64_t workspaceBytes = 0;        ///< the last operand, if there is one
  std::optional<PartSum> sum;
};

/// Emits the CPU code of a kernel step into `kernels` as function `name`,
///   void(void *const *operands, const int64_t *coordinates,
///        int64_t begin, int64_t end)
/// with operands = inputs then outputs of the step, dense row-major, aligned to
/// their element, distinct unless the step says that they may share;
/// `coordinates` the device's coordinate on each mesh axis; [begin, end) a part
/// of [0, extent) of independent iterations. If sums across rows are made in
/// parts, within `limits`, a workspace takes the place of their outputs, and
/// function `name`_sum, of the same type, runs when all iterations of `name`
/// are over. Fails with a diagnostic.
mlir::FailureOr<EmittedKernel> emitCpuKernel(const Step &step,
                                             llvm::StringRef name,
                                             mlir::ModuleOp kernels,
                                             const PartLimits &limits = {});

} // namespace meshc::codegen

#endif
