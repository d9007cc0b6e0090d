#include "codegen/cpu/CpuTarget.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace meshc::codegen;

/// Whether kernels may use the instruction set: arithmetic, on scalars, bits or
/// vectors. What they may not use, a processor need not have.
static bool isForKernels(llvm::StringRef feature) {
  static constexpr llvm::StringLiteral scalar[] = {
      "sse3", "ssse3", "sse4.1", "sse4.2", "avx",   "avx2",  "fma",
      "f16c", "bmi",   "bmi2",   "lzcnt",  "movbe", "popcnt"};
  // With arithmetic on f16, LLVM makes a product and a sum that are both
  // rounded to f16 one operation, which rounds once.
  if (feature == "avx512fp16")
    return false;
  return llvm::is_contained(scalar, feature) || feature.starts_with("avx512");
}

/// Instruction sets of this machine beside the base of x86-64.
static std::vector<std::string> getHostFeatures() {
  std::vector<std::string> features;
  for (const auto &[name, isPresent] : llvm::sys::getHostCPUFeatures())
    if (isPresent && isForKernels(name))
      features.push_back(name.str());
  llvm::sort(features);
  return features;
}

/// What LLVM's processor `cpu` has.
static std::vector<std::string> getFeatures(llvm::StringRef cpu) {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::X86::getFeaturesForCPU(cpu, names);
  std::vector<std::string> features;
  for (llvm::StringRef name : names)
    if (isForKernels(name))
      features.push_back(name.str());
  llvm::sort(features);
  return features;
}

std::optional<CpuTarget> CpuTarget::get(llvm::StringRef name) {
  if (name == "native")
    return CpuTarget{llvm::sys::getHostCPUName().str(), getHostFeatures()};
  if (name == "x86-64-v3" || name == "x86-64-v4")
    return CpuTarget{name.str(), getFeatures(name)};
  return std::nullopt;
}
