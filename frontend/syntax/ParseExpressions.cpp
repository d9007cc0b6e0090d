// Expressions, by precedence climbing.

#include "frontend/syntax/Parser.h"

#include <charconv>

#include <fmt/format.h>

using namespace meshc::frontend;
using ast::Operator;

namespace {

struct BinaryOperator {
  TokenKind token;
  Operator op;
  int level;
};

/// From weakest to strongest; "not" stands before level 2, unary minus after
/// level 4, "^" binds strongest.
constexpr int comparisonLevel = 2;
constexpr int strongestLevel = 4;
constexpr BinaryOperator binaryOperators[] = {
    {TokenKind::KwOr, Operator::Or, 0},
    {TokenKind::KwAnd, Operator::And, 1},
    {TokenKind::EqualEqual, Operator::Equal, comparisonLevel},
    {TokenKind::NotEqual, Operator::NotEqual, comparisonLevel},
    {TokenKind::Less, Operator::Less, comparisonLevel},
    {TokenKind::LessEqual, Operator::LessEqual, comparisonLevel},
    {TokenKind::Greater, Operator::Greater, comparisonLevel},
    {TokenKind::GreaterEqual, Operator::GreaterEqual, comparisonLevel},
    {TokenKind::Plus, Operator::Add, 3},
    {TokenKind::Minus, Operator::Subtract, 3},
    {TokenKind::Star, Operator::Multiply, strongestLevel},
    {TokenKind::Slash, Operator::Divide, strongestLevel},
    {TokenKind::Percent, Operator::Remainder, strongestLevel},
};

const BinaryOperator *findOperator(TokenKind token, int level) {
  for (const BinaryOperator &candidate : binaryOperators)
    if (candidate.token == token && candidate.level == level)
      return &candidate;
  return nullptr;
}

} // namespace

ast::ExprPtr Parser::parseExpression() {
  NestingGuard guard(nesting);
  if (guard.isTooDeep()) {
    report(Code::NestingTooDeep,
           fmt::format("expression nested more than {} deep", Limits::nesting));
    return nullptr;
  }
  return parseBinary(0);
}

ast::ExprPtr Parser::parseBinary(int level) {
  if (level > strongestLevel)
    return parsePrefix(level, Operator::Negate);
  if (level == comparisonLevel && is(TokenKind::KwNot))
    return parsePrefix(level, Operator::Not);

  uint32_t begin = peek().begin;
  ast::ExprPtr first = parseBinary(level + 1);
  if (!first || !findOperator(peek().kind, level))
    return first;

  auto chain = std::make_unique<ast::ChainExpr>(Span{source, begin, begin});
  chain->operands.push_back(std::move(first));
  while (const BinaryOperator *found = findOperator(peek().kind, level)) {
    if (level == comparisonLevel && !chain->ops.empty()) {
      report(Code::ChainedComparison, "comparisons do not chain")
          .help("join two comparisons with \"and\"");
      return nullptr;
    }
    chain->ops.push_back(found->op);
    chain->opSpans.push_back(getSpan(peek()));
    ++position;
    ast::ExprPtr operand = parseBinary(level + 1);
    if (!operand)
      return nullptr;
    chain->operands.push_back(std::move(operand));
  }
  chain->span = getSpanFrom(begin);
  return chain;
}

/// A run of `op` ("not" or "-") and what it applies to.
ast::ExprPtr Parser::parsePrefix(int level, Operator op) {
  TokenKind kind = op == Operator::Not ? TokenKind::KwNot : TokenKind::Minus;
  if (!is(kind))
    return parsePower();
  NestingGuard guard(nesting);
  uint32_t begin = peek().begin;
  ++position;
  if (guard.isTooDeep()) {
    report(Code::NestingTooDeep,
           fmt::format("expression nested more than {} deep", Limits::nesting));
    return nullptr;
  }
  ast::ExprPtr operand = parseBinary(level);
  if (!operand)
    return nullptr;
  return std::make_unique<ast::UnaryExpr>(getSpanFrom(begin), op,
                                          std::move(operand));
}

