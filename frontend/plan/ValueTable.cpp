#include "frontend/plan/ValueTable.h"

#include "frontend/plan/Quantities.h"

#include <algorithm>
#include <fmt/format.h>

using namespace meshc::plan;

/// Columns of a page. The caps and the gaps of two blanks make up the width.
static constexpr size_t pageWidth = 100, indent = 2, gap = 2, nameCap = 34,
                        shapeCap = 50, bytesWidth = 10;
static_assert(indent + nameCap + gap + shapeCap + gap + bytesWidth <=
              pageWidth);

static std::string join(const std::vector<std::string> &pieces) {
  return fmt::format("{}", fmt::join(pieces, ", "));
}

void ValueTable::addHeading(std::string heading) {
  entries.push_back({std::move(heading), std::nullopt});
}

void ValueTable::addRow(ValueRow row) {
  nameWidth = std::max(nameWidth, std::min(row.name.size(), nameCap));
  shapeWidth = std::max(shapeWidth, std::min(join(row.shape).size(), shapeCap));
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

void ValueTable::renderRow(const ValueRow &row, const std::string &bytes,
                           std::string &text) const {
  bool isLong = row.name.size() > nameWidth;
  if (isLong)
    text += fmt::format("{:{}}{}\n", "", indent, row.name);
  std::vector<std::string> shape = wrap(row.shape);
  std::vector<std::string> sent;
  for (const Communication &entry : row.communication)
    sent.push_back(entry.id.empty() ? entry.what : entry.id + " " + entry.what);
  size_t communication = 0;
  for (size_t index = 0; index < shape.size(); ++index) {
    bool isFirst = index == 0;
    std::string line = fmt::format("{:{}}{:{}}{:{}}{:{}}{:{}}{:>{}}", "",
                                   indent, isFirst && !isLong ? row.name : "",
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

std::string ValueTable::render() const {
  std::string text = "\n";
  renderRow({"value", {held}, 0, true, {{"", "communication"}}}, "bytes ",
            text);
  for (const Entry &entry : entries)
    if (entry.row)
      renderRow(*entry.row, formatStored(*entry.row), text);
    else
      text += "\n" + entry.heading + "\n";
  return text;
}
