#include "frontend/plan/text/TerminalText.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

size_t plan::countColumns(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string plan::wrapPieces(std::string_view first, size_t indent,
                             const std::vector<std::string> &pieces,
                             size_t width) {
  std::string lines, line(first);
  bool isEmpty = true;
  for (const std::string &piece : pieces) {
    if (!isEmpty && countColumns(line) + 1 + countColumns(piece) > width) {
      lines += line + "\n";
      line = std::string(indent, ' ');
      isEmpty = true;
    }
    line += (isEmpty ? "" : " ") + piece;
    isEmpty = false;
  }
  return lines + line + "\n";
}

std::string plan::wrapWords(std::string_view first, size_t indent,
                            std::string_view text, size_t width) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrapPieces(first, indent, words, width);
}

/// Calls `add` with every line of `text`, without its end.
template <typename Add>
static void forEachLine(std::string_view text, Add add) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    add(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Whether a line is one of SourceQuote: "     12 | let h = x".
static bool isQuote(std::string_view line) {
  const size_t number = line.find_first_not_of(' ');
  const size_t end = line.find_first_not_of("0123456789", number);
  return number > 0 && end != std::string_view::npos &&
         line.substr(end).starts_with(number == end ? "| " : " | ");
}

/// A quoted line, and the marks below it, up to `width` columns; as it is where
/// the first mark stands beyond.
static std::string cutQuote(std::string_view line, std::string_view marks,
                            size_t width) {
  const size_t first = std::min(marks.find('^'), marks.size());
  std::string text(line);
  if (countColumns(line) > width && first + 1 < width) {
    size_t end = 0;
    for (size_t columns = 0; columns + 1 < width; ++columns)
      do
        ++end;
      while (end < line.size() &&
             (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80);
    text = fmt::format("{}\u2026", line.substr(0, end));
  }
  return fmt::format("{}\n{}\n", text,
                     first + 1 < width ? marks.substr(0, width) : marks);
}

std::string plan::wrapLines(std::string_view text, size_t width) {
  std::vector<std::string_view> all;
  forEachLine(text, [&](std::string_view line) { all.push_back(line); });
  std::string lines;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string_view line = all[i];
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    if (isQuote(line) && i + 1 < all.size())
      lines += cutQuote(line, all[++i], width);
    else if (countColumns(line) <= width)
      lines += fmt::format("{}\n", line);
    else
      lines += wrapWords(line.substr(0, indent), indent + 4,
                         line.substr(indent), width);
  }
  return lines;
}

//===-- Colours -----------------------------------------------------------===//

/// SGR parameters of ECMA-48; 38;5 takes one of 256 colours as xterm has them.
static constexpr std::string_view reset = "\x1b[0m", bold = "\x1b[1m",
                                  red = "\x1b[31m";
/// Of the axes in the order of the mesh, then again from the first: blue,
/// orange, green, magenta, ochre and indigo of the page, readable on black and
/// on white.
static constexpr std::array<int, 6> axisColours = {33, 172, 36, 133, 136, 62};

static bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '\'';
}

/// Takes the spelling of axes from the front of `line`: "data", "x:(2)4" or
/// "(data, x:(2)4)". Returns them with colours; empty if no axis is there.
static std::string takeAxes(std::string_view &line, const layout::Mesh &mesh) {
  std::string_view rest = line;
  std::string text;
  auto takeAxis = [&] {
    const size_t end =
        size_t(std::find_if_not(rest.begin(), rest.end(), isNameCharacter) -
               rest.begin());
    const auto &axes = mesh.getAxes();
    const auto axis =
        std::find_if(axes.begin(), axes.end(), [&](const auto &candidate) {
          return candidate.name == rest.substr(0, end);
        });
    if (axis == axes.end())
      return false;
    size_t size = end;
    if (rest.substr(size).starts_with(":("))
      if (size_t close = rest.find(')', size); close != std::string_view::npos)
        size = size_t(std::find_if_not(rest.begin() + ptrdiff_t(close) + 1,
                                       rest.end(), isNameCharacter) -
                      rest.begin());
    text += fmt::format(
        "\x1b[38;5;{}m{}{}",
        axisColours[size_t(axis - axes.begin()) % axisColours.size()],
        rest.substr(0, size), reset);
    rest.remove_prefix(size);
    return true;
  };
  if (rest.starts_with('(')) {
    std::string_view separator = "(";
    while (rest.starts_with(separator)) {
      text += separator;
      rest.remove_prefix(separator.size());
      if (!takeAxis())
        return "";
      separator = ", ";
    }
  } else if (!takeAxis()) {
    return "";
  }
  line = rest;
  return text;
}

static std::string colourAxes(std::string_view line, const layout::Mesh &mesh) {
  std::string text;
  while (!line.empty()) {
    constexpr std::string_view over = " over ";
    const size_t skipped = line.front() == '@'      ? 1
                           : line.starts_with(over) ? over.size()
                                                    : 0;
    text += line.substr(0, std::max<size_t>(skipped, 1));
    line.remove_prefix(std::max<size_t>(skipped, 1));
    if (skipped > 0)
      text += takeAxes(line, mesh);
  }
  return text;
}

std::string plan::colourPlan(std::string_view text, const layout::Mesh &mesh) {
  std::string result;
  bool isFirst = true, isBehindEmpty = false;
  forEachLine(text, [&](std::string_view line) {
    const bool isHeading = !line.empty() && line.front() != ' ' &&
                           line.front() != '\'' && (isFirst || isBehindEmpty);
    if (line.find("does not fit") != std::string_view::npos)
      result += fmt::format("{}{}{}", red, line, reset);
    else if (isHeading)
      result += fmt::format("{}{}{}", bold, line, reset);
    else
      result += colourAxes(line, mesh);
    result += "\n";
    isFirst = false;
    isBehindEmpty = line.empty();
  });
  return result;
}
