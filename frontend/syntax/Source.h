#ifndef MESHC_FRONTEND_SYNTAX_SOURCE_H
#define MESHC_FRONTEND_SYNTAX_SOURCE_H

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::frontend {

/// A range of bytes [begin, end) of one source. `source` numbers the sources of
/// a SourceSet; none means that there is no text to point at.
struct Span {
  static constexpr uint32_t none = ~uint32_t(0);

  uint32_t source = none;
  uint32_t begin = 0;
  uint32_t end = 0;

  bool isValid() const { return source != none; }
  bool operator==(const Span &) const = default;
};

/// From the start of `first` to the end of `last`; both of one source.
inline Span join(Span first, Span last) {
  return {first.source, first.begin, last.end};
}

/// Both count from 1; columns count code points, so that an editor agrees.
struct LineColumn {
  uint32_t line = 1;
  uint32_t column = 1;
};

/// The text of one file, of the standard library or of a command-line option.
class Source {
public:
  Source(std::string name, std::string text, bool isLibrary);

  /// The path as the user wrote it, or "<library>/softmax.mesh", "--mesh".
  const std::string &getName() const { return name; }
  std::string_view getText() const { return text; }
  /// Whether this is part of the standard library: errors found there are
  /// reported at the user's call.
  bool isLibrary() const { return library; }

  LineColumn getLineColumn(uint32_t offset) const;
  /// The inverse; places beyond a line or the text are clamped to its end.
  uint32_t getOffset(LineColumn place) const;
  /// Byte offset of the first character of a line; lines count from 1.
  uint32_t getLineStart(uint32_t line) const { return lineStarts[line - 1]; }
  uint32_t getNumLines() const { return uint32_t(lineStarts.size()); }
  /// The line without its end.
  std::string_view getLine(uint32_t line) const;

private:
  std::string name;
  std::string text;
  bool library;
  std::vector<uint32_t> lineStarts;
  /// Continuation bytes before every blockBytes-th byte, so that a column is
  /// found in bounded time on lines of any length.
  static constexpr uint32_t blockBytes = 64;
  std::vector<uint32_t> continuations;
  uint32_t countContinuations(uint32_t offset) const;
};

/// Every source of one run; spans and views into the text stay valid as long as
/// the set lives.
class SourceSet {
public:
  uint32_t add(std::string name, std::string text, bool isLibrary = false);
  const Source &get(uint32_t source) const { return sources[source]; }
  uint32_t getNumSources() const { return uint32_t(sources.size()); }
  /// The text of a span; empty for an invalid one.
  std::string_view getText(Span span) const;

private:
  std::deque<Source> sources;
};

} // namespace meshc::frontend

#endif
