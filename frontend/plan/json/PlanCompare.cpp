#include "frontend/plan/json/PlanCompare.h"

#include "frontend/plan/MemoryUse.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_map>

using namespace meshc;
using namespace meshc::plan;
using Json = nlohmann::ordered_json;
using Unit = ComparedQuantity::Unit;
using Plans = std::vector<std::optional<ReadPlan>>;

std::string PlanComparison::getLetter(size_t plan) {
  std::string letters;
  for (size_t rest = plan + 1; rest > 0; rest = (rest - 1) / 26)
    letters.insert(letters.begin(), char('A' + (rest - 1) % 26));
  return letters;
}

//===-- Quantities --------------------------------------------------------===//

namespace {
class Quantities {
public:
  explicit Quantities(const Plans &plans) : plans(plans) {}

  using GetNumber = std::function<std::optional<int64_t>(const ReadPlan &)>;
  void add(std::string name, std::string part, Unit unit,
           const GetNumber &getNumber);

  std::vector<ComparedQuantity> all;

private:
  const Plans &plans;
};
} // namespace

void Quantities::add(std::string name, std::string part, Unit unit,
                     const GetNumber &getNumber) {
  ComparedQuantity quantity{std::move(name), std::move(part), unit, {}, true};
  const std::optional<int64_t> *first = nullptr;
  bool isKnown = false;
  quantity.numbers.resize(plans.size());
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    if (!plans[plan])
      continue;
    std::optional<int64_t> &number = quantity.numbers[plan];
    number = getNumber(*plans[plan]);
    isKnown = isKnown || number;
    if (first && *first != number)
      quantity.isEqual = false;
    first = &number;
  }
  if (isKnown)
    all.push_back(std::move(quantity));
}

/// What `get` says of a message, of all messages of all plans.
template <class Get>
static std::set<std::string> collect(const Plans &plans, const Get &get) {
  std::set<std::string> found;
  for (const auto &plan : plans)
    if (plan)
      for (const ReadMessage &message : plan->messages)
        found.insert(get(message));
  return found;
}

/// Plans have microseconds in whole nanoseconds.
static std::optional<int64_t> toNanoseconds(std::optional<double> us) {
  return us ? std::optional<int64_t>(std::llround(*us * 1000)) : std::nullopt;
}

static std::vector<ComparedQuantity> getQuantities(const Plans &plans) {
  Quantities table(plans);
  table.add("limit_bytes", "", Unit::Bytes,
            [](const ReadPlan &plan) { return plan.memoryLimit; });
  table.add("peak_bytes_per_device", "", Unit::Bytes,
            [](const ReadPlan &plan) { return plan.memory; });
  for (size_t index = 0; index < numMemoryCategories; ++index) {
    const char *category = getName(MemoryCategory(index));
    table.add("peak_bytes_per_device", category, Unit::Bytes,
              [&](const ReadPlan &plan) { return plan.memoryOf.at(category); });
  }
  table.add("step_us", "", Unit::Nanoseconds,
            [](const ReadPlan &plan) { return toNanoseconds(plan.stepUs); });
  table.add("compute_us", "", Unit::Nanoseconds,
            [](const ReadPlan &plan) { return toNanoseconds(plan.computeUs); });
  table.add("exposed_us", "", Unit::Nanoseconds,
            [](const ReadPlan &plan) { return toNanoseconds(plan.exposedUs); });
  table.add("flops_per_device", "", Unit::Flops,
            [](const ReadPlan &plan) { return plan.flops; });
  table.add("wire_bytes_per_device", "", Unit::Bytes,
            [](const ReadPlan &plan) { return plan.sent; });
  const auto getAxes = [](const ReadMessage &message) {
    return joinAxes(message.axes);
  };
  for (const std::string &axes : collect(plans, getAxes))
    table.add("wire_bytes_per_device", axes, Unit::Bytes,
              [&](const ReadPlan &plan) {
                int64_t sent = 0;
                for (const ReadMessage &message : plan.messages)
                  if (getAxes(message) == axes)
                    sent = addUp(sent, message.sent);
                return sent;
              });
  table.add("transfers", "", Unit::Count,
            [](const ReadPlan &plan) { return plan.transfers; });
  table.add("collectives", "", Unit::Count,
            [](const ReadPlan &plan) { return int64_t(plan.messages.size()); });
  const auto getKind = [](const ReadMessage &message) { return message.kind; };
  for (const std::string &kind : collect(plans, getKind))
    table.add("collectives", kind, Unit::Count, [&](const ReadPlan &plan) {
      return int64_t(std::count_if(
          plan.messages.begin(), plan.messages.end(),
          [&](const ReadMessage &message) { return message.kind == kind; }));
    });
  return std::move(table.all);
}

//===-- Notes -------------------------------------------------------------===//

