#include "frontend/syntax/Source.h"

#include <algorithm>

using namespace meshc::frontend;

/// Every byte but a UTF-8 continuation byte begins a code point.
static bool isContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

Source::Source(std::string name, std::string text, bool isLibrary)
    : name(std::move(name)), text(std::move(text)), library(isLibrary) {
  lineStarts.push_back(0);
  uint32_t count = 0;
  for (size_t i = 0; i < this->text.size(); ++i) {
    if (i % blockBytes == 0)
      continuations.push_back(count);
    count += isContinuation(this->text[i]);
    if (this->text[i] == '\n')
      lineStarts.push_back(uint32_t(i + 1));
  }
  continuations.push_back(count);
}

/// Continuation bytes before `offset`.
uint32_t Source::countContinuations(uint32_t offset) const {
  uint32_t block = offset / blockBytes;
  if (offset == text.size())
    return continuations.back();
  uint32_t count = continuations[block];
  for (uint32_t i = block * blockBytes; i < offset; ++i)
    count += isContinuation(text[i]);
  return count;
}

LineColumn Source::getLineColumn(uint32_t offset) const {
  offset = std::min(offset, uint32_t(text.size()));
  auto next = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset);
  auto line = uint32_t(next - lineStarts.begin());
  uint32_t start = lineStarts[line - 1];
  uint32_t skipped = countContinuations(offset) - countContinuations(start);
  return {line, offset - start - skipped + 1};
}

uint32_t Source::getOffset(LineColumn place) const {
  if (place.line == 0 || place.line > lineStarts.size())
    return uint32_t(text.size());
  uint32_t offset = lineStarts[place.line - 1];
  uint32_t end = offset + uint32_t(getLine(place.line).size());
  for (uint32_t column = 1; column < place.column && offset < end; ++column)
    do
      ++offset;
    while (offset < end && isContinuation(text[offset]));
  return offset;
}

std::string_view Source::getLine(uint32_t line) const {
  uint32_t begin = lineStarts[line - 1];
  uint32_t end =
      line < lineStarts.size() ? lineStarts[line] - 1 : uint32_t(text.size());
  if (end > begin && text[end - 1] == '\r')
    --end;
  return std::string_view(text).substr(begin, end - begin);
}

uint32_t SourceSet::add(std::string name, std::string text, bool isLibrary) {
  sources.emplace_back(std::move(name), std::move(text), isLibrary);
  return uint32_t(sources.size() - 1);
}

std::string_view SourceSet::getText(Span span) const {
  if (!span.isValid())
    return {};
  return get(span.source).getText().substr(span.begin, span.end - span.begin);
}
