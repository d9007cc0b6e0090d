#include "frontend/plan/PlanText.h"

#include "frontend/plan/FoldScopes.h"
#include "frontend/plan/GpuUse.h"
#include "frontend/plan/HeldPositions.h"
#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Overlap.h"
#include "frontend/plan/Plan.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/ValueTable.h"
#include "frontend/plan/Verdict.h"
#include "frontend/plan/Waste.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <span>

using namespace meshc;
using namespace meshc::plan;

//===-- Sections ----------------------------------------------------------===//

namespace {
class PlanPrinter {
public:
  PlanPrinter(const exec::ExecutableT &executable,
              const PlanTextOptions &options)
      : plan(executable), executable(executable), options(options),
        scopes(findScopes(executable)), transfers(findTransfers(plan)),
        gpu(plan) {}

  std::string print();

private:
  std::string getLegend() const;
  std::string describeDevice() const;
  std::string describePositions(const exec::TensorLayoutT &layout,
                                size_t dim) const;
  std::string getSplitLegend() const;
  std::vector<std::string> getShape(const exec::TensorLayoutT &layout) const;
  ValueRow getRow(int tensor) const;
  void addSection(ValueTable &table, std::string heading,
                  std::vector<ValueRow> rows) const;
  void addVariables(ValueTable &table) const;
  void addPhase(ValueTable &table, exec::Phase phase) const;
  std::string getTotals() const;
  std::string getLaunches() const;
  std::string getMembers(std::span<const Transfer> some) const;
  std::string getOverlap() const;
  std::string getMemory() const;
  std::string getWaste() const;

  Plan plan;
  const exec::ExecutableT &executable;
  const PlanTextOptions &options;
  std::set<std::string> scopes;
  std::vector<Transfer> transfers;
  GpuUse gpu;
};
} // namespace

/// What the table's notation means, by the first of its values that use it.
std::string PlanPrinter::getLegend() const {
  std::string text = getSplitLegend();
  for (int tensor = 0; tensor < int(executable.tensors.size()); ++tensor)
    if (!plan.getTensor(tensor).inside && !plan.isStored(tensor)) {
      text += fmt::format("'({})': takes no memory of its own: is part of a "
                          "fused operation, or lies in another value\n",
                          formatBytes(plan.getTensor(tensor).bytes_per_device));
      break;
    }
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

/// "batch 128", or of one device the positions that it holds, "batch 128:256".
std::string PlanPrinter::describePositions(const exec::TensorLayoutT &layout,
                                           size_t dim) const {
  return options.device ? describeHeld(plan, layout, dim, *options.device)
                        : fmt::format("{} {}", layout.dims[dim]->name,
                                      getLocalSize(layout, dim));
}

/// What the first split dimension in the table means; empty without any.
std::string PlanPrinter::getSplitLegend() const {
  for (const auto &tensor : executable.tensors)
    for (size_t i = 0; i < tensor->layout->dims.size(); ++i)
      if (const auto &dim = tensor->layout->dims[i]; !dim->axes.empty()) {
        std::string axes = layout::toString(plan.mesh, getAxes(dim->axes));
        if (options.device)
          return fmt::format("'{0}@{1}': from the first number to before the "
                             "second, of {2} positions split over {1}\n",
                             describePositions(*tensor->layout, i), axes,
                             dim->size);
        return fmt::format("'{0} {1}@{2}': a device holds {1} of the {3} "
                           "positions of {0}, which is split over {2}\n",
                           dim->name, getLocalSize(*tensor->layout, i), axes,
                           dim->size);
      }
  return "";
}

/// "batch 128@data", "pixel 784", and "partial sum over model" behind them.
std::vector<std::string>
PlanPrinter::getShape(const exec::TensorLayoutT &layout) const {
  std::vector<std::string> pieces;
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    const auto &dim = layout.dims[i];
    std::string piece = describePositions(layout, i);
    if (!dim->axes.empty())
      piece += "@" + layout::toString(plan.mesh, getAxes(dim->axes));
    pieces.push_back(std::move(piece));
  }
  if (pieces.empty())
    pieces.emplace_back("one number");
  if (layout.partial != exec::ReduceKind::none)
    pieces.push_back(
        fmt::format("partial {} over {}", getName(layout.partial),
                    layout::toString(plan.mesh, getAxes(layout.partial_axes))));
  return pieces;
}

