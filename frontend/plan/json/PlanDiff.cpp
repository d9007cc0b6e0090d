#include "frontend/plan/json/PlanDiff.h"

#include "frontend/plan/Quantities.h"
#include "frontend/plan/json/PlanJson.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

using namespace meshc;
using namespace meshc::plan;
using nlohmann::json;

namespace {
/// A plan as it is compared.
struct Summary {
  std::string subject, layout;
  int64_t memory = 0, flops = 0, payload = 0, sent = 0;
  std::map<std::string, std::string> values; ///< by name, how it is split
  std::map<std::string, int64_t> messages;   ///< by description, how many
};
} // namespace

static std::string join(const json &axes) {
  std::string text;
  for (const json &axis : axes)
    text += (text.empty() ? "" : "+") + axis.get<std::string>();
  return text;
}

static std::string describeSplit(const json &tensor) {
  std::string text;
  for (const json &dim : tensor.at("dims")) {
    const std::string axes = join(dim.at("axes"));
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ",
                        dim.at("name").get<std::string>(),
                        dim.at("local_size").get<int64_t>(),
                        axes.empty() ? "" : "@" + axes);
  }
  if (text.empty())
    text = "one number";
  if (tensor.contains("partial"))
    text += fmt::format(", partial {} over {}",
                        tensor.at("partial").at("kind").get<std::string>(),
                        join(tensor.at("partial").at("axes")));
  return text;
}

/// By tensor, its name in the first of the scopes that are alike.
static std::map<std::string, std::string> getNames(const json &plan) {
  std::map<std::string, std::string> scopes, names;
  for (const json &scope : plan.at("scopes"))
    scopes[scope.at("id").get<std::string>()] =
        scope.at("name").get<std::string>();
  std::map<std::string, std::string> models;
  for (const json &scope : plan.at("scopes"))
    models[scope.at("id").get<std::string>()] =
        scopes.at(scope.at("like").get<std::string>());
  for (const json &tensor : plan.at("tensors")) {
    std::string name = tensor.at("name").get<std::string>();
    if (const json &id = tensor.at("scope"); !id.is_null()) {
      const std::string &scope = scopes.at(id.get<std::string>());
      if (const size_t at = name.find(scope + "/"); at != std::string::npos)
        name.replace(at, scope.size(), models.at(id.get<std::string>()));
    }
    if (tensor.at("role").get<std::string>() == "output")
      name = "output " + name;
    names[tensor.at("id").get<std::string>()] = std::move(name);
  }
  return names;
}

static void addValues(Summary &summary, const json &tensors,
                      const std::map<std::string, std::string> &names) {
  std::map<std::string, int64_t> counts;
  for (const json &tensor : tensors)
    ++counts[tensor.at("fold").get<std::string>()];
  for (const json &tensor : tensors) {
    const auto id = tensor.at("id").get<std::string>();
    if (tensor.at("fold").get<std::string>() != id ||
        tensor.at("inside").get<bool>())
      continue;
    std::string split = describeSplit(tensor);
    if (counts[id] > 1)
      split += fmt::format("; {} times", counts[id]);
    summary.values[names.at(id)] = std::move(split);
  }
}

static void addMessages(Summary &summary, const json &collectives,
                        const std::map<std::string, std::string> &names) {
  for (const json &collective : collectives) {
    const json &tensor = collective.at("tensor");
    std::string text =
        fmt::format("{} over {}, {}", collective.at("kind").get<std::string>(),
                    join(collective.at("axes")),
                    formatBytes(collective.at("payload_bytes").get<int64_t>()));
    if (!tensor.is_null())
      text += " of " + names.at(tensor.get<std::string>());
    ++summary.messages[text];
  }
}

