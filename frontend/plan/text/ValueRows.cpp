#include "frontend/plan/text/ValueRows.h"

#include "frontend/plan/Quantities.h"
#include "frontend/plan/text/FoldScopes.h"
#include "frontend/plan/text/HeldPositions.h"
#include "layout/Sharding.h"
#include "runtime/exec/Origins.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

using namespace meshc;
using namespace meshc::plan;

std::vector<std::string> plan::getShape(const Plan &plan,
                                        const exec::TensorLayoutT &layout,
                                        std::optional<int64_t> device) {
  std::vector<std::string> pieces;
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    const auto &dim = layout.dims[i];
    std::string piece =
        device ? describeHeld(plan, layout, i, *device)
               : fmt::format("{} {}", dim->name, getLocalSize(layout, i));
    if (!dim->axes.empty())
      piece += "@" + layout::toString(plan.mesh, getAxes(dim->axes));
    pieces.push_back(std::move(piece));
  }
  if (pieces.empty())
    pieces.emplace_back("one number");
  return pieces;
}

/// "partial sum over data"; empty if each device has all of it.
static std::string getPartial(const Plan &plan,
                              const exec::TensorLayoutT &layout) {
  if (layout.partial == exec::ReduceKind::none)
    return "";
  return fmt::format("partial {} over {}", getName(layout.partial),
                     layout::toString(plan.mesh, getAxes(layout.partial_axes)));
}

/// Whether a value is listed in a phase even if it needs no communication
/// there.
static bool belongsTo(const exec::TensorT &tensor, exec::Phase phase) {
  switch (tensor.role) {
  case exec::BufferRole::input:
  case exec::BufferRole::output:
  case exec::BufferRole::activation:
    return phase == exec::Phase::forward;
  case exec::BufferRole::gradient:
    return phase == exec::Phase::backward;
  case exec::BufferRole::parameter:
  case exec::BufferRole::model_state:
  case exec::BufferRole::state:
  case exec::BufferRole::communication:
  case exec::BufferRole::workspace:
    return false;
  }
  std::abort();
}

namespace {
class RowFinder {
public:
  RowFinder(const Plan &plan, const EqualScopes &scopes,
            const PlanTextOptions &options)
      : plan(plan), scopes(scopes), options(options) {}

  ValueSection findVariables(exec::BufferRole role, const char *heading) const;
  ValueSection findPhase(exec::Phase phase) const;

private:
  ValueRow getRow(int tensor) const;
  bool isOnTheWay(int tensor) const;

  const Plan &plan;
  const EqualScopes &scopes;
  const PlanTextOptions &options;
};
} // namespace

ValueRow RowFinder::getRow(int tensor) const {
  const exec::TensorT &value = plan.getTensor(tensor);
  const size_t inside = value.inside ? std::string_view("inside ").size() : 0;
  size_t lead = inside, own = inside;
  if (const exec::OriginT *origin = value.origin.get()) {
    own = lead += runtime::getLead(*origin).size();
    if (origin->scope >= 0)
      own += runtime::getScopeName(plan.executable, origin->scope).size() + 1;
  }
  return {.name = plan.getName(tensor),
          .tensor = tensor,
          .lead = lead,
          .own = own,
          .inScope = scopes.tensorScopes[size_t(tensor)],
          .shape = getShape(plan, *value.layout, options.device),
          .partial = getPartial(plan, *value.layout),
          .bytes = value.bytes_per_device,
          .isStored = plan.isStored(tensor),
          .likeness = {scopes.tensorFolds[size_t(tensor)]}};
}

ValueSection RowFinder::findVariables(exec::BufferRole role,
                                      const char *heading) const {
  ValueSection section{heading, {}};
  for (int tensor = 0; tensor < int(plan.executable.tensors.size()); ++tensor)
    if (plan.getTensor(tensor).role == role)
      section.rows.push_back(getRow(tensor));
  return section;
}

/// Whether it is what a function of the library computes on the way to its
/// result, as norm1/variance is to norm1: both have the line of the call.
bool RowFinder::isOnTheWay(int tensor) const {
  const exec::TensorT &value = plan.getTensor(tensor);
  if (!value.origin || value.origin->scope < 0 ||
      value.origin->kind != exec::OriginKind::value)
    return false;
  const int result = plan.findTensor(
      runtime::getScopeName(plan.executable, value.origin->scope),
      {exec::BufferRole::activation, exec::BufferRole::output});
  if (result < 0)
    return false;
  const exec::Span *at = value.span.get();
  const exec::Span *call = plan.getTensor(result).span.get();
  const auto getPlace = [](const exec::Span &span) {
    return std::tuple(span.file(), span.line(), span.column(), span.end_line(),
                      span.end_column());
  };
  return at && call && getPlace(*at) == getPlace(*call);
}

