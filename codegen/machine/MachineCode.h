#ifndef MESHC_CODEGEN_MACHINE_MACHINECODE_H
#define MESHC_CODEGEN_MACHINE_MACHINECODE_H

#include "mlir/IR/BuiltinOps.h"

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace meshc::codegen {

/// LLVM's code generator for a target; null, with a diagnostic, if there is
/// none.
std::unique_ptr<llvm::TargetMachine>
createTargetMachine(mlir::Location loc, llvm::StringRef triple,
                    llvm::StringRef cpu, llvm::StringRef features);

/// LLVM IR of an operation that holds functions of the LLVM dialect; null, with
/// a diagnostic, if it does not translate.
std::unique_ptr<llvm::Module> translateKernels(mlir::Operation *kernels,
                                               llvm::LLVMContext &context,
                                               llvm::TargetMachine &machine);

/// Optimises kernels and writes them as an object or as assembly. Fails with a
/// diagnostic.
mlir::FailureOr<std::string> emitMachineCode(mlir::Location loc,
                                             llvm::Module &module,
                                             llvm::TargetMachine &machine,
                                             llvm::CodeGenFileType type);

} // namespace meshc::codegen

#endif