/// a ^ b ^ c; an exponent may begin with a minus: d ^ -0.5.
ast::ExprPtr Parser::parsePower() {
  uint32_t begin = peek().begin;
  ast::ExprPtr base = parsePostfix();
  if (!base || !is(TokenKind::Caret))
    return base;
  auto chain = std::make_unique<ast::ChainExpr>(Span{source, begin, begin});
  chain->operands.push_back(std::move(base));
  while (is(TokenKind::Caret)) {
    chain->ops.push_back(Operator::Power);
    chain->opSpans.push_back(getSpan(peek()));
    ++position;
    // A negated exponent takes the rest of the chain with it.
    ast::ExprPtr exponent =
        is(TokenKind::Minus) ? parsePrefix(strongestLevel + 1, Operator::Negate)
                             : parsePostfix();
    if (!exponent)
      return nullptr;
    chain->operands.push_back(std::move(exponent));
  }
  chain->span = getSpanFrom(begin);
  return chain;
}

ast::ExprPtr Parser::parsePostfix() {
  ast::ExprPtr expr = parsePrimary();
  // Each index is an operand of the next: a chain of them is a tree as deep.
  int numIndices = 0;
  while (expr && is(TokenKind::LeftBracket)) {
    if (nesting + ++numIndices > Limits::nesting) {
      report(
          Code::NestingTooDeep,
          fmt::format("expression nested more than {} deep", Limits::nesting));
      return nullptr;
    }
    expr = parseIndex(std::move(expr));
  }
  if (!expr || !is(TokenKind::At))
    return expr;
  report(Code::ExpectedToken, "\"@\" is no operator")
      .note("how one value is split is a rule of the layout for its name: "
            "\"h\": dim -> axis")
      .help("a product is einsum(a, b -> dims), summed over all other dims");
  return nullptr;
}

ast::ExprPtr Parser::parsePrimary() {
  const Token &token = peek();
  switch (token.kind) {
  case TokenKind::Integer:
  case TokenKind::Float:
    return parseNumber();
  case TokenKind::String: {
    ++position;
    std::string_view quoted = getText(token);
    // An unterminated string is an empty token: already reported.
    return std::make_unique<ast::StringExpr>(
        getSpan(token),
        quoted.empty() ? quoted : quoted.substr(1, quoted.size() - 2));
  }
  case TokenKind::Name: {
    ++position;
    ast::Name name{getText(token), getSpan(token)};
    if (is(TokenKind::LeftParen))
      return parseCall(name);
    return std::make_unique<ast::NameExpr>(name.span, name.text);
  }
  case TokenKind::LeftParen:
    return parseParenthesis();
  default: {
    Diagnostic &error = report(
        Code::ExpectedExpression,
        fmt::format("expected an expression, found {}", describeToken()));
    if (is(TokenKind::Star) && position > 0 &&
        tokens[position - 1].kind == TokenKind::Star)
      error.help("write \"^\" for a power");
    return nullptr;
  }
  }
}

ast::ExprPtr Parser::parseNumber() {
  const Token &token = peek();
  ++position;
  std::string_view digits = getText(token);
  // The lexer has checked the digits; an empty token stands for a malformed
  // number that it reported.
  if (token.kind == TokenKind::Float) {
    double value = 0;
    std::from_chars(digits.begin(), digits.end(), value);
    return std::make_unique<ast::FloatExpr>(getSpan(token), value);
  }
  int64_t value = 0;
  std::from_chars(digits.begin(), digits.end(), value);
  return std::make_unique<ast::IntegerExpr>(getSpan(token), value);
}

/// (a) is a, and what is said of it marks the parentheses too; (a, b) a tuple,
/// and () one of nothing.
ast::ExprPtr Parser::parseParenthesis() {
  uint32_t begin = peek().begin;
  ++position;
  if (accept(TokenKind::RightParen))
    return std::make_unique<ast::TupleExpr>(getSpanFrom(begin));
  ast::ExprPtr first = parseExpression();
  if (!first)
    return nullptr;
  if (!is(TokenKind::Comma)) {
    if (!expect(TokenKind::RightParen, "the expression"))
      return nullptr;
    first->span = getSpanFrom(begin);
    return first;
  }
  auto tuple = std::make_unique<ast::TupleExpr>(Span{source, begin, begin});
  tuple->elements.push_back(std::move(first));
  while (accept(TokenKind::Comma)) {
    ast::ExprPtr element = parseExpression();
    if (!element)
      return nullptr;
    tuple->elements.push_back(std::move(element));
  }
  if (!expect(TokenKind::RightParen, "the list"))
    return nullptr;
  tuple->span = getSpanFrom(begin);
  return tuple;
}

