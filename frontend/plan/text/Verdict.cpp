#include "frontend/plan/text/Verdict.h"

#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/StepTotals.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <set>

using namespace meshc;
using namespace meshc::plan;

std::string plan::describeFit(const Plan &plan, const GpuUse &gpu,
                              int64_t limit) {
  const int64_t peak = MemoryUse(plan, gpu).peakBytes;
  return peak <= limit
             ? fmt::format("fits: {} of {} on each device", formatBytes(peak),
                           formatBytes(limit))
             : fmt::format("does not fit: {} where each device has {}, {} too "
                           "much",
                           formatBytes(peak), formatBytes(limit),
                           formatBytes(peak - limit));
}

/// "data sheets and interpolated measurements": how the constants of times were
/// made.
static std::string getBasis(const layout::Machine &machine) {
  std::set<layout::Made> made;
  for (const layout::MachineConstant &constant : machine.getConstants())
    if (constant.name != "memory")
      made.insert(constant.made);
  std::vector<std::string_view> words;
  for (auto [kind, word] :
       {std::pair(layout::Made::Measured, "measurements"),
        {layout::Made::DataSheet, "data sheets"},
        {layout::Made::Interpolated, "measurements of similar machines"},
        {layout::Made::Assumed, "assumptions"}})
    if (made.contains(kind))
      words.push_back(word);
  return fmt::format("{}", fmt::join(words, " and "));
}

/// "samples/mlp.mesh:12" behind a space; empty where no line is behind it.
static std::string getLine(const Plan &plan, const exec::Span *span) {
  if (!span || span->file() < 0)
    return "";
  return fmt::format(" ({}:{})", plan.executable.files[size_t(span->file())],
                     span->line());
}

/// "waiting for all_reduce over data, of gradient of w1 (mlp.mesh:23)".
static std::string describeCost(const Plan &plan, const StepCost &cost) {
  const PlannedCommand &planned = plan.commands[size_t(cost.first)];
  const std::string times =
      cost.count > 1 ? fmt::format(", {} times", cost.count) : "";
  const exec::CollectiveT *collective = planned.collective;
  if (!cost.isWait)
    return fmt::format("{} of {}{}{}", getName(planned.command->phase),
                       planned.command->name, times,
                       getLine(plan, planned.command->span.get()));
  const exec::Span *span = planned.command->span.get();
  if (!collective->causes.empty() && !collective->causes[0]->spans.empty())
    span = &collective->causes[0]->spans[0];
  return fmt::format("waiting for {}, {} over {}{}{}", planned.id,
                     getName(collective->kind),
                     layout::toString(plan.mesh, getAxes(collective->axes)),
                     times, getLine(plan, span));
}

/// "flops 71 %, transfers 20 %, memory 9 %": what the step's time is bound by,
/// the most first; what rounds to nothing is left out. Empty of a step that
/// takes no time.
static std::string describeBounds(const Plan &plan, const StepTime &time) {
  using Bound = layout::Machine::Bound;
  std::map<Bound, double> computing;
  for (size_t index = 0; index < plan.commands.size(); ++index)
    if (!plan.commands[index].collective)
      computing[time.bounds[index]] += time.commands[index].getUs();
  std::vector<std::pair<double, std::string_view>> parts = {
      {time.exposedUs, "transfers"},
      {computing[Bound::Flops], "flops"},
      {computing[Bound::Memory], "memory"},
      {computing[Bound::Launch], plan.executable.target == exec::Target::cuda
                                     ? "launches"
                                     : "starts of commands"}};
  std::sort(parts.begin(), parts.end(), std::greater<>());
  std::string text;
  for (auto [us, what] : parts)
    if (const double share = 100 * us / time.stepUs; share >= 0.5)
      text +=
          fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", what, share);
  return text;
}

/// "a training step"; of a step of parts as a whole, too.
static const char *getSubject(const Plan &plan) {
  return plan.program->name == "step" ? "a training step" : "an evaluation";
}

/// "6.87 M samples/s, 3.51 G tokens/s"; empty where nothing is counted.
static std::string describeRate(const StepTotals &totals,
                                const StepRate &rate) {
  std::string text;
  for (auto [count, noun] : {std::pair(totals.samples, "samples"),
                             std::pair(totals.tokens, "tokens")})
    if (count > 0)
      text += fmt::format("{}{} {}/s", text.empty() ? "" : ", ",
                          formatRate(rate.getPerSecond(count)), noun);
  return text;
}

