#ifndef MESHC_TESTS_CUDA_CUDATESTING_H
#define MESHC_TESTS_CUDA_CUDATESTING_H

/// Parts of a test that run with the emulated libraries, each in a process of
/// its own.

#include "tests/emulation/ForkedRun.h"

#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

namespace meshc::runtime::test {

/// Runs `body` on emulated GPUs; `variables` as tests/emulation/README.md has
/// them, without their MESHC_EMULATION_. Returns what it returned, or how it
/// ended and what it printed.
inline std::string runEmulated(const emulation::Variables &variables,
                               const std::function<std::string()> &body) {
  emulation::Variables all = {{"MESHC_CUDA_LIBRARIES", MESHC_EMULATION_FOLDER}};
  for (const auto &[name, value] : variables)
    all.emplace_back("MESHC_EMULATION_" + name, value);
  emulation::ForkedResult result = emulation::runForked(all, body);
  if (result.exitCode == 0)
    return result.value;
  return "exit code " + std::to_string(result.exitCode) + ": " + result.errors +
         result.value;
}

/// Sizes of the allocations that emulated drivers have recorded in a file.
inline std::vector<uint64_t> readAllocations(const std::string &path) {
  std::vector<uint64_t> sizes;
  std::ifstream file(path);
  const std::regex allocation(
      "\"call\": \"cuMemAlloc_v2\".*\"bytes\": ([0-9]+).*\"result\": 0");
  std::smatch match;
  for (std::string line; std::getline(file, line);)
    if (std::regex_search(line, match, allocation))
      sizes.push_back(std::stoull(match[1]));
  return sizes;
}

} // namespace meshc::runtime::test

#endif
