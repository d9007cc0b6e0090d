#ifndef MESHC_FRONTEND_PLAN_TEXT_VERDICT_H
#define MESHC_FRONTEND_PLAN_TEXT_VERDICT_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/GpuUse.h"
#include "frontend/plan/Overlap.h"
#include "layout/Machine.h"

#include <optional>
#include <string>

namespace meshc::plan {

/// "fits: 6.84 MiB of 80 GiB on each device", or by how much it does not.
std::string describeFit(const Plan &plan, const GpuUse &gpu, int64_t limit);

/// Whether the plan fits on a machine, how long a step takes there and what
/// bounds it, with the `top` largest costs and their lines; ends in a newline.
/// The plan is for what the machine has. Without a limit to its memory nothing
/// is said of it. `limit` takes the place of the machine's memory.
std::string renderVerdict(const Plan &plan, const EqualScopes &scopes,
                          const std::vector<Transfer> &transfers,
                          const GpuUse &gpu, const layout::Machine &machine,
                          size_t top,
                          std::optional<int64_t> limit = std::nullopt);

} // namespace meshc::plan

#endif
