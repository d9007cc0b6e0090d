#include "frontend/plan/text/ComparisonText.h"

#include "frontend/plan/Quantities.h"
#include "frontend/plan/text/TerminalText.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;
using Unit = ComparedQuantity::Unit;

/// Rows of a section that are shown; the JSON has all.
static constexpr size_t numShown = 16;

//===-- Words -------------------------------------------------------------===//

static std::string pad(size_t width) { return std::string(width, ' '); }

static std::string format(Unit unit, int64_t number) {
  switch (unit) {
  case Unit::Bytes:
    return formatBytes(number);
  case Unit::Flops:
    return formatFlops(number);
  case Unit::Nanoseconds:
    return formatTime(double(number) / 1000);
  case Unit::Count:
    return std::to_string(number);
  }
  std::abort();
}

/// With all its digits.
static std::string formatExactly(Unit unit, int64_t number) {
  switch (unit) {
  case Unit::Bytes:
    return fmt::format("{} B", number);
  case Unit::Flops:
    return fmt::format("{} flop", number);
  case Unit::Nanoseconds:
    return fmt::format("{}.{:03} us", number / 1000, number % 1000);
  case Unit::Count:
    return std::to_string(number);
  }
  std::abort();
}

static std::string formatTimes(int64_t times) {
  return times > 1 ? fmt::format(" × {}", times) : "";
}

//===-- Table -------------------------------------------------------------===//

namespace {
struct Cell {
  std::string text;
  std::string ratio; ///< to the least of the row, where above doubling
};

struct QuantityRow {
  std::string label;
  std::vector<Cell> cells; ///< by plan
};

class ComparisonPrinter {
public:
  ComparisonPrinter(const PlanComparison &comparison, size_t width)
      : comparison(comparison), width(width) {}

  std::string print();

private:
  std::string getHead() const;
  const ComparedQuantity *find(std::string_view name) const;
  void addVerdict();
  void addQuantity(const ComparedQuantity &quantity, bool isShown);
  void addQuantities();
  std::string getTable() const;
  std::string getTable(size_t begin, size_t end, size_t labelWidth) const;
  std::string getEqual() const;
  std::string getLetters(const std::vector<bool> &members) const;
  bool isWhole(const std::vector<bool> &members) const;
  std::string describeCounts(const std::map<int64_t, int64_t> &counts) const;
  std::string getValues() const;
  std::string getMessages() const;
  std::string getErrors() const;

  const PlanComparison &comparison;
  size_t width;
  std::vector<QuantityRow> rows;
  std::vector<std::string> equal; ///< what all have alike
};
} // namespace

/// "sent over data", or within its table indented: "  over data".
static std::string getLabel(const ComparedQuantity &quantity, bool isIndented) {
  const std::string &name = quantity.name, &part = quantity.part;
  const std::string indent = isIndented ? "  " : "";
  if (name == "limit_bytes")
    return "memory of a device";
  if (name == "peak_bytes_per_device")
    return part.empty() ? "peak memory" : indent + part;
  if (name == "step_us")
    return "step, predicted";
  if (name == "compute_us")
    return indent + "computing";
  if (name == "exposed_us")
    return indent + "waiting";
  if (name == "flops_per_device")
    return "computed by each device";
  if (name == "wire_bytes_per_device")
    return part.empty()
               ? "sent by each device"
               : fmt::format("{}over {}", isIndented ? indent : "sent ", part);
  if (name == "transfers")
    return "messages";
  return part.empty() ? "collectives" : indent + part;
}

/// Whether the quantity is one of those that `whole` is made of.
static bool isPartOf(const ComparedQuantity &part,
                     const ComparedQuantity &whole) {
  if (whole.name == "step_us")
    return part.name == "compute_us" || part.name == "exposed_us";
  return part.name == whole.name && !part.part.empty() && whole.part.empty();
}

const ComparedQuantity *ComparisonPrinter::find(std::string_view name) const {
  for (const ComparedQuantity &quantity : comparison.quantities)
    if (quantity.name == name && quantity.part.empty())
      return &quantity;
  return nullptr;
}

