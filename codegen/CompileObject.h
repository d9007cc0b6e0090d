#ifndef MESHC_CODEGEN_COMPILEOBJECT_H
#define MESHC_CODEGEN_COMPILEOBJECT_H

#include "codegen/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"

namespace meshc::codegen {

/// Optimises and compiles the emitted kernels into an object file (ELF) that
/// also holds the symbols of runtime/KernelTable.h: meshc_program_data,
/// meshc_program_size, meshc_kernel_table, meshc_kernel_count. Kernels with
/// equal bodies share one function. Changes `kernels`. Fails with a diagnostic.
mlir::FailureOr<std::string> compileCpuObject(mlir::ModuleOp kernels,
                                              const CpuTarget &target,
                                              llvm::ArrayRef<char> program);

} // namespace meshc::codegen

#endif
