#include "runtime/cuda/kinds/GpuCommand.h"

#include "runtime/plans/CopyPlan.h"

#include <vector>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

namespace {
class CopyCommand : public GpuCommand {
public:
  explicit CopyCommand(const exec::CommandT &command)
      : command(command), plan(planCopy(command)) {}

  Status build(GpuSession &session) override {
    if (plan.form != CopyForm::Boxes)
      return Status::success();
    for (const LogicalDevice &device : session.devices) {
      const MoveList::Box box =
          getCopyBox(command, session.getAddress(device, getSource()),
                     session.getAddress(device, getTarget()));
      Result<MoveLaunch> launch = session.moves->add(
          exec::ReduceKind::none, getSource().element, {&box, 1});
      if (!launch)
        return launch.getError();
      boxes.push_back(*launch);
    }
    return Status::success();
  }

  bool isIssued() const override { return plan.form != CopyForm::Nothing; }

  Status issue(GpuSession &session, size_t number,
               Stream stream) const override {
    const Driver &driver = session.gpu->getDriver();
    const LogicalDevice &device = session.devices[number];
    const DevicePointer from = session.getAddress(device, getSource());
    const DevicePointer to = session.getAddress(device, getTarget());
    switch (plan.form) {
    case CopyForm::Nothing:
      return Status::success();
    case CopyForm::Linear:
      return driver.memcpyDtoDAsync(to, from, plan.widthBytes, stream);
    case CopyForm::Rows: {
      Copy2D copy{};
      copy.fromMemoryType = copy.toMemoryType = memoryTypeDevice;
      copy.fromDevice = from;
      copy.fromPitch = plan.fromPitch;
      copy.toDevice = to;
      copy.toPitch = plan.toPitch;
      copy.widthBytes = plan.widthBytes;
      copy.height = plan.height;
      return driver.memcpy2DAsync(&copy, stream);
    }
    case CopyForm::Boxes:
      return session.moves->launch(boxes[number], stream);
    }
    __builtin_unreachable();
  }

private:
  const exec::OperandT &getSource() const { return *command.operands[0]; }
  const exec::OperandT &getTarget() const { return *command.operands[1]; }

  const exec::CommandT &command;
  CopyPlan plan;
  std::vector<MoveLaunch> boxes; ///< per device
};
} // namespace

PreparedGpuCommand cuda::prepareCopy(const GpuPreparation &preparation) {
  return std::unique_ptr<GpuCommand>(
      std::make_unique<CopyCommand>(preparation.command));
}
