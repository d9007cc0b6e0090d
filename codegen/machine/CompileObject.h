#ifndef MESHC_CODEGEN_MACHINE_COMPILEOBJECT_H
#define MESHC_CODEGEN_MACHINE_COMPILEOBJECT_H

#include "codegen/cpu/CpuTarget.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelTable.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <vector>

namespace meshc::codegen {

/// What one kernel was generated for, see meshcKernelEntry.
struct KernelUse {
  int64_t extent = 0;
  std::vector<meshcOperandUse> operands;
  std::vector<const exec::LaunchT *> launches; ///< of the executable
};

/// That of every kernel, by symbol, as the commands of `executable` have it:
/// commands with one symbol differ at most in how their operands are aligned.
std::map<std::string, KernelUse>
findKernelUses(const exec::ExecutableT &executable);

/// Optimises and compiles the emitted kernels into an object file (ELF) that
/// also holds the symbols of runtime/exec/KernelTable.h: meshc_program_data,
/// meshc_program_size, meshc_kernel_table, meshc_kernel_count. Kernels with
/// equal bodies share one function; those that are not in `uses` are for
/// callers who check nothing. Kernels of `uses` without a body are GPUs'.
/// Changes `kernels`. Fails with a diagnostic.
mlir::FailureOr<std::string>
compileCpuObject(mlir::ModuleOp kernels, const CpuTarget &target,
                 llvm::ArrayRef<char> program,
                 const std::map<std::string, KernelUse> &uses);

} // namespace meshc::codegen

#endif
