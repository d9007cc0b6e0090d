#include "frontend/plan/text/StepText.h"

#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/Remarks.h"
#include "frontend/plan/Waste.h"
#include "frontend/plan/kinds/PlannedKind.h"
#include "frontend/plan/text/TerminalText.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace meshc;
using namespace meshc::plan;

//===-- Totals ------------------------------------------------------------===//

namespace {
struct Traffic {
  int64_t collectives = 0, transfers = 0, payload = 0, wire = 0;

  void add(const PlannedCommand &planned) {
    const exec::CollectiveT &collective = *planned.collective;
    const bool beginsTransfer =
        &collective == planned.command->action.AsCollective();
    collectives += planned.repeats;
    transfers += beginsTransfer ? planned.repeats : 0;
    payload += collective.payload_bytes * planned.repeats;
    wire += collective.wire_bytes * planned.repeats;
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
static std::string getLaunches(const Plan &plan, const GpuUse &gpu) {
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

std::string plan::renderTotals(const Plan &plan, const GpuUse &gpu) {
  int64_t flops = 0, commands = 0;
  // Of matmuls also where there are none.
  std::vector<std::pair<std::string_view, int64_t>> flopsApart = {
      {plannedMatmul.flopsName, 0}};
  Traffic traffic;
  std::map<std::string, Traffic> byAxes;
  for (const PlannedCommand &planned : plan.commands) {
    flops += planned.command->flops * planned.repeats;
    if (const char *name = getPlannedKind(*planned.command).flopsName) {
      auto known =
          std::ranges::find(flopsApart, std::string_view(name),
                            &std::pair<std::string_view, int64_t>::first);
      if (known == flopsApart.end())
        known = flopsApart.insert(known, {name, 0});
      known->second += planned.command->flops * planned.repeats;
    }
    if (const exec::CollectiveT *collective = planned.collective) {
      traffic.add(planned);
      byAxes[layout::toString(plan.mesh, getAxes(collective->axes))].add(
          planned);
    } else {
      commands += planned.repeats;
    }
  }
  std::string text =
      fmt::format("\n{}, on each device\n", plan.describeProgram());
  std::string parts;
  for (const auto &[name, count] : flopsApart)
    parts += fmt::format("{}{} in {}", parts.empty() ? "" : ", ",
                         formatFlops(count), name);
  text +=
      fmt::format("  computation    {}, {} ({})\n",
                  formatCount(commands, "command"), formatFlops(flops), parts);
  text += getLaunches(plan, gpu);
  text += "  communication  " + traffic.toString() + "\n";
  for (const auto &[axes, part] : byAxes)
    text += fmt::format("    over {:<7} {}\n", axes, part.toString());
  return text;
}

std::string plan::renderRecomputed(const exec::ExecutableT &executable) {
  if (!executable.training || executable.training->recomputed.empty())
    return "";
  size_t width = 0;
  for (const auto &scope : executable.training->recomputed)
    width = std::max(width, scope->scope.size());
  std::string text = "\ncomputed again in the backward phase, on each device\n";
  for (const auto &scope : executable.training->recomputed)
    text += fmt::format("  {:<{}}  {}, {} less to keep, {} more\n",
                        scope->scope, width, formatCount(scope->units, "time"),
                        formatBytes(scope->bytes), formatFlops(scope->flops));
  return text;
}

//===-- Overlap -----------------------------------------------------------===//

/// "c1 to c3, c7": the collectives of transfers; of many runs the first.
static std::string getMembers(const Plan &plan,
                              std::span<const Transfer *const> some) {
  constexpr size_t mostRuns = 4;
  // Ids count the collectives in the order of the commands.
  std::vector<int> numbers;
  for (const PlannedCommand &planned : plan.commands)
    numbers.push_back((numbers.empty() ? 0 : numbers.back()) +
                      (planned.collective ? 1 : 0));
  std::vector<size_t> members;
  for (const Transfer *transfer : some)
    members.insert(members.end(), transfer->collectives.begin(),
                   transfer->collectives.end());
  std::string text;
  size_t runs = 0;
  for (size_t begin = 0, end; begin < members.size(); begin = end) {
    if (runs++ == mostRuns)
      return text + fmt::format(" and {} more", members.size() - begin);
    end = begin + 1;
    while (end < members.size() &&
           numbers[members[end]] == numbers[members[end - 1]] + 1)
      ++end;
    auto getId = [&](size_t i) { return plan.commands[members[i]].id; };
    text += (text.empty() ? "" : ", ") + getId(begin);
    if (end - begin > 1)
      text += (end - begin == 2 ? ", " : " to ") + getId(end - 1);
  }
  return text;
}

namespace {
/// A line of the transfers.
struct TransferRow {
  std::string members = {}, beside = {};
  int64_t bytes = 0, wireBytes = 0;
  std::vector<const Transfer *> transfers = {};
  bool isAlone = false; ///< no arithmetic is computed meanwhile
};
} // namespace

/// "1 matmul, 3.71 Tflop", what is computed beside a transfer; "nothing", or
/// "no arithmetic" beside copies and what else has no flops.
static std::string describeOverlap(const Transfer &transfer) {
  if (transfer.beside.empty())
    return "nothing";
  if (transfer.flops == 0)
    return "no arithmetic";
  return fmt::format("{}, {}", describeBeside(transfer),
                     formatFlops(transfer.flops));
}

/// All transfers that no arithmetic hides are one row, others one with those
/// that are the same but for their call or iteration, and neighbours one that
/// have the same beside them.
static std::vector<TransferRow>
findTransferRows(const Plan &plan, const EqualScopes &scopes,
                 const std::vector<Transfer> &transfers) {
  std::map<std::pair<std::vector<int>, std::string>, size_t> places;
  std::vector<TransferRow> rows;
  for (const Transfer &transfer : transfers) {
    TransferRow row{.beside = describeOverlap(transfer),
                    .bytes = transfer.payloadBytes};
    for (int member : transfer.collectives)
      row.wireBytes += plan.commands[size_t(member)].collective->wire_bytes;
    std::vector<int> likeness;
    if (transfer.flops > 0)
      for (int member : transfer.collectives)
        likeness.push_back(scopes.commandFolds[size_t(member)]);
    const auto [place, isFirst] =
        places.try_emplace({likeness, row.beside}, rows.size());
    if (!isFirst) {
      rows[place->second].bytes += row.bytes;
      rows[place->second].wireBytes += row.wireBytes;
      rows[place->second].transfers.push_back(&transfer);
      continue;
    }
    row.isAlone = transfer.flops == 0;
    row.transfers = {&transfer};
    if (transfer.reader >= 0 && !row.isAlone)
      row.beside +=
          fmt::format(", until {}", plan.commands[size_t(transfer.reader)].id);
    rows.push_back(std::move(row));
  }
  for (TransferRow &row : rows) {
    const size_t count = row.transfers.size();
    row.members = getMembers(
        plan, std::span(row.transfers).first(row.isAlone ? count : 1));
    if (row.transfers[0]->collectives.size() > 1 && !(row.isAlone && count > 1))
      row.members += " together";
    if (count > 1 && !row.isAlone)
      row.members += fmt::format(", {} times", count);
  }
  const auto isSingle = [](const TransferRow &row) {
    return row.transfers.back()->collectives.size() == 1;
  };
  std::vector<TransferRow> joined;
  for (TransferRow &row : rows)
    if (!joined.empty() && joined.back().beside == row.beside &&
        isSingle(joined.back()) && isSingle(row)) {
      TransferRow &last = joined.back();
      last.members += ", " + row.members;
      last.bytes += row.bytes;
      last.wireBytes += row.wireBytes;
      last.transfers.insert(last.transfers.end(), row.transfers.begin(),
                            row.transfers.end());
    } else {
      joined.push_back(std::move(row));
    }
  return joined;
}

std::string plan::renderOverlap(const Plan &plan, const EqualScopes &scopes,
                                const std::vector<Transfer> &transfers,
                                RowOrder order, size_t top) {
  if (transfers.empty())
    return "";
  std::vector<TransferRow> rows = findTransferRows(plan, scopes, transfers);
  // Of equal ones the first comes first: transfers are one after the other.
  auto sort = [&](int64_t TransferRow::*bytes) {
    std::ranges::sort(rows, [&](const TransferRow &x, const TransferRow &y) {
      return std::tuple(-(x.*bytes), x.transfers.front()) <
             std::tuple(-(y.*bytes), y.transfers.front());
    });
  };
  if (order == RowOrder::Bytes)
    sort(&TransferRow::bytes);
  if (order == RowOrder::Sent)
    sort(&TransferRow::wireBytes);
  const size_t shown = std::min(rows.size(), top);
  size_t width = 0, bytesWidth = 0;
  for (const TransferRow &row : std::span(rows).first(shown)) {
    width = std::max(width, row.members.size());
    bytesWidth = std::max(bytesWidth, formatBytes(row.bytes).size());
  }
  std::string text = "\ntransfers, and what a device computes meanwhile\n";
  for (const TransferRow &row : std::span(rows).first(shown))
    text += fmt::format("  {:<{}}  {:>{}}  {}\n", row.members, width,
                        formatBytes(row.bytes), bytesWidth, row.beside);
  int64_t others = 0;
  for (const TransferRow &row : std::span(rows).subspan(shown))
    others += int64_t(row.transfers.size());
  if (others > 0)
    text += fmt::format("  and {}, see --emit json\n",
                        formatCount(others, "more transfer"));
  return text;
}

//===-- Memory ------------------------------------------------------------===//

std::string plan::renderMemory(const Plan &plan, const GpuUse &gpu,
                               size_t top) {
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
    const exec::BufferT &buffer = *plan.executable.buffers[size_t(index)];
    if (largest.size() < top && !buffer.name.empty())
      largest.push_back(fmt::format("{} {}", buffer.name,
                                    formatBytes(int64_t(buffer.bytes))));
  }
  if (!largest.empty())
    text +=
        fmt::format("  largest at the peak: {}\n", fmt::join(largest, ", "));
  return text;
}

std::string plan::renderWaste(const Plan &plan, size_t width) {
  std::string text;
  for (const Waste &waste : findWaste(plan))
    text += wrapWords("  ", 4, waste.text, width);
  return text.empty() ? text : "\nwaste\n" + text;
}

/// "and so are x, b1/h and 5 more": values of which the same is to be said.
static std::string listAlike(const Plan &plan,
                             const std::vector<const Remark *> &alike) {
  constexpr size_t most = 4;
  std::vector<std::string> names;
  for (const Remark *remark : alike)
    names.push_back("\"" + plan.getName(remark->tensor) + "\"");
  const size_t others = names.size() > most ? names.size() - most : 0;
  names.resize(names.size() - others);
  std::string text = names.size() > 1 ? "and so are " : "and so is ";
  text += fmt::format("{}", fmt::join(names, ", "));
  return others > 0 ? text + fmt::format(" and {} more", others) : text;
}

/// "4 MiB  mlp.mesh:12  o7 stores a copy of x, for h: no library takes it ...",
/// and below that what would avoid it. Of values that are whole for the same
/// reason the first is told, with the names of the others.
std::string plan::renderRemarks(const Plan &plan, const EqualScopes &scopes,
                                size_t width, std::optional<size_t> top) {
  const std::vector<Remark> remarks = findRemarks(plan, scopes);
  if (remarks.empty())
    return fmt::format("\nremarks\n  none: nothing of more than {} was not "
                       "written\n",
                       formatBytes(runtime::remarkBytes));
  using Reason = std::tuple<int64_t, std::vector<layout::AxisRef>, std::string>;
  std::map<Reason, size_t> firsts;
  std::vector<std::pair<const Remark *, std::vector<const Remark *>>> told;
  for (const Remark &remark : remarks) {
    if (remark.kind == Remark::Kind::Replicated) {
      const auto [first, isNew] = firsts.try_emplace(
          {remark.bytes, remark.axes, remark.advice}, told.size());
      if (!isNew) {
        told[first->second].second.push_back(&remark);
        continue;
      }
    }
    told.push_back({&remark, {}});
  }
  const size_t shown = std::min(told.size(), top.value_or(told.size()));
  constexpr size_t indent = 12;
  std::string text =
      "\nremarks: what was not written, by bytes on each device\n";
  for (const auto &[remark, alike] : std::span(told).first(shown)) {
    std::string line = fmt::format("  {:>8}  ", formatBytes(remark->bytes));
    if (remark->span)
      line += fmt::format("{}:{}  ",
                          plan.executable.files[size_t(remark->span->file())],
                          remark->span->line());
    text += wrapWords(line, indent, remark->text, width);
    if (!alike.empty())
      text += wrapWords(std::string(indent, ' '), indent,
                        listAlike(plan, alike), width);
    if (!remark->advice.empty())
      text +=
          wrapWords(std::string(indent, ' '), indent, remark->advice, width);
  }
  if (shown < told.size())
    text += fmt::format(
        "  and {}\n", formatCount(int64_t(told.size() - shown), "more remark"));
  return text;
}
