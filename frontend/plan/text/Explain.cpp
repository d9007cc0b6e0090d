#include "frontend/plan/text/Explain.h"

#include "frontend/plan/GpuUse.h"
#include "frontend/plan/Overlap.h"
#include "frontend/plan/Plan.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/kinds/PlannedKind.h"
#include "frontend/plan/text/SourceQuote.h"
#include "layout/Sharding.h"
#include "runtime/exec/Origins.h"
#include "runtime/io/FilePattern.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

static const char *describePhase(exec::Phase phase) {
  switch (phase) {
  case exec::Phase::forward:
    return "forward pass";
  case exec::Phase::backward:
    return "backward pass";
  case exec::Phase::update:
    return "update of the parameters";
  }
  std::abort();
}

namespace {
/// Why a value has to be in another form than it is computed in, for all who
/// read it in that form.
struct Reason {
  std::string operand, needed, had; ///< the first as describeCaused() has it
  std::vector<std::string> readers, rules;
  std::vector<const exec::AlternativeT *> alternatives;
  std::vector<exec::Span> spans;
};

class Explainer {
public:
  Explainer(const exec::ExecutableT &executable, const ReadSource &readSource)
      : plan(executable), executable(executable),
        source(executable, readSource) {}

  std::string explainCollective(const PlannedCommand &planned);
  std::string explainOp(const PlannedCommand &planned);
  std::string explainTensor(int tensor);
  const PlannedCommand *findCommand(std::string_view id) const;
  const Plan &getPlan() const { return plan; }

private:
  std::string getSummary(const PlannedCommand &planned) const;
  /// "'h'", "the values inside 'h'", or the id of a command.
  std::string describe(const ValueSource &source) const;
  std::string describeAll(const std::vector<ValueSource> &sources) const;
  std::string explainSplits(int tensor);
  std::string quoteRule(size_t rule);
  std::string explainPartial(int tensor) const;
  std::string explainTransfer(const PlannedCommand &planned) const;
  std::string explainUse(int tensor) const;
  std::string explainData(const exec::TensorT &value) const;
  std::vector<Reason> findReasons(const exec::CollectiveT &collective) const;
  std::string explainReason(const Reason &reason);
  std::string explainAlternative(const exec::AlternativeT &alternative) const;

  Plan plan;
  const exec::ExecutableT &executable;
  SourceQuote source;
};
} // namespace

const PlannedCommand *Explainer::findCommand(std::string_view id) const {
  for (const PlannedCommand &planned : plan.commands)
    if (planned.id == id)
      return &planned;
  return nullptr;
}

std::string Explainer::getSummary(const PlannedCommand &planned) const {
  const exec::CollectiveT &collective = *planned.collective;
  std::string axes = layout::toString(plan.mesh, getAxes(collective.axes));
  return fmt::format("{}: {} over {} in groups of {}, {}", planned.id,
                     getName(collective.kind), axes,
                     formatCount(collective.group_size, "device"),
                     describePhase(planned.command->phase));
}

/// Nothing where the reader could not tell the two times apart.
std::string
Explainer::explainAlternative(const exec::AlternativeT &alternative) const {
  const std::string &machine = plan.executable.mesh->machine;
  const std::string cost = fmt::format("{:.1f}", alternative.cost_us);
  const std::string chosen = fmt::format("{:.1f}", alternative.chosen_cost_us);
  if (cost == chosen)
    return {};
  return fmt::format(
      "  The best alternative was {}: {} us instead of {} us {}.\n",
      alternative.description, cost, chosen,
      machine.empty() ? "under the cost model" : "predicted for " + machine);
}

/// What a cause names: "'loss'"; "the einsum inside 'loss'"; "an inner einsum"
/// for an operation without a name in the spec.
static std::string describeCaused(std::string_view name,
                                  std::string_view operation) {
  if (operation.empty())
    return fmt::format("'{}'", name);
  return name.empty() ? fmt::format("an inner {}", operation)
                      : fmt::format("the {} inside '{}'", operation, name);
}

