#include "frontend/syntax/Lexer.h"

#include "frontend/syntax/ForeignNames.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

using namespace meshc::frontend;

namespace {

struct Spelling {
  TokenKind kind;
  std::string_view text;
};

constexpr Spelling punctuation[] = {
#define MESHC_PUNCTUATION(NAME, TEXT) {TokenKind::NAME, TEXT},
#include "frontend/syntax/Tokens.def"
};
constexpr Spelling keywords[] = {
#define MESHC_KEYWORD(NAME, TEXT) {TokenKind::NAME, TEXT},
#include "frontend/syntax/Tokens.def"
};

bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameCharacter(char c) { return isNameStart(c) || isDigit(c); }

/// Length of the UTF-8 sequence at `text[at]`, 0 if it is malformed: overlong,
/// a surrogate, beyond U+10FFFF or cut off. `codePoint` receives its value.
size_t decode(std::string_view text, size_t at, uint32_t &codePoint) {
  auto byte = [&](size_t i) {
    return i < text.size() ? uint32_t(static_cast<unsigned char>(text[i])) : 0;
  };
  uint32_t first = byte(at);
  if (first < 0x80) {
    codePoint = first;
    return 1;
  }
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4)
    return 0;
  codePoint = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80)
      return 0;
    codePoint = codePoint << 6 | (byte(at + i) & 0x3F);
  }
  static constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool isSurrogate = codePoint >= 0xD800 && codePoint <= 0xDFFF;
  if (codePoint < smallest[length] || codePoint > 0x10FFFF || isSurrogate)
    return 0;
  return length;
}

/// Characters that reorder the text around them and so can make a line read
/// otherwise than it means (Unicode Technical Standard 55, section 3.1).
bool isBidirectionalControl(uint32_t codePoint) {
  return (codePoint >= 0x202A && codePoint <= 0x202E) ||
         (codePoint >= 0x2066 && codePoint <= 0x2069);
}

class Lexer {
public:
  Lexer(const SourceSet &sources, uint32_t source, Diagnostics &diagnostics)
      : source(source), text(sources.get(source).getText()),
        diagnostics(diagnostics) {}

  std::vector<Token> run();

private:
  void lexOne();
  void lexName();
  void lexPath(size_t begin);
  void lexNumber();
  void lexString();
  void lexOther();
  bool skipComment();

  Span getSpan(size_t begin, size_t end) const {
    return {source, uint32_t(begin), uint32_t(end)};
  }
  void push(TokenKind kind, size_t begin, size_t end) {
    tokens.push_back({kind, uint32_t(begin), uint32_t(end)});
  }
  char peek(size_t distance = 0) const {
    return at + distance < text.size() ? text[at + distance] : '\0';
  }

  uint32_t source;
  std::string_view text;
  Diagnostics &diagnostics;
  size_t at = 0;
  std::vector<Token> tokens;
};

} // namespace

std::string_view meshc::frontend::describe(TokenKind kind) {
  switch (kind) {
  case TokenKind::Name:
    return "a name";
  case TokenKind::Integer:
  case TokenKind::Float:
    return "a number";
  case TokenKind::String:
    return "a string";
  case TokenKind::Malformed:
    return "an unexpected character";
  case TokenKind::End:
    return "the end of the file";
#define MESHC_PUNCTUATION(NAME, TEXT)                                          \
  case TokenKind::NAME:                                                        \
    return "\"" TEXT "\"";
#define MESHC_KEYWORD(NAME, TEXT)                                              \
  case TokenKind::NAME:                                                        \
    return "\"" TEXT "\"";
#include "frontend/syntax/Tokens.def"
  }
  __builtin_unreachable();
}

bool meshc::frontend::isKeyword(TokenKind kind) {
  for (const Spelling &keyword : keywords)
    if (keyword.kind == kind)
      return true;
  return false;
}

