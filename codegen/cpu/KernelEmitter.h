#ifndef MESHC_CODEGEN_CPU_KERNELEMITTER_H
#define MESHC_CODEGEN_CPU_KERNELEMITTER_H

#include "codegen/cpu/RowParts.h"
#include "codegen/exec/KernelBody.h"
#include "codegen/kernels/EmittedKernel.h"

#include "mlir/IR/BuiltinOps.h"

namespace meshc::codegen {

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
mlir::FailureOr<EmittedKernel> emitCpuKernel(const KernelBody &kernel,
                                             llvm::StringRef name,
                                             mlir::ModuleOp kernels,
                                             const PartLimits &limits = {});

} // namespace meshc::codegen

#endif
