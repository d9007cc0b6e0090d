#include "frontend/plan/text/ScopeText.h"

#include "frontend/plan/Quantities.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>

using namespace meshc;
using namespace meshc::plan;

using ScopePart = ScopeSums::Part;
using Cells = std::vector<std::string>;

/// "98 %", "< 1 %"; "-" of nothing.
static std::string formatPartShare(int64_t part, int64_t whole) {
  if (part == 0)
    return "-";
  const double share = 100 * double(part) / double(whole);
  return share < 0.5 ? "< 1 %" : fmt::format("{:.0f} %", share);
}

/// How often a part is there for each that it is in.
static std::string getPartTimes(const ScopeSums &sums, const ScopePart &part) {
  const int64_t times = part.count / sums.parts[size_t(part.parent)].count;
  return times > 1 ? fmt::format(", {} times", times) : "";
}

static Cells getPartCells(std::string name, const ScopeSums::Amounts &amounts,
                          const ScopeSums &sums, bool hasTimes) {
  const auto orNone = [](int64_t amount, std::string text) {
    return amount > 0 ? std::move(text) : std::string("-");
  };
  Cells row = {std::move(name),
               formatPartShare(amounts.flops, sums.parts[0].whole.flops),
               orNone(amounts.wireBytes, formatBytes(amounts.wireBytes))};
  if (hasTimes)
    for (int64_t ns : {amounts.computeNs, amounts.exposedNs})
      row.push_back(orNone(ns, formatTime(double(ns) / 1e3)));
  row.push_back(orNone(amounts.getBytes(), formatBytes(amounts.getBytes())));
  return row;
}

/// The parts that take anything worth a row, those first that take most of
/// something; each behind the one that it is in, which takes as much.
static std::vector<int> findLargestParts(const ScopeSums &sums) {
  const ScopeSums::Amounts &all = sums.parts[0].whole;
  const auto getShare = [](int64_t part, int64_t whole) {
    return whole > 0 ? double(part) / double(whole) : 0;
  };
  const auto getWeight = [&](int index) {
    const ScopeSums::Amounts &own = sums.parts[size_t(index)].whole;
    return std::max(
        {getShare(own.computeNs + own.exposedNs, all.computeNs + all.exposedNs),
         getShare(own.flops, all.flops), getShare(own.wireBytes, all.wireBytes),
         getShare(own.getBytes(), all.getBytes())});
  };
  std::vector<int> order(sums.parts.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::sort(order.begin(), order.end(), [&](int left, int right) {
    return std::pair(-getWeight(left), left) <
           std::pair(-getWeight(right), right);
  });
  // Others round to nothing in every column.
  std::erase_if(order, [&](int part) { return getWeight(part) < 0.005; });
  return order;
}

/// Rows of the parts in `parent`, each in front of those in it.
static void addPartRows(const ScopeSums &sums, int parent,
                        const std::vector<bool> &isShown, bool hasTimes,
                        std::vector<Cells> &rows) {
  for (size_t index = 1; index < sums.parts.size(); ++index) {
    const ScopePart &part = sums.parts[index];
    if (part.parent != parent || !isShown[index])
      continue;
    rows.push_back(getPartCells(part.name + getPartTimes(sums, part),
                                part.whole, sums, hasTimes));
    addPartRows(sums, int(index), isShown, hasTimes, rows);
  }
}

/// The first column to the left, the others to the right.
static std::string alignCells(const std::vector<Cells> &rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Cells &row : rows)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  std::string text;
  for (const Cells &row : rows) {
    text += fmt::format("  {:<{}}", row[0], widths[0]);
    for (size_t column = 1; column < row.size(); ++column)
      text += fmt::format("  {:>{}}", row[column], widths[column]);
    text += "\n";
  }
  return text;
}

std::string plan::renderScopes(const Plan &plan, const EqualScopes &scopes,
                               const std::vector<Transfer> &transfers,
                               const GpuUse &gpu,
                               const layout::Machine *machine, size_t top) {
  std::optional<StepTime> time;
  if (machine && findUnpriced(plan, *machine).empty())
    time.emplace(plan, transfers, *machine);
  const ScopeSums sums(plan, scopes, transfers, MemoryUse(plan, gpu),
                       time ? &*time : nullptr);
  const std::vector<int> largest = findLargestParts(sums);
  if (largest.empty())
    return "";
  const size_t shown = std::min(top, largest.size());
  std::vector<bool> isShown(sums.parts.size());
  for (size_t place = 0; place < shown; ++place)
    isShown[size_t(largest[place])] = true;
  Cells heading = {"", "flops", "sent"};
  if (time)
    heading.insert(heading.end(), {"computing", "waiting"});
  heading.emplace_back("at the peak");
  std::vector<Cells> rows = {std::move(heading)};
  addPartRows(sums, 0, isShown, time.has_value(), rows);
  rows.push_back(
      getPartCells("in none", sums.parts[0].own, sums, time.has_value()));
  std::string text = "\ncalls and loops, on each device\n" + alignCells(rows);
  if (shown < largest.size())
    text +=
        fmt::format("  and {} more, see --emit json\n", largest.size() - shown);
  return text;
}
