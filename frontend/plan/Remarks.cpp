#include "frontend/plan/Remarks.h"

#include "frontend/plan/Quantities.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <numeric>
#include <set>

using namespace meshc;
using namespace meshc::plan;

const char *plan::getName(Remark::Kind kind) {
  switch (kind) {
  case Remark::Kind::Resharding:
    return "resharding";
  case Remark::Kind::Gather:
    return "gather";
  case Remark::Kind::LibraryCopy:
    return "library_copy";
  case Remark::Kind::StoredView:
    return "stored_view";
  case Remark::Kind::Untiled:
    return "untiled";
  case Remark::Kind::Unrolled:
    return "unrolled";
  case Remark::Kind::Replicated:
    return "replicated";
  case Remark::Kind::LostRule:
    return "lost_rule";
  }
  std::abort();
}

namespace {
/// Remarks, of which those that are alike in other calls and iterations are
/// one.
class RemarkList {
public:
  /// `fold` is what stands for all that are alike: of one kind, with a number.
  void add(int fold, size_t number, Remark remark) {
    const auto [place, isFirst] =
        places.try_emplace({fold, number}, remarks.size());
    if (isFirst)
      remarks.push_back(std::move(remark));
    else
      ++remarks[place->second].count;
  }

  std::vector<Remark> take() {
    for (Remark &remark : remarks)
      if (remark.count > 1)
        remark.text += fmt::format("; {} times", remark.count);
    return std::move(remarks);
  }

private:
  std::map<std::pair<int, size_t>, size_t> places;
  std::vector<Remark> remarks;
};
} // namespace

//===-- Reshardings -------------------------------------------------------===//

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

/// What is sent by command `index`, a collective, and for what.
static Remark makeSent(Remark::Kind kind, const Plan &plan, size_t index) {
  const PlannedCommand &planned = plan.commands[index];
  Remark remark{kind};
  remark.bytes = planned.collective->payload_bytes;
  remark.command = int(index);
  remark.tensor = planned.tensor;
  remark.axes = getAxes(planned.collective->axes);
  remark.text = describe(plan, planned);
  const auto &causes = planned.collective->causes;
  if (!causes.empty() && !causes.front()->spans.empty())
    remark.span = &causes.front()->spans.front();
  return remark;
}

std::vector<Remark> plan::findReshardings(const Plan &plan,
                                          const EqualScopes &scopes,
                                          int64_t bytes) {
  RemarkList list;
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const PlannedCommand &planned = plan.commands[index];
    if (!planned.collective || planned.collective->payload_bytes <= bytes ||
        !isResharding(*planned.collective))
      continue;
    Remark remark = makeSent(Remark::Kind::Resharding, plan, index);
    remark.advice =
        "where this is meant, name the value by let and have a rule of the "
        "layout for it, \"name\": dim -> (), or choose a layout that needs "
        "none";
    list.add(scopes.commandFolds[index], 0, std::move(remark));
  }
  return list.take();
}

/// All_gathers that windows alone ask for.
static void addGathers(const Plan &plan, const EqualScopes &scopes,
                       int64_t bytes, std::vector<Remark> &all) {
  RemarkList list;
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const PlannedCommand &planned = plan.commands[index];
    if (!planned.collective || planned.collective->payload_bytes <= bytes ||
        planned.collective->kind != exec::CollectiveKind::all_gather)
      continue;
    const auto &causes = planned.collective->causes;
    if (causes.empty() ||
        !std::all_of(causes.begin(), causes.end(), [](const auto &cause) {
          return cause->kind == exec::CauseKind::window;
        }))
      continue;
    Remark remark = makeSent(Remark::Kind::Gather, plan, index);
    remark.text += ": each device gets all of it, of which it reads a part";
    list.add(scopes.commandFolds[index], 0, std::move(remark));
  }
  for (Remark &remark : list.take())
    all.push_back(std::move(remark));
}

//===-- What commands store -----------------------------------------------===//

