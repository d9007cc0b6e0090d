#include "frontend/plan/GpuUse.h"

#include "frontend/plan/kinds/PlannedKind.h"
#include "runtime/plans/GpuMemory.h"

using namespace meshc;
using namespace meshc::plan;

bool plan::isGpuPlan(const Plan &plan) {
  return plan.executable.target == exec::Target::cuda;
}

/// The memory of the GPU that needs most, of as many as the mesh has devices.
static runtime::Result<runtime::cuda::GpuMemoryPlan>
planLargestMemory(const Plan &plan) {
  runtime::cuda::GpuMemoryPlanner planner(plan.executable, plan.mesh);
  const int64_t devices = plan.mesh.getNumDevices();
  std::optional<runtime::cuda::GpuMemoryPlan> largest;
  for (int64_t device = 0; device < devices; ++device) {
    runtime::Result<runtime::cuda::GpuMemoryPlan> planned =
        planner.plan({device, 1, devices > 1});
    if (!planned)
      return planned.getError();
    if (!largest || planned->bytes > largest->bytes)
      largest = std::move(*planned);
  }
  return std::move(*largest);
}

GpuUse::GpuUse(const Plan &plan) {
  if (!isGpuPlan(plan))
    return;
  if (auto planned = planLargestMemory(plan)) {
    memory = runtime::cuda::getMemoryNeed(*planned, plan.executable);
  } else {
    memory = runtime::cuda::getArenaNeed(plan.executable);
    refusedMoves.push_back(planned.getError().message);
  }
  for (const PlannedCommand &planned : plan.commands)
    getPlannedKind(*planned.command).addGpuUse(planned, *this);
}
