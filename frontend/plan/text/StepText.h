#ifndef MESHC_FRONTEND_PLAN_TEXT_STEPTEXT_H
#define MESHC_FRONTEND_PLAN_TEXT_STEPTEXT_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/GpuUse.h"
#include "frontend/plan/Overlap.h"
#include "frontend/plan/Plan.h"
#include "frontend/plan/text/PlanText.h"

#include <optional>
#include <string>

namespace meshc::plan {

/// What a device does in a step: commands, launches on a GPU, collectives by
/// axes.
std::string renderTotals(const Plan &plan, const GpuUse &gpu);

/// What is computed again in the backward phase, by scopes; empty without any.
std::string renderRecomputed(const exec::ExecutableT &executable);

/// The first `top` lines of transfers, with what is computed meanwhile; empty
/// without any. Those that have nothing beside them are told together. By bytes
/// the largest are first, by what is sent those that send most, else they have
/// the order in which they start.
std::string renderOverlap(const Plan &plan, const EqualScopes &scopes,
                          const std::vector<Transfer> &transfers,
                          RowOrder order, size_t top);

/// The memory of a device at the peak by category, and the `top` largest values
/// there.
std::string renderMemory(const Plan &plan, const GpuUse &gpu, size_t top);

/// The devices that are not used, in lines of `width` columns; empty without
/// any.
std::string renderWaste(const Plan &plan, size_t width);

/// What was not written (Remarks.h), of it the `top` largest, in lines of
/// `width` columns.
std::string renderRemarks(const Plan &plan, const EqualScopes &scopes,
                          size_t width, std::optional<size_t> top);

} // namespace meshc::plan

#endif
