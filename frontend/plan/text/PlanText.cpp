#include "frontend/plan/text/PlanText.h"

#include "frontend/plan/Quantities.h"
#include "frontend/plan/text/HeldPositions.h"
#include "frontend/plan/text/ScopeText.h"
#include "frontend/plan/text/StepText.h"
#include "frontend/plan/text/TerminalText.h"
#include "frontend/plan/text/ValueRows.h"
#include "frontend/plan/text/Verdict.h"
#include "layout/Sharding.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

//===-- Sections ----------------------------------------------------------===//

namespace {
class PlanPrinter {
public:
  PlanPrinter(const exec::ExecutableT &executable,
              const PlanTextOptions &options)
      : plan(executable), executable(executable), options(options),
        scopes(plan), transfers(findTransfers(plan)), gpu(plan) {}

  std::string print();

private:
  std::string getLegend(const std::vector<ValueSection> &sections) const;
  std::string describeDevice() const;
  std::string getSplitLegend() const;

  Plan plan;
  const exec::ExecutableT &executable;
  const PlanTextOptions &options;
  EqualScopes scopes;
  std::vector<Transfer> transfers;
  GpuUse gpu;
};
} // namespace

/// What the table's notation means, by the first of its values that use it.
std::string
PlanPrinter::getLegend(const std::vector<ValueSection> &sections) const {
  std::string text = getSplitLegend();
  const ValueRow *fused = nullptr;
  for (const ValueSection &section : sections)
    for (const ValueRow &row : section.rows)
      if (!fused && !row.isStored && row.bytes > 0)
        fused = &row;
  bool hasTiles = false;
  for (int tensor = 0; tensor < int(plan.executable.tensors.size()); ++tensor)
    hasTiles |= plan.isInTiles(tensor);
  if (fused)
    text += fmt::format("'({})': takes no memory of its own: is part of a "
                        "fused operation, or lies in another value{}\n",
                        formatBytes(fused->bytes),
                        hasTiles ? ", or is there a tile at a time" : "");
  return text.empty() ? text : "\n" + text;
}

/// "device 3 is data=1, model=1"; empty where none is asked for.
std::string PlanPrinter::describeDevice() const {
  if (!options.device)
    return "";
  const std::vector<int64_t> coordinates =
      plan.mesh.getCoordinates(*options.device);
  std::vector<std::string> places;
  for (size_t axis = 0; axis < coordinates.size(); ++axis)
    places.push_back(fmt::format("{}={}", plan.mesh.getAxes()[axis].name,
                                 coordinates[axis]));
  return fmt::format(
      "device {}{}\n", *options.device,
      places.empty() ? "" : fmt::format(" is {}", fmt::join(places, ", ")));
}

/// What the first split dimension in the table means; empty without any.
std::string PlanPrinter::getSplitLegend() const {
  for (const auto &tensor : executable.tensors)
    for (size_t i = 0; i < tensor->layout->dims.size(); ++i)
      if (const auto &dim = tensor->layout->dims[i]; !dim->axes.empty()) {
        std::string axes = layout::toString(plan.mesh, getAxes(dim->axes));
        if (options.device)
          return fmt::format(
              "'{0}@{1}': from the first number to before the "
              "second, of {2} positions split over {1}\n",
              describeHeld(plan, *tensor->layout, i, *options.device), axes,
              dim->size);
        return fmt::format("'{0} {1}@{2}': a device holds {1} of the {3} "
                           "positions of {0}, which is split over {2}\n",
                           dim->name, getLocalSize(*tensor->layout, i), axes,
                           dim->size);
      }
  return "";
}

/// How many are shown of what is listed, where nothing else is asked for.
static constexpr size_t numCosts = 3, numTransfers = 16, numAtPeak = 3,
                        numParts = 16;

std::string PlanPrinter::print() {
  std::string text =
      fmt::format("{} on {}{}\n", executable.model, plan.describeMesh(),
                  isGpuPlan(plan) ? ", GPUs" : "");
  const std::string layout =
      fmt::format("layout: {}\n", plan.describeLayout()) + describeDevice();
  if (!plan.program)
    return text + layout +
           "\nthe executable has neither a training step nor an evaluation\n";
  std::optional<StepTime> time;
  std::optional<int64_t> limit = options.memoryLimit;
  if (options.machine && findUnpriced(plan, *options.machine).empty())
    time.emplace(plan, transfers, *options.machine);
  if (options.machine && !limit)
    limit = options.machine->getMemoryBytes();
  const StepTime *known = time ? &*time : nullptr;
  text += renderSummary(plan, transfers, gpu, known, limit) + layout;
  if (options.machine)
    text += renderVerdict(plan, scopes, transfers, gpu, *options.machine, known,
                          options.top.value_or(numCosts), limit);
  else if (options.memoryLimit)
    text += fmt::format("\n{}\n", describeFit(plan, gpu, *options.memoryLimit));
  std::vector<ValueSection> sections = findValueRows(plan, scopes, options);
  text += getLegend(sections);
  ValueTable table(options.width,
                   options.device ? fmt::format("on device {}", *options.device)
                                  : "on each device");
  for (ValueSection &section : sections) {
    table.addHeading(std::move(section.heading));
    for (ValueRow &row : section.rows)
      table.addRow(std::move(row));
  }
  text += table.render();
  // In the order in which they run.
  if (const exec::ProgramT *accumulate = findAccumulate(executable)) {
    const Plan parts(executable, *accumulate);
    text += renderTotals(parts, GpuUse(parts));
  }
  text += renderTotals(plan, gpu) + renderRecomputed(executable) +
          renderOverlap(plan, scopes, transfers, options.order,
                        options.top.value_or(numTransfers)) +
          renderMemory(plan, gpu, options.top.value_or(numAtPeak)) +
          renderScopes(plan, scopes, transfers, gpu, options.machine,
                       options.top.value_or(numParts)) +
          renderWaste(plan, options.width);
  if (options.showsRemarks)
    text += renderRemarks(plan, scopes, options.width, options.top);
  if (options.wraps)
    text = wrapLines(text, options.width);
  return options.hasColours ? colourPlan(text, plan.mesh) : text;
}

std::string plan::renderPlanText(const exec::ExecutableT &executable,
                                 const PlanTextOptions &options) {
  return PlanPrinter(executable, options).print();
}