std::string plan::renderSummary(const Plan &plan,
                                const std::vector<Transfer> &transfers,
                                const GpuUse &gpu, const StepTime *time,
                                std::optional<int64_t> limit) {
  const StepTotals totals(plan, transfers);
  const int64_t peak = MemoryUse(plan, gpu).peakBytes;
  std::vector<std::string> parts;
  if (time) {
    const StepRate rate(plan, *time);
    parts.push_back(formatTime(rate.stepUs));
    if (std::string fast = describeRate(totals, rate); !fast.empty())
      parts.push_back(std::move(fast));
    if (rate.peakShare)
      parts.push_back(fmt::format("{:.0f} % of peak", 100 * *rate.peakShare));
    if (rate.exposedUs > 0)
      parts.push_back(
          fmt::format("{:.0f} % waiting", 100 * rate.exposedUs / rate.stepUs));
  } else {
    parts.push_back(formatFlops(totals.sums.flops));
    if (plan.mesh.getNumDevices() > 1)
      parts.push_back(totals.sums.wireBytes > 0
                          ? formatBytes(totals.sums.wireBytes) + " sent"
                          : "nothing sent");
  }
  if (limit)
    parts.push_back(fmt::format("{} of {}{}", formatBytes(peak),
                                formatBytes(*limit),
                                peak <= *limit ? "" : ": does not fit"));
  else
    parts.push_back(formatBytes(peak) + " of memory");
  return fmt::format(
      "{}{}: {}\n", getSubject(plan),
      time || plan.mesh.getNumDevices() == 1 ? "" : ", on each device",
      fmt::join(parts, ", "));
}

std::string plan::renderVerdict(const Plan &plan, const EqualScopes &scopes,
                                const std::vector<Transfer> &transfers,
                                const GpuUse &gpu,
                                const layout::Machine &machine,
                                const StepTime *stepTime, size_t top,
                                std::optional<int64_t> limit) {
  std::string text = fmt::format("\npredicted for {}, from {}, not checked\n",
                                 machine.getLabel(), getBasis(machine));
  if (limit)
    text += fmt::format("  {}\n", describeFit(plan, gpu, *limit));
  if (!stepTime) {
    const exec::CommandT &command =
        *plan.commands[size_t(findUnpriced(plan, machine)[0])].command;
    return text + fmt::format("  no time: the machine has no matmuls of {}, "
                              "which {} of {} is{}\n",
                              getMatmulTypeName(command),
                              getName(command.phase), command.name,
                              getLine(plan, command.span.get()));
  }
  const StepTime &time = *stepTime;
  const StepRate rate(plan, time);
  std::string what = getSubject(plan);
  if (const exec::ProgramT *accumulate = findAccumulate(plan.executable)) {
    const auto runs = Plan(plan.executable, *accumulate).getRuns();
    text += fmt::format("  {} takes {}, each of its first {} {}\n", what,
                        formatTime(rate.stepUs), formatCount(runs, "part"),
                        formatTime((rate.stepUs - time.stepUs) / double(runs)));
    what = "the last part";
  }
  text += fmt::format("  {} takes {}: {} computing", what,
                      formatTime(time.stepUs), formatTime(time.computeUs));
  if (time.exposedUs > 0)
    text += fmt::format(", {} ({:.0f} %) waiting for transfers",
                        formatTime(time.exposedUs),
                        100 * time.exposedUs / time.stepUs);
  text += "\n";
  std::string fast = describeRate(StepTotals(plan, transfers), rate);
  if (rate.peakShare)
    fast += fmt::format("{}matmuls at {:.1f} % of the machine's peak (MFU)",
                        fast.empty() ? "" : ", ", 100 * *rate.peakShare);
  if (!fast.empty())
    text += fmt::format("  {}\n", fast);
  if (const std::string bounds = describeBounds(plan, time); !bounds.empty())
    text += fmt::format("  bound by {}\n", bounds);
  const std::vector<StepCost> costs = findCosts(plan, transfers, scopes, time);
  if (!costs.empty())
    text += "  the largest costs\n";
  for (size_t index = 0; index < std::min(costs.size(), top); ++index)
    text += fmt::format("    {:>8}  {}\n", formatTime(costs[index].us),
                        describeCost(plan, costs[index]));
  return text;
}
