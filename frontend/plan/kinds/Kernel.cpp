#include "frontend/plan/kinds/PlannedKind.h"

#include "frontend/plan/Quantities.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

static void addGpuUse(const PlannedCommand &planned, GpuUse &use) {
  use.kernels += planned.repeats *
                 int64_t(planned.command->action.AsKernel()->launches.size());
}

static std::string explainLaunches(const exec::CommandT &command) {
  std::string text;
  for (const auto &launch : command.action.AsKernel()->launches)
    text += fmt::format("  It launches {}: {} of {}, {} of shared memory.\n",
                        launch->symbol, formatCount(launch->grid, "block"),
                        formatCount(launch->block, "thread"),
                        formatBytes(launch->shared_bytes));
  return text;
}

const PlannedKind plan::plannedKernel = {.description = "a generated kernel",
                                         .findPrice = findKernelPrice,
                                         .addGpuUse = addGpuUse,
                                         .explainLaunches = explainLaunches};
