#include "frontend/plan/kinds/PlannedKind.h"

using namespace meshc;
using namespace meshc::plan;

static void addGpuUse(const PlannedCommand &planned, GpuUse &use) {
  // A slice is a copy; those of one transfer are one command.
  if (!planned.collective)
    use.copies += planned.repeats;
  else if (planned.collective == planned.command->action.AsCollective())
    use.collectives += planned.repeats;
}

const PlannedKind plan::plannedCollective = {
    .description = "a slice of the own block, nothing is sent",
    .findPrice = findKernelPrice,
    .addGpuUse = addGpuUse};
