#include "runtime/cuda/kinds/GpuCommand.h"

#include <iterator>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

PreparedGpuCommand cuda::prepareGpuCommand(const GpuPreparation &preparation) {
  using Prepare = PreparedGpuCommand (*)(const GpuPreparation &);
  // In the order of the schema.
  static constexpr Prepare kinds[] = {
      nullptr, // checkExecutable refuses a command without action
      prepareKernel, prepareMatmul,
      nullptr, // collectives
      prepareCopy,
      // checkExecutable refuses convolutions and puts on GPUs.
      nullptr, nullptr};
  static_assert(std::size(kinds) == size_t(exec::Action::MAX) + 1);
  const Prepare prepare = kinds[size_t(preparation.command.action.type)];
  return prepare ? prepare(preparation)
                 : PreparedGpuCommand(std::unique_ptr<GpuCommand>());
}
