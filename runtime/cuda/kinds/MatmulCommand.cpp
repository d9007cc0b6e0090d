#include "runtime/cuda/kinds/GpuCommand.h"

#include "runtime/exec/MatmulOperands.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

namespace {
class MatmulCommand : public GpuCommand {
public:
  MatmulCommand(const exec::ProgramT &program, const exec::CommandT &command,
                MatmulPlan plan)
      : program(program), command(command), plan(std::move(plan)) {}

  /// All products of a device share a workspace.
  std::optional<exec::Queue> getQueue() const override {
    return exec::Queue::compute;
  }

  Status build(GpuSession &session) override {
    if (plan.calls.empty())
      return Status::success();
    if (plan.hasTables)
      for (size_t i = 0; i < session.devices.size(); ++i)
        tables.push_back(session.productTables.reserve(getTableBytes(plan)));
    // Arenas are aligned alike, so the first device stands for all.
    Result<MatmulCall *> prepared =
        session.products->prepare(plan, getPointers(session, 0));
    if (!prepared && prepared.getError().code == ErrorCode::UnsupportedOnGpu) {
      session.unsupported.add(
          prepared.getError().message,
          session.locate(prepared.getError(), program, command));
      return Status::success();
    }
    if (!prepared)
      return prepared.getError();
    product = *prepared;
    if (plan.hasTables)
      for (size_t i = 0; i < session.devices.size(); ++i)
        session.productTables.set(
            tables[i], MatmulCalls::makeTables(plan, getPointers(session, i)));
    return Status::success();
  }

  bool isIssued() const override { return product != nullptr; }

  Status issue(GpuSession &session, size_t number,
               Stream stream) const override {
    if (!product)
      return Status::success();
    return session.products->run(plan, *product, getPointers(session, number),
                                 session.devices[number].matmulWorkspace,
                                 stream);
  }

private:
  MatmulPointers getPointers(const GpuSession &session, size_t number) const {
    const LogicalDevice &device = session.devices[number];
    const auto &operands = command.operands;
    const MatmulOperandOrder order =
        getOperandOrder(*command.action.AsMatmul());
    auto get = [&](int position) {
      return position < 0
                 ? 0
                 : session.getAddress(device, *operands[size_t(position)]);
    };
    return {get(0),
            get(1),
            get(order.c),
            get(std::max(order.bias, order.sums)),
            get(order.aux),
            get(order.addend),
            tables.empty() ? 0 : tables[number]};
  }

  const exec::ProgramT &program;
  const exec::CommandT &command;
  MatmulPlan plan;
  std::vector<DevicePointer> tables; ///< by device, where the plan has some
  MatmulCall *product = nullptr;
};
} // namespace

PreparedGpuCommand cuda::prepareMatmul(const GpuPreparation &preparation) {
  const auto &[session, program, command] = preparation;
  Result<MatmulPlan> plan = planMatmul(command);
  if (!plan)
    session.unsupported.add(plan.getError().message,
                            session.locate(plan.getError(), program, command));
  if (!session.products) {
    Result<std::unique_ptr<MatmulCalls>> products =
        MatmulCalls::create(session.gpu->getDriver());
    if (!products)
      return products.getError();
    session.products = std::move(*products);
  }
  return std::unique_ptr<GpuCommand>(std::make_unique<MatmulCommand>(
      program, command, plan ? std::move(*plan) : MatmulPlan()));
}
