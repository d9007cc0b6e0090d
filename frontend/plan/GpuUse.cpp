#include "frontend/plan/GpuUse.h"

#include "runtime/Cuda/MatmulCalls.h"

using namespace meshc;
using namespace meshc::plan;

bool plan::isGpuPlan(const Plan &plan) {
  return plan.executable.target == exec::Target::cuda;
}

std::optional<int64_t> plan::countCalls(const exec::CommandT &product,
                                        std::string &reason) {
  runtime::Result<runtime::cuda::MatmulPlan> planned =
      runtime::cuda::planMatmul(product);
  if (planned)
    return int64_t(planned->calls.size());
  reason = planned.getError().message;
  return std::nullopt;
}

GpuUse::GpuUse(const Plan &plan) {
  if (!isGpuPlan(plan))
    return;
  for (const auto &program : plan.executable.programs)
    for (const auto &command : program->commands)
      if (command->action.type == exec::Action::Matmul)
        libraryBytes = int64_t(runtime::cuda::matmulWorkspaceBytes);
  for (const PlannedCommand &planned : plan.commands) {
    const exec::CommandT &command = *planned.command;
    if (const exec::KernelT *kernel = command.action.AsKernel()) {
      kernels += int64_t(kernel->launches.size());
    } else if (command.action.type == exec::Action::Matmul) {
      std::string reason;
      if (std::optional<int64_t> calls = countCalls(command, reason))
        products += *calls;
      else
        refused.push_back(planned.id + ": " + reason);
    } else if (planned.collective) {
      // Those of one transfer are one command.
      collectives += planned.collective == command.action.AsCollective();
    } else {
      ++copies;
    }
  }
}