/// "a", "a and b", "a, b and c".
static std::string joinAll(const std::vector<std::string> &parts) {
  if (parts.size() < 2)
    return parts.empty() ? "" : parts.front();
  return fmt::format("{} and {}",
                     fmt::join(parts.begin(), parts.end() - 1, ", "),
                     parts.back());
}

/// Adds what is not there yet.
template <typename T> static void addOnce(std::vector<T> &all, const T &one) {
  if (std::find(all.begin(), all.end(), one) == all.end())
    all.push_back(one);
}

/// Every reader of a value has a cause of its own: those that need it in one
/// form are one reason.
std::vector<Reason>
Explainer::findReasons(const exec::CollectiveT &collective) const {
  std::vector<Reason> reasons;
  for (const auto &cause : collective.causes) {
    const std::string operand =
        describeCaused(runtime::getOriginName(executable, cause->operand.get()),
                       cause->operand_operation);
    auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const Reason &reason) {
          return reason.operand == operand && reason.needed == cause->needed &&
                 reason.had == cause->had;
        });
    if (known == reasons.end())
      known = reasons.insert(
          known, {operand, cause->needed, cause->had, {}, {}, {}, {}});
    addOnce(known->readers,
            describeCaused(
                runtime::getOriginName(executable, cause->consumer.get()),
                cause->consumer_operation));
    addOnce(known->rules, cause->rule);
    if (cause->alternative)
      known->alternatives.push_back(cause->alternative.get());
    for (const exec::Span &span : cause->spans)
      known->spans.push_back(span);
  }
  return reasons;
}

std::string Explainer::explainReason(const Reason &reason) {
  // An operation within the value itself says nothing beside others.
  std::vector<std::string> readers = reason.readers;
  if (readers.size() > 1)
    std::erase(readers, reason.operand);
  std::string text =
      fmt::format("  It is there because {} {} {} as {}, which is computed as "
                  "{}.\n",
                  joinAll(readers), readers.size() == 1 ? "needs" : "need",
                  reason.operand, reason.needed, reason.had);
  for (const std::string &rule : reason.rules)
    text += fmt::format("  Rule: {}.\n", rule);
  std::vector<std::string> alternatives;
  for (const exec::AlternativeT *alternative : reason.alternatives)
    addOnce(alternatives, explainAlternative(*alternative));
  for (const std::string &alternative : alternatives)
    text += alternative;
  std::vector<std::string> quotes;
  for (const exec::Span &span : reason.spans)
    addOnce(quotes, source.quote(span));
  std::erase(quotes, "");
  if (!quotes.empty())
    text += fmt::format("  The lines of the spec that lead to it:\n\n{}",
                        fmt::join(quotes, ""));
  return text;
}

/// With what the collective goes together, and what is computed meanwhile.
std::string Explainer::explainTransfer(const PlannedCommand &planned) const {
  for (const Transfer &transfer : findTransfers(plan)) {
    std::vector<std::string> others;
    bool isIn = false;
    for (int member : transfer.collectives) {
      const PlannedCommand &other = plan.commands[size_t(member)];
      if (&other == &planned)
        isIn = true;
      else
        others.push_back(other.id);
    }
    if (!isIn)
      continue;
    std::string text;
    if (!others.empty())
      text = fmt::format("  It goes in one transfer with {}: {} in all.\n",
                         fmt::join(others, ", "),
                         formatBytes(transfer.payloadBytes));
    std::string waits = "nothing in the program waits for it";
    if (transfer.reader >= 0) {
      const PlannedCommand &reader = plan.commands[size_t(transfer.reader)];
      const std::string &name = reader.command->name;
      waits =
          reader.id + (name.empty() ? "" : " (" + name + ")") + " waits for it";
    }
    if (transfer.beside.empty())
      return text + fmt::format("  Nothing is computed while it is under way: "
                                "{}.\n",
                                waits);
    auto getId = [&](int index) { return plan.commands[size_t(index)].id; };
    std::string range = getId(transfer.beside.front());
    if (transfer.beside.size() > 1)
      range += " to " + getId(transfer.beside.back());
    return text +
           fmt::format("  While it is under way {} compute {} ({}, {} read "
                       "and written), {}; then {}.\n",
                       isGpuPlan(plan) ? "GPUs" : "CPU devices",
                       describeBeside(transfer), formatFlops(transfer.flops),
                       formatBytes(transfer.bytes), range, waits);
  }
  return "";
}

