#include "frontend/plan/kinds/PlannedKind.h"

using namespace meshc;
using namespace meshc::plan;

/// Programs for GPUs have none.
static void addGpuUse(const PlannedCommand &, GpuUse &) {}

const PlannedKind plan::plannedPut = {.description = "a sum by index",
                                      .findPrice = findKernelPrice,
                                      .addGpuUse = addGpuUse};
