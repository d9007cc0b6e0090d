#include "frontend/plan/json/PlanDiff.h"

#include "frontend/plan/Quantities.h"
#include "frontend/plan/json/PlanReader.h"

#include <fmt/format.h>
#include <map>

using namespace meshc;
using namespace meshc::plan;

namespace {
/// A plan as it is compared.
struct Summary {
  ReadPlan plan;
  std::map<std::string, std::string> values; ///< by name, how it is split
  std::map<std::string, int64_t> messages;   ///< by description, how many
};
} // namespace

static Summary summarize(ReadPlan plan) {
  Summary summary;
  for (const ReadValue &value : plan.values)
    if (value.times > 0)
      summary.values[value.pattern] =
          describe(value.split) +
          (value.times > 1 ? fmt::format("; {} times", value.times) : "");
  for (const ReadMessage &message : plan.messages) {
    std::string text =
        fmt::format("{} over {}, {}", message.kind, joinAxes(message.axes),
                    formatBytes(message.payload));
    if (!message.pattern.empty())
      text += " of " + message.pattern;
    ++summary.messages[text];
  }
  summary.plan = std::move(plan);
  return summary;
}

static std::string compare(const Summary &stored, const Summary &fresh) {
  std::string text;
  auto addLine = [&](std::string_view name, const std::string &now,
                     const std::string &before) {
    if (now != before)
      text += fmt::format("  {}: {} instead of {}\n", name, now, before);
  };
  addLine("model", fresh.plan.describeSubject(), stored.plan.describeSubject());
  addLine("layout", fresh.plan.describeLayout(), stored.plan.describeLayout());
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
  addNumber("memory on each device", fresh.plan.memory, stored.plan.memory,
            formatBytes);
  addNumber("computed by each device", fresh.plan.flops, stored.plan.flops,
            formatFlops);
  addNumber("payload of collectives", fresh.plan.payload, stored.plan.payload,
            formatBytes);
  addNumber("sent by each device", fresh.plan.sent, stored.plan.sent,
            formatBytes);

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
  std::optional<ReadPlan> before = readPlan(stored, error);
  if (!before)
    return std::nullopt;
  std::optional<ReadPlan> now = readPlan(fresh, error);
  if (!now) // not what the caller promised
    return std::nullopt;
  return compare(summarize(*std::move(before)), summarize(*std::move(now)));
}