std::optional<uint32_t> meshc::frontend::readSource(SourceSet &sources,
                                                    const std::string &path,
                                                    Span importer,
                                                    Diagnostics &diagnostics) {
  auto fail = [&](const std::string &why) {
    diagnostics.report(Code::CannotRead, importer,
                       fmt::format("cannot read \"{}\": {}", path, why));
    return std::nullopt;
  };
  std::error_code error;
  auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return fail("no such file");
  if (!std::filesystem::is_regular_file(status))
    return fail("not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail("it cannot be opened");
  std::string text(Limits::fileBytes + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  if (file.bad())
    return fail("reading failed");
  text.resize(size_t(file.gcount()));
  if (text.size() > Limits::fileBytes) {
    diagnostics.report(
        Code::FileTooLarge, importer,
        fmt::format("\"{}\" is larger than {} bytes", path, Limits::fileBytes));
    return std::nullopt;
  }
  text.shrink_to_fit();
  uint32_t source = sources.add(path, std::move(text));
  if (!checkText(sources, source, diagnostics))
    return std::nullopt;
  return source;
}

bool meshc::frontend::checkText(const SourceSet &sources, uint32_t source,
                                Diagnostics &diagnostics) {
  std::string_view text = sources.get(source).getText();
  for (size_t at = 0; at < text.size();) {
    uint32_t codePoint = 0;
    size_t length = decode(text, at, codePoint);
    Span span = {source, uint32_t(at),
                 uint32_t(at + std::max<size_t>(length, 1))};
    if (!length) {
      diagnostics
          .report(Code::InvalidUtf8, span,
                  fmt::format("byte 0x{:02x} at offset {} is not valid UTF-8",
                              static_cast<unsigned char>(text[at]), at))
          .help("save the file as UTF-8");
      return false;
    }
    if (codePoint == 0) {
      diagnostics.report(Code::NulCharacter, span,
                         fmt::format("NUL character at offset {}", at));
      return false;
    }
    at += length;
  }
  return true;
}

std::vector<Token> meshc::frontend::lex(const SourceSet &sources,
                                        uint32_t source,
                                        Diagnostics &diagnostics) {
  return Lexer(sources, source, diagnostics).run();
}

std::vector<Token> Lexer::run() {
  if (text.starts_with("\xEF\xBB\xBF"))
    at = 3;
  while (at < text.size()) {
    char c = text[at];
    if (c == ' ' || c == '\t' || c == '\n' || (c == '\r' && peek(1) == '\n')) {
      ++at;
      continue;
    }
    if (skipComment())
      continue;
    if (tokens.size() >= Limits::tokens) {
      diagnostics.report(
          Code::TooManyTokens, getSpan(at, at + 1),
          fmt::format("the file has more than {} tokens", Limits::tokens));
      break;
    }
    lexOne();
  }
  push(TokenKind::End, at, at);
  return std::move(tokens);
}

bool Lexer::skipComment() {
  if (peek() != '/' || peek(1) != '/')
    return false;
  while (at < text.size() && text[at] != '\n') {
    uint32_t codePoint = 0;
    size_t length = decode(text, at, codePoint);
    if (isBidirectionalControl(codePoint))
      diagnostics.report(
          Code::UnexpectedCharacter, getSpan(at, at + length),
          fmt::format("U+{:04X} changes the direction of the text, so that "
                      "the line reads otherwise than it means",
                      codePoint));
    at += length;
  }
  return true;
}

void Lexer::lexOne() {
  char c = peek();
  if (isNameStart(c))
    return lexName();
  if (isDigit(c) || (c == '.' && isDigit(peek(1))))
    return lexNumber();
  if (c == '"')
    return lexString();
  for (const Spelling &spelling : punctuation)
    if (text.substr(at).starts_with(spelling.text)) {
      push(spelling.kind, at, at + spelling.text.size());
      at += spelling.text.size();
      return;
    }
  lexOther();
}

void Lexer::lexName() {
  size_t begin = at;
  while (isNameCharacter(peek()))
    ++at;
  // A second role of a dim: pos'.
  while (peek() == '\'')
    ++at;
  size_t end = at;
  if (end - begin > Limits::nameLength) {
    end = begin + Limits::nameLength;
    diagnostics.report(Code::NameTooLong, getSpan(begin, end),
                       fmt::format("name of {} characters; at most {}",
                                   at - begin, Limits::nameLength));
  }
  std::string_view name = text.substr(begin, end - begin);
  if (peek() == '.' && isNameStart(peek(1)))
    return lexPath(begin);
  for (const Spelling &keyword : keywords)
    if (keyword.text == name)
      return push(keyword.kind, begin, end);
  push(TokenKind::Name, begin, end);
}

/// Names joined by dots, as np.exp or x.sum: reported, and read as the last
/// one.
void Lexer::lexPath(size_t begin) {
  size_t last = begin;
  while (peek() == '.' && isNameStart(peek(1))) {
    last = ++at;
    while (isNameCharacter(peek()))
      ++at;
  }
  std::string_view name = text.substr(last, at - last);
  Diagnostic &error = diagnostics.report(
      Code::UnexpectedCharacter, getSpan(begin, at),
      "names have no \".\": there are no modules, methods or attributes");
  const bool isFunction = peek() == '(';
  if (!(isFunction && adviseForeign(error, ForeignKind::Function, name)) &&
      !adviseForeign(error, ForeignKind::ElementType, name) && isFunction)
    error.help(fmt::format("functions are called by their name alone: {}(...)",
                           name.substr(0, Limits::nameLength)));
  push(TokenKind::Name, last, std::min(at, last + Limits::nameLength));
}

void Lexer::lexNumber() {
  size_t begin = at;
  bool isFloat = false;
  while (isDigit(peek()))
    ++at;
  if (peek() == '.') {
    isFloat = true;
    ++at;
    while (isDigit(peek()))
      ++at;
  }
  bool hasSign = peek(1) == '-' || peek(1) == '+';
  if ((peek() == 'e' || peek() == 'E') &&
      (isDigit(peek(1)) || (hasSign && isDigit(peek(2))))) {
    isFloat = true;
    at += hasSign ? 2 : 1;
    while (isDigit(peek()))
      ++at;
  }
  size_t end = at;
  while (isNameCharacter(peek()) || peek() == '.')
    ++at;
  std::string_view digits = text.substr(begin, end - begin);
  bool isValid = at == end;
  if (isValid && isFloat) {
    double value = 0;
    auto result = std::from_chars(digits.begin(), digits.end(), value);
    isValid = result.ec == std::errc() && std::isfinite(value);
  } else if (isValid) {
    int64_t value = 0;
    isValid =
        std::from_chars(digits.begin(), digits.end(), value).ec == std::errc();
  }
  if (!isValid) {
    std::string_view shown =
        text.substr(begin, std::min<size_t>(at - begin, 40));
    diagnostics
        .report(Code::InvalidNumber, getSpan(begin, at),
                fmt::format("\"{}{}\" is not a number that can be represented",
                            shown, shown.size() < at - begin ? "..." : ""))
        .note("integers have 64 bits, other numbers are IEEE doubles");
  }
  push(isFloat ? TokenKind::Float : TokenKind::Integer, begin,
       isValid ? at : begin);
}

void Lexer::lexString() {
  size_t begin = at++;
  while (at < text.size() && peek() != '"' && peek() != '\n')
    ++at;
  if (peek() != '"') {
    diagnostics.report(Code::UnterminatedString, getSpan(begin, begin + 1),
                       "string without an end on this line");
    return push(TokenKind::String, begin, begin);
  }
  ++at;
  if (at - begin - 2 > Limits::stringLength) {
    diagnostics.report(Code::NameTooLong, getSpan(begin, begin + 1),
                       fmt::format("string of {} bytes; at most {}",
                                   at - begin - 2, Limits::stringLength));
    return push(TokenKind::String, begin, begin);
  }
  push(TokenKind::String, begin, at);
}

/// A character that begins no token: reported, with its neighbours of the kind.
void Lexer::lexOther() {
  size_t begin = at;
  uint32_t first = 0;
  at += decode(text, at, first);
  // && and || are one mistake.
  const bool isDouble = (first == '&' || first == '|') && peek() == char(first);
  if (isDouble)
    ++at;
  while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80) {
    uint32_t codePoint = 0;
    at += decode(text, at, codePoint);
  }
  std::string shown =
      first > 0x20 && first < 0x7F
          ? fmt::format("\"{}\"", text.substr(begin, isDouble ? 2 : 1))
          : fmt::format("character U+{:04X}", first);
  Diagnostic &error =
      diagnostics.report(Code::UnexpectedCharacter, getSpan(begin, at),
                         fmt::format("unexpected {}", shown));
  // What these mean elsewhere is plain; the text goes on behind them.
  if (first == '#') {
    at = std::min(text.find('\n', at), text.size());
    error.help("comments begin with \"//\"");
    return;
  }
  if (first == ';') {
    error.fix(getSpan(begin, at), "",
              "leave it out: a statement ends where the next one begins");
    return;
  }
  if (first == '&' || first == '|' || first == '!')
    error.help(fmt::format("write \"{}\"", first == '&'   ? "and"
                                           : first == '|' ? "or"
                                                          : "not"));
  else if (first == '\r')
    error.note("a line ends with LF or CRLF; a CR alone does not end a line");
  else if (first >= 0x80)
    error.note("names are made of ASCII letters, digits and \"_\"");
  push(TokenKind::Malformed, begin, at);
}