ValueRow PlanPrinter::getRow(int tensor) const {
  const exec::TensorT &value = plan.getTensor(tensor);
  return {plan.getName(tensor),
          getShape(*value.layout),
          value.bytes_per_device,
          plan.isStored(tensor),
          {}};
}

void PlanPrinter::addSection(ValueTable &table, std::string heading,
                             std::vector<ValueRow> rows) const {
  if (rows.empty())
    return;
  table.addHeading(std::move(heading));
  for (ValueRow &row : foldScopes(std::move(rows), scopes))
    table.addRow(std::move(row));
}

void PlanPrinter::addVariables(ValueTable &table) const {
  for (auto [role, heading] :
       {std::pair(exec::BufferRole::parameter, "parameters"),
        std::pair(exec::BufferRole::state, "state of the optimizer")}) {
    std::vector<ValueRow> rows;
    for (int tensor = 0; tensor < int(executable.tensors.size()); ++tensor)
      if (plan.getTensor(tensor).role == role)
        rows.push_back(getRow(tensor));
    addSection(table, heading, std::move(rows));
  }
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
  case exec::BufferRole::state:
  case exec::BufferRole::communication:
  case exec::BufferRole::workspace:
    return false;
  }
  std::abort();
}

void PlanPrinter::addPhase(ValueTable &table, exec::Phase phase) const {
  std::map<int, std::vector<Communication>> communication;
  for (const PlannedCommand &planned : plan.commands)
    if (const exec::CollectiveT *collective = planned.collective;
        collective && planned.command->phase == phase)
      communication[planned.tensor].push_back(
          {planned.id,
           fmt::format("{} over {}, {}", getName(collective->kind),
                       layout::toString(plan.mesh, getAxes(collective->axes)),
                       formatBytes(collective->payload_bytes))});

  std::vector<ValueRow> rows;
  for (size_t index = 0; index < executable.tensors.size(); ++index) {
    const exec::TensorT &tensor = *executable.tensors[index];
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
    rows.push_back(getRow(int(index)));
    if (communicates)
      rows.back().communication = sent->second;
  }
  // A value without a name that leads to none either.
  for (Communication &entry : communication[-1])
    rows.push_back({"(unnamed)", {}, 0, true, {std::move(entry)}});
  addSection(table, getName(phase), std::move(rows));
}

//===-- Totals ------------------------------------------------------------===//

namespace {
struct Traffic {
  int64_t collectives = 0, transfers = 0, payload = 0, wire = 0;

  void add(const exec::CollectiveT &collective, bool beginsTransfer) {
    collectives += repeatsPerStep;
    transfers += beginsTransfer ? repeatsPerStep : 0;
    payload += collective.payload_bytes * repeatsPerStep;
    wire += collective.wire_bytes * repeatsPerStep;
  }
  std::string toString() const {
    std::string count = formatCount(collectives, "collective");
    if (transfers < collectives)
      count += " in " + formatCount(transfers, "transfer");
    return fmt::format("{}, payload {}, {} sent", count, formatBytes(payload),
                       formatBytes(wire));
  }
};
} // namespace

/// What is issued to a GPU; empty of a plan for CPUs.
std::string PlanPrinter::getLaunches() const {
  if (!isGpuPlan(plan))
    return "";
  std::vector<std::string> parts;
  for (auto [count, noun] :
       {std::pair{gpu.kernels, "kernel"}, std::pair{gpu.products, "product"},
        std::pair{gpu.copies, "move"},
        std::pair{gpu.collectives, "collective"}})
    if (count > 0)
      parts.push_back(formatCount(count, noun));
  std::string text =
      fmt::format("  launches       {}: {}\n",
                  gpu.kernels + gpu.products + gpu.copies + gpu.collectives,
                  fmt::join(parts, ", "));
  for (const auto *list : {&gpu.refusedProducts, &gpu.refusedMoves})
    for (const std::string &refused : *list)
      text += fmt::format("    {}\n", refused);
  return text;
}

