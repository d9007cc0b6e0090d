#ifndef MESHC_FRONTEND_PLAN_VERDICT_H
#define MESHC_FRONTEND_PLAN_VERDICT_H

#include "frontend/plan/GpuUse.h"
#include "frontend/plan/Overlap.h"
#include "layout/Machine.h"

#include <string>

namespace meshc::plan {

/// Whether the plan fits on a machine and how long a step takes there, with the
/// three largest costs and their lines; ends in a newline. The plan is for
/// GPUs.
std::string renderVerdict(const Plan &plan,
                          const std::vector<Transfer> &transfers,
                          const GpuUse &gpu, const layout::Machine &machine);

} // namespace meshc::plan

#endif
