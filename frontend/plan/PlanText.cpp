#include "frontend/plan/PlanText.h"

#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Plan.h"
#include "frontend/plan/Quantities.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <optional>

using namespace meshc;
using namespace meshc::plan;

//===-- Table -------------------------------------------------------------===//

/// Columns of a page. The caps and the gaps of two blanks make up the width.
static constexpr size_t pageWidth = 100, indent = 2, gap = 2, nameCap = 34,
                        shapeCap = 50, bytesWidth = 8;
static_assert(indent + nameCap + gap + shapeCap + gap + bytesWidth <=
              pageWidth);

namespace {
/// Values under headings, aligned over the whole table.
class ValueTable {
public:
  struct Row {
    std::string name;
    std::vector<std::string> shape; ///< pieces, joined by ", "
    std::string bytes;
    std::vector<std::string> communication;
  };

  void addHeading(std::string heading) {
    entries.push_back({std::move(heading), std::nullopt});
  }
  void addRow(Row row) {
    nameWidth = std::max(nameWidth, std::min(row.name.size(), nameCap));
    shapeWidth =
        std::max(shapeWidth, std::min(join(row.shape).size(), shapeCap));
    entries.push_back({"", std::move(row)});
  }
  std::string render() const;

private:
  struct Entry {
    std::string heading;
    std::optional<Row> row;
  };

  static std::string join(const std::vector<std::string> &pieces) {
    return fmt::format("{}", fmt::join(pieces, ", "));
  }
  std::vector<std::string> wrap(const std::vector<std::string> &pieces) const;
  void renderRow(const Row &row, std::string &text) const;

  std::vector<Entry> entries;
  // The titles of the columns need as much.
  size_t nameWidth = 5, shapeWidth = 14;
};
} // namespace

std::vector<std::string>
ValueTable::wrap(const std::vector<std::string> &pieces) const {
  std::vector<std::string> lines(1);
  for (size_t index = 0; index < pieces.size(); ++index) {
    std::string piece = pieces[index] + (index + 1 < pieces.size() ? "," : "");
    std::string &line = lines.back();
    if (line.empty())
      line = piece;
    else if (line.size() + 1 + piece.size() <= shapeWidth)
      line += " " + piece;
    else
      lines.push_back(piece);
  }
  return lines;
}

