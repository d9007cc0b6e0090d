#include "runtime/exec/kinds/CommandKind.h"

#include "runtime/exec/ExecutableChecker.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

/// What CUDA lets a launch have, whatever the device; shared memory without the
/// reserved KiB of sm_90. Source: CUDA C++ Programming Guide 13.0, 20.1.
static constexpr int64_t maxGrid = (int64_t(1) << 31) - 1;
static constexpr int maxBlock = 1024;
static constexpr int maxSharedBytes = 227 * 1024;

static bool checkKernel(ExecutableChecker &checker,
                        const exec::CommandT &command) {
  const exec::KernelT &kernel = *command.action.AsKernel();
  // An iteration has at least one element of an operand to itself, and a block
  // of threads too. (What a kernel on CPUs really needs of its operands is
  // known where its code is: checkKernelUse.)
  int64_t most = 1;
  for (const auto &operand : command.operands)
    if (const int64_t count = countElements(operand->shape, operand->strides);
        count < 0 || (most += count) > maxExtent)
      return checker.fail("its operands have more elements than any memory");
  if (kernel.extent < 0 || kernel.extent > most)
    return checker.fail(
        fmt::format("its extent is {}, its operands have {} elements",
                    kernel.extent, most - 1));
  if (kernel.fused < 0)
    return checker.fail(
        fmt::format("its kernel computes {} values", kernel.fused));
  if (kernel.symbol.empty())
    return checker.fail("its kernel has no symbol");
  if ((checker.getData().target == exec::Target::cuda) ==
      kernel.launches.empty())
    return checker.fail(
        fmt::format("its kernel has {} launches", kernel.launches.size()));
  for (const auto &launch : kernel.launches)
    if (launch->symbol.empty() || launch->grid < 1 || launch->grid > maxGrid ||
        launch->grid > most || launch->block < 1 || launch->block > maxBlock ||
        launch->shared_bytes < 0 || launch->shared_bytes > maxSharedBytes)
      return checker.fail(fmt::format(
          "it launches '{}' with {} blocks of {} threads "
          "and {} bytes of shared memory",
          launch->symbol, launch->grid, launch->block, launch->shared_bytes));
  return true;
}

const CommandKind runtime::kernelKind = {
    .name = "kernel", .overwritesResults = true, .check = checkKernel};
