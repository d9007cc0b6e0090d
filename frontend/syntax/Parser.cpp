// Tokens, recovery and the pieces of command-line options.

#include "frontend/syntax/Parser.h"

#include <fmt/format.h>

using namespace meshc::frontend;

Parser::Parser(const SourceSet &sources, uint32_t source,
               Diagnostics &diagnostics)
    : source(source), text(sources.get(source).getText()),
      diagnostics(diagnostics), tokens(lex(sources, source, diagnostics)) {}

const Token &Parser::peek(size_t distance) const {
  return tokens[std::min(position + distance, tokens.size() - 1)];
}

Span Parser::getSpan(const Token &token) const {
  return {source, token.begin, token.end};
}

std::string_view Parser::getText(const Token &token) const {
  return text.substr(token.begin, token.end - token.begin);
}

/// From `begin` to the end of the last token consumed.
Span Parser::getSpanFrom(uint32_t begin) const {
  return {source, begin, position ? tokens[position - 1].end : begin};
}

bool Parser::isWord(std::string_view word, size_t distance) const {
  const Token &token = peek(distance);
  return token.kind == TokenKind::Name && getText(token) == word;
}

std::string Parser::describeToken() const {
  const Token &token = peek();
  if (token.kind == TokenKind::End)
    return std::string(describe(token.kind));
  if (token.kind == TokenKind::Name || token.kind == TokenKind::Integer ||
      token.kind == TokenKind::Float)
    return fmt::format("\"{}\"", getText(token).substr(0, 80));
  return std::string(describe(token.kind));
}

Diagnostic &Parser::report(Code code, std::string message) {
  if (!is(TokenKind::Malformed))
    return report(code, getSpan(peek()), std::move(message));
  mustRecover = true;
  return ignored = Diagnostic{};
}

Diagnostic &Parser::report(Code code, Span span, std::string message) {
  mustRecover = true;
  return diagnostics.report(code, span, std::move(message));
}

bool Parser::accept(TokenKind kind) {
  if (!is(kind))
    return false;
  ++position;
  return true;
}

bool Parser::expect(TokenKind kind, std::string_view after) {
  if (accept(kind))
    return true;
  Diagnostic &error = report(
      Code::ExpectedToken, fmt::format("expected {} after {}, found {}",
                                       describe(kind), after, describeToken()));
  if (kind == TokenKind::RightParen || kind == TokenKind::RightBracket)
    error.fix({source, tokens[position - 1].end, tokens[position - 1].end},
              kind == TokenKind::RightParen ? ")" : "]",
              fmt::format("add {}", describe(kind)));
  return false;
}

std::optional<ast::Name> Parser::expectName(std::string_view what) {
  const Token &token = peek();
  if (accept(TokenKind::Name))
    return ast::Name{getText(token), getSpan(token)};
  if (isKeyword(token.kind))
    report(Code::ReservedWord,
           fmt::format("expected {}, found the reserved word \"{}\"", what,
                       getText(token)));
  else
    report(Code::ExpectedToken,
           fmt::format("expected {}, found {}", what, describeToken()));
  return std::nullopt;
}

std::optional<ast::Name>
Parser::expectDim(const std::optional<ast::Name> &element) {
  if (!is(TokenKind::Integer))
    return expectName("a dimension");
  report(Code::ExpectedToken,
         fmt::format("expected a dimension, found {}", describeToken()))
      .help(fmt::format("dimensions have names: declare dim rows = {} above, "
                        "and write {}[rows, ...]",
                        getText(peek()),
                        element ? element->text : std::string_view("f32")));
  return std::nullopt;
}

void Parser::expectEnd() {
  if (!is(TokenKind::End))
    report(Code::ExpectedToken, fmt::format("unexpected {}", describeToken()));
}

//===----------------------------------------------------------------------===//
// Recovery
//===----------------------------------------------------------------------===//

bool Parser::startsLine(size_t index) const {
  if (index == 0)
    return true;
  std::string_view between = text.substr(
      tokens[index - 1].end, tokens[index].begin - tokens[index - 1].end);
  return between.find('\n') != std::string_view::npos;
}

/// Whether an item, and no statement, plausibly begins at a token. Words such
/// as "model" and "data" are names elsewhere, so these must begin a line.
bool Parser::atItemStart(size_t index) const {
  const Token &token = tokens[index];
  if (token.kind == TokenKind::KwFn || token.kind == TokenKind::KwImport)
    return true;
  if (!startsLine(index))
    return false;
  if (token.kind != TokenKind::Name || index + 1 >= tokens.size())
    return false;
  TokenKind next = tokens[index + 1].kind;
  std::string_view word = getText(token);
  if (word == "mesh" || word == "model")
    return next == TokenKind::Name;
  if (word == "data" && next == TokenKind::Name)
    return getText(tokens[index + 1]) == "over";
  if (word == "layout" || word == "data" || word == "train")
    return next == TokenKind::LeftBrace;
  return false;
}