/// Throws json::exception or std::out_of_range where something is missing.
static Summary summarize(const json &plan) {
  Summary summary;
  summary.subject = plan.at("model").get<std::string>() + " on";
  for (const json &axis : plan.at("mesh").at("axes"))
    summary.subject += fmt::format(" {}={}", axis.at("name").get<std::string>(),
                                   axis.at("size").get<int64_t>());
  summary.subject += ", " + plan.at("target").get<std::string>();
  for (const json &dim : plan.at("dims"))
    if (const std::string axes = join(dim.at("axes")); !axes.empty())
      summary.layout +=
          fmt::format("{}{} -> {}", summary.layout.empty() ? "" : ", ",
                      dim.at("name").get<std::string>(), axes);
  if (summary.layout.empty())
    summary.layout = "nothing is split";
  const json &totals = plan.at("totals");
  summary.memory = plan.at("memory").at("peak_bytes_per_device").get<int64_t>();
  summary.flops = totals.at("flops_per_device").get<int64_t>();
  summary.payload = totals.at("collective_payload_bytes").get<int64_t>();
  summary.sent = totals.at("wire_bytes_per_device").get<int64_t>();
  const std::map<std::string, std::string> names = getNames(plan);
  addValues(summary, plan.at("tensors"), names);
  addMessages(summary, plan.at("collectives"), names);
  return summary;
}

static std::string compare(const Summary &stored, const Summary &fresh) {
  std::string text;
  auto addLine = [&](std::string_view name, const std::string &now,
                     const std::string &before) {
    if (now != before)
      text += fmt::format("  {}: {} instead of {}\n", name, now, before);
  };
  addLine("model", fresh.subject, stored.subject);
  addLine("layout", fresh.layout, stored.layout);
  auto addNumber = [&](std::string_view name, int64_t now, int64_t before,
                       std::string (*format)(int64_t)) {
    if (now == before)
      return;
    const std::string rounded = format(now);
    // Where the digits shown do not tell.
    const bool isClose = rounded == format(before);
    addLine(name, isClose ? std::to_string(now) : rounded,
            isClose ? std::to_string(before) : format(before));
  };
  addNumber("memory on each device", fresh.memory, stored.memory, formatBytes);
  addNumber("computed by each device", fresh.flops, stored.flops, formatFlops);
  addNumber("payload of collectives", fresh.payload, stored.payload,
            formatBytes);
  addNumber("sent by each device", fresh.sent, stored.sent, formatBytes);

  std::string values;
  for (const auto &[name, split] : fresh.values)
    if (auto before = stored.values.find(name); before == stored.values.end())
      values += fmt::format("    + {}: {}\n", name, split);
    else if (before->second != split)
      values += fmt::format("    {}\n      is   {}\n      was  {}\n", name,
                            split, before->second);
  for (const auto &[name, split] : stored.values)
    if (!fresh.values.contains(name))
      values += fmt::format("    - {}: {}\n", name, split);
  if (!values.empty())
    text += "  values\n" + values;

  std::map<std::string, int64_t> changes = fresh.messages;
  for (const auto &[message, count] : stored.messages)
    changes[message] -= count;
  std::string messages;
  for (const auto &[message, count] : changes)
    if (count != 0)
      messages += fmt::format("    {} {}{}\n", count > 0 ? '+' : '-', message,
                              std::abs(count) > 1
                                  ? fmt::format(", {} times", std::abs(count))
                                  : "");
  if (!messages.empty())
    text += "  messages\n" + messages;
  return text;
}

std::optional<std::string> plan::diffPlans(std::string_view stored,
                                           std::string_view fresh,
                                           std::string &error) {
  const json before = json::parse(stored, nullptr, /*allow_exceptions=*/false);
  if (before.is_discarded() || !before.is_object()) {
    error = "it is no JSON object, or only a part of one";
    return std::nullopt;
  }
  const auto schema = before.find("schema");
  if (schema == before.end() || !schema->is_string()) {
    error = "it is no plan of meshc: it has no \"schema\"";
    return std::nullopt;
  }
  if (*schema != planSchema) {
    error = fmt::format("it has the schema \"{}\", expected \"{}\"",
                        schema->get<std::string>(), planSchema);
    return std::nullopt;
  }
  const Summary now = summarize(json::parse(fresh));
  try {
    return compare(summarize(before), now);
  } catch (const std::exception &) {
    // Whatever was written by hand or cut off: fields or types are missing.
    error = "fields of a plan are missing in it, or are of another type";
    return std::nullopt;
  }
}
