#ifndef MESHC_FRONTEND_PLAN_TEXT_VERDICT_H
#define MESHC_FRONTEND_PLAN_TEXT_VERDICT_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/GpuUse.h"
#include "frontend/plan/Overlap.h"
#include "frontend/plan/StepTime.h"
#include "layout/Machine.h"

#include <optional>
#include <string>

namespace meshc::plan {

/// What it all comes to, in a line that ends in a newline: "a training step, on
/// each device: 213 Mflop, 805 KiB sent, 4.31 MiB of memory"; with `time`, on a
/// machine, how long it takes, how much of that is waiting, and how fast and
/// how near the machine's peak that is. `limit`: of memory.
std::string renderSummary(const Plan &plan,
                          const std::vector<Transfer> &transfers,
                          const GpuUse &gpu, const StepTime *time,
                          std::optional<int64_t> limit);

/// "fits: 6.84 MiB of 80 GiB on each device", or by how much it does not.
std::string describeFit(const Plan &plan, const GpuUse &gpu, int64_t limit);

/// Whether the plan fits on a machine, how long a step takes there and what
/// bounds it, with the `top` largest costs and their lines; ends in a newline.
/// The plan is for what the machine has. `time`: null where it cannot run all.
/// Without a limit to the memory nothing is said of it.
std::string renderVerdict(const Plan &plan, const EqualScopes &scopes,
                          const std::vector<Transfer> &transfers,
                          const GpuUse &gpu, const layout::Machine &machine,
                          const StepTime *time, size_t top,
                          std::optional<int64_t> limit);

} // namespace meshc::plan

#endif
