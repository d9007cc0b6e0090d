#ifndef MESHC_CODEGEN_CPU_CPUTARGET_H
#define MESHC_CODEGEN_CPU_CPUTARGET_H

#include "llvm/ADT/StringRef.h"

#include <optional>
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

} // namespace meshc::codegen

#endif
