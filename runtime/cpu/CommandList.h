#ifndef MESHC_RUNTIME_CPU_COMMANDLIST_H
#define MESHC_RUNTIME_CPU_COMMANDLIST_H

#include "runtime/cpu/LibraryPrimitives.h"
#include "runtime/cpu/kinds/CpuCommand.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelTable.h"
#include "runtime/plans/Collective.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace meshc::runtime {

/// A command with everything looked up, so that executing it reads no tables.
struct PreparedCommand {
  const exec::CommandT *source = nullptr;
  size_t number = 0; ///< among the commands of all programs
  /// operands[device * numOperands + i] is operand i of a device.
  std::vector<void *> operands;
  size_t numOperands = 0;

  /// What every device runs by itself; null for collectives.
  std::unique_ptr<CpuCommand> own;

  std::optional<Collective> collective;
  size_t firstGroup = 0; ///< number of its first group, see CommandList

  void *const *getOperands(int64_t device) const {
    return operands.data() + size_t(device) * numOperands;
  }
};

/// A group of a collective, by its number within the program.
struct CommandGroup {
  size_t command;
  int64_t group; ///< of the collective
};

struct CommandList {
  std::vector<PreparedCommand> commands;
  std::vector<CommandGroup> groups; ///< of all collectives, in order
  uint64_t stagingBytes = 0;        ///< for messages with other processes
};

/// Prepares a program for `workers` threads. `arenas` has the memory of every
/// device, null for those of other processes; `firstNumber` is the number of
/// its first command.
/// Errors: as of prepareCpuCommand.
Result<CommandList>
prepareProgram(const Executable &executable, const exec::ProgramT &program,
               std::span<const meshcKernelEntry> kernels,
               std::span<std::byte *const> arenas, const Division &division,
               int workers, size_t firstNumber, LibraryPrimitives &library);

} // namespace meshc::runtime

#endif