/// Tells once what several collectives of a value, those of its parts, do
/// alike: "c3 and 11 more all_reduce over data, 9 MiB each".
static void foldAlike(std::vector<Communication> &communication) {
  constexpr size_t mostListed = 2;
  std::vector<Communication> folded;
  std::vector<size_t> counts;
  for (const Communication &entry : communication) {
    const auto known = std::find_if(
        folded.begin(), folded.end(),
        [&](const Communication &other) { return other.what == entry.what; });
    if (known == folded.end()) {
      folded.push_back(entry);
      counts.push_back(1);
    } else {
      ++counts[size_t(known - folded.begin())];
    }
  }
  if (*std::max_element(counts.begin(), counts.end()) <= mostListed)
    return;
  for (size_t index = 0; index < folded.size(); ++index)
    if (counts[index] > 1) {
      folded[index].id += fmt::format(" and {} more", counts[index] - 1);
      folded[index].what += " each";
    }
  communication = std::move(folded);
}

ValueSection RowFinder::findPhase(exec::Phase phase) const {
  std::map<int, std::vector<size_t>> communication;
  for (size_t index = 0; index < plan.commands.size(); ++index)
    if (const PlannedCommand &planned = plan.commands[index];
        planned.collective && planned.command->phase == phase)
      communication[planned.tensor].push_back(index);
  auto addCommunication = [&](ValueRow &row, size_t index) {
    const PlannedCommand &planned = plan.commands[index];
    const exec::CollectiveT &collective = *planned.collective;
    row.communication.push_back(
        {planned.id,
         fmt::format("{} over {}, {}", getName(collective.kind),
                     layout::toString(plan.mesh, getAxes(collective.axes)),
                     formatBytes(collective.payload_bytes))});
    row.wireBytes += collective.wire_bytes * planned.repeats;
    row.likeness.push_back(scopes.commandFolds[index]);
  };

  ValueSection section{getName(phase), {}};
  for (size_t index = 0; index < plan.executable.tensors.size(); ++index) {
    const exec::TensorT &tensor = *plan.executable.tensors[index];
    auto sent = communication.find(int(index));
    bool communicates = sent != communication.end();
    // An output that is a named value as well is that value.
    if (!communicates && tensor.role == exec::BufferRole::output &&
        plan.findTensor(tensor.name,
                        {exec::BufferRole::activation, exec::BufferRole::input,
                         exec::BufferRole::parameter}) >= 0)
      continue;
    if (!communicates && (tensor.inside || !belongsTo(tensor, phase)))
      continue;
    section.rows.push_back(getRow(int(index)));
    section.rows.back().isAside =
        !communicates && !plan.isStored(int(index)) &&
        (tensor.role == exec::BufferRole::gradient || isOnTheWay(int(index)));
    if (!communicates)
      continue;
    for (size_t command : sent->second)
      addCommunication(section.rows.back(), command);
    foldAlike(section.rows.back().communication);
  }
  // A value without a name that leads to none either.
  for (size_t command : communication[-1]) {
    section.rows.push_back({.name = "(unnamed)", .likeness = {-1}});
    addCommunication(section.rows.back(), command);
  }
  return section;
}

//===-- Neighbours that are alike
//------------------------------------------===//

/// "layer/block/attn/" of "layer/block/attn/wq".
static std::string_view getScope(const ValueRow &row) {
  return std::string_view(row.name).substr(0, row.own);
}

/// Whether rows of two values differ in the last part of their names alone, and
/// in the ids of collectives.
static bool areAlike(const ValueRow &one, const ValueRow &other) {
  return !one.likeness.empty() && !other.likeness.empty() &&
         one.own > one.lead && getScope(one) == getScope(other) &&
         one.shape == other.shape && one.partial == other.partial &&
         one.bytes == other.bytes && one.isStored == other.isStored &&
         one.times == other.times &&
         std::equal(one.communication.begin(), one.communication.end(),
                    other.communication.begin(), other.communication.end(),
                    [](const Communication &x, const Communication &y) {
                      return x.what == y.what;
                    });
}