void ValueTable::renderRow(const Row &row, std::string &text) const {
  bool isLong = row.name.size() > nameWidth;
  if (isLong)
    text += fmt::format("{:{}}{}\n", "", indent, row.name);
  std::vector<std::string> shape = wrap(row.shape);
  size_t communication = 0;
  for (size_t index = 0; index < shape.size(); ++index) {
    bool isFirst = index == 0;
    std::string line = fmt::format(
        "{:{}}{:{}}{:{}}{:{}}{:{}}{:>{}}", "", indent,
        isFirst && !isLong ? row.name : "", nameWidth, "", gap, shape[index],
        shapeWidth, "", gap, isFirst ? row.bytes : "", bytesWidth);
    if (communication < row.communication.size() &&
        line.size() + gap + row.communication[communication].size() <=
            pageWidth)
      line +=
          fmt::format("{:{}}{}", "", gap, row.communication[communication++]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  // What does not fit beside the value stands below it.
  size_t beside =
      indent + nameWidth + gap + shapeWidth + gap + bytesWidth + gap;
  for (; communication < row.communication.size(); ++communication) {
    const std::string &entry = row.communication[communication];
    bool fits = beside + entry.size() <= pageWidth;
    text += fmt::format("{:{}}{}\n", "",
                        fits ? beside : indent + nameWidth + gap, entry);
  }
}

std::string ValueTable::render() const {
  std::string text = "\n";
  renderRow({"value", {"on each device"}, "bytes", {"communication"}}, text);
  for (const Entry &entry : entries)
    if (entry.row)
      renderRow(*entry.row, text);
    else
      text += "\n" + entry.heading + "\n";
  return text;
}

//===-- Sections ----------------------------------------------------------===//

namespace {
class PlanPrinter {
public:
  PlanPrinter(const exec::ExecutableT &executable,
              const PlanTextOptions &options)
      : plan(executable), executable(executable), options(options) {}

  std::string print();

private:
  std::string getTitle() const;
  std::string getSplits() const;
  std::string getLegend() const;
  std::vector<std::string> getShape(const exec::TensorLayoutT &layout) const;
  std::string getCommunication(const PlannedCommand &planned) const;
  void addVariables(ValueTable &table) const;
  void addPhase(ValueTable &table, exec::Phase phase) const;
  std::string getTotals() const;
  std::string getMemory() const;

  Plan plan;
  const exec::ExecutableT &executable;
  const PlanTextOptions &options;
};
} // namespace

/// "mlp on data=2 x model=2: 4 devices".
std::string PlanPrinter::getTitle() const {
  std::vector<std::string> axes;
  for (const layout::MeshAxis &axis : plan.mesh.getAxes())
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  std::string devices = formatCount(plan.mesh.getNumDevices(), "device");
  if (axes.empty())
    return fmt::format("{} on {}\n", executable.model, devices);
  return fmt::format("{} on {}: {}\n", executable.model, fmt::join(axes, " x "),
                     devices);
}

/// "batch -> data, hidden -> model".
std::string PlanPrinter::getSplits() const {
  std::vector<std::string> rules;
  for (const auto &dim : executable.dims)
    if (!dim->axes.empty())
      rules.push_back(dim->name + " -> " +
                      layout::toString(plan.mesh, getAxes(dim->axes)));
  if (rules.empty())
    return "layout: nothing is split\n";
  return fmt::format("layout: {}\n", fmt::join(rules, ", "));
}

/// What the first split dimension in the table means; empty without any.
std::string PlanPrinter::getLegend() const {
  for (const auto &tensor : executable.tensors)
    for (const auto &dim : tensor->layout->dims)
      if (!dim->axes.empty()) {
        std::string axes = layout::toString(plan.mesh, getAxes(dim->axes));
        return fmt::format("\n'{0} {1}@{2}': a device holds {1} of the {3} "
                           "positions of {0}, which is split over {2}\n",
                           dim->name, getLocalSize(*dim), axes, dim->size);
      }
  return "";
}

/// "batch 128@data", "pixel 784", and "partial sum over model" behind them.
std::vector<std::string>
PlanPrinter::getShape(const exec::TensorLayoutT &layout) const {
  std::vector<std::string> pieces;
  for (const auto &dim : layout.dims) {
    std::string piece = fmt::format("{} {}", dim->name, getLocalSize(*dim));
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

/// "c3 all_reduce over model, 5 KiB".
std::string PlanPrinter::getCommunication(const PlannedCommand &planned) const {
  const exec::CollectiveT &collective = *planned.getCollective();
  return fmt::format("{} {} over {}, {}", planned.id, getName(collective.kind),
                     layout::toString(plan.mesh, getAxes(collective.axes)),
                     formatBytes(collective.payload_bytes));
}

void PlanPrinter::addVariables(ValueTable &table) const {
  for (auto [role, heading] :
       {std::pair(exec::BufferRole::parameter, "parameters"),
        std::pair(exec::BufferRole::state, "state of the optimizer")}) {
    bool isFirst = true;
    for (const auto &tensor : executable.tensors) {
      if (tensor->role != role)
        continue;
      if (isFirst)
        table.addHeading(heading);
      isFirst = false;
      table.addRow({tensor->name,
                    getShape(*tensor->layout),
                    formatBytes(tensor->bytes_per_device),
                    {}});
    }
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
  std::map<int, std::vector<std::string>> communication;
  for (const PlannedCommand &planned : plan.commands)
    if (planned.getCollective() && planned.command->phase == phase)
      communication[planned.tensor].push_back(getCommunication(planned));

  std::vector<ValueTable::Row> rows;
  for (size_t index = 0; index < executable.tensors.size(); ++index) {
    const exec::TensorT &tensor = *executable.tensors[index];
    auto sent = communication.find(int(index));
    bool communicates = sent != communication.end();
    // An output that is a named value as well is that value.
    if (!communicates && tensor.role == exec::BufferRole::output &&
        plan.findTensor(tensor.name, exec::Phase::forward) != int(index))
      continue;
    if (communicates || belongsTo(tensor, phase))
      rows.push_back(
          {tensor.name, getShape(*tensor.layout),
           formatBytes(tensor.bytes_per_device),
           communicates ? sent->second : std::vector<std::string>()});
  }
  // A value without a name that leads to none either.
  for (std::string &entry : communication[-1])
    rows.push_back({"(unnamed)", {}, "", {entry}});

  if (rows.empty())
    return;
  table.addHeading(getName(phase));
  for (ValueTable::Row &row : rows)
    table.addRow(std::move(row));
}

//===-- Totals ------------------------------------------------------------===//

namespace {
struct Traffic {
  int64_t collectives = 0, payload = 0, wire = 0;

  void add(const exec::CollectiveT &collective) {
    collectives += repeatsPerStep;
    payload += collective.payload_bytes * repeatsPerStep;
    wire += collective.wire_bytes * repeatsPerStep;
  }
  std::string toString() const {
    return fmt::format("{}, payload {}, {} sent",
                       formatCount(collectives, "collective"),
                       formatBytes(payload), formatBytes(wire));
  }
};
} // namespace

std::string PlanPrinter::getTotals() const {
  int64_t flops = 0, matmulFlops = 0, commands = 0;
  Traffic traffic;
  std::map<std::string, Traffic> byAxes;
  for (const PlannedCommand &planned : plan.commands) {
    flops += planned.command->flops * repeatsPerStep;
    if (planned.command->action.type == exec::Action::Matmul)
      matmulFlops += planned.command->flops * repeatsPerStep;
    if (const exec::CollectiveT *collective = planned.getCollective()) {
      traffic.add(*collective);
      byAxes[layout::toString(plan.mesh, getAxes(collective->axes))].add(
          *collective);
    } else {
      commands += repeatsPerStep;
    }
  }
  const char *what =
      plan.program->name == "step" ? "training step" : "evaluation";
  std::string text = fmt::format("\neach {}, on each device\n", what);
  text += fmt::format("  computation    {}, {} ({} in matmuls)\n",
                      formatCount(commands, "command"), formatFlops(flops),
                      formatFlops(matmulFlops));
  text += "  communication  " + traffic.toString() + "\n";
  for (const auto &[axes, part] : byAxes)
    text += fmt::format("    over {:<7} {}\n", axes, part.toString());
  return text;
}

/// How many of the largest values at the peak are named.
static constexpr size_t numShownAtPeak = 3;

std::string PlanPrinter::getMemory() const {
  MemoryUse use(plan);
  std::string text =
      fmt::format("\nmemory on each device: {}\n", formatBytes(use.peakBytes));
  for (size_t index = 0; index < numMemoryCategories; ++index)
    if (use.bytes[index] > 0)
      text += fmt::format("  {:<14} {}\n", getName(MemoryCategory(index)),
                          formatBytes(use.bytes[index]));
  if (use.unusedBytes > 0)
    text +=
        fmt::format("  {:<14} {}\n", "unused", formatBytes(use.unusedBytes));
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

std::string PlanPrinter::print() {
  std::string text = getTitle() + getSplits();
  if (!plan.program)
    return text + "\nthe executable has neither a training step nor an "
                  "evaluation\n";
  text += getLegend();
  ValueTable table;
  addVariables(table);
  for (exec::Phase phase : options.phases)
    addPhase(table, phase);
  return text + table.render() + getTotals() + getMemory();
}

std::string plan::renderPlanText(const exec::ExecutableT &executable,
                                 const PlanTextOptions &options) {
  return PlanPrinter(executable, options).print();
}
