#include "runtime/weights/NameMap.h"

#include "layout/Spelling.h"

#include "runtime/io/File.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

using namespace meshc;
using namespace meshc::runtime;

Error runtime::getMapError(const std::string &path, int64_t line,
                           const std::string &what) {
  return {ErrorCode::WrongParameters,
          fmt::format("{}:{}: {}", path, line, what), ""};
}

bool NameMap::ignores(std::string_view tensor) const {
  auto ignoresIt = [&](std::string_view name) {
    return std::ranges::any_of(ignored, [&](const std::string &pattern) {
      return layout::fitsPattern(pattern, name);
    });
  };
  return ignoresIt(tensor) ||
         std::ranges::any_of(prefixes, [&](const std::string &prefix) {
           return tensor.starts_with(prefix) &&
                  ignoresIt(tensor.substr(prefix.size()));
         });
}

namespace {

/// Reads one line of a map. What is wrong first is kept; everything from there
/// on is empty.
class LineReader {
public:
  explicit LineReader(std::string_view text) : rest(text) { skipBlanks(); }

  std::string defect;

  bool isAtEnd() const { return rest.empty(); }
  void skipBlanks() {
    while (!rest.empty() && isBlank(rest[0]))
      rest.remove_prefix(1);
  }
  bool take(char sign) {
    skipBlanks();
    if (rest.empty() || rest[0] != sign)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  void expect(char sign) {
    if (!take(sign))
      fail(fmt::format("'{}'", sign));
  }
  /// Characters up to a blank or one of `ends`.
  std::string takeWord(std::string_view ends, const char *what) {
    skipBlanks();
    size_t length = 0;
    while (length < rest.size() && !isBlank(rest[length]) &&
           ends.find(rest[length]) == std::string_view::npos)
      ++length;
    if (length == 0)
      fail(what);
    std::string word(rest.substr(0, length));
    rest.remove_prefix(length);
    return word;
  }
  /// "1 of 3", if that comes next.
  Slice takeSlice() {
    skipBlanks();
    Slice slice;
    if (rest.empty() || !std::isdigit(static_cast<unsigned char>(rest[0])))
      return slice;
    slice.index = takeNumber() - 1;
    if (takeWord("],", "'of'") != "of")
      fail("'of' behind the number of a slice");
    slice.count = takeNumber();
    if (slice.index < 0 || slice.index >= slice.count)
      setDefect(fmt::format("there is no slice {} of {}", slice.index + 1,
                            slice.count));
    return slice;
  }
  NameRule takeRule();

private:
  static bool isBlank(char sign) { return sign == ' ' || sign == '\t'; }

  void setDefect(std::string what) {
    if (defect.empty())
      defect = std::move(what);
    rest = {};
  }
  void fail(std::string_view expected) {
    setDefect(fmt::format("expected {}, found {}", expected,
                          rest.empty() ? "the end of the line"
                                       : fmt::format("'{}'", rest)));
  }
  int64_t takeNumber() {
    skipBlanks();
    int64_t number = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc())
      fail("a number");
    else
      rest.remove_prefix(size_t(end - rest.data()));
    return number;
  }
  NameRule::Part takeNamePart();
  std::vector<NameRule::Axis> takeAxes();

  std::string_view rest;
};

} // namespace

/// What the name of a dim ends at.
static constexpr std::string_view dimEnds = "],={}";

NameRule::Part LineReader::takeNamePart() {
  NameRule::Part part;
  while (!rest.empty() && !isBlank(rest[0]) && rest[0] != '{' &&
         rest[0] != '[') {
    part.text += rest[0];
    rest.remove_prefix(1);
  }
  if (rest.empty() || rest[0] != '{')
    return part;
  take('{');
  part.dim = takeWord(dimEnds, "a dim");
  if (take('='))
    do
      part.positions.push_back(takeWord(dimEnds, "the name of a position"));
    while (take(','));
  expect('}');
  return part;
}

std::vector<NameRule::Axis> LineReader::takeAxes() {
  std::vector<NameRule::Axis> axes;
  if (take(']'))
    return axes;
  do {
    NameRule::Axis axis;
    axis.slice = takeSlice();
    do {
      axis.dims.push_back(takeWord(dimEnds, "a dim"));
      skipBlanks();
    } while (!rest.empty() && rest[0] != ',' && rest[0] != ']');
    axes.push_back(std::move(axis));
  } while (take(','));
  expect(']');
  return axes;
}

NameRule LineReader::takeRule() {
  NameRule rule;
  rule.parameter = takeWord("=[", "a parameter");
  if (take('[')) {
    rule.slice = takeSlice();
    rule.slicedDim = takeWord(dimEnds, "a dim");
    expect(']');
  }
  expect('=');
  skipBlanks();
  while (!rest.empty() && !isBlank(rest[0]) && rest[0] != '[')
    rule.name.push_back(takeNamePart());
  if (rule.name.empty())
    fail("the name of a tensor");
  if (take('['))
    rule.axes = takeAxes();
  skipBlanks();
  if (!rest.empty())
    fail("the end of the line");
  return rule;
}

Result<NameMap> runtime::parseNameMap(std::string_view text,
                                      const std::string &path) {
  NameMap map;
  map.path = path;
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    while (!line.empty() &&
           std::isspace(static_cast<unsigned char>(line.back())))
      line.remove_suffix(1);
    LineReader reader(line);
    if (reader.isAtEnd())
      continue;
    auto takeLast = [&](size_t keyword, const char *what) {
      reader = LineReader(line.substr(line.find_first_not_of(" \t") + keyword));
      std::string word = reader.takeWord("", what);
      reader.skipBlanks();
      if (reader.defect.empty() && !reader.isAtEnd())
        reader.defect = "expected one word";
      return word;
    };
    const std::string word = LineReader(line).takeWord("=[", "a parameter");
    // A parameter may be called like a keyword; it has a '=' behind it.
    const bool isRule = line.find('=') != std::string_view::npos;
    if (word == "prefix" && !isRule) {
      map.prefixes.push_back(takeLast(word.size(), "a prefix"));
    } else if (word == "ignore" && !isRule) {
      map.ignored.push_back(takeLast(word.size(), "the name of a tensor"));
    } else {
      NameRule rule = reader.takeRule();
      rule.line = number;
      rule.numPrefixes = map.prefixes.size();
      map.rules.push_back(std::move(rule));
    }
    if (!reader.defect.empty())
      return getMapError(path, number, reader.defect);
  }
  return map;
}

Result<NameMap> runtime::readNameMap(const std::string &path) {
  Result<std::vector<std::byte>> bytes = readFile(path);
  if (!bytes)
    return bytes.getError();
  return parseNameMap(
      {reinterpret_cast<const char *>(bytes->data()), bytes->size()}, path);
}
