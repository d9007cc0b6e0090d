#include "frontend/plan/json/TraceReader.h"

#include "frontend/plan/json/PlanReader.h"

#include "frontend/plan/Plan.h"
#include "runtime/exec/Loops.h"
#include "runtime/exec/PlanIds.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>
#include <vector>

using namespace meshc;
using namespace meshc::plan;
using nlohmann::json;

/// "mlp on data=2 x model=2; layout: batch -> data".
static std::string describe(std::string_view model,
                            const std::vector<std::string> &axes,
                            std::string_view layout) {
  return fmt::format("{} on {}; layout: {}", model,
                     axes.empty() ? "1 device"
                                  : fmt::format("{}", fmt::join(axes, " x ")),
                     layout);
}

static std::string describe(const Plan &plan) {
  std::vector<std::string> axes;
  for (const layout::MeshAxis &axis : plan.mesh.getAxes())
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return describe(plan.executable.model, axes, plan.describeLayout());
}

static std::string describe(const json &meta) {
  std::vector<std::string> axes;
  for (const json &axis : meta.at("mesh").at("axes"))
    axes.push_back(fmt::format("{}={}", axis.at("name").get<std::string>(),
                               axis.at("size").get<int64_t>()));
  return describe(meta.at("model").get<std::string>(), axes,
                  meta.at("layout").get<std::string>());
}

/// Why a trace is not of the plan; empty if it is.
static std::string findDifference(const json &meta, const Plan &plan) {
  if (plan.program &&
      meta.at("plan").get<std::string>() ==
          runtime::getPlanDigest(plan.executable, *plan.program))
    return "";
  const std::string own = describe(meta);
  const std::string expected = describe(plan);
  if (own != expected)
    return fmt::format("it is of {}; this plan is of {}", own, expected);
  return fmt::format("it is of the same model and layout ({}), but of other "
                     "commands: sizes, flags or meshc were others",
                     own);
}

static double getTime(const json &event) {
  const double us = event.at("dur").get<double>();
  if (us < 0)
    throw std::invalid_argument("a time below 0");
  return us;
}

/// Sums over all events, with how many there are.
static MeasuredPlan measure(const json &trace, const Plan &plan) {
  std::map<std::string, MeasuredTime, std::less<>> sums;
  std::map<std::string, int64_t, std::less<>> counts;
  MeasuredPlan measured;
  int64_t runs = 0;
  for (const json &event : trace.at("traceEvents")) {
    if (event.at("ph") != "X")
      continue;
    const json &args = event.at("args");
    if (event.at("cat") == "step") {
      measured.tracedStepUs += getTime(event);
      ++runs;
    } else if (args.contains("id")) {
      const auto id = args.at("id").get<std::string>();
      sums[id].us += getTime(event);
      ++counts[id];
    } else if (args.contains("of") && event.at("name") == "wait for devices") {
      sums[args.at("of").get<std::string>()].waitUs += getTime(event);
    }
  }
  if (runs > 0)
    measured.tracedStepUs /= double(runs);
  if (!plan.program)
    return measured;
  const auto ids = runtime::getPlanIds(*plan.program);
  const std::vector<int64_t> repeats = runtime::countRepeats(*plan.program);
  for (size_t number = 0; number < ids.size(); ++number) {
    const int64_t count = counts[ids[number][0]];
    if (count == 0)
      continue;
    const MeasuredTime &sum = sums[ids[number][0]];
    const double each = double(repeats[number]) / double(count);
    for (const std::string &id : ids[number])
      measured.commands[id] = {(sum.us - sum.waitUs) * each, sum.waitUs * each};
  }
  return measured;
}

std::optional<MeasuredPlan> plan::readTrace(std::string_view text,
                                            const exec::ExecutableT &executable,
                                            std::string &error) {
  const json trace = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (trace.is_discarded() || !trace.is_object()) {
    error = "it is no JSON object, or only a part of one";
    return std::nullopt;
  }
  try {
    const json none = json::object();
    const json &meta = trace.contains("meta") ? trace.at("meta") : none;
    if (!meta.is_object() || !meta.contains("schema")) {
      error = "it is no trace of meshc: it has no \"schema\" in \"meta\"";
      return std::nullopt;
    }
    if (const auto schema = meta.at("schema").get<std::string>();
        schema != runtime::traceSchema) {
      error = fmt::format("it has the schema \"{}\", expected \"{}\"", schema,
                          runtime::traceSchema);
      return std::nullopt;
    }
    const Plan plan(executable);
    error = findDifference(meta, plan);
    if (!error.empty())
      return std::nullopt;
    MeasuredPlan measured = measure(trace, plan);
    measured.steps = int64_t(meta.at("steps").size());
    measured.processes = meta.at("processes").get<int64_t>();
    if (const json &step = meta.at("step_us"); !step.is_null())
      measured.stepUs = step.get<double>();
    return measured;
  } catch (const std::exception &damage) {
    // Whatever was written by hand or cut off.
    error = "it is damaged: " + describeDamage(damage);
    return std::nullopt;
  }
}
