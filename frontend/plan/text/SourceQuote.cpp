#include "frontend/plan/text/SourceQuote.h"

#include <algorithm>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

std::optional<std::string> SourceQuote::getLine(int file, int line) {
  auto [known, isFirst] = texts.try_emplace(file);
  if (isFirst)
    known->second = readSource(executable.files[size_t(file)]);
  if (!known->second)
    return std::nullopt;
  std::string_view rest = *known->second;
  for (int number = 1; number < line; ++number) {
    size_t end = rest.find('\n');
    if (end == std::string_view::npos)
      return std::nullopt;
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r'))
    rest.remove_suffix(1);
  return std::string(rest);
}

/// Columns count code points: all bytes but those that continue one.
static int countCodePoints(std::string_view text) {
  return int(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string SourceQuote::quote(const exec::Span &span) {
  if (span.file() < 0)
    return "";
  const std::string &file = executable.files[size_t(span.file())];
  // An option stands in for a file; its text is not kept.
  if (file.starts_with("-"))
    return fmt::format("  {} on the command line, column {}\n", file,
                       span.column());
  std::string text =
      fmt::format("  {}:{}:{}\n", file, span.line(), span.column());
  std::optional<std::string> line = getLine(span.file(), span.line());
  if (!line)
    return text;
  int length = countCodePoints(*line);
  // A span over several lines is underlined to the end of its first one.
  int end = span.end_line() > span.line() ? length + 1 : span.end_column();
  int begin = std::clamp(span.column(), 1, length + 1);
  end = std::clamp(end, begin + 1, std::max(length + 1, begin + 1));
  text += fmt::format("  {:>5} | {}\n", span.line(), *line);
  text += fmt::format("  {:>5} | {:{}}{:^>{}}\n", "", "", begin - 1, "",
                      end - begin);
  return text;
}