static std::string describeMesh(const ReadPlan &plan) {
  std::vector<std::string> axes;
  for (const auto &[name, size] : plan.mesh)
    axes.push_back(fmt::format("{}={}", name, size));
  return axes.empty() ? "one device"
                      : fmt::format("{}", fmt::join(axes, " x "));
}

/// "the models differ: A and C gpt3; B mlp", if `get` says different things of
/// the plans. Plans of which it says nothing are left out.
static void addNote(
    std::vector<std::string> &notes, const Plans &plans, std::string_view what,
    const std::function<std::optional<std::string>(const ReadPlan &)> &get) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    if (!plans[plan])
      continue;
    std::optional<std::string> said = get(*plans[plan]);
    if (!said)
      continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](auto &entry) {
      return entry.first == *said;
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), {*said, {}});
    group->second.push_back(PlanComparison::getLetter(plan));
  }
  if (groups.size() < 2)
    return;
  std::vector<std::string> parts;
  for (const auto &[said, letters] : groups)
    parts.push_back(fmt::format("{} {}", fmt::join(letters, ", "), said));
  notes.push_back(fmt::format("{} differ: {}", what, fmt::join(parts, "; ")));
}

/// The sizes of what several plans have, and do not have alike.
static void addSizes(std::vector<std::string> &notes, const Plans &plans) {
  std::set<std::string> names;
  for (const auto &plan : plans)
    if (plan)
      for (const ReadSplit::Dim &dim : plan->dims)
        names.insert(dim.name);
  for (const std::string &name : names)
    addNote(notes, plans, fmt::format("sizes of {}", name),
            [&](const ReadPlan &plan) -> std::optional<std::string> {
              for (const ReadSplit::Dim &dim : plan.dims)
                if (dim.name == name)
                  return std::to_string(dim.size);
              return std::nullopt;
            });
}

/// Which plans have no times, and why.
static void addMissingTimes(std::vector<std::string> &notes,
                            const Plans &plans) {
  std::vector<std::string> without;
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    if (!plans[plan])
      continue;
    const std::string letter = PlanComparison::getLetter(plan);
    if (plans[plan]->machine.empty())
      without.push_back(letter);
    else if (!plans[plan]->stepUs)
      notes.push_back(fmt::format("{} has no times: {} has no units for some "
                                  "of its matmuls",
                                  letter, plans[plan]->machine));
  }
  if (!without.empty())
    notes.push_back(fmt::format("{} {} no times: planned without --machine",
                                fmt::join(without, ", "),
                                without.size() == 1 ? "has" : "have"));
}

static std::vector<std::string> getNotes(const Plans &plans) {
  std::vector<std::string> notes;
  addNote(notes, plans, "models",
          [](const ReadPlan &plan) { return plan.model; });
  addNote(notes, plans, "programs", [](const ReadPlan &plan) {
    return plan.program.empty() ? "none" : plan.program;
  });
  addNote(notes, plans, "meshes", describeMesh);
  addSizes(notes, plans);
  addNote(notes, plans, "targets",
          [](const ReadPlan &plan) { return plan.target; });
  addNote(notes, plans, "machines",
          [](const ReadPlan &plan) -> std::optional<std::string> {
            if (plan.machine.empty())
              return std::nullopt;
            return plan.machine;
          });
  addMissingTimes(notes, plans);
  return notes;
}

//===-- Values and messages -----------------------------------------------===//

/// Whether blocks are as large where they are split alike.
static bool haveEqualSizes(const Plans &plans) {
  const ReadPlan *first = nullptr;
  for (const auto &plan : plans) {
    if (!plan)
      continue;
    if (first &&
        (plan->mesh != first->mesh ||
         !std::equal(plan->dims.begin(), plan->dims.end(), first->dims.begin(),
                     first->dims.end(),
                     [](const ReadSplit::Dim &left, const auto &right) {
                       return left.name == right.name &&
                              left.size == right.size;
                     })))
      return false;
    first = &*plan;
  }
  return true;
}

/// What two splits have alike if they are the same. Blocks of plans on other
/// meshes, or for other sizes, differ although they are split alike.
static std::string getKey(const ReadSplit &split, bool comparesBlocks) {
  std::string key = split.partialKind + " " + joinAxes(split.partialAxes);
  for (const ReadSplit::Dim &dim : split.dims)
    key += fmt::format(", {} {} {}", dim.name, joinAxes(dim.axes),
                       comparesBlocks ? dim.localSize : 0);
  return key;
}

/// Entries by key, in the order in which the keys were seen first.
template <class Entry> class OrderedMap {
public:
  Entry &operator[](const std::string &key) {
    auto [place, isNew] = places.try_emplace(key, entries.size());
    if (isNew)
      entries.emplace_back();
    return entries[place->second];
  }
  std::vector<Entry> entries;

private:
  std::unordered_map<std::string, size_t> places;
};

