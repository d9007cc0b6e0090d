#ifndef MESHC_FRONTEND_PLAN_TEXT_COMPARISONTEXT_H
#define MESHC_FRONTEND_PLAN_TEXT_COMPARISONTEXT_H

#include "frontend/plan/json/PlanCompare.h"

namespace meshc::plan {

/// The comparison for reading, ends in a newline: a table of what differs with
/// a column for each plan, then values and collectives. What takes more than
/// `width` columns is wrapped; a table with too many columns is several.
/// Requires: width >= 40.
std::string renderComparisonText(const PlanComparison &comparison,
                                 size_t width);

} // namespace meshc::plan

#endif