/// Whether each plan fits, and by how much, where what devices have is known.
void ComparisonPrinter::addVerdict() {
  QuantityRow row{"verdict", {}};
  bool isKnown = false;
  for (const std::optional<ReadPlan> &plan : comparison.plans) {
    std::string text = "-";
    if (!plan) {
      text = "does not compile";
    } else if (plan->memoryLimit) {
      const int64_t left = *plan->memoryLimit - plan->memory;
      text = left >= 0 ? fmt::format("fits, {} left", formatBytes(left))
                       : fmt::format("{} too much", formatBytes(-left));
    }
    isKnown = isKnown || text != "-";
    row.cells.push_back({std::move(text), ""});
  }
  if (isKnown)
    rows.push_back(std::move(row));
}

void ComparisonPrinter::addQuantity(const ComparedQuantity &quantity,
                                    bool isShown) {
  std::vector<int64_t> known;
  for (const std::optional<int64_t> &number : quantity.numbers)
    if (number)
      known.push_back(*number);
  if (quantity.isEqual && !isShown) {
    if (known[0] > 0)
      equal.push_back(getLabel(quantity, false) + " " +
                      format(quantity.unit, known[0]));
    return;
  }
  // Where the digits shown do not tell.
  std::sort(known.begin(), known.end());
  bool isClose = false;
  for (size_t index = 1; index < known.size(); ++index)
    isClose = isClose || (known[index] != known[index - 1] &&
                          format(quantity.unit, known[index]) ==
                              format(quantity.unit, known[index - 1]));
  const auto least =
      std::find_if(known.begin(), known.end(), [](int64_t n) { return n > 0; });
  QuantityRow row{getLabel(quantity, true), {}};
  for (const std::optional<int64_t> &number : quantity.numbers) {
    row.cells.push_back({"-", ""});
    if (!number)
      continue;
    row.cells.back().text = isClose ? formatExactly(quantity.unit, *number)
                                    : format(quantity.unit, *number);
    if (least != known.end() && *number / 2 >= *least && *number > 2 * *least) {
      const double ratio = double(*number) / double(*least);
      row.cells.back().ratio = ratio < 100 ? fmt::format("{:.3g} ×", ratio)
                                           : fmt::format("{:.0f} ×", ratio);
    }
  }
  rows.push_back(std::move(row));
}

/// What differs as rows, and that of which a part does.
void ComparisonPrinter::addQuantities() {
  const std::vector<ComparedQuantity> &all = comparison.quantities;
  // One alone is equal to none.
  const bool isAlone =
      std::count_if(comparison.plans.begin(), comparison.plans.end(),
                    [](const auto &plan) { return plan.has_value(); }) < 2;
  auto differs = [&](const ComparedQuantity &whole) {
    return isAlone || !whole.isEqual ||
           std::any_of(all.begin(), all.end(),
                       [&](const ComparedQuantity &part) {
                         return isPartOf(part, whole) && !part.isEqual;
                       });
  };
  for (const ComparedQuantity &quantity : all) {
    const auto whole = std::find_if(all.begin(), all.end(),
                                    [&](const ComparedQuantity &candidate) {
                                      return isPartOf(quantity, candidate);
                                    });
    // What all have alike is said by the whole.
    if (quantity.isEqual && whole != all.end() && !differs(*whole))
      continue;
    addQuantity(quantity, differs(quantity));
  }
}