/// One row for neighbours that are alike, with the bytes of all.
static std::vector<ValueRow> joinAlike(std::vector<ValueRow> rows) {
  std::vector<ValueRow> joined;
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    ValueRow row = rows[begin];
    for (end = begin + 1; end < rows.size() && areAlike(rows[begin], rows[end]);
         ++end) {
      const ValueRow &next = rows[end];
      row.name += ", " + next.name.substr(next.own);
      row.bytes += next.bytes;
      row.wireBytes += next.wireBytes;
      for (size_t entry = 0; entry < row.communication.size(); ++entry)
        row.communication[entry].id += ", " + next.communication[entry].id;
    }
    joined.push_back(std::move(row));
  }
  return joined;
}

/// One row for all state that the optimizer has of every parameter and that
/// lies as the parameters do: "adam/m, adam/v".
static std::vector<ValueRow>
joinState(const Plan &plan, std::vector<ValueRow> rows,
          const std::vector<ValueRow> &parameters) {
  if (parameters.size() < 2)
    return rows;
  std::map<int, const ValueRow *> rowOf; // by tensor
  for (const ValueRow &parameter : parameters)
    rowOf[parameter.tensor] = &parameter;
  std::map<std::string, std::vector<size_t>> kinds;
  for (size_t index = 0; index < rows.size(); ++index) {
    const exec::TensorT &state = plan.getTensor(rows[index].tensor);
    const auto parameter = rowOf.find(state.of);
    if (parameter != rowOf.end() &&
        rows[index].shape == parameter->second->shape)
      kinds[state.origin->state].push_back(index);
  }
  std::vector<bool> isJoined(rows.size());
  ValueRow all{.shape = {"each as the parameters"}};
  for (const auto &[kind, members] : kinds) {
    if (members.size() != parameters.size())
      continue;
    all.name += (all.name.empty() ? "" : ", ") + kind;
    for (size_t member : members) {
      all.bytes += rows[member].bytes;
      isJoined[member] = true;
    }
  }
  if (all.name.empty())
    return rows;
  std::vector<ValueRow> joined;
  for (size_t index = 0; index < rows.size(); ++index)
    if (!isJoined[index])
      joined.push_back(std::move(rows[index]));
  joined.push_back(std::move(all));
  return joined;
}

/// One row for what is the same of many parameters: copies of another type.
static std::vector<ValueRow>
joinCopies(const Plan &plan, std::vector<ValueRow> rows,
           const std::vector<ValueRow> &parameters) {
  std::map<int, const ValueRow *> rowOf; // by tensor
  for (const ValueRow &parameter : parameters)
    rowOf[parameter.tensor] = &parameter;
  std::map<std::string, std::vector<size_t>> copies; // by type, "bf16"
  for (size_t index = 0; index < rows.size(); ++index) {
    if (rows[index].tensor < 0)
      continue;
    const exec::TensorT &copy = plan.getTensor(rows[index].tensor);
    const auto parameter = rowOf.find(copy.of);
    if (parameter != rowOf.end() && !copy.inside &&
        copy.origin->kind == exec::OriginKind::value &&
        rows[index].shape == parameter->second->shape &&
        rows[index].communication.empty())
      copies[copy.origin->element].push_back(index);
  }
  for (const auto &[type, members] : copies) {
    if (members.size() < 2)
      continue;
    ValueRow all{.name = (members.size() == parameters.size()
                              ? "parameters"
                              : fmt::format("{} parameters", members.size())) +
                         " as " + type,
                 .shape = {"each as the parameter"}};
    int64_t fused = 0; // those that take no memory
    for (size_t member : members) {
      (rows[member].isStored ? all.bytes : fused) += rows[member].bytes;
      rows[member].name.clear();
    }
    all.isStored = all.bytes > 0;
    all.bytes = all.isStored ? all.bytes : fused;
    rows[members.front()] = std::move(all);
  }
  std::erase_if(rows, [](const ValueRow &row) { return row.name.empty(); });
  return rows;
}

/// Tells a scope once, above the rows that are in it.
static void tellScopes(std::vector<ValueRow> &rows, const EqualScopes &equal) {
  constexpr size_t least = 3; // rows for which it is told
  const auto getTold = [&](const ValueRow &row) {
    if (row.likeness.empty() || row.inScope < 0)
      return std::string();
    return row.name.substr(
        0, row.lead + equal.scopes[size_t(row.inScope)].name.size());
  };
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    const std::string scope = getTold(rows[begin]);
    end = begin + 1;
    while (end < rows.size() && !scope.empty() && getTold(rows[end]) == scope)
      ++end;
    if (end - begin < least)
      continue;
    for (ValueRow &row : std::span(rows).subspan(begin, end - begin)) {
      row.scope = scope;
      row.name.erase(0, scope.size() + 1);
    }
  }
}