std::string PlanPrinter::getTotals() const {
  int64_t flops = 0, matmulFlops = 0, convolutionFlops = 0, commands = 0;
  Traffic traffic;
  std::map<std::string, Traffic> byAxes;
  for (const PlannedCommand &planned : plan.commands) {
    flops += planned.command->flops * repeatsPerStep;
    if (planned.command->action.type == exec::Action::Matmul)
      matmulFlops += planned.command->flops * repeatsPerStep;
    if (planned.command->action.type == exec::Action::Convolution)
      convolutionFlops += planned.command->flops * repeatsPerStep;
    if (const exec::CollectiveT *collective = planned.collective) {
      bool isFirst = collective == planned.command->action.AsCollective();
      traffic.add(*collective, isFirst);
      byAxes[layout::toString(plan.mesh, getAxes(collective->axes))].add(
          *collective, isFirst);
    } else {
      commands += repeatsPerStep;
    }
  }
  const char *what =
      plan.program->name == "step" ? "training step" : "evaluation";
  std::string text = fmt::format("\neach {}, on each device\n", what);
  std::string parts = formatFlops(matmulFlops) + " in matmuls";
  if (convolutionFlops > 0)
    parts += ", " + formatFlops(convolutionFlops) + " in convolutions";
  text +=
      fmt::format("  computation    {}, {} ({})\n",
                  formatCount(commands, "command"), formatFlops(flops), parts);
  text += getLaunches();
  text += "  communication  " + traffic.toString() + "\n";
  for (const auto &[axes, part] : byAxes)
    text += fmt::format("    over {:<7} {}\n", axes, part.toString());
  return text;
}

//===-- Overlap -----------------------------------------------------------===//