std::string Explainer::explainCollective(const PlannedCommand &planned) {
  const exec::CollectiveT &collective = *planned.collective;
  std::string text = getSummary(planned) + "\n";
  if (planned.tensor >= 0)
    text += fmt::format("  It belongs to {}: {} before, {} after.\n",
                        describe({planned.tensor, -1}),
                        getSharding(plan.mesh, *collective.source),
                        getSharding(plan.mesh, *collective.target));
  text += fmt::format("  Each device brings in {} ({}) and sends {}.\n",
                      formatCount(collective.payload_elements, "element"),
                      formatBytes(collective.payload_bytes),
                      formatBytes(collective.wire_bytes));
  text += explainTransfer(planned);
  const std::vector<Reason> reasons = findReasons(collective);
  size_t number = 0;
  for (const Reason &reason : reasons) {
    text += reasons.size() > 1
                ? fmt::format("\nreason {} of {}\n", ++number, reasons.size())
                : "\n";
    text += explainReason(reason);
  }
  if (collective.causes.empty())
    text += "\n  The compiler recorded no reason for it; that is a defect.\n";
  return text;
}

//===-- Values and operations ---------------------------------------------===//

std::string Explainer::describe(const ValueSource &source) const {
  if (source.tensor >= 0)
    return fmt::format("'{}'", plan.getName(source.tensor));
  if (source.command < 0)
    return "an unnamed value";
  const PlannedCommand &writer = plan.commands[size_t(source.command)];
  if (writer.tensor < 0)
    return "the result of " + writer.id;
  return fmt::format("the result of {} inside '{}'", writer.id,
                     plan.getTensor(writer.tensor).name);
}