/// Whether all plans that compile have the same in `keys`.
static bool areEqual(const Plans &plans, const std::vector<std::string> &keys) {
  const std::string *first = nullptr;
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    if (!plans[plan])
      continue;
    if (first && *first != keys[plan])
      return false;
    first = &keys[plan];
  }
  return true;
}

static std::vector<ComparedValue> getValues(const Plans &plans) {
  const bool comparesBlocks = haveEqualSizes(plans);
  struct Entry {
    std::vector<const ReadValue *> values; ///< by plan
  };
  OrderedMap<Entry> byName;
  for (size_t plan = 0; plan < plans.size(); ++plan)
    if (plans[plan])
      for (const ReadValue &value : plans[plan]->values) {
        Entry &entry = byName[value.name];
        entry.values.resize(plans.size());
        entry.values[plan] = &value;
      }

  OrderedMap<ComparedValue> folded;
  for (const Entry &entry : byName.entries) {
    ComparedValue fold{"", 0, {}, 0};
    std::vector<std::string> keys;
    std::string pattern;
    for (const ReadValue *value : entry.values) {
      keys.push_back(value ? getKey(value->split, comparesBlocks) : "none");
      fold.splits.push_back(value ? std::optional(value->split) : std::nullopt);
      if (!value)
        continue;
      fold.bytes = std::max(fold.bytes, value->bytes);
      if (fold.name.empty()) {
        fold.name = value->name;
        pattern = value->pattern;
      }
    }
    if (areEqual(plans, keys))
      continue;
    ComparedValue &all =
        folded[fmt::format("{};{}", pattern, fmt::join(keys, ";"))];
    if (all.splits.empty())
      all = std::move(fold);
    ++all.times;
  }
  std::sort(folded.entries.begin(), folded.entries.end(),
            [](const ComparedValue &left, const ComparedValue &right) {
              return std::tie(right.bytes, left.name) <
                     std::tie(left.bytes, right.name);
            });
  return std::move(folded.entries);
}

static std::vector<ComparedMessage> getMessages(const Plans &plans) {
  struct Entry {
    const ReadMessage *first = nullptr;
    std::vector<std::map<int64_t, int64_t>> counts;
    std::vector<int64_t> sent; ///< by plan
  };
  OrderedMap<Entry> byName;
  for (size_t plan = 0; plan < plans.size(); ++plan)
    if (plans[plan])
      for (const ReadMessage &message : plans[plan]->messages) {
        Entry &entry = byName[fmt::format(
            "{};{};{}", message.kind, joinAxes(message.axes), message.value)];
        entry.counts.resize(plans.size());
        entry.sent.resize(plans.size());
        if (!entry.first)
          entry.first = &message;
        ++entry.counts[plan][message.payload];
        entry.sent[plan] = addUp(entry.sent[plan], message.sent);
      }

  OrderedMap<ComparedMessage> folded;
  for (Entry &entry : byName.entries) {
    std::vector<std::string> keys;
    for (const auto &counts : entry.counts) {
      keys.emplace_back();
      for (const auto &[payload, count] : counts)
        keys.back() += fmt::format(" {} {}", payload, count);
    }
    if (areEqual(plans, keys))
      continue;
    const ReadMessage &message = *entry.first;
    ComparedMessage &all =
        folded[fmt::format("{};{};{};{}", message.kind, joinAxes(message.axes),
                           message.pattern, fmt::join(keys, ";"))];
    if (all.counts.empty())
      all = {message.kind,
             message.axes,
             message.value,
             0,
             std::move(entry.counts),
             0};
    ++all.times;
    all.bytes = addUp(all.bytes,
                      *std::max_element(entry.sent.begin(), entry.sent.end()));
  }
  std::sort(folded.entries.begin(), folded.entries.end(),
            [](const ComparedMessage &left, const ComparedMessage &right) {
              return std::tie(right.bytes, left.value, left.kind, left.axes) <
                     std::tie(left.bytes, right.value, right.kind, right.axes);
            });
  return std::move(folded.entries);
}

std::optional<PlanComparison>
PlanComparison::make(std::span<const PlanToCompare> plans,
                     UnreadablePlan &unreadable) {
  PlanComparison comparison;
  for (size_t index = 0; index < plans.size(); ++index) {
    const PlanToCompare &plan = plans[index];
    comparison.labels.push_back(plan.label);
    comparison.errors.push_back(plan.error);
    comparison.plans.emplace_back();
    if (!plan.error.empty())
      continue;
    comparison.plans.back() = readPlan(plan.json, unreadable.reason);
    unreadable.index = index;
    if (!comparison.plans.back())
      return std::nullopt;
  }
  comparison.notes = getNotes(comparison.plans);
  comparison.quantities = getQuantities(comparison.plans);
  comparison.values = getValues(comparison.plans);
  comparison.messages = getMessages(comparison.plans);
  return comparison;
}

