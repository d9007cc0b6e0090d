#include "runtime/exec/KernelUse.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

/// What a command has that its kernel was not generated for; empty if nothing.
static std::string findMisuse(const exec::ExecutableT &data,
                              const exec::CommandT &command,
                              const meshcKernelEntry &entry) {
  if (!entry.operands)
    return "";
  const exec::KernelT &kernel = *command.action.AsKernel();
  if (kernel.extent != entry.extent)
    return fmt::format("extent {}, expected {}", kernel.extent, entry.extent);
  if (command.operands.size() != entry.numOperands)
    return fmt::format("{} operands, expected {}", command.operands.size(),
                       entry.numOperands);
  for (size_t i = 0; i < command.operands.size(); ++i) {
    const exec::OperandT &operand = *command.operands[i];
    const exec::BufferT &buffer = *data.buffers[operand.buffer];
    const meshcOperandUse &use = entry.operands[i];
    // checkExecutable has found that the operand begins in its buffer.
    if (const uint64_t left = buffer.bytes - operand.offset; left < use.bytes)
      return fmt::format("{} bytes for operand {}, expected {}", left, i,
                         use.bytes);
    if ((buffer.offset + operand.offset) % use.alignment != 0)
      return fmt::format("operand {} at byte {}, expected a multiple of {}", i,
                         buffer.offset + operand.offset, use.alignment);
  }
  if (kernel.launches.size() != entry.numLaunches)
    return fmt::format("{} launches, expected {}", kernel.launches.size(),
                       entry.numLaunches);
  for (size_t i = 0; i < kernel.launches.size(); ++i) {
    const exec::LaunchT &launch = *kernel.launches[i];
    const meshcLaunchUse &use = entry.launches[i];
    if (launch.symbol != use.symbol || launch.grid != use.grid ||
        launch.block != use.block || launch.shared_bytes != use.sharedBytes)
      return fmt::format("a launch of '{}', {} blocks of {} threads and {} "
                         "bytes of shared memory, expected '{}', {}, {}, {}",
                         launch.symbol, launch.grid, launch.block,
                         launch.shared_bytes, use.symbol, use.grid, use.block,
                         use.sharedBytes);
  }
  return "";
}

KernelUse::KernelUse(std::span<const meshcKernelEntry> kernels) {
  for (const meshcKernelEntry &entry : kernels)
    entries.emplace(entry.name, &entry);
}

Result<const meshcKernelEntry *>
KernelUse::find(const exec::ExecutableT &data, const exec::ProgramT &program,
                const exec::CommandT &command) const {
  const std::string &symbol = command.action.AsKernel()->symbol;
  auto entry = entries.find(symbol);
  // On CPUs all have code, and none of an executable for GPUs has.
  if (entry == entries.end() ||
      (data.target == exec::Target::cpu && !entry->second->function))
    return Error{ErrorCode::DamagedProgram,
                 fmt::format("damaged program: it has no kernel '{}', which "
                             "command '{}' of program '{}' calls",
                             symbol, command.name, program.name),
                 ""};
  if (const std::string misuse = findMisuse(data, command, *entry->second);
      !misuse.empty())
    return Error{ErrorCode::DamagedProgram,
                 fmt::format("damaged program: command '{}' of program '{}' "
                             "gives kernel '{}' {}",
                             command.name, program.name, symbol, misuse),
                 ""};
  return entry->second;
}