ast::ExprPtr Parser::parseCall(ast::Name callee) {
  auto call = std::make_unique<ast::CallExpr>(callee.span, callee);
  ++position;
  if (!is(TokenKind::RightParen)) {
    do {
      std::optional<ast::Argument> argument = parseArgument();
      if (!argument)
        return nullptr;
      call->arguments.push_back(std::move(*argument));
    } while (accept(TokenKind::Comma));
  }
  if (!expect(TokenKind::RightParen, "the arguments"))
    return nullptr;
  // "with" is a name elsewhere.
  auto atWith = [&] {
    return isWord("with") && peek(1).kind == TokenKind::Name;
  };
  if (atWith()) {
    ++position;
    call->variables = expectName("the name of a call");
  }
  if (accept(TokenKind::KwAs)) {
    call->scope = expectName("a name for the scope");
    if (!call->scope)
      return nullptr;
  }
  if (call->scope && atWith()) {
    report(Code::ExpectedToken, "\"with\" stands before \"as\"");
    return nullptr;
  }
  call->span = getSpanFrom(callee.span.begin);
  return call;
}

std::optional<ast::Argument> Parser::parseArgument() {
  ast::Argument argument;
  if (is(TokenKind::Name) && peek(1).kind == TokenKind::Equal) {
    argument.name = ast::Name{getText(peek()), getSpan(peek())};
    position += 2;
  }
  argument.value = parseExpression();
  if (!argument.value)
    return std::nullopt;
  if (is(TokenKind::Arrow)) {
    argument.arrow = getSpan(peek());
    ++position;
    if (!is(TokenKind::RightParen)) {
      argument.target = parseExpression();
      if (!argument.target)
        return std::nullopt;
    }
  }
  return argument;
}

/// [dim = position, (dim, dim) = position else value]
ast::ExprPtr Parser::parseIndex(ast::ExprPtr operand) {
  uint32_t begin = operand->span.begin;
  auto index = std::make_unique<ast::IndexExpr>(Span{source, begin, begin},
                                                std::move(operand));
  ++position;
  do {
    std::optional<ast::IndexPart> part = parseIndexPart();
    if (!part)
      return nullptr;
    index->parts.push_back(std::move(*part));
  } while (accept(TokenKind::Comma));
  if (accept(TokenKind::KwElse)) {
    index->otherwise = parseExpression();
    if (!index->otherwise)
      return nullptr;
  }
  if (!expect(TokenKind::RightBracket, "the index"))
    return nullptr;
  index->span = getSpanFrom(begin);
  return index;
}

std::optional<ast::IndexPart> Parser::parseIndexPart() {
  ast::IndexPart part;
  bool isList = accept(TokenKind::LeftParen);
  do {
    if (is(TokenKind::Integer) || is(TokenKind::Colon)) {
      report(Code::ExpectedToken,
             fmt::format("expected a dimension, found {}", describeToken()))
          .help("an index says which dimension is read where: x[n = 0] is the "
                "first of n; with dim m = 2, x[n = m] are the first 2 and "
                "x[n = m + 3] the 2 behind 3 others");
      return std::nullopt;
    }
    std::optional<ast::Name> dim = expectName("a dimension");
    if (!dim)
      return std::nullopt;
    part.dims.push_back(*dim);
  } while (isList && accept(TokenKind::Comma));
  if (isList && !expect(TokenKind::RightParen, "the dimensions"))
    return std::nullopt;
  if (!is(TokenKind::Equal)) {
    report(Code::ExpectedToken,
           fmt::format("expected \"=\" after the dimension, found {}",
                       describeToken()))
        .note("an index says which dimension is read where: x[dim = position]");
    return std::nullopt;
  }
  ++position;
  part.position = parseExpression();
  if (!part.position)
    return std::nullopt;
  return part;
}
