// meshc plan.

#include "codegen/machine/OutputFile.h"
#include "frontend/driver/LastPlan.h"
#include "frontend/driver/Measure.h"
#include "frontend/driver/Report.h"
#include "frontend/driver/SpecSession.h"
#include "frontend/driver/TextOutput.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/StepTotals.h"
#include "frontend/plan/json/PlanCompare.h"
#include "frontend/plan/json/PlanDiff.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/page/PlanPage.h"
#include "frontend/plan/text/ComparisonText.h"
#include "frontend/plan/text/HeldPositions.h"
#include "frontend/plan/text/PlanText.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::driver;

/// Holds the plan `fresh` against the stored one.
static int checkPlan(const SpecArguments &spec, const std::string &path,
                     const std::string &fresh) {
  auto refuse = [&](const std::string &reason) {
    return fail(spec, frontend::Code::UnreadablePlan,
                fmt::format("cannot read the plan '{}': {}", path, reason));
  };
  std::string error;
  std::optional<std::string> stored = plan::readPlanText(path, error);
  if (!stored)
    return refuse(error);
  std::optional<std::string> difference =
      plan::diffPlans(*stored, fresh, error);
  if (!difference)
    return refuse(error);
  if (difference->empty())
    return write(spec, codegen::standardOutput,
                 fmt::format("the plan is that of '{}'\n", path));
  const int code =
      write(spec, codegen::standardOutput,
            fmt::format("the plan differs from '{}'\n{}", path, *difference));
  return code == exitSuccess ? exitCheckFailed : code;
}

namespace {
/// The machine that times are predicted for.
struct TimedMachine {
  std::optional<layout::MeasuredMachine> host;
  const layout::Machine *machine = nullptr; ///< null: no times
};
} // namespace

/// Finds the machine that `spec` names. Returns an exit code.
static int findMachine(const SpecArguments &spec, TimedMachine &result) {
  if (spec.machine.empty())
    return exitSuccess;
  result.machine = layout::findMachine(spec.machine);
  if (spec.machine != layout::getCpuMachine().getName())
    return exitSuccess;
  llvm::Expected<std::optional<layout::MeasuredHost>> measured =
      findMeasurement();
  if (!measured)
    return fail(spec, frontend::Code::NotMeasured,
                toText(measured.takeError()));
  if (!*measured)
    return fail(spec, frontend::Code::NotMeasured,
                "this host has not been measured",
                {"run 'meshc doctor --measure', which takes a minute"});
  result.machine = &result.host.emplace(**measured).get();
  return exitSuccess;
}

static plan::RowOrder getOrder(const PlanArguments &plan) {
  if (plan.sort == "name")
    return plan::RowOrder::Name;
  if (plan.sort == "sent")
    return plan::RowOrder::Sent;
  // A few of many are those that take most.
  if (plan.sort == "bytes" || (plan.sort.empty() && plan.top))
    return plan::RowOrder::Bytes;
  return plan::RowOrder::Program;
}

//===-- Comparing ---------------------------------------------------------===//

/// The plan of a spec as JSON, or its diagnostics.
static plan::PlanToCompare makePlan(const SpecArguments &spec,
                                    const PlanArguments &plan,
                                    const layout::Machine *machine,
                                    std::string label) {
  plan::PlanToCompare made{.label = std::move(label), .json = "", .error = ""};
  SpecSession session(spec);
  if (!session.elaborate() || !session.checkOutput(plan.output) ||
      !session.compile(getPlanOptions(spec, plan.target), Stage::Exec)) {
    made.error = session.renderErrors(frontend::MessageFormat::Text);
    return made;
  }
  exec::ExecutableT &executable = session.getCompilation().executable;
  if (plan.isEvaluation)
    plan::keepEvaluation(executable);
  made.json = plan::renderPlanJson(
      executable,
      [&](std::string_view path) { return session.readSource(path); },
      {.machine = machine, .memoryLimit = plan.memory});
  return made;
}

/// The plan in the file, or that of the spec in it.
static int readOrMakePlan(const SpecArguments &spec, const PlanArguments &plan,
                          const layout::Machine *machine,
                          plan::PlanToCompare &made) {
  std::string error;
  std::optional<std::string> text = plan::readPlanText(spec.path, error);
  if (!text)
    return fail(spec, frontend::Code::UnreadablePlan,
                fmt::format("cannot read '{}': {}", spec.path, error));
  if (plan::looksLikeJson(*text))
    made = {.label = spec.path, .json = std::move(*text), .error = ""};
  else
    made = makePlan(spec, plan, machine, spec.path);
  return exitSuccess;
}

