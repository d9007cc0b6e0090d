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

ValueTable::ValueTable(size_t width, std::string held)
    : pageWidth(width), held(std::move(held)) {}

/// "layer/0/h, 96 times" of a row that stands for several.
/// Indented below its scope.
static std::string getShownName(const ValueRow &row) {
  const std::string name = (row.scope.empty() ? "" : "  ") + row.name;
  return row.times > 1 ? fmt::format("{}, {} times", name, row.times) : name;
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
  entries.push_back({"", std::move(row)});
}

void ValueTable::findWidths() {
  const size_t room = pageWidth - indent - 2 * gap - bytesWidth;
  // The titles of the columns need as much.
  size_t names = 5, shapes = 14;
  for (const Entry &entry : entries)
    if (entry.row) {
      names = std::max(names, getShownName(*entry.row).size());
      shapes = std::max(shapes, join(getPieces(*entry.row)).size());
    }
  nameWidth = std::min(names, room * 2 / 5 + 1);
  shapeWidth = std::min(shapes, room - nameWidth);
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
  const std::string first = row.name.substr(0, row.name.find(", "));
  const auto [known, isFirst] = told.try_emplace(
      join(row.shape), row.scope.empty() ? first : row.scope + "/" + first);
  if (isFirst || lines.size() == 1)
    return lines;
  std::vector<std::string> shorter = wrap(
      getPieces({.shape = {"as " + known->second}, .partial = row.partial}));
  return shorter.size() < lines.size() ? shorter : lines;
}

void ValueTable::renderRow(const ValueRow &row, const std::string &bytes,
                           std::string &text) {
  const std::string name = getShownName(row);
  bool isLong = name.size() > nameWidth;
  if (isLong)
    text += fmt::format("{:{}}{}\n", "", indent, name);
  std::vector<std::string> shape = getShape(row);
  std::vector<std::string> sent;
  for (const Communication &entry : row.communication)
    sent.push_back(entry.id.empty() ? entry.what : entry.id + " " + entry.what);
  for (size_t index = 0; index < shape.size(); ++index) {
    bool isFirst = index == 0;
    std::string line = fmt::format("{:{}}{:{}}{:{}}{:{}}{:{}}{:>{}}", "",
                                   indent, isFirst && !isLong ? name : "",
                                   nameWidth, "", gap, shape[index], shapeWidth,
                                   "", gap, isFirst ? bytes : "", bytesWidth);
    if (!sent.empty() && line.size() + gap + sent.front().size() <= pageWidth) {
      line += fmt::format("{:{}}{}", "", gap, sent.front());
      sent.erase(sent.begin());
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  renderCommunication(sent, text);
}

/// What does not fit beside the value stands below it, as much of it in a line
/// as there is room for: beside the bytes if that is enough, else from the
/// shapes on, or before them where that makes one line of it.
void ValueTable::renderCommunication(const std::vector<std::string> &entries,
                                     std::string &text) const {
  const size_t below = indent + nameWidth + gap;
  const size_t beside = below + shapeWidth + gap + bytesWidth + gap;
  const auto add = [&](size_t column, const std::string &line) {
    text += fmt::format("{:{}}{}\n", "", column, line);
  };
  if (const std::string all = fmt::format("{}", fmt::join(entries, "; "));
      entries.size() > 1 && all.size() + 6 * indent <= pageWidth)
    return add(std::min(below, pageWidth - all.size()), all);
  for (const std::string &entry : entries)
    add(beside + entry.size() <= pageWidth ? beside : below, entry);
}

/// "1 MiB ", "(1 MiB)": the digits of both are aligned.
static std::string formatStored(const ValueRow &row) {
  if (row.bytes == 0)
    return "";
  std::string bytes = formatBytes(row.bytes);
  return row.isStored ? bytes + " " : "(" + bytes + ")";
}

std::string ValueTable::render() {
  findWidths();
  std::string text = "\n";
  renderRow({.name = "value",
             .shape = {held},
             .communication = {{"", "communication"}}},
            "bytes ", text);
  std::string scope;
  for (const Entry &entry : entries) {
    if (!entry.row)
      text += "\n" + entry.heading + "\n";
    else if (!entry.row->scope.empty() && entry.row->scope != scope)
      text += fmt::format("{:{}}{}\n", "", indent, entry.row->scope);
    scope = entry.row ? entry.row->scope : "";
    if (entry.row)
      renderRow(*entry.row, formatStored(*entry.row), text);
  }
  return text;
}
