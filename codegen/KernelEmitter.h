#ifndef MESHC_CODEGEN_KERNELEMITTER_H
#define MESHC_CODEGEN_KERNELEMITTER_H

#include "codegen/Steps.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace meshc::codegen {

/// The processor that kernels are made for.
struct CpuTarget {
  std::string cpu;                   ///< LLVM's name, "znver3", "x86-64-v3"
  std::vector<std::string> features; ///< what it must have: "avx2", "fma", ...

  /// `name` is native, x86-64-v3 or x86-64-v4. Empty on an unknown name.
  static std::optional<CpuTarget> get(llvm::StringRef name);
};

/// A kernel's function and how many independent iterations it has.
struct EmittedKernel {
  std::string symbol;
  int64_t extent = 1;
};

/// Emits the CPU code of a kernel step into `kernels` as function `name`, or
/// finds the function that was emitted for an equal step,
///   void(void *const *operands, const int64_t *coordinates,
///        int64_t begin, int64_t end)
/// with operands = inputs then outputs of the step, dense row-major, 64-byte
/// aligned, distinct unless the step says that they may share; `coordinates`
/// the device's coordinate on each mesh axis; [begin, end) a part of [0,
/// extent) of independent iterations. Fails with a diagnostic.
mlir::FailureOr<EmittedKernel> emitCpuKernel(const Step &step,
                                             llvm::StringRef name,
                                             mlir::ModuleOp kernels);

/// Optimises and compiles the emitted kernels into an object file (ELF) that
/// also holds the symbols runtime/ expects: meshc_program_data,
/// meshc_program_size, meshc_kernel_table, meshc_kernel_count.
/// Fails with a diagnostic.
mlir::FailureOr<std::string> compileCpuObject(mlir::ModuleOp kernels,
                                              const CpuTarget &target,
                                              llvm::ArrayRef<char> program);

} // namespace meshc::codegen

#endif
