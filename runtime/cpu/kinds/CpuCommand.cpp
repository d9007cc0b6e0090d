#include "runtime/cpu/kinds/CpuCommand.h"

#include <iterator>

using namespace meshc;
using namespace meshc::runtime;

PreparedCpuCommand
runtime::prepareCpuCommand(const exec::CommandT &command,
                           const CpuPreparation &preparation) {
  using Prepare =
      PreparedCpuCommand (*)(const exec::CommandT &, const CpuPreparation &);
  // In the order of the schema.
  static constexpr Prepare kinds[] = {
      nullptr, // checkExecutable refuses a command without action
      prepareKernel, prepareMatmul,
      nullptr, // collectives
      prepareCopy,   prepareConvolution, preparePut};
  static_assert(std::size(kinds) == size_t(exec::Action::MAX) + 1);
  const Prepare prepare = kinds[size_t(command.action.type)];
  return prepare ? prepare(command, preparation)
                 : PreparedCpuCommand(std::unique_ptr<CpuCommand>());
}