std::string
Explainer::describeAll(const std::vector<ValueSource> &sources) const {
  std::vector<std::string> parts;
  for (const ValueSource &source : sources) {
    std::string part = describe(source);
    if (std::find(parts.begin(), parts.end(), part) == parts.end())
      parts.push_back(std::move(part));
  }
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

/// The axes but for those of one device, which split nothing.
static std::vector<layout::AxisRef>
getSplitting(const std::vector<exec::AxisRef> &axes) {
  std::vector<layout::AxisRef> splitting = getAxes(axes);
  std::erase_if(splitting,
                [](const layout::AxisRef &axis) { return axis.size == 1; });
  return splitting;
}

/// Which rule, or its absence, gives each dimension its split.
std::string Explainer::explainSplits(int tensor) {
  const exec::TensorT &value = plan.getTensor(tensor);
  std::string text;
  const layout::TensorLayout asked = askLayout(plan, tensor);
  for (size_t d = 0; d < value.layout->dims.size(); ++d) {
    const exec::DimShardingT &dim = *value.layout->dims[d];
    const std::vector<size_t> &rules = asked.rules[d];
    const std::string axes = layout::toString(plan.mesh, getAxes(dim.axes));
    const std::vector<layout::AxisRef> splitting = getSplitting(dim.axes);
    const layout::DimSplit &wanted = asked.sharding.dims[d];
    std::vector<std::string> ruled;
    for (size_t rule : rules)
      for (const std::string &axis : plan.layout.getRules()[rule].axes)
        ruled.push_back(axis);
    const std::string over = ruled.size() == 1
                                 ? ruled.front()
                                 : fmt::format("({})", fmt::join(ruled, ", "));
    const char *these = rules.size() > 1 ? "these rules" : "this rule";
    if (ruled.empty() && dim.axes.empty())
      text += fmt::format("\n  '{}' is whole{}\n", dim.name,
                          rules.empty() ? ": no rule splits it."
                                        : " by this rule:");
    else if (ruled.empty())
      text += fmt::format("\n  '{}' is split over {}, which no rule says: the "
                          "value has a layout of its own.\n",
                          dim.name, axes);
    else if (splitting == wanted && wanted.empty())
      text += fmt::format("\n  '{}' is whole: its rule splits it over {}, {} "
                          "one device:\n",
                          dim.name, over,
                          ruled.size() == 1 ? "an axis of" : "axes of");
    else if (splitting == wanted)
      text += fmt::format("\n  '{}' is split over {} by {}:\n", dim.name, axes,
                          these);
    else
      text += fmt::format(
          "\n  '{}' is {} here, although a rule splits it over {}: an axis "
          "splits one dimension of an operation, or the value has a layout of "
          "its own. The rule:\n",
          dim.name, dim.axes.empty() ? "whole" : "split over " + axes, over);
    for (size_t rule : rules)
      text += quoteRule(rule);
  }
  for (const layout::LostRule &lost : asked.lost)
    text += fmt::format("\n  This rule does not split it: {}.\n{}",
                        explainLost(plan, tensor, asked, lost),
                        quoteRule(lost.rule));
  return text;
}

std::string Explainer::quoteRule(size_t rule) {
  const auto &span = executable.rules[rule]->span;
  return span ? source.quote(*span) : "";
}

std::string Explainer::explainPartial(int tensor) const {
  const exec::TensorLayoutT &layout = *plan.getTensor(tensor).layout;
  if (layout.partial == exec::ReduceKind::none)
    return "";
  std::string axes = layout::toString(plan.mesh, getAxes(layout.partial_axes));
  std::string text = fmt::format("\n  It leaves its operation as a partial {0} "
                                 "over {1}: each device along "
                                 "{1} has the {0} of its own terms.\n",
                                 getName(layout.partial), axes);
  for (const PlannedCommand &planned : plan.commands)
    if (planned.collective && planned.tensor == tensor)
      return text + fmt::format("  {} completes it.\n", planned.id);
  if (layout.dims.empty())
    return text + "  Whoever reads the output completes it.\n";
  return text + "  What is computed from it is completed later.\n";
}

/// Of an input that several files feed, which ones.
std::string Explainer::explainData(const exec::TensorT &value) const {
  auto describe = [](const std::string &name) {
    return fmt::format("{}\"{}\"",
                       runtime::isPattern(name) ? "all files that fit " : "",
                       name);
  };
  for (const auto &data : executable.data) {
    if (value.role != exec::BufferRole::input || data->input != value.name ||
        !(runtime::isPattern(data->train) || runtime::isPattern(data->test)))
      continue;
    std::string text =
        fmt::format("\n  Its samples are those of {}", describe(data->train));
    if (!data->test.empty())
      text +=
          fmt::format(", in an evaluation those of {}", describe(data->test));
    return text + ",\n  file by file in the order of their names.\n";
  }
  return "";
}

/// Which operations make the value and read it.
std::string Explainer::explainUse(int tensor) const {
  std::vector<std::string> makers, readers;
  for (const PlannedCommand &planned : plan.commands) {
    auto isIt = [&](const ValueSource &value) {
      return value.tensor == tensor;
    };
    if (std::any_of(planned.outputs.begin(), planned.outputs.end(), isIt))
      makers.push_back(planned.id);
    if (std::any_of(planned.inputs.begin(), planned.inputs.end(), isIt))
      readers.push_back(planned.id);
  }
  std::string text;
  if (plan.isInTiles(tensor))
    text += fmt::format("\n  It is never there as a whole, but in tiles of {}, "
                        "one at a time.\n",
                        formatBytes(plan.getTileBytes(tensor)));
  if (!makers.empty())
    text += fmt::format("\n  Written by {}", fmt::join(makers, ", "));
  else
    text += fmt::format("\n  {}", readers.empty()
                                      ? "Computed within a fused operation, "
                                        "nothing of it is kept"
                                      : "There when the step begins");
  if (!readers.empty())
    text += fmt::format("; read by {}", fmt::join(readers, ", "));
  return text + ".\n";
}

std::string Explainer::explainTensor(int tensor) {
  const exec::TensorT &value = plan.getTensor(tensor);
  std::vector<std::string> global, local;
  for (size_t i = 0; i < value.layout->dims.size(); ++i) {
    const exec::DimShardingT &dim = *value.layout->dims[i];
    global.push_back(fmt::format("{} {}", dim.name, dim.size));
    local.push_back(
        fmt::format("{} {}", dim.name, getLocalSize(*value.layout, i)));
  }
  auto listDims = [](const std::vector<std::string> &dims) {
    return dims.empty() ? std::string("one number")
                        : fmt::format("[{}]", fmt::join(dims, ", "));
  };
  std::string text = fmt::format(
      "'{}': {}, {} {}, {}\n", plan.getName(tensor),
      exec::EnumNameBufferRole(value.role), getName(value.layout->element),
      listDims(global), formatBytes(value.bytes_global));
  text += fmt::format("  Each device holds {}, {}; layout {}.\n",
                      listDims(local), formatBytes(value.bytes_per_device),
                      getSharding(plan.mesh, *value.layout));
  text += explainSplits(tensor) + explainPartial(tensor);
  if (value.span && value.span->file() >= 0)
    text += "\n  It comes from:\n" + source.quote(*value.span);
  text += explainData(value) + explainUse(tensor);

  bool communicates = false;
  for (const PlannedCommand &planned : plan.commands) {
    if (!planned.collective || planned.tensor != tensor)
      continue;
    communicates = true;
    text += "\n" + explainCollective(planned);
  }
  return communicates ? text : text + "\n  It needs no communication.\n";
}

std::string Explainer::explainOp(const PlannedCommand &planned) {
  const exec::CommandT &command = *planned.command;
  const PlannedKind &kind = getPlannedKind(command);
  std::string text = fmt::format("{}: {}, {}\n", planned.id, kind.description,
                                 describePhase(command.phase));
  std::string computed = describeAll(planned.outputs);
  if (planned.isInside && planned.tensor >= 0 && planned.outputs.size() == 1)
    computed = fmt::format("something inside '{}'",
                           plan.getTensor(planned.tensor).name);
  text += fmt::format("  It computes {} from {}.\n", computed,
                      describeAll(planned.inputs));
  text += fmt::format(
      "  On each device: {}, {} read and written{}.\n",
      formatFlops(command.flops), formatBytes(command.bytes),
      planned.repeats > 1
          ? fmt::format(", {} times, once for each tile", planned.repeats)
          : "");
  if (isGpuPlan(plan) && kind.explainLaunches)
    text += kind.explainLaunches(command);
  if (command.span && command.span->file() >= 0)
    text += "\n  It comes from:\n" + source.quote(*command.span);
  return text;
}

std::string plan::describeSubject(const exec::ExecutableT &executable) {
  Plan plan(executable);
  const std::string &name =
      executable.files.empty() ? executable.model : executable.files.front();
  const bool hasParts = executable.training && executable.training->parts > 1;
  return fmt::format("{} on {}; layout: {}{}{}", name, plan.describeMesh(),
                     plan.describeLayout(), hasParts ? "; " : "",
                     hasParts ? plan.describeProgram() : "");
}

std::optional<std::string> plan::explain(const exec::ExecutableT &executable,
                                         std::string_view id,
                                         const ReadSource &readSource,
                                         std::string &message) {
  Explainer explainer(executable, readSource);
  if (const PlannedCommand *planned = explainer.findCommand(id))
    return planned->collective ? explainer.explainCollective(*planned)
                               : explainer.explainOp(*planned);
  std::string text;
  for (int tensor : explainer.getPlan().findTensors(id))
    text += (text.empty() ? "" : "\n") + explainer.explainTensor(tensor);
  if (!text.empty())
    return text;
  message = explainer.getPlan().getUnknownMessage(id);
  return std::nullopt;
}
