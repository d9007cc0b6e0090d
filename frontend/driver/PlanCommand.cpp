// meshc plan.

#include "codegen/machine/OutputFile.h"
#include "frontend/driver/LastPlan.h"
#include "frontend/driver/Measure.h"
#include "frontend/driver/Report.h"
#include "frontend/driver/SpecSession.h"
#include "frontend/plan/HeldPositions.h"
#include "frontend/plan/PlanText.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/json/PlanDiff.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/page/PlanPage.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::driver;

/// The text of a stored plan or trace. Fails with the reason.
static llvm::Expected<std::string> readLargeFile(const std::string &path) {
  // A plan of 2^17 commands, the most that a program has, is a tenth of it.
  constexpr uint64_t maxBytes = uint64_t(1) << 30;
  uint64_t bytes = 0;
  if (llvm::sys::fs::is_directory(path))
    return llvm::createStringError("it is a directory");
  if (std::error_code error = llvm::sys::fs::file_size(path, bytes))
    return llvm::createStringError(error.message());
  if (bytes > maxBytes)
    return llvm::createStringError("it has more than " +
                                   plan::formatBytes(int64_t(maxBytes)));
  auto text = llvm::MemoryBuffer::getFile(path);
  if (!text)
    return llvm::createStringError(text.getError().message());
  return (*text)->getBuffer().str();
}

/// Holds the plan `fresh` against the stored one.
static int checkPlan(const SpecArguments &spec, const std::string &path,
                     const std::string &fresh) {
  auto refuse = [&](const std::string &reason) {
    return fail(spec, frontend::Code::UnreadablePlan,
                fmt::format("cannot read the plan '{}': {}", path, reason));
  };
  llvm::Expected<std::string> stored = readLargeFile(path);
  if (!stored)
    return refuse(toText(stored.takeError()));
  std::string error;
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

int meshc::driver::runPlan(const SpecArguments &spec,
                           const PlanArguments &plan) {
  const bool isForHost = spec.machine == layout::getCpuMachine().getName();
  std::optional<layout::MeasuredMachine> host;
  if (isForHost) {
    llvm::Expected<std::optional<layout::MeasuredHost>> measured =
        findMeasurement();
    if (!measured)
      return fail(spec, frontend::Code::NotMeasured,
                  toText(measured.takeError()));
    if (!*measured)
      return fail(spec, frontend::Code::NotMeasured,
                  "this host has not been measured",
                  {"run 'meshc doctor --measure', which takes a minute"});
    host.emplace(**measured);
  }
  SpecSession session(spec);
  if (!session.elaborate() || !session.checkOutput(plan.output) ||
      !session.compile(getPlanOptions(spec, plan.target), Stage::Exec))
    return session.reportErrors();
  const exec::ExecutableT &executable = session.getCompilation().executable;
  if (llvm::Error error = rememberPlan(executable))
    warn(spec, "\"meshc explain\" will not know this plan: " +
                   toText(std::move(error)));
  const layout::Machine *machine = host ? &host->get()
                                   : spec.machine.empty()
                                       ? nullptr
                                       : layout::findMachine(spec.machine);
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
    std::optional<std::string> text =
        plan::renderTensor(executable, plan.tensor, message);
    return text ? write(spec, plan.output, *text)
                : fail(spec, frontend::Code::UnknownId, message);
  }
  if (plan.emit == "text" && plan.check.empty())
    return write(spec, plan.output,
                 plan::renderPlanText(executable, {.device = plan.device,
                                                   .memoryLimit = plan.memory,
                                                   .machine = machine}));
  auto readSource = [&](std::string_view path) {
    return session.readSource(path);
  };
  plan::PlanJsonOptions options{.machine = machine, .memoryLimit = plan.memory};
  std::optional<plan::MeasuredPlan> measured;
  if (!plan.trace.empty()) {
    std::string error;
    llvm::Expected<std::string> trace = readLargeFile(plan.trace);
    if (trace)
      measured = plan::readTrace(*trace, executable, error);
    else
      error = toText(trace.takeError());
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
