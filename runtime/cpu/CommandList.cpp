#include "runtime/cpu/CommandList.h"

using namespace meshc;
using namespace meshc::runtime;

Result<CommandList> runtime::prepareProgram(
    const Executable &executable, const exec::ProgramT &program,
    std::span<const meshcKernelEntry> kernels,
    std::span<std::byte *const> arenas, const Division &division, int workers,
    size_t firstNumber, LibraryPrimitives &library) {
  CommandList list;
  const KernelUse use(kernels);
  const CpuPreparation preparation{executable, program, use, workers, library};
  auto getArenaOffset = [&](const exec::OperandT &operand) {
    return executable.data.buffers[operand.buffer]->offset + operand.offset;
  };

  for (const auto &command : program.commands) {
    PreparedCommand prepared;
    prepared.source = command.get();
    prepared.number = firstNumber + list.commands.size();
    prepared.numOperands = command->operands.size();
    for (std::byte *arena : arenas)
      for (const auto &operand : command->operands)
        prepared.operands.push_back(arena ? arena + getArenaOffset(*operand)
                                          : nullptr);
    PreparedCpuCommand own = prepareCpuCommand(*command, preparation);
    if (!own)
      return own.getError();
    prepared.own = std::move(*own);
    if (command->action.AsCollective()) {
      prepared.collective = Collective::create(
          executable.mesh, Collective::getMembers(executable.data, *command),
          division, list.stagingBytes);
      prepared.firstGroup = list.groups.size();
      for (int64_t i = 0; i < prepared.collective->getNumGroups(); ++i)
        list.groups.push_back({list.commands.size(), i});
    }
    list.commands.push_back(std::move(prepared));
  }
  return list;
}
