#include "frontend/plan/kinds/PlannedKind.h"

using namespace meshc;
using namespace meshc::plan;

/// In programs for GPUs puts are kernels.
static void addGpuUse(const PlannedCommand &, GpuUse &) {}

const PlannedKind plan::plannedPut = {.description = "a sum by index",
                                      .findPrice = findKernelPrice,
                                      .addGpuUse = addGpuUse};
