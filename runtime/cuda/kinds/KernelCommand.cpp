#include "runtime/cuda/kinds/GpuCommand.h"

#include <vector>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

namespace {
class KernelCommand : public GpuCommand {
public:
  struct Launch {
    KernelHandle kernel;
    unsigned grid, block, sharedBytes;
  };

  KernelCommand(const exec::CommandT &command, std::vector<Launch> launches)
      : command(command), launches(std::move(launches)) {}

  Status build(GpuSession &session) override {
    for (const LogicalDevice &device : session.devices) {
      for (const auto &operand : command.operands)
        parameters.push_back(session.getAddress(device, *operand));
      for (int64_t coordinate :
           session.executable->mesh.getCoordinates(device.number))
        parameters.push_back(uint64_t(coordinate));
    }
    for (uint64_t &parameter : parameters)
      parameterPointers.push_back(&parameter);
    numParameters = parameters.size() / session.devices.size();
    return Status::success();
  }

  bool isIssued() const override { return !launches.empty(); }

  Status issue(GpuSession &session, size_t device,
               Stream stream) const override {
    void *const *own = parameterPointers.data() + device * numParameters;
    for (const Launch &launch : launches)
      MESHC_RETURN_IF_ERROR(session.gpu->getDriver().launchKernel(
          launch.kernel, launch.grid, 1, 1, launch.block, 1, 1,
          launch.sharedBytes, stream, const_cast<void **>(own), nullptr));
    return Status::success();
  }

private:
  const exec::CommandT &command;
  std::vector<Launch> launches;
  std::vector<uint64_t> parameters; ///< of all devices
  std::vector<void *> parameterPointers;
  size_t numParameters = 0;
};
} // namespace

PreparedGpuCommand cuda::prepareKernel(const GpuPreparation &preparation) {
  const auto &[session, program, command] = preparation;
  if (session.use)
    if (auto entry =
            session.use->find(session.executable->data, program, command);
        !entry)
      return entry.getError();
  const exec::KernelT &kernel = *command.action.AsKernel();
  std::vector<KernelCommand::Launch> launches;
  if (kernel.extent > 0)
    for (const auto &launch : kernel.launches) {
      Result<KernelHandle> handle =
          session.gpu->getKernel(launch->symbol, launch->shared_bytes);
      if (!handle)
        return session.locate(handle.getError(), program, command);
      launches.push_back({*handle, unsigned(launch->grid),
                          unsigned(launch->block),
                          unsigned(launch->shared_bytes)});
    }
  return std::unique_ptr<GpuCommand>(
      std::make_unique<KernelCommand>(command, std::move(launches)));
}
