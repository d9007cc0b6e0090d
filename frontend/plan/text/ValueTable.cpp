#include "frontend/plan/text/ValueTable.h"

#include "frontend/plan/Quantities.h"

#include <algorithm>
#include <fmt/format.h>

using namespace meshc::plan;

/// Columns beside names and shapes.
static constexpr size_t indent = 2, gap = 2, bytesWidth = 10;

static std::string join(const std::vector<std::string> &pieces) {
  return fmt::format("{}", fmt::join(pieces, ", "));
}

/// Names may take two fifths of what names and shapes have, shapes the rest: 34
/// and 50 of 100 columns.
ValueTable::ValueTable(size_t width, std::string held)
    : pageWidth(width),
      nameCap((width - indent - 2 * gap - bytesWidth) * 2 / 5 + 1),
      shapeCap(width - indent - 2 * gap - bytesWidth - nameCap),
      held(std::move(held)) {}

/// "layer/0/h, 96 times" of a row that stands for several.
static std::string getName(const ValueRow &row) {
  return row.times > 1 ? fmt::format("{}, {} times", row.name, row.times)
                       : row.name;
}

static std::vector<std::string> getPieces(const ValueRow &row) {
  std::vector<std::string> pieces = row.shape;
  if (!row.partial.empty())
    pieces.push_back(row.partial);
  return pieces;
}

void ValueTable::addHeading(std::string heading) {
  entries.push_back({std::move(heading), std::nullopt});
}

void ValueTable::addRow(ValueRow row) {
  nameWidth = std::max(nameWidth, std::min(getName(row).size(), nameCap));
  shapeWidth =
      std::max(shapeWidth, std::min(join(getPieces(row)).size(), shapeCap));
  entries.push_back({"", std::move(row)});
}

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

/// The lines of a row's shape: where it takes several, "as" the first value
/// that has it.
std::vector<std::string> ValueTable::getShape(const ValueRow &row) {
  std::vector<std::string> lines = wrap(getPieces(row));
  if (row.likeness.empty())
    return lines;
  const auto [known, isFirst] = told.try_emplace(
      join(row.shape), row.name.substr(0, row.name.find(", ")));
  if (isFirst || lines.size() == 1)
    return lines;
  std::vector<std::string> shorter = wrap(
      getPieces({.shape = {"as " + known->second}, .partial = row.partial}));
  return shorter.size() < lines.size() ? shorter : lines;
}

void ValueTable::renderRow(const ValueRow &row, const std::string &bytes,
                           std::string &text) {
  const std::string name = getName(row);
  bool isLong = name.size() > nameWidth;
  if (isLong)
    text += fmt::format("{:{}}{}\n", "", indent, name);
  std::vector<std::string> shape = getShape(row);
  std::vector<std::string> sent;
  for (const Communication &entry : row.communication)
    sent.push_back(entry.id.empty() ? entry.what : entry.id + " " + entry.what);
  size_t communication = 0;
  for (size_t index = 0; index < shape.size(); ++index) {
    bool isFirst = index == 0;
    std::string line = fmt::format("{:{}}{:{}}{:{}}{:{}}{:{}}{:>{}}", "",
                                   indent, isFirst && !isLong ? name : "",
                                   nameWidth, "", gap, shape[index], shapeWidth,
                                   "", gap, isFirst ? bytes : "", bytesWidth);
    if (communication < sent.size() &&
        line.size() + gap + sent[communication].size() <= pageWidth)
      line += fmt::format("{:{}}{}", "", gap, sent[communication++]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  // What does not fit beside the value stands below it.
  size_t beside =
      indent + nameWidth + gap + shapeWidth + gap + bytesWidth + gap;
  for (; communication < sent.size(); ++communication) {
    const std::string &entry = sent[communication];
    bool fits = beside + entry.size() <= pageWidth;
    text += fmt::format("{:{}}{}\n", "",
                        fits ? beside : indent + nameWidth + gap, entry);
  }
}

/// "1 MiB ", "(1 MiB)": the digits of both are aligned.
static std::string formatStored(const ValueRow &row) {
  if (row.bytes == 0)
    return "";
  std::string bytes = formatBytes(row.bytes);
  return row.isStored ? bytes + " " : "(" + bytes + ")";
}

std::string ValueTable::render() {
  std::string text = "\n";
  renderRow({.name = "value",
             .shape = {held},
             .communication = {{"", "communication"}}},
            "bytes ", text);
  for (const Entry &entry : entries)
    if (entry.row)
      renderRow(*entry.row, formatStored(*entry.row), text);
    else
      text += "\n" + entry.heading + "\n";
  return text;
}