/// "c1 to c3, c7": the collectives of transfers.
std::string PlanPrinter::getMembers(std::span<const Transfer> some) const {
  std::vector<int> members;
  for (const Transfer &transfer : some)
    members.insert(members.end(), transfer.collectives.begin(),
                   transfer.collectives.end());
  // Ids count the collectives in the order of the commands.
  std::vector<int> numbers;
  for (int member : members)
    numbers.push_back(int(std::count_if(
        plan.commands.begin(), plan.commands.begin() + member,
        [](const PlannedCommand &planned) { return planned.collective; })));
  std::string text;
  for (size_t begin = 0, end; begin < members.size(); begin = end) {
    end = begin + 1;
    while (end < members.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    auto getId = [&](size_t i) { return plan.commands[size_t(members[i])].id; };
    text += (text.empty() ? "" : ", ") + getId(begin);
    if (end - begin > 1)
      text += (end - begin == 2 ? ", " : " to ") + getId(end - 1);
  }
  return text;
}

/// Lines of transfers that are shown; the JSON has all.
static constexpr size_t numShownTransfers = 16;

std::string PlanPrinter::getOverlap() const {
  if (transfers.empty())
    return "";
  std::vector<std::array<std::string, 3>> rows;
  size_t width = 0, bytesWidth = 0, shown = 0;
  for (size_t begin = 0, end;
       begin < transfers.size() && rows.size() < numShownTransfers;
       begin = end) {
    end = begin + 1;
    // What has nothing beside it is told together.
    const Transfer &first = transfers[begin];
    while (first.beside.empty() && end < transfers.size() &&
           transfers[end].beside.empty())
      ++end;
    std::span<const Transfer> some(&first, end - begin);
    int64_t bytes = 0;
    for (const Transfer &transfer : some)
      bytes += transfer.payloadBytes;
    std::string members = getMembers(some);
    if (some.size() == 1 && first.collectives.size() > 1)
      members += " together";
    std::string beside = "nothing";
    if (!first.beside.empty())
      beside = fmt::format(
          "{}, {}{}", describeBeside(first), formatFlops(first.flops),
          first.reader < 0
              ? ""
              : fmt::format(", until {}",
                            plan.commands[size_t(first.reader)].id));
    rows.push_back({members, formatBytes(bytes), beside});
    width = std::max(width, members.size());
    bytesWidth = std::max(bytesWidth, rows.back()[1].size());
    shown = end;
  }
  std::string text = "\ntransfers, and what a device computes meanwhile\n";
  for (const auto &[members, bytes, beside] : rows)
    text += fmt::format("  {:<{}}  {:>{}}  {}\n", members, width, bytes,
                        bytesWidth, beside);
  if (shown < transfers.size())
    text += fmt::format(
        "  and {}, see --emit json\n",
        formatCount(int64_t(transfers.size() - shown), "more transfer"));
  return text;
}

//===-- Memory ------------------------------------------------------------===//

/// How many of the largest values at the peak are named.
static constexpr size_t numShownAtPeak = 3;

std::string PlanPrinter::getMemory() const {
  const MemoryUse use(plan, gpu);
  std::string text =
      fmt::format("\nmemory on each device: {}\n", formatBytes(use.peakBytes));
  auto addRow = [&](std::string_view indent, std::string_view name,
                    int64_t bytes) {
    if (bytes > 0)
      text += fmt::format("{}{:<{}} {}\n", indent, name, 16 - indent.size(),
                          formatBytes(bytes));
  };
  // Of an arena alone the rows are those of the device.
  const std::string_view indent = isGpuPlan(plan) ? "    " : "  ";
  if (isGpuPlan(plan))
    addRow("  ", "arena", use.arenaBytes);
  for (size_t index = 0; index < numMemoryCategories; ++index)
    addRow(indent, getName(MemoryCategory(index)), use.bytes[index]);
  addRow(indent, "unused", use.unusedBytes);
  for (const runtime::cuda::MemoryRow &row : use.besideArena)
    addRow("  ", row.name, int64_t(row.bytes));
  std::vector<std::string> largest;
  for (int index : use.live) {
    const exec::BufferT &buffer = *executable.buffers[size_t(index)];
    if (largest.size() < numShownAtPeak && !buffer.name.empty())
      largest.push_back(fmt::format("{} {}", buffer.name,
                                    formatBytes(int64_t(buffer.bytes))));
  }
  if (!largest.empty())
    text +=
        fmt::format("  largest at the peak: {}\n", fmt::join(largest, ", "));
  return text;
}

/// The words of `text` in lines of at most `width` columns; those behind the
/// first are indented further.
static std::string wrap(std::string_view text, std::string_view indent,
                        size_t width) {
  std::string lines, line(indent);
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (line.size() + 1 + end > width && line.size() > indent.size()) {
      lines += line + "\n";
      line = fmt::format("{0}{0}", indent);
    }
    const bool isFirst = line.find_first_not_of(' ') == std::string::npos;
    line += fmt::format("{}{}", isFirst ? "" : " ", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + line + "\n";
}

static constexpr size_t numColumns = 100;

std::string PlanPrinter::getWaste() const {
  std::string text;
  for (const Waste &waste : findWaste(plan))
    text += wrap(waste.text, "  ", numColumns);
  return text.empty() ? text : "\nwaste\n" + text;
}

std::string PlanPrinter::print() {
  std::string text = fmt::format(
      "{} on {}{}\nlayout: {}\n", executable.model, plan.describeMesh(),
      isGpuPlan(plan) ? ", GPUs" : "", plan.describeLayout());
  text += describeDevice();
  if (!plan.program)
    return text + "\nthe executable has neither a training step nor an "
                  "evaluation\n";
  if (options.machine)
    text += renderVerdict(plan, transfers, gpu, *options.machine,
                          options.memoryLimit);
  else if (options.memoryLimit)
    text += fmt::format("\n{}\n", describeFit(plan, gpu, *options.memoryLimit));
  text += getLegend();
  ValueTable table(options.device ? fmt::format("on device {}", *options.device)
                                  : "on each device");
  addVariables(table);
  for (exec::Phase phase : options.phases)
    addPhase(table, phase);
  return text + table.render() + getTotals() + getOverlap() + getMemory() +
         getWaste();
}

std::string plan::renderPlanText(const exec::ExecutableT &executable,
                                 const PlanTextOptions &options) {
  return PlanPrinter(executable, options).print();
}