/// Whether a token is one of the words that begin an item, and begins its line
/// without indent. In a body that is not enough: "model = 2" may be a
/// statement.
bool Parser::atItemWord(size_t index) const {
  const Token &token = tokens[index];
  if (token.begin > 0 && text[token.begin - 1] != '\n')
    return false;
  if (token.kind == TokenKind::KwLet || token.kind == TokenKind::KwDim)
    return true;
  std::string_view word = getText(token);
  return word == "mesh" || word == "layout" || word == "model" ||
         word == "data" || word == "train";
}

bool Parser::atItemAfter(Entries entries) const {
  if (atItemStart(position))
    return true;
  // A dimension is a statement of functions, and none of the model.
  return is(TokenKind::KwDim) &&
         (entries == Entries::Names   ? startsLine(position)
          : entries == Entries::Model ? atItemWord(position)
                                      : false);
}

void Parser::skipToItem() {
  while (!is(TokenKind::End) && !atItemStart(position) &&
         !atItemWord(position) &&
         !(is(TokenKind::KwDim) && startsLine(position)))
    ++position;
}

/// To the next entry of the block, its closing brace, or where an item shows
/// that the brace is missing. Names begin lines.
void Parser::skipToEntry(Entries entries) {
  while (!is(TokenKind::End) && !is(TokenKind::RightBrace) &&
         !atItemAfter(entries)) {
    if (entries == Entries::Names) {
      if (is(TokenKind::Name) && startsLine(position))
        return;
    } else if (is(TokenKind::LeftBrace)) {
      skipBalancedBraces();
      continue;
    } else if (atStatement(position)) {
      return;
    }
    ++position;
  }
}

/// Whether a statement plausibly begins at a token.
bool Parser::atStatement(size_t index) const {
  switch (tokens[index].kind) {
  case TokenKind::KwAssert:
  case TokenKind::KwDim:
  case TokenKind::KwFor:
  case TokenKind::KwIf:
  case TokenKind::KwLet:
  case TokenKind::KwOutput:
  case TokenKind::KwParam:
  case TokenKind::KwReturn:
  case TokenKind::KwState:
    return true;
  case TokenKind::Name:
    break;
  default:
    return false;
  }
  if (!startsLine(index) || index + 1 >= tokens.size())
    return false;
  // "over = d" on a line of its own may be an argument.
  TokenKind before = index == 0 ? TokenKind::End : tokens[index - 1].kind;
  if (before == TokenKind::Comma || before == TokenKind::LeftParen)
    return false;
  auto isKind = [&](size_t distance, TokenKind kind) {
    return index + distance < tokens.size() &&
           tokens[index + distance].kind == kind;
  };
  // One name, or the first of several.
  size_t behind = 1;
  while (isKind(behind, TokenKind::Comma) &&
         isKind(behind + 1, TokenKind::Name))
    behind += 2;
  return isKind(behind, TokenKind::Equal) || isKind(1, TokenKind::PlusEqual) ||
         isKind(1, TokenKind::LeftBracket);
}

bool Parser::parseBodyAfterError(bool isModel) {
  while (!is(TokenKind::End) && !is(TokenKind::LeftBrace) &&
         !is(TokenKind::RightBrace) && !atItemStart(position) &&
         !atStatement(position))
    ++position;
  NestingGuard guard(nesting);
  if (!is(TokenKind::LeftBrace) || guard.isTooDeep())
    return false;
  std::vector<ast::Statement> ignored;
  parseBody(ignored, "", isModel);
  return true;
}

void Parser::skipBalancedBraces() {
  size_t depth = 0;
  while (!is(TokenKind::End)) {
    if (is(TokenKind::LeftBrace))
      ++depth;
    if (accept(TokenKind::RightBrace)) {
      if (--depth == 0)
        return;
      continue;
    }
    ++position;
  }
}

//===----------------------------------------------------------------------===//
// Command-line options
//===----------------------------------------------------------------------===//

std::vector<ast::Definition> Parser::parseDefinitions(std::string_view what) {
  std::vector<ast::Definition> definitions;
  if (is(TokenKind::End))
    return definitions;
  do {
    std::optional<ast::Definition> definition = parseDefinition(what);
    if (!definition)
      return definitions;
    definitions.push_back(std::move(*definition));
  } while (accept(TokenKind::Comma));
  expectEnd();
  return definitions;
}

ast::ExprPtr Parser::parseExpressionOption() {
  ast::ExprPtr value = parseExpression();
  if (value)
    expectEnd();
  return value;
}
