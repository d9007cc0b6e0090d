#ifndef MESHC_TESTS_CUDA_RANDOMPROGRAM_H
#define MESHC_TESTS_CUDA_RANDOMPROGRAM_H

#include "runtime/devices/DeviceSet.h"
#include "runtime/exec/KernelTable.h"
#include "tests/runtime/ProgramBuilder.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime::test {

struct RandomOptions {
  std::vector<std::pair<std::string, int64_t>> axes = {{"x", 2}};
  int64_t commands = 24;
  bool hasCollectives = true;
  bool hasTransfers = true; ///< of several collectives
  bool hasProducts = true;
  /// Blocks of collectives divide evenly: no padding.
  bool isEven = false;
  /// Collectives may make windows, which begin or end outside of dimensions.
  bool hasWindows = false;
};

/// A program "p" of kernels, copies, products and collectives between a few
/// buffers, in both queues, with all waits that their operands need. Its values
/// are small integers: any order of sums gives the same bits.
Executable makeRandomProgram(uint64_t seed, const RandomOptions &options);

/// The kernels of such a program for the CPU.
std::span<const meshcKernelEntry> getRandomKernels();

/// Adds the `host` image of ImageKernels.cpp and makes a CUDA executable of a
/// program, with a launch for each of its kernels.
void addHostImage(exec::ExecutableT &data);

/// Runs program "p" of the executables that both have `runs` times, with the
/// same contents at the beginning, and compares every buffer of every device
/// after each run. Returns what differs first, or number and message of an
/// error; empty: nothing.
std::string compareRuns(DeviceSet &expected, DeviceSet &found, int runs);

} // namespace meshc::runtime::test

#endif
