#include "runtime/cpu/Processor.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include <cpuid.h>

using namespace meshc;
using namespace meshc::runtime;

namespace {

enum Register : uint8_t { Eax, Ebx, Ecx, Edx };

/// What the system has to save on a context switch for a feature to be usable.
enum class Saved : uint8_t { Always, Avx, Avx512 };

struct Feature {
  std::string_view name;
  uint32_t leaf;
  uint32_t subleaf;
  Register where;
  int bit;
  Saved saved = Saved::Always;
};

/// Source: Intel 64 and IA-32 manual, volume 2A, CPUID; AMD64 manual, volume 3,
/// appendix E. Names are LLVM's.
constexpr Feature features[] = {
    {"cx8", 1, 0, Edx, 8},
    {"cmov", 1, 0, Edx, 15},
    {"mmx", 1, 0, Edx, 23},
    {"fxsr", 1, 0, Edx, 24},
    {"sse", 1, 0, Edx, 25},
    {"sse2", 1, 0, Edx, 26},
    {"sse3", 1, 0, Ecx, 0},
    {"pclmul", 1, 0, Ecx, 1},
    {"ssse3", 1, 0, Ecx, 9},
    {"fma", 1, 0, Ecx, 12, Saved::Avx},
    {"cx16", 1, 0, Ecx, 13},
    {"sse4.1", 1, 0, Ecx, 19},
    {"sse4.2", 1, 0, Ecx, 20},
    {"movbe", 1, 0, Ecx, 22},
    {"popcnt", 1, 0, Ecx, 23},
    {"aes", 1, 0, Ecx, 25},
    {"xsave", 1, 0, Ecx, 26, Saved::Avx},
    {"avx", 1, 0, Ecx, 28, Saved::Avx},
    {"f16c", 1, 0, Ecx, 29, Saved::Avx},
    {"rdrnd", 1, 0, Ecx, 30},
    {"fsgsbase", 7, 0, Ebx, 0},
    {"bmi", 7, 0, Ebx, 3},
    {"avx2", 7, 0, Ebx, 5, Saved::Avx},
    {"bmi2", 7, 0, Ebx, 8},
    {"invpcid", 7, 0, Ebx, 10},
    {"avx512f", 7, 0, Ebx, 16, Saved::Avx512},
    {"evex512", 7, 0, Ebx, 16, Saved::Avx512},
    {"avx512dq", 7, 0, Ebx, 17, Saved::Avx512},
    {"rdseed", 7, 0, Ebx, 18},
    {"adx", 7, 0, Ebx, 19},
    {"avx512ifma", 7, 0, Ebx, 21, Saved::Avx512},
    {"clflushopt", 7, 0, Ebx, 23},
    {"clwb", 7, 0, Ebx, 24},
    {"avx512cd", 7, 0, Ebx, 28, Saved::Avx512},
    {"sha", 7, 0, Ebx, 29},
    {"avx512bw", 7, 0, Ebx, 30, Saved::Avx512},
    {"avx512vl", 7, 0, Ebx, 31, Saved::Avx512},
    {"avx512vbmi", 7, 0, Ecx, 1, Saved::Avx512},
    {"pku", 7, 0, Ecx, 4},
    {"waitpkg", 7, 0, Ecx, 5},
    {"avx512vbmi2", 7, 0, Ecx, 6, Saved::Avx512},
    {"shstk", 7, 0, Ecx, 7},
    {"gfni", 7, 0, Ecx, 8},
    {"vaes", 7, 0, Ecx, 9, Saved::Avx},
    {"vpclmulqdq", 7, 0, Ecx, 10, Saved::Avx},
    {"avx512vnni", 7, 0, Ecx, 11, Saved::Avx512},
    {"avx512bitalg", 7, 0, Ecx, 12, Saved::Avx512},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, Saved::Avx512},
    {"rdpid", 7, 0, Ecx, 22},
    {"cldemote", 7, 0, Ecx, 25},
    {"movdiri", 7, 0, Ecx, 27},
    {"movdir64b", 7, 0, Ecx, 28},
    {"avx512vp2intersect", 7, 0, Edx, 8, Saved::Avx512},
    {"serialize", 7, 0, Edx, 14},
    {"avx512fp16", 7, 0, Edx, 23, Saved::Avx512},
    {"avxvnni", 7, 1, Eax, 4, Saved::Avx},
    {"avx512bf16", 7, 1, Eax, 5, Saved::Avx512},
    {"avxifma", 7, 1, Eax, 23, Saved::Avx},
    {"avxvnniint8", 7, 1, Edx, 4, Saved::Avx},
    {"avxneconvert", 7, 1, Edx, 5, Saved::Avx},
    {"xsaveopt", 13, 1, Eax, 0},
    {"xsavec", 13, 1, Eax, 1},
    {"xsaves", 13, 1, Eax, 3},
    {"sahf", 0x80000001, 0, Ecx, 0},
    {"lzcnt", 0x80000001, 0, Ecx, 5},
    {"sse4a", 0x80000001, 0, Ecx, 6},
    {"prfchw", 0x80000001, 0, Ecx, 8},
    {"mwaitx", 0x80000001, 0, Ecx, 29},
    {"64bit", 0x80000001, 0, Edx, 29},
    {"clzero", 0x80000008, 0, Ebx, 0},
    {"rdpru", 0x80000008, 0, Ebx, 4},
    {"wbnoinvd", 0x80000008, 0, Ebx, 9},
};

using Registers = std::array<uint32_t, 4>;

std::optional<Registers> query(uint32_t leaf, uint32_t subleaf) {
  Registers registers{};
  if (!__get_cpuid_count(leaf, subleaf, &registers[Eax], &registers[Ebx],
                         &registers[Ecx], &registers[Edx]))
    return std::nullopt;
  return registers;
}

bool isBitSet(uint32_t value, int bit) { return (value >> bit & 1) != 0; }

/// Whether the system saves the registers a feature needs: bits 1 and 2 of XCR0
/// for AVX, 5 to 7 beside them for AVX-512.
bool isSaved(Saved saved) {
  if (saved == Saved::Always)
    return true;
  std::optional<Registers> basic = query(1, 0);
  constexpr int osxsave = 27;
  if (!basic || !isBitSet((*basic)[Ecx], osxsave))
    return false;
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint32_t needed = saved == Saved::Avx ? 0x06 : 0xe6;
  return (low & needed) == needed;
}

} // namespace

std::optional<bool> runtime::hasProcessorFeature(std::string_view name) {
  for (const Feature &feature : features) {
    if (feature.name != name)
      continue;
    std::optional<Registers> registers = query(feature.leaf, feature.subleaf);
    return registers && isBitSet((*registers)[feature.where], feature.bit) &&
           isSaved(feature.saved);
  }
  return std::nullopt;
}

Status runtime::checkProcessor(const exec::ExecutableT &program) {
  std::vector<std::string> missing;
  for (const std::string &name : program.cpu_features) {
    std::optional<bool> has = hasProcessorFeature(name);
    if (!has)
      return Error{ErrorCode::OtherProcessor,
                   fmt::format("the program needs the processor feature '{}', "
                               "which this runtime cannot check for",
                               name),
                   "compile the model again with this version of meshc"};
    if (!*has)
      missing.push_back(name);
  }
  if (missing.empty())
    return Status::success();
  return Error{ErrorCode::OtherProcessor,
               fmt::format("the program was compiled for '{}'; this processor "
                           "lacks {}",
                           program.cpu, fmt::join(missing, ", ")),
               "compile the model for this processor, or with --cpu "
               "x86-64-v3 or another baseline that both have"};
}