/// "o7 stores a copy of x, 4 MiB, for h: no library takes it as it lies".
static std::string describe(const Plan &plan, const PlannedCommand &planned,
                            const exec::RemarkT &remark) {
  const exec::OriginPart part =
      remark.origin ? remark.origin->part : exec::OriginPart::inside;
  const std::string name =
      runtime::getOriginName(plan.executable, remark.origin.get());
  std::string what, why;
  switch (remark.kind) {
  case exec::RemarkKind::library_copy:
    what = part == exec::OriginPart::padded   ? "a padded form of"
           : part == exec::OriginPart::inside ? "a copy of something inside"
                                              : "a copy of";
    why = part == exec::OriginPart::padded
              ? "sizes that are multiples of 8 are computed faster"
              : "no library takes it as it lies";
    break;
  case exec::RemarkKind::stored_view:
    what = part == exec::OriginPart::itself ? "the view" : "a view inside";
    why = "what reads it needs all of it in memory";
    break;
  case exec::RemarkKind::read_whole:
    why = "it is not computed in tiles, as something reads all of it";
    break;
  case exec::RemarkKind::computed_again:
    why = "in tiles too many products would be computed again";
    break;
  case exec::RemarkKind::uncut:
    why = "its dimensions cannot be cut into tiles, or only into too many";
    break;
  }
  std::string text = fmt::format("{} stores {}", planned.id,
                                 name.empty()   ? "a value without a name"
                                 : what.empty() ? name
                                                : what + " " + name);
  text += ", " + formatBytes(remark.bytes);
  if (const std::string purpose =
          runtime::getOriginName(plan.executable, remark.purpose.get());
      !purpose.empty() && purpose != name)
    text += ", for " + purpose;
  return text + ": " + why;
}

static Remark::Kind getKind(exec::RemarkKind kind) {
  switch (kind) {
  case exec::RemarkKind::library_copy:
    return Remark::Kind::LibraryCopy;
  case exec::RemarkKind::stored_view:
    return Remark::Kind::StoredView;
  case exec::RemarkKind::read_whole:
  case exec::RemarkKind::computed_again:
  case exec::RemarkKind::uncut:
    return Remark::Kind::Untiled;
  }
  std::abort();
}

static void addStored(const Plan &plan, const EqualScopes &scopes,
                      int64_t bytes, std::vector<Remark> &all) {
  RemarkList list;
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const PlannedCommand &planned = plan.commands[index];
    if (planned.collective)
      continue; // stores what it sends
    const auto &remarks = planned.command->remarks;
    for (size_t number = 0; number < remarks.size(); ++number) {
      const exec::RemarkT &given = *remarks[number];
      if (given.bytes <= bytes)
        continue;
      Remark remark{getKind(given.kind)};
      remark.bytes = given.bytes;
      remark.command = int(index);
      remark.tensor = planned.tensor;
      remark.text = describe(plan, planned, given);
      if (given.origin && given.origin->part == exec::OriginPart::padded)
        remark.advice = "choose sizes that are multiples of 8";
      if (given.span && given.span->file() >= 0)
        remark.span = given.span.get();
      list.add(scopes.commandFolds[index], number, std::move(remark));
    }
  }
  for (Remark &remark : list.take())
    all.push_back(std::move(remark));
}

//===-- Replicated values -------------------------------------------------===//

static bool hasAxis(const std::vector<exec::AxisRef> &axes, int axis) {
  return std::any_of(axes.begin(), axes.end(), [&](const exec::AxisRef &part) {
    return part.axis() == axis;
  });
}

/// Whether a value is whole along an axis and no rule over it is of one of its
/// dimensions.
static bool isWhole(const Plan &plan, const exec::TensorLayoutT &layout,
                    int axis) {
  if (hasAxis(layout.partial_axes, axis))
    return false;
  return std::none_of(
      layout.dims.begin(), layout.dims.end(), [&](const auto &dim) {
        const exec::NamedDimT *rule = findDim(plan, dim->name);
        return hasAxis(dim->axes, axis) || (rule && hasAxis(rule->axes, axis));
      });
}

/// Whether a remark tells of it: it is in memory, for itself.
static bool isTold(const Plan &plan, int tensor) {
  const exec::TensorT &value = plan.getTensor(tensor);
  if (value.inside || value.of >= 0 || !plan.isStored(tensor))
    return false;
  switch (value.role) {
  case exec::BufferRole::parameter:
  case exec::BufferRole::model_state:
  case exec::BufferRole::input:
  case exec::BufferRole::activation:
    return true;
  case exec::BufferRole::output:
    return plan.findTensor(value.name, {exec::BufferRole::activation,
                                        exec::BufferRole::input,
                                        exec::BufferRole::parameter}) < 0;
  case exec::BufferRole::state:
  case exec::BufferRole::gradient:
  case exec::BufferRole::communication:
  case exec::BufferRole::workspace:
    return false;
  }
  std::abort();
}