//===-- Order -------------------------------------------------------------===//

/// One row for all that are alike, with the bytes of all; in order of the
/// first.
static std::vector<ValueRow> foldAlike(std::vector<ValueRow> rows) {
  std::map<std::vector<int>, size_t> places;
  std::vector<ValueRow> folded;
  for (ValueRow &row : rows) {
    auto [place, isFirst] = places.try_emplace(row.likeness, folded.size());
    if (isFirst) {
      folded.push_back(std::move(row));
      continue;
    }
    ValueRow &first = folded[place->second];
    first.bytes += row.bytes;
    first.wireBytes += row.wireBytes;
    first.isStored |= row.isStored;
    ++first.times;
  }
  return folded;
}

/// Whether `one` comes first. Values of which nothing is stored take no memory.
static bool isBefore(const ValueRow &one, const ValueRow &other,
                     RowOrder order) {
  switch (order) {
  case RowOrder::Program:
    return false;
  case RowOrder::Name:
    return one.name < other.name;
  case RowOrder::Bytes:
    return std::pair(one.isStored, one.bytes) >
           std::pair(other.isStored, other.bytes);
  case RowOrder::Sent:
    return one.wireBytes > other.wireBytes;
  }
  std::abort();
}

/// Sorts rows; those of equal rank stay in their order.
static void sortRows(std::vector<ValueRow> &rows, RowOrder order) {
  std::vector<size_t> places(rows.size());
  std::iota(places.begin(), places.end(), size_t(0));
  std::sort(places.begin(), places.end(), [&](size_t one, size_t other) {
    if (isBefore(rows[one], rows[other], order))
      return true;
    return !isBefore(rows[other], rows[one], order) && one < other;
  });
  std::vector<ValueRow> sorted;
  for (size_t place : places)
    sorted.push_back(std::move(rows[place]));
  rows = std::move(sorted);
}

/// The first `count` rows, and one for the others.
static void cutRows(std::vector<ValueRow> &rows, size_t count) {
  if (rows.size() <= count)
    return;
  ValueRow rest;
  int64_t values = 0;
  for (size_t index = count; index < rows.size(); ++index) {
    values += rows[index].times;
    rest.bytes += rows[index].isStored ? rows[index].bytes : 0;
    rest.wireBytes += rows[index].wireBytes;
  }
  rows.resize(count);
  rest.name = "and " + formatCount(values, "other value");
  if (rest.wireBytes > 0)
    rest.communication.push_back(
        {"", fmt::format("{} sent", formatBytes(rest.wireBytes))});
  rows.push_back(std::move(rest));
}

std::vector<ValueSection> plan::findValueRows(const Plan &plan,
                                              const EqualScopes &equal,
                                              const PlanTextOptions &options) {
  // What is cut off is counted, so that each row is of one value.
  const bool isFolded = options.order == RowOrder::Program && !options.top;
  const RowFinder finder(plan, equal, options);
  std::vector<ValueSection> sections = {
      finder.findVariables(exec::BufferRole::parameter, "parameters"),
      finder.findVariables(exec::BufferRole::model_state, "state of the model"),
      finder.findVariables(exec::BufferRole::state, "state of the optimizer")};
  const size_t numVariableSections = sections.size();
  for (exec::Phase phase : options.phases)
    sections.push_back(finder.findPhase(phase));
  if (isFolded) {
    std::vector<ValueRow> &state = sections[numVariableSections - 1].rows;
    state = joinState(plan, std::move(state), sections[0].rows);
    for (ValueSection &section :
         std::span(sections).subspan(numVariableSections))
      section.rows =
          joinCopies(plan, std::move(section.rows), sections[0].rows);
  }
  for (ValueSection &section : sections) {
    if (isFolded) {
      section.rows =
          joinAlike(foldScopes(std::move(section.rows), equal.scopes));
      tellScopes(section.rows, equal);
    } else {
      section.rows = foldAlike(std::move(section.rows));
      sortRows(section.rows, options.order);
    }
    if (options.top)
      cutRows(section.rows, *options.top);
  }
  std::erase_if(sections, [](const ValueSection &section) {
    return section.rows.empty();
  });
  return sections;
}
