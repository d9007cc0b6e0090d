#ifndef MESHC_CODEGEN_EXEC_EXEC_H
#define MESHC_CODEGEN_EXEC_EXEC_H

#include "codegen/steps/ConvForm.h"
#include "codegen/steps/MatmulForm.h"
#include "dialect/SPMD.h"

#include "runtime/exec/exec_generated.h"

#include <array>
#include <optional>
#include <vector>

namespace meshc::codegen {
class CommandBuilder;
class KernelBodies;
} // namespace meshc::codegen

/// The exec dialect. Its C++ is here, as `exec` is the runtime's schema.
namespace meshc::steps {
/// By result, the numbers of the operands whose memory it may take.
using Sharing = std::vector<llvm::SmallVector<unsigned, 2>>;
/// Rows, and 32-bit words of a row.
using Mask = std::array<int64_t, 2>;
} // namespace meshc::steps

#include "codegen/exec/ExecDialect.h.inc"
#include "codegen/exec/ExecEnums.h.inc"
#include "codegen/exec/ExecInterfaces.h.inc"

#define GET_OP_CLASSES
#include "codegen/exec/ExecOps.h.inc"

namespace meshc::steps {

/// Name, phase and span of a value of an exec.program.
mlir::Location getValueLoc(mlir::Value value);

/// The steps of `block`, in order; a loop is one.
std::vector<StepOpInterface> getSteps(mlir::Block &block);
/// The steps of `program`, in order; a loop is one.
std::vector<StepOpInterface> getSteps(ProgramOp program);

/// Has the uses of `from` that `isMoved` picks use `to`, in the same order:
/// which of several variables a value is written to first is a matter of it.
void moveUses(mlir::Value from, mlir::Value to,
              llvm::function_ref<bool(mlir::Operation *)> isMoved);

/// Whether `whole` is `count` tensors of type `part`, one after the other.
bool isStackOf(mlir::Type whole, mlir::Type part, int64_t count);
/// Whether `count` times `part`, one behind the other in memory, are `whole`,
/// cut along its first dimension that is not 1: each has one position of it, or
/// several.
bool isCutInto(mlir::Type whole, mlir::Type part, int64_t count);

/// (C1) of steps with a body.
llvm::LogicalResult verifyBody(mlir::Operation *step);

} // namespace meshc::steps

#endif