static Remark makeReplicated(const Plan &plan, int tensor,
                             std::vector<layout::AxisRef> axes) {
  const exec::TensorT &value = plan.getTensor(tensor);
  Remark remark{Remark::Kind::Replicated};
  remark.bytes = value.bytes_per_device;
  remark.tensor = tensor;
  remark.span =
      value.span && value.span->file() >= 0 ? value.span.get() : nullptr;
  int64_t devices = 1, state = 0;
  std::vector<std::string> names;
  for (const layout::AxisRef &axis : axes) {
    devices *= axis.size;
    names.push_back(plan.mesh.getAxes()[size_t(axis.axis)].name);
  }
  for (const auto &other : plan.executable.tensors)
    if (other->role == exec::BufferRole::state && other->of == tensor)
      state += other->bytes_per_device;
  // The largest dimension that no rule speaks of.
  const exec::DimShardingT *largest = nullptr;
  for (const auto &dim : value.layout->dims)
    if (const exec::NamedDimT *rule = findDim(plan, dim->name);
        rule && rule->axes.empty() && (!largest || dim->size > largest->size))
      largest = dim.get();
  const std::string over = fmt::format("{}", fmt::join(names, " and "));
  remark.text = fmt::format(
      "\"{}\", {}{}, is whole on each of the {} devices along {}: no rule "
      "splits "
      "one of its dimensions over {}",
      plan.getName(tensor), formatBytes(remark.bytes),
      state > 0 ? fmt::format(" and {} of state", formatBytes(state)) : "",
      devices, over, axes.size() > 1 ? "them" : "it");
  if (largest)
    remark.advice = fmt::format("a rule such as \"{} -> {}\" splits it",
                                largest->name, names.front());
  remark.axes = std::move(axes);
  return remark;
}

static void addReplicated(const Plan &plan, const EqualScopes &scopes,
                          int64_t bytes, std::vector<Remark> &all) {
  std::vector<layout::AxisRef> ruled; // axes over which the layout splits
  for (size_t axis = 0; axis < plan.mesh.getAxes().size(); ++axis)
    if (plan.mesh.getAxes()[axis].size > 1 &&
        std::any_of(
            plan.executable.dims.begin(), plan.executable.dims.end(),
            [&](const auto &dim) { return hasAxis(dim->axes, int(axis)); }))
      ruled.push_back(plan.mesh.getWholeAxis(axis));
  RemarkList list;
  for (int tensor = 0; tensor < int(plan.executable.tensors.size()); ++tensor) {
    const exec::TensorT &value = plan.getTensor(tensor);
    if (value.bytes_per_device <= bytes || !isTold(plan, tensor))
      continue;
    std::vector<layout::AxisRef> axes;
    for (const layout::AxisRef &axis : ruled)
      if (isWhole(plan, *value.layout, axis.axis))
        axes.push_back(axis);
    if (!axes.empty())
      list.add(scopes.tensorFolds[size_t(tensor)], 0,
               makeReplicated(plan, tensor, std::move(axes)));
  }
  for (Remark &remark : list.take())
    all.push_back(std::move(remark));
}

//===-- Loops that are written out ----------------------------------------===//

/// Of which a remark tells: a launch each, of which a GPU does 256 in most of a
/// millisecond.
static constexpr int64_t unrolledCommands = 256;

namespace {
/// A loop, in whichever iteration of others it stands.
struct UnrolledLoop {
  int64_t iterations = 0, commands = 0;
  std::set<int> scopes; ///< in which it stands
  int first = -1;       ///< in Plan.commands
};
} // namespace

/// "layer", "b1/time": the names of a scope and of those around it.
static std::string getLoopName(const Plan &plan, int scope) {
  std::string name;
  for (; scope >= 0; scope = plan.executable.scopes[size_t(scope)]->parent) {
    const exec::ScopeT &entry = *plan.executable.scopes[size_t(scope)];
    name = name.empty() ? entry.name : entry.name + "/" + name;
  }
  return name;
}