//===-- JSON --------------------------------------------------------------===//

static Json getPlanJson(const PlanComparison &comparison, size_t index) {
  Json json = {{"letter", PlanComparison::getLetter(index)},
               {"label", comparison.labels[index]}};
  if (!comparison.plans[index]) {
    json["error"] = comparison.errors[index];
    return json;
  }
  const ReadPlan &plan = *comparison.plans[index];
  Json axes = Json::array(), layout = Json::array();
  for (const auto &[name, size] : plan.mesh)
    axes.push_back({{"name", name}, {"size", size}});
  for (const ReadSplit::Dim &dim : plan.dims)
    layout.push_back(
        {{"name", dim.name}, {"size", dim.size}, {"axes", dim.axes}});
  json["model"] = plan.model;
  json["program"] = plan.program.empty() ? Json() : Json(plan.program);
  json["target"] = plan.target;
  json["machine"] = plan.machine.empty() ? Json() : Json(plan.machine);
  json["mesh"] = {{"axes", std::move(axes)}};
  json["dims"] = std::move(layout);
  json["sha256"] = plan.sha256;
  if (plan.memoryLimit)
    json["fits"] = plan.memory <= *plan.memoryLimit;
  return json;
}

static const char *getName(Unit unit) {
  switch (unit) {
  case Unit::Bytes:
    return "bytes";
  case Unit::Flops:
    return "flops";
  case Unit::Nanoseconds:
    return "us";
  case Unit::Count:
    return "count";
  }
  std::abort();
}

static Json getQuantityJson(const ComparedQuantity &quantity) {
  Json numbers = Json::array();
  for (const std::optional<int64_t> &number : quantity.numbers)
    if (!number)
      numbers.push_back(nullptr);
    else if (quantity.unit == Unit::Nanoseconds)
      numbers.push_back(double(*number) / 1000);
    else
      numbers.push_back(*number);
  return {{"name", quantity.name},
          {"part", quantity.part.empty() ? Json() : Json(quantity.part)},
          {"unit", getName(quantity.unit)},
          {"equal", quantity.isEqual},
          {"numbers", std::move(numbers)}};
}

static Json getValueJson(const ComparedValue &value) {
  Json splits = Json::array();
  for (const std::optional<ReadSplit> &split : value.splits) {
    if (!split) {
      splits.push_back(nullptr);
      continue;
    }
    Json dims = Json::array();
    for (const ReadSplit::Dim &dim : split->dims)
      dims.push_back({{"name", dim.name},
                      {"size", dim.size},
                      {"axes", dim.axes},
                      {"local_size", dim.localSize}});
    Json json = {{"dims", std::move(dims)}};
    if (!split->partialKind.empty())
      json["partial"] = {{"kind", split->partialKind},
                         {"axes", split->partialAxes}};
    splits.push_back(std::move(json));
  }
  return {{"name", value.name},
          {"times", value.times},
          {"splits", std::move(splits)}};
}

static Json getMessageJson(const PlanComparison &comparison,
                           const ComparedMessage &message) {
  Json plans = Json::array();
  for (size_t plan = 0; plan < message.counts.size(); ++plan) {
    if (!comparison.plans[plan]) {
      plans.push_back(nullptr);
      continue;
    }
    Json sizes = Json::array();
    for (const auto &[payload, count] : message.counts[plan])
      sizes.push_back({{"payload_bytes", payload}, {"count", count}});
    plans.push_back(std::move(sizes));
  }
  return {{"kind", message.kind},
          {"axes", message.axes},
          {"value", message.value.empty() ? Json() : Json(message.value)},
          {"times", message.times},
          {"plans", std::move(plans)}};
}

std::string plan::renderComparisonJson(const PlanComparison &comparison) {
  Json plans = Json::array(), quantities = Json::array(),
       values = Json::array(), messages = Json::array();
  for (size_t index = 0; index < comparison.plans.size(); ++index)
    plans.push_back(getPlanJson(comparison, index));
  for (const ComparedQuantity &quantity : comparison.quantities)
    quantities.push_back(getQuantityJson(quantity));
  for (const ComparedValue &value : comparison.values)
    values.push_back(getValueJson(value));
  for (const ComparedMessage &message : comparison.messages)
    messages.push_back(getMessageJson(comparison, message));
  const Json json = {
      {"schema", comparisonSchema},  {"plans", std::move(plans)},
      {"notes", comparison.notes},   {"quantities", std::move(quantities)},
      {"values", std::move(values)}, {"collectives", std::move(messages)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}
