#ifndef MESHC_FRONTEND_PLAN_JSON_PLANDIFF_H
#define MESHC_FRONTEND_PLAN_JSON_PLANDIFF_H

#include <optional>
#include <string>
#include <string_view>

namespace meshc::plan {

/// How `fresh` differs from `stored`, both as renderPlanJson() writes them:
/// mesh, layout, memory, what is computed and sent, how values are split, and
/// which messages there are; each value and message of calls that are alike
/// once. Lines that begin with two spaces; empty if there is no difference:
/// where things stand in the spec does not count, nor the order of commands.
/// Nothing, with the reason in `error`, if `stored` is not a plan of this
/// version.
std::optional<std::string>
diffPlans(std::string_view stored, std::string_view fresh, std::string &error);

} // namespace meshc::plan

#endif
