#include "frontend/plan/kinds/PlannedKind.h"

using namespace meshc;
using namespace meshc::plan;

static std::optional<layout::Machine::Price>
findPrice(const exec::CommandT &command, const layout::Machine &machine) {
  if (std::optional<layout::MatmulType> type = findMatmulType(command))
    return machine.findConvolutionPrice(*type, double(command.flops),
                                        double(command.bytes));
  return findKernelPrice(command, machine);
}

/// Programs for GPUs have none.
static void addGpuUse(const PlannedCommand &, GpuUse &) {}

const PlannedKind plan::plannedConvolution = {.description =
                                                  "a library convolution",
                                              .flopsName = "convolutions",
                                              .findPrice = findPrice,
                                              .addGpuUse = addGpuUse};
