#include "frontend/plan/Explain.h"

#include "frontend/plan/Plan.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/SourceQuote.h"
#include "layout/LayoutRules.h"
#include "layout/Sharding.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

namespace {
class Explainer {
public:
  Explainer(const exec::ExecutableT &executable, const ReadSource &readSource)
      : plan(executable), executable(executable),
        source(executable, readSource) {}

  std::string explainCollective(const PlannedCommand &planned);
  std::string explainTensor(int tensor);
  const PlannedCommand *findCollective(std::string_view id) const;
  /// The tensors that `id` names: one by its id, or all of one name.
  std::vector<int> findTensors(std::string_view id) const;
  std::string getUnknownMessage(std::string_view id) const;

private:
  std::string getSummary(const PlannedCommand &planned) const;
  std::string explainCause(const exec::CauseT &cause);
  std::string explainAlternative(const exec::AlternativeT &alternative) const;

  Plan plan;
  const exec::ExecutableT &executable;
  SourceQuote source;
};
} // namespace

const PlannedCommand *Explainer::findCollective(std::string_view id) const {
  for (const PlannedCommand &planned : plan.commands)
    if (planned.getCollective() && planned.id == id)
      return &planned;
  return nullptr;
}

std::vector<int> Explainer::findTensors(std::string_view id) const {
  std::vector<int> found;
  for (int tensor = 0; tensor < int(executable.tensors.size()); ++tensor) {
    if (Plan::getTensorId(tensor) == id)
      return {tensor};
    if (plan.getTensor(tensor).name == id)
      found.push_back(tensor);
  }
  return found;
}

std::string Explainer::getUnknownMessage(std::string_view id) const {
  std::vector<std::string> known;
  for (const PlannedCommand &planned : plan.commands)
    if (planned.getCollective())
      known.push_back(planned.id);
  size_t collectives = known.size();
  for (const auto &tensor : executable.tensors)
    known.push_back(tensor->name);
  std::string message =
      fmt::format("the plan has no collective or value '{}'", id);
  std::string nearest = layout::findNearest(id, known);
  if (!nearest.empty())
    return fmt::format("{}; did you mean '{}'?", message, nearest);
  if (collectives > 0)
    return fmt::format("{}; its collectives are {} to {}", message,
                       known.front(), known[collectives - 1]);
  return message + "; it has no collectives";
}

//===-- Collectives -------------------------------------------------------===//

/// "c3: all_reduce over model (2 devices), forward, once per step".
std::string Explainer::getSummary(const PlannedCommand &planned) const {
  const exec::CollectiveT &collective = *planned.getCollective();
  std::string axes = layout::toString(plan.mesh, getAxes(collective.axes));
  return fmt::format("{}: {} over {} in groups of {}, {} pass", planned.id,
                     getName(collective.kind), axes,
                     formatCount(collective.group_size, "device"),
                     getName(planned.command->phase));
}

std::string
Explainer::explainAlternative(const exec::AlternativeT &alternative) const {
  return fmt::format("  The best alternative was {}: {:.1f} us instead of "
                     "{:.1f} us under the cost model.\n",
                     alternative.description, alternative.cost_us,
                     alternative.chosen_cost_us);
}

/// "'loss'"; "an inner einsum" for an operation without a name in the spec.
static std::string describeValue(std::string_view name) {
  constexpr std::string_view dialect = "nd.";
  if (name.starts_with(dialect))
    return fmt::format("an inner {}", name.substr(dialect.size()));
  return fmt::format("'{}'", name);
}

std::string Explainer::explainCause(const exec::CauseT &cause) {
  std::string text =
      fmt::format("  The reader, {}, needs {} as {}; it is computed as {}.\n",
                  describeValue(cause.consumer), describeValue(cause.operand),
                  cause.needed, cause.had);
  text += fmt::format("  Rule: {}.\n", cause.rule);
  if (cause.alternative)
    text += explainAlternative(*cause.alternative);
  std::string quotes;
  for (const exec::Span &span : cause.spans)
    quotes += source.quote(span);
  if (!quotes.empty())
    text += "  The lines of the spec that lead to it:\n\n" + quotes;
  return text;
}

std::string Explainer::explainCollective(const PlannedCommand &planned) {
  const exec::CollectiveT &collective = *planned.getCollective();
  std::string text = getSummary(planned) + "\n";
  if (planned.tensor >= 0)
    text += fmt::format("  It is part of '{}': {} before, {} after.\n",
                        plan.getTensor(planned.tensor).name,
                        getSharding(plan.mesh, *collective.source),
                        getSharding(plan.mesh, *collective.target));
  text += fmt::format("  Each device brings in {} ({}) and sends {}.\n",
                      formatCount(collective.payload_elements, "element"),
                      formatBytes(collective.payload_bytes),
                      formatBytes(collective.wire_bytes));
  size_t number = 0;
  for (const auto &cause : collective.causes) {
    text += collective.causes.size() > 1
                ? fmt::format("\nreason {} of {}\n", ++number,
                              collective.causes.size())
                : "\n";
    text += explainCause(*cause);
  }
  if (collective.causes.empty())
    text += "\n  The compiler recorded no reason for it; that is a defect.\n";
  return text;
}

//===-- Values ------------------------------------------------------------===//

std::string Explainer::explainTensor(int tensor) {
  const exec::TensorT &value = plan.getTensor(tensor);
  std::vector<std::string> global, local;
  for (const auto &dim : value.layout->dims) {
    global.push_back(fmt::format("{} {}", dim->name, dim->size));
    local.push_back(fmt::format("{} {}", dim->name, getLocalSize(*dim)));
  }
  std::string text = fmt::format(
      "'{}': {}, {} [{}], {}\n", value.name,
      exec::EnumNameBufferRole(value.role), getName(value.layout->element),
      fmt::join(global, ", "), formatBytes(value.bytes_global));
  text +=
      fmt::format("  Each device holds [{}], {}; layout {}.\n",
                  fmt::join(local, ", "), formatBytes(value.bytes_per_device),
                  getSharding(plan.mesh, *value.layout));
  for (const auto &dim : value.layout->dims)
    for (const auto &named : executable.dims)
      if (named->name == dim->name && !dim->axes.empty() && named->span)
        text += fmt::format("\n  '{}' is split over {}:\n{}", dim->name,
                            layout::toString(plan.mesh, getAxes(dim->axes)),
                            source.quote(*named->span));
  if (value.span && value.span->file() >= 0)
    text += "\n  It comes from:\n" + source.quote(*value.span);

  bool communicates = false;
  for (const PlannedCommand &planned : plan.commands) {
    if (!planned.getCollective() || planned.tensor != tensor)
      continue;
    communicates = true;
    text += "\n" + explainCollective(planned);
  }
  return communicates ? text : text + "\n  It needs no communication.\n";
}

std::optional<std::string> plan::explain(const exec::ExecutableT &executable,
                                         std::string_view id,
                                         const ReadSource &readSource,
                                         std::string &message) {
  Explainer explainer(executable, readSource);
  if (const PlannedCommand *planned = explainer.findCollective(id))
    return explainer.explainCollective(*planned);
  std::string text;
  for (int tensor : explainer.findTensors(id))
    text += (text.empty() ? "" : "\n") + explainer.explainTensor(tensor);
  if (!text.empty())
    return text;
  message = explainer.getUnknownMessage(id);
  return std::nullopt;
}
