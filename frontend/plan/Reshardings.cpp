#include "frontend/plan/Reshardings.h"

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/Quantities.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

using namespace meshc;
using namespace meshc::plan;

static bool isResharding(const exec::CauseT &cause) {
  if (cause.written)
    return false;
  switch (cause.kind) {
  case exec::CauseKind::contraction:
  case exec::CauseKind::reduction:
  case exec::CauseKind::window:
    return false;
  case exec::CauseKind::constraint:
  case exec::CauseKind::conflict:
  case exec::CauseKind::rule:
  case exec::CauseKind::no_rule:
    return true;
  }
  std::abort();
}

/// Whether nothing else asks for the collective.
static bool isResharding(const exec::CollectiveT &collective) {
  return std::all_of(collective.causes.begin(), collective.causes.end(),
                     [](const auto &cause) { return isResharding(*cause); });
}

static std::string describe(const Plan &plan, const PlannedCommand &planned) {
  const exec::CollectiveT &collective = *planned.collective;
  std::string text =
      fmt::format("{} {} over {} of {}", planned.id, getName(collective.kind),
                  layout::toString(plan.mesh, getAxes(collective.axes)),
                  formatBytes(collective.payload_bytes));
  if (planned.tensor >= 0)
    text += fmt::format(" for \"{}\"", plan.getName(planned.tensor));
  if (!collective.causes.empty()) {
    const exec::CauseT &cause = *collective.causes.front();
    text += fmt::format(", which lies {} and is needed {}: {}", cause.had,
                        cause.needed, cause.rule);
  }
  return text;
}

std::vector<InsertedResharding> plan::findReshardings(const Plan &plan,
                                                      int64_t bytes) {
  const EqualScopes scopes(plan);
  std::map<int, size_t> places; // by the first that is alike
  std::vector<InsertedResharding> found;
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const PlannedCommand &planned = plan.commands[index];
    if (!planned.collective || planned.collective->payload_bytes <= bytes ||
        !isResharding(*planned.collective))
      continue;
    const auto [place, isFirst] =
        places.try_emplace(scopes.commandFolds[index], found.size());
    if (!isFirst) {
      ++found[place->second].count;
      continue;
    }
    InsertedResharding &resharding = found.emplace_back();
    resharding.collective = &planned;
    resharding.text = describe(plan, planned);
    const auto &causes = planned.collective->causes;
    if (!causes.empty() && !causes.front()->spans.empty())
      resharding.span = &causes.front()->spans.front();
  }
  for (InsertedResharding &resharding : found)
    if (resharding.count > 1)
      resharding.text += fmt::format("; {} times", resharding.count);
  return found;
}
