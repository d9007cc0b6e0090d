#ifndef MESHC_FRONTEND_SYNTAX_LEXER_H
#define MESHC_FRONTEND_SYNTAX_LEXER_H

#include "frontend/syntax/Diagnostics.h"

#include <optional>
#include <vector>

namespace meshc::frontend {

/// Limits on what a spec may hold, so that no input costs unbounded time or
/// stack. Chosen far above any model written by hand or by a generator.
struct Limits {
  static constexpr size_t fileBytes = size_t(16) << 20;
  static constexpr size_t tokens = 2'000'000;
  static constexpr size_t nameLength = 255;
  static constexpr size_t stringLength = 4096;
  static constexpr int nesting = 256;
};

enum class TokenKind : uint8_t {
  Name,
  Integer,
  Float,
  String,
  Malformed, ///< characters that mean nothing; the lexer has said so
#define MESHC_PUNCTUATION(NAME, TEXT) NAME,
#define MESHC_KEYWORD(NAME, TEXT) NAME,
#include "frontend/syntax/Tokens.def"
  End,
};

/// "','", "'let'", "a name": for messages.
std::string_view describe(TokenKind kind);
bool isKeyword(TokenKind kind);

struct Token {
  TokenKind kind = TokenKind::End;
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// Reads a spec file, at most Limits::fileBytes, and checks its text as
/// checkText does. `importer` is where it is named, if in a spec.
std::optional<uint32_t> readSource(SourceSet &sources, const std::string &path,
                                   Span importer, Diagnostics &diagnostics);

/// Whether the text is UTF-8 without NUL; reports the first place where it is
/// not. A byte-order mark at the start and CRLF line ends are accepted.
bool checkText(const SourceSet &sources, uint32_t source,
               Diagnostics &diagnostics);

/// Splits a source into tokens, the last of kind End. Malformed text is
/// reported and replaced by the nearest valid token, or by one of kind
/// Malformed, so that parsing can go on.
std::vector<Token> lex(const SourceSet &sources, uint32_t source,
                       Diagnostics &diagnostics);

} // namespace meshc::frontend

#endif