/// The columns of the plans from `begin` to before `end`.
std::string ComparisonPrinter::getTable(size_t begin, size_t end,
                                        size_t labelWidth) const {
  std::string head = pad(2 + labelWidth);
  std::vector<std::string> lines(rows.size());
  for (size_t line = 0; line < rows.size(); ++line)
    lines[line] = fmt::format("  {}{}", rows[line].label,
                              pad(labelWidth - countColumns(rows[line].label)));
  for (size_t plan = begin; plan < end; ++plan) {
    const std::string letter = PlanComparison::getLetter(plan);
    size_t textWidth = letter.size(), ratioWidth = 0;
    for (const QuantityRow &row : rows) {
      textWidth = std::max(textWidth, countColumns(row.cells[plan].text));
      ratioWidth = std::max(ratioWidth, countColumns(row.cells[plan].ratio));
    }
    const size_t gap = ratioWidth > 0 ? 1 : 0;
    head += pad(2 + textWidth - letter.size()) + letter + pad(gap + ratioWidth);
    for (size_t line = 0; line < rows.size(); ++line) {
      const Cell &cell = rows[line].cells[plan];
      lines[line] += pad(2 + textWidth - countColumns(cell.text)) + cell.text +
                     pad(gap + ratioWidth - countColumns(cell.ratio)) +
                     cell.ratio;
    }
  }
  std::string text;
  lines.insert(lines.begin(), head);
  for (const std::string &line : lines)
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

/// As many tables as the columns take.
std::string ComparisonPrinter::getTable() const {
  if (rows.empty())
    return "";
  size_t labelWidth = 0;
  for (const QuantityRow &row : rows)
    labelWidth = std::max(labelWidth, countColumns(row.label));
  std::string text;
  const size_t count = comparison.plans.size();
  for (size_t begin = 0, end; begin < count; begin = end) {
    end = begin;
    size_t used = 2 + labelWidth;
    for (; end < count; ++end) {
      size_t textWidth = PlanComparison::getLetter(end).size(), ratioWidth = 0;
      for (const QuantityRow &row : rows) {
        textWidth = std::max(textWidth, countColumns(row.cells[end].text));
        ratioWidth = std::max(ratioWidth, countColumns(row.cells[end].ratio));
      }
      used += 2 + textWidth + (ratioWidth > 0 ? 1 + ratioWidth : 0);
      if (used > width && end > begin)
        break;
    }
    text += "\n" + getTable(begin, end, labelWidth);
  }
  return text;
}

std::string ComparisonPrinter::getEqual() const {
  if (equal.empty())
    return "";
  std::vector<std::string> pieces = {"the same in all:"};
  for (const std::string &piece : equal)
    pieces.push_back(piece + (&piece == &equal.back() ? "" : ","));
  return "\n" + wrapPieces("", 2, pieces, width);
}

//===-- Values and collectives --------------------------------------------===//

/// "A, C": the plans of which `members` is true.
std::string
ComparisonPrinter::getLetters(const std::vector<bool> &members) const {
  std::vector<std::string> letters;
  for (size_t plan = 0; plan < members.size(); ++plan)
    if (members[plan])
      letters.push_back(PlanComparison::getLetter(plan));
  return fmt::format("{}", fmt::join(letters, ", "));
}

/// Whether all plans that compile are among `members`.
bool ComparisonPrinter::isWhole(const std::vector<bool> &members) const {
  for (size_t plan = 0; plan < members.size(); ++plan)
    if (comparison.plans[plan] && !members[plan])
      return false;
  return true;
}

namespace {
/// Rows under headings; of each heading no more than are shown.
struct Sections {
  struct Section {
    std::vector<std::string> rows;
    size_t left = 0;
  };
  std::map<std::string, Section> byHeading;

  void add(const std::string &heading, std::string row) {
    Section &section = byHeading[heading];
    if (section.rows.size() < numShown)
      section.rows.push_back(std::move(row));
    else
      ++section.left;
  }
  std::string toString() const {
    std::string text;
    for (const auto &[heading, section] : byHeading) {
      text += fmt::format("\n{}\n{}", heading, fmt::join(section.rows, ""));
      if (section.left > 0)
        text += fmt::format("  and {} more, see --emit json\n", section.left);
    }
    return text;
  }
};

/// What the plans have instead of each other: "A, C" and what they have.
class Choices {
public:
  Choices(size_t numPlans, size_t width) : numPlans(numPlans), width(width) {}

  void add(size_t plan, const std::string &what) {
    auto entry =
        std::find_if(entries.begin(), entries.end(),
                     [&](const auto &other) { return other.first == what; });
    if (entry == entries.end())
      entry = entries.insert(entries.end(),
                             {what, std::vector<bool>(numPlans, false)});
    entry->second[plan] = true;
  }
  std::string toString(const auto &getLetters) const {
    size_t letterWidth = 0;
    for (const auto &[what, members] : entries)
      letterWidth = std::max(letterWidth, getLetters(members).size());
    std::string text;
    for (const auto &[what, members] : entries)
      text += wrapWords(
          fmt::format("    {:<{}}  ", getLetters(members), letterWidth),
          letterWidth + 8, what, width);
    return text;
  }

private:
  size_t numPlans, width;
  std::vector<std::pair<std::string, std::vector<bool>>> entries;
};
} // namespace

std::string ComparisonPrinter::getValues() const {
  Sections sections;
  for (const ComparedValue &value : comparison.values) {
    const std::string name = value.name + formatTimes(value.times);
    std::vector<bool> members;
    Choices choices(comparison.plans.size(), width);
    std::string split;
    for (size_t plan = 0; plan < value.splits.size(); ++plan) {
      members.push_back(value.splits[plan].has_value());
      if (!members.back())
        continue;
      split = describe(*value.splits[plan]);
      choices.add(plan, split);
    }
    if (isWhole(members))
      sections.add("values that are split otherwise",
                   wrapWords("  ", 4, name, width) +
                       choices.toString([&](const std::vector<bool> &some) {
                         return getLetters(some);
                       }));
    else
      sections.add("values only in " + getLetters(members),
                   wrapWords("  ", 4, name + ": " + split, width));
  }
  return sections.toString();
}

/// "5 KiB, 2 times 12 B": how many there are of which payload.
std::string ComparisonPrinter::describeCounts(
    const std::map<int64_t, int64_t> &counts) const {
  std::vector<std::string> parts;
  for (const auto &[payload, count] : counts)
    parts.push_back(
        fmt::format("{}{}", count > 1 ? fmt::format("{} times ", count) : "",
                    formatBytes(payload)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string ComparisonPrinter::getMessages() const {
  Sections sections;
  for (const ComparedMessage &message : comparison.messages) {
    const std::string kind =
        fmt::format("{} over {}", message.kind, joinAxes(message.axes));
    const std::string value =
        (message.value.empty() ? "" : " of " + message.value) +
        formatTimes(message.times);
    std::vector<bool> members;
    Choices choices(comparison.plans.size(), width);
    std::string counts;
    for (size_t plan = 0; plan < message.counts.size(); ++plan) {
      members.push_back(!message.counts[plan].empty());
      if (!members.back())
        continue;
      counts = describeCounts(message.counts[plan]);
      choices.add(plan, counts);
    }
    if (isWhole(members))
      sections.add("collectives of another count or size",
                   wrapWords("  ", 4, kind + value, width) +
                       choices.toString([&](const std::vector<bool> &some) {
                         return getLetters(some);
                       }));
    else
      sections.add("collectives only in " + getLetters(members),
                   wrapWords("  ", 4,
                             fmt::format("{}, {}{}", kind, counts, value),
                             width));
  }
  return sections.toString();
}

//===-- The whole ---------------------------------------------------------===//

/// What is compared: of all the model and mesh if these are the same, of each
/// the layout.
std::string ComparisonPrinter::getHead() const {
  std::vector<std::string> subjects;
  for (const std::optional<ReadPlan> &plan : comparison.plans)
    if (plan)
      subjects.push_back(plan->describeSubject());
  const bool isOne =
      !subjects.empty() && std::all_of(subjects.begin(), subjects.end(),
                                       [&](const std::string &subject) {
                                         return subject == subjects[0];
                                       });
  std::string text = isOne ? wrapWords("", 2, subjects[0], width) : "";
  for (size_t index = 0; index < comparison.plans.size(); ++index) {
    const std::string letter = PlanComparison::getLetter(index);
    const std::string first = fmt::format("  {}  ", letter);
    const std::optional<ReadPlan> &plan = comparison.plans[index];
    text += wrapWords(first, first.size(), comparison.labels[index], width);
    if (plan && !isOne)
      text += wrapWords(pad(first.size()), first.size() + 2,
                        plan->describeSubject(), width);
    if (plan)
      text += wrapWords(pad(first.size()), first.size() + 2,
                        "layout: " + plan->describeLayout(), width);
  }
  for (const std::string &note : comparison.notes)
    text += wrapWords("", 2, "note: " + note, width);
  return text;
}

std::string ComparisonPrinter::getErrors() const {
  std::string text;
  for (size_t index = 0; index < comparison.errors.size(); ++index) {
    std::string_view rest = comparison.errors[index];
    if (rest.empty())
      continue;
    text += fmt::format("\n{} does not compile\n",
                        PlanComparison::getLetter(index));
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      text += line.empty() ? "\n" : fmt::format("  {}\n", line);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return text;
}

std::string ComparisonPrinter::print() {
  addVerdict();
  addQuantities();
  const std::string differences = getValues() + getMessages() + getErrors();
  const bool differs =
      !differences.empty() ||
      std::any_of(
          comparison.quantities.begin(), comparison.quantities.end(),
          [](const ComparedQuantity &quantity) { return !quantity.isEqual; });
  return getHead() + getTable() + getEqual() +
         (differs ? differences : "\nthe plans do not differ\n");
}

std::string plan::renderComparisonText(const PlanComparison &comparison,
                                       size_t width) {
  return ComparisonPrinter(comparison, width).print();
}
