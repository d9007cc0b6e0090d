#ifndef MESHC_FRONTEND_PLAN_PAGE_PLANPAGE_H
#define MESHC_FRONTEND_PLAN_PAGE_PLANPAGE_H

#include <span>
#include <string>

namespace meshc::plan {

/// The page of plans: one HTML file that fetches nothing and whose policy lets
/// only its own style and script run. `plans` are texts of renderPlanJson():
/// the first is shown, the others are what it is compared with.
std::string renderPlanPage(std::span<const std::string> plans);

} // namespace meshc::plan

#endif