static int writeComparison(const SpecArguments &spec, const PlanArguments &plan,
                           std::span<const plan::PlanToCompare> plans) {
  plan::UnreadablePlan unreadable;
  std::optional<plan::PlanComparison> comparison =
      plan::PlanComparison::make(plans, unreadable);
  if (!comparison)
    return fail(spec, frontend::Code::UnreadablePlan,
                fmt::format("cannot read the plan '{}': {}",
                            plans[unreadable.index].label, unreadable.reason));
  std::vector<std::string> pages;
  std::string errors;
  for (const plan::PlanToCompare &compared : plans)
    if (compared.error.empty())
      pages.push_back(compared.json);
    else
      errors += fmt::format("{} does not compile:\n{}", compared.label,
                            compared.error);
  int code = exitSuccess;
  if (plan.emit == "text")
    code = write(spec, plan.output,
                 plan::renderComparisonText(*comparison,
                                            TextOutput::of(plan.output).width));
  else if (plan.emit == "json")
    code = write(spec, plan.output, plan::renderComparisonJson(*comparison));
  else if (!pages.empty())
    code = write(spec, plan.output, plan::renderPlanPage(pages));
  if (plan.emit == "html")
    printError(errors); // a page has no place for them
  return code == exitSuccess && !errors.empty() ? exitWrongInput : code;
}

static int runComparison(const SpecArguments &spec, const PlanArguments &plan,
                         const layout::Machine *machine) {
  std::vector<plan::PlanToCompare> plans;
  if (!plan.tries.empty())
    plans.push_back(makePlan(spec, plan, machine,
                             spec.layout ? *spec.layout : "its own layout"));
  for (const std::string &layout : plan.tries) {
    SpecArguments tried = spec;
    tried.layout = layout;
    plans.push_back(makePlan(tried, plan, machine, layout));
  }
  for (const std::string &path : plan.compared) {
    SpecArguments other = spec;
    other.path = path;
    if (int code = readOrMakePlan(other, plan, machine, plans.emplace_back()))
      return code;
  }
  return writeComparison(spec, plan, plans);
}

//===-- plan --------------------------------------------------------------===//

int meshc::driver::runPlan(const SpecArguments &spec,
                           const PlanArguments &plan) {
  TimedMachine timed;
  if (int code = findMachine(spec, timed))
    return code;
  const layout::Machine *machine = timed.machine;
  noteAssumedMachine(spec);
  if (!plan.tries.empty() || !plan.compared.empty())
    return runComparison(spec, plan, machine);
  SpecSession session(spec);
  if (!session.elaborate() || !session.checkOutput(plan.output) ||
      !session.compile(getPlanOptions(spec, plan.target), Stage::Exec))
    return session.reportErrors();
  exec::ExecutableT &executable = session.getCompilation().executable;
  if (plan.isEvaluation)
    plan::keepEvaluation(executable);
  if (llvm::Error error = rememberPlan(executable))
    warn(spec, "\"meshc explain\" will not know this plan: " +
                   toText(std::move(error)));
  int64_t numDevices = 1;
  for (const auto &axis : executable.mesh->axes)
    numDevices *= axis->size;
  if (plan.device && *plan.device >= numDevices)
    return fail(
        spec, frontend::Code::UnknownId,
        fmt::format("the plan has no device {}; it has {}", *plan.device,
                    numDevices == 1 ? "0 alone"
                                    : fmt::format("0 to {}", numDevices - 1)));
  if (!plan.tensor.empty()) {
    std::string message;
    std::optional<std::string> text = plan::renderTensor(
        executable, plan.tensor, TextOutput::of(plan.output).width, message);
    return text ? write(spec, plan.output, *text)
                : fail(spec, frontend::Code::UnknownId, message);
  }
  const TextOutput output = TextOutput::of(plan.output);
  if (plan.emit == "text" && plan.check.empty())
    return write(
        spec, plan.output,
        plan::renderPlanText(executable, {.device = plan.device,
                                          .memoryLimit = plan.memory,
                                          .machine = machine,
                                          .order = getOrder(plan),
                                          .top = plan.top,
                                          .showsRemarks = plan.remarks,
                                          .width = output.width,
                                          .wraps = output.wraps,
                                          .hasColours = output.hasColours}));
  auto readSource = [&](std::string_view path) {
    return session.readSource(path);
  };
  plan::PlanJsonOptions options{.machine = machine, .memoryLimit = plan.memory};
  std::optional<plan::MeasuredPlan> measured;
  if (!plan.trace.empty()) {
    std::string error;
    if (std::optional<std::string> trace =
            plan::readPlanText(plan.trace, error))
      measured = plan::readTrace(*trace, executable, error);
    if (!measured)
      return fail(
          spec, frontend::Code::UnreadableTrace,
          fmt::format("cannot read the trace '{}': {}", plan.trace, error));
    options.measured = &*measured;
  }
  const std::string text =
      plan::renderPlanJson(executable, readSource, options);
  if (!plan.check.empty())
    return checkPlan(spec, plan.check, text);
  return write(spec, plan.output,
               plan.emit == "html" ? plan::renderPlanPage({&text, 1}) : text);
}
