#include "frontend/plan/kinds/PlannedKind.h"

using namespace meshc;
using namespace meshc::plan;

static void addGpuUse(const PlannedCommand &planned, GpuUse &use) {
  use.copies += planned.repeats;
}

const PlannedKind plan::plannedCopy = {.description = "a copy",
                                       .findPrice = findKernelPrice,
                                       .addGpuUse = addGpuUse};
