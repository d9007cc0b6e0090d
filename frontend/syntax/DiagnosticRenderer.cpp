// The two renderings of a diagnostic: text for people, JSON for editors.

#include "frontend/syntax/Diagnostics.h"

#include "llvm/Support/JSON.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc::frontend;

namespace {

/// Longest piece of a source line that is shown, in code points.
constexpr size_t maxShownColumns = 160;
/// Code points shown before a span that begins beyond the piece.
constexpr size_t shownBefore = 40;

bool isContinuationByte(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// One line of source as shown, and where the marked range lies in it.
struct ShownLine {
  std::string text;
  size_t markBegin; ///< columns, from 0
  size_t markEnd;
};

/// Cuts the line to the neighbourhood of the bytes [begin, end) and replaces
/// what a terminal would act on; both as byte offsets in the line.
ShownLine showLine(std::string_view line, size_t begin, size_t end) {
  begin = std::min(begin, line.size());
  end = std::clamp(end, begin, line.size());
  size_t from = 0;
  if (begin > maxShownColumns - shownBefore) {
    from = begin - shownBefore;
    while (from < begin && isContinuationByte(line[from]))
      ++from;
  }
  ShownLine shown{from ? "..." : "", 0, 0};
  size_t column = shown.text.size();
  size_t i = from;
  for (; i < line.size() && column < maxShownColumns; ++column) {
    if (i == begin)
      shown.markBegin = column;
    size_t next = i + 1;
    while (next < line.size() && isContinuationByte(line[next]))
      ++next;
    auto c = static_cast<unsigned char>(line[i]);
    if (c == '\t')
      shown.text += ' ';
    else if (c < 0x20 || c == 0x7F)
      shown.text += '?';
    else
      shown.text += llvm::json::fixUTF8(line.substr(i, next - i));
    i = next;
    if (i <= end)
      shown.markEnd = column + 1;
  }
  if (begin >= i)
    shown.markBegin = column;
  if (i < line.size())
    shown.text += "...";
  shown.markEnd = std::max(shown.markEnd, shown.markBegin + 1);
  return shown;
}

std::string getPlace(const SourceSet &sources, Span span) {
  const Source &source = sources.get(span.source);
  LineColumn at = source.getLineColumn(span.begin);
  return fmt::format("{}:{}:{}", source.getName(), at.line, at.column);
}

std::string_view getLevelName(Level level) {
  switch (level) {
  case Level::Error:
    return "error";
  case Level::Warning:
    return "warning";
  case Level::Note:
    return "note";
  }
  return "";
}

MessagePart getPart(Level level) {
  switch (level) {
  case Level::Error:
    return MessagePart::Error;
  case Level::Warning:
    return MessagePart::Warning;
  case Level::Note:
    return MessagePart::Advice;
  }
  __builtin_unreachable();
}

/// Colours pieces of a text for people, or leaves them.
struct Painter {
  bool isColoured;

  std::string operator()(MessagePart part, std::string_view text) const {
    return isColoured ? paint(part, text) : std::string(text);
  }
};

/// The source line of a span with `mark` under it and the label behind.
std::string showSpan(const SourceSet &sources, Span span, char mark,
                     const std::string &label, int numberWidth,
                     const Painter &painter) {
  const Source &source = sources.get(span.source);
  LineColumn at = source.getLineColumn(span.begin);
  size_t start = source.getLineStart(at.line);
  ShownLine shown =
      showLine(source.getLine(at.line), span.begin - start, span.end - start);
  std::string marks(shown.markEnd - shown.markBegin, mark);
  if (mark == '^')
    std::fill(marks.begin() + 1, marks.end(), '~');
  MessagePart part = mark == '^' ? MessagePart::Error : MessagePart::Mark;
  return fmt::format(
      "{:>{}} | {}\n{:>{}} | {}{}\n", at.line, numberWidth, shown.text, "",
      numberWidth, std::string(shown.markBegin, ' '),
      painter(part, label.empty() ? marks : marks + " " + label));
}

int getNumberWidth(const Diagnostic &diagnostic, const SourceSet &sources) {
  uint32_t largest = 1;
  auto visit = [&](Span span) {
    if (span.isValid())
      largest = std::max(
          largest, sources.get(span.source).getLineColumn(span.begin).line);
  };
  visit(diagnostic.primary);
  for (const Label &label : diagnostic.labels)
    visit(label.span);
  for (const FixIt &fixIt : diagnostic.fixIts)
    visit(fixIt.span);
  return int(std::to_string(largest).size()) + 1;
}

} // namespace

std::string meshc::frontend::paint(MessagePart part, std::string_view text) {
  auto getCode = [&] {
    switch (part) {
    case MessagePart::Error:
      return "1;31"; // bold red
    case MessagePart::Warning:
      return "1;33"; // bold yellow
    case MessagePart::Advice:
      return "1;32"; // bold green
    case MessagePart::Place:
      return "1"; // bold
    case MessagePart::Mark:
      return "36"; // cyan
    }
    __builtin_unreachable();
  };
  return fmt::format("\x1b[{}m{}\x1b[0m", getCode(), text);
}

std::string meshc::frontend::renderText(const Diagnostic &diagnostic,
                                        const SourceSet &sources,
                                        bool isColoured) {
  const Painter painter{isColoured};
  int width = getNumberWidth(diagnostic, sources);
  std::string text;
  Span primary = diagnostic.primary;
  if (primary.isValid())
    text += painter(MessagePart::Place, getPlace(sources, primary) + ":") + " ";
  text += painter(getPart(diagnostic.level),
                  fmt::format("{}[{}]:", getLevelName(diagnostic.level),
                              getInfo(diagnostic.code).id));
  text += " " + painter(MessagePart::Place, diagnostic.message) + "\n";
  if (primary.isValid())
    text += showSpan(sources, primary, '^', diagnostic.label, width, painter);
  for (const Label &label : diagnostic.labels) {
    if (!primary.isValid() || label.span.source != primary.source)
      text += fmt::format("{:>{}}--> {}\n", "", width,
                          getPlace(sources, label.span));
    text += showSpan(sources, label.span, '-', label.text, width, painter);
  }
  for (const std::string &note : diagnostic.notes)
    text += fmt::format("{:>{}} = {} {}\n", "", width,
                        painter(MessagePart::Place, "note:"), note);
  auto advise = [&](const std::string &help) {
    text += fmt::format("{:>{}} = {} {}\n", "", width,
                        painter(MessagePart::Advice, "help:"), help);
  };
  for (const std::string &help : diagnostic.helps)
    advise(help);
  for (const FixIt &fixIt : diagnostic.fixIts)
    advise(fixIt.message);
  return text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static std::string quote(std::string_view text) {
  std::string quoted = "\"";
  // Names of files and options may be any bytes; JSON is UTF-8.
  for (char c : llvm::json::fixUTF8(text)) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (c == '\n')
      quoted += "\\n";
    else if (byte < 0x20 || byte == 0x7F)
      quoted += fmt::format("\\u{:04x}", byte);
    else
      quoted += c;
  }
  return quoted + '"';
}

/// One element of "spans". Lines and columns count from 1, the end column lies
/// behind the last character.
static std::string toJson(const SourceSet &sources, Span span, bool isPrimary,
                          const std::string &label,
                          const std::string *replacement) {
  const Source &source = sources.get(span.source);
  LineColumn begin = source.getLineColumn(span.begin);
  LineColumn end = source.getLineColumn(span.end);
  size_t start = source.getLineStart(begin.line);
  ShownLine shown = showLine(source.getLine(begin.line), span.begin - start,
                             span.end - start);
  return fmt::format(
      R"({{"file_name":{},"byte_start":{},"byte_end":{},"line_start":{},)"
      R"("line_end":{},"column_start":{},"column_end":{},"is_primary":{},)"
      R"("text":[{{"text":{},"highlight_start":{},"highlight_end":{}}}],)"
      R"("label":{},"suggested_replacement":{},)"
      R"("suggestion_applicability":{},"expansion":null}})",
      quote(source.getName()), span.begin, span.end, begin.line, end.line,
      begin.column, end.column, isPrimary, quote(shown.text),
      shown.markBegin + 1, shown.markEnd + 1,
      label.empty() ? "null" : quote(label),
      replacement ? quote(*replacement) : "null",
      replacement ? "\"MaybeIncorrect\"" : "null");
}

static std::string toJsonChild(std::string_view level, std::string_view message,
                               std::string_view spans) {
  return fmt::format(R"({{"message":{},"code":null,"level":"{}",)"
                     R"("spans":[{}],"children":[],"rendered":null}})",
                     quote(message), level, spans);
}

std::string meshc::frontend::renderJson(const Diagnostic &diagnostic,
                                        const SourceSet &sources) {
  std::vector<std::string> spans, children;
  if (diagnostic.primary.isValid())
    spans.push_back(
        toJson(sources, diagnostic.primary, true, diagnostic.label, nullptr));
  for (const Label &label : diagnostic.labels)
    spans.push_back(toJson(sources, label.span, false, label.text, nullptr));
  for (const std::string &note : diagnostic.notes)
    children.push_back(toJsonChild("note", note, ""));
  for (const std::string &help : diagnostic.helps)
    children.push_back(toJsonChild("help", help, ""));
  for (const FixIt &fixIt : diagnostic.fixIts)
    children.push_back(
        toJsonChild("help", fixIt.message,
                    toJson(sources, fixIt.span, true, "", &fixIt.replacement)));
  const CodeInfo &info = getInfo(diagnostic.code);
  return fmt::format(R"({{"$message_type":"diagnostic","message":{},)"
                     R"("code":{{"code":"{}","explanation":{}}},"level":"{}",)"
                     R"("spans":[{}],"children":[{}],"rendered":{}}})"
                     "\n",
                     quote(diagnostic.message), info.id,
                     quote(info.explanation), getLevelName(diagnostic.level),
                     fmt::join(spans, ","), fmt::join(children, ","),
                     quote(renderText(diagnostic, sources)));
}
