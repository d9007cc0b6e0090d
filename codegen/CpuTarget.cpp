#include "codegen/CpuTarget.h"

#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace meshc::codegen;

/// Instruction sets beside the base of x86-64 that kernels may use.
static std::vector<std::string> getHostFeatures() {
  std::vector<std::string> features;
  for (const auto &[name, isPresent] : llvm::sys::getHostCPUFeatures())
    if (isPresent)
      features.push_back(name.str());
  llvm::sort(features);
  return features;
}

/// What LLVM's processor `cpu` has.
static std::vector<std::string> getFeatures(llvm::StringRef cpu) {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::X86::getFeaturesForCPU(cpu, names);
  std::vector<std::string> features(names.begin(), names.end());
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