static void addUnrolled(const Plan &plan, std::vector<Remark> &all) {
  std::map<std::string, UnrolledLoop> loops;
  std::map<int, std::string> names;
  for (size_t scope = 0; scope < plan.executable.scopes.size(); ++scope) {
    const exec::ScopeT &entry = *plan.executable.scopes[scope];
    if (entry.iteration < 0)
      continue;
    UnrolledLoop &loop =
        loops[names[int(scope)] = getLoopName(plan, int(scope))];
    loop.iterations = std::max(loop.iterations, entry.iteration + 1);
    loop.scopes.insert(entry.parent);
  }
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const auto &origin = plan.commands[index].command->origin;
    for (int scope = origin ? origin->scope : -1; scope >= 0;
         scope = plan.executable.scopes[size_t(scope)]->parent)
      if (auto name = names.find(scope); name != names.end()) {
        UnrolledLoop &loop = loops[name->second];
        ++loop.commands;
        if (loop.first < 0)
          loop.first = int(index);
      }
  }
  for (const auto &[name, loop] : loops) {
    if (loop.commands < unrolledCommands)
      continue;
    Remark remark{Remark::Kind::Unrolled};
    remark.command = loop.first;
    remark.count = int64_t(loop.scopes.size());
    remark.text = fmt::format(
        "the loop \"{}\" is written out, as it carries a value from one "
        "iteration to the next: {}, {} of the step's {}",
        name, formatCount(loop.iterations, "iteration"), loop.commands,
        formatCount(int64_t(plan.commands.size()), "command"));
    const auto &command = *plan.commands[size_t(loop.first)].command;
    if (command.span && command.span->file() >= 0)
      remark.span = command.span.get();
    all.push_back(std::move(remark));
  }
}

//===-- Rules that add nothing --------------------------------------------===//

static void addLostRules(const Plan &plan, std::vector<Remark> &all) {
  using Why = layout::LostRule::Why;
  // By the reason, too: a rule may have found one axis taken here, another
  // there.
  std::map<std::pair<layout::LostRule, std::string>, std::vector<int>> lost;
  for (int tensor = 0; tensor < int(plan.executable.tensors.size()); ++tensor)
    if (const exec::TensorT &value = plan.getTensor(tensor);
        value.role == exec::BufferRole::parameter ||
        (value.role == exec::BufferRole::state &&
         !value.layout->dims.empty())) {
      const layout::TensorLayout asked = askLayout(plan, tensor);
      for (const layout::LostRule &rule : asked.lost)
        if (rule.why == Why::AlreadySplit || rule.why == Why::Indivisible)
          lost[{rule, explainLost(plan, tensor, asked, rule)}].push_back(
              tensor);
    }
  for (const auto &[found, tensors] : lost) {
    const auto &[rule, reason] = found;
    Remark remark{Remark::Kind::LostRule};
    remark.tensor = tensors.front();
    for (int tensor : tensors)
      remark.bytes += plan.getTensor(tensor).bytes_per_device;
    remark.text = fmt::format(
        "\"{}\" adds nothing to \"{}\"{}, {}: {}",
        plan.executable.rules[rule.rule]->text, plan.getName(remark.tensor),
        tensors.size() == 1
            ? ""
            : fmt::format(" and {} more",
                          formatCount(int64_t(tensors.size()) - 1, "tensor")),
        formatBytes(remark.bytes), reason);
    if (const auto &span = plan.executable.rules[rule.rule]->span;
        span && span->file() >= 0)
      remark.span = span.get();
    all.push_back(std::move(remark));
  }
}

std::vector<Remark>
plan::findRemarks(const Plan &plan, const EqualScopes &scopes, int64_t bytes) {
  std::vector<Remark> all = findReshardings(plan, scopes, bytes);
  addGathers(plan, scopes, bytes, all);
  addStored(plan, scopes, bytes, all);
  addUnrolled(plan, all);
  addReplicated(plan, scopes, bytes, all);
  addLostRules(plan, all);
  // The largest first; of those as large as one another the order stays.
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::pair(-double(all[i].bytes) * double(all[i].count), i);
  });
  std::vector<Remark> sorted;
  for (size_t i : order)
    sorted.push_back(std::move(all[i]));
  return sorted;
}
