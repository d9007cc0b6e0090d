// Rules of the layout, in a spec and on the command line.

#include "frontend/syntax/Parser.h"
#include "layout/Layout.h"
#include "layout/Spelling.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

/// A token as the grammar of rules takes it.
layout::RuleWord Parser::getRuleWord(const Token &token) const {
  using Kind = layout::RuleWord::Kind;
  switch (token.kind) {
  case TokenKind::Name:
    return {Kind::Name, getText(token)};
  case TokenKind::String:
    return {Kind::String, getText(token)};
  case TokenKind::Integer:
  case TokenKind::Float:
  case TokenKind::Malformed:
  case TokenKind::End:
    return {Kind::Other, getText(token)};
  default:
    return {Kind::Mark, getText(token)};
  }
}

/// `position` is at the token that is wrong, if one is missing.
void Parser::report(const layout::RuleSyntaxError &error) {
  using Kind = layout::RuleSyntaxError::Kind;
  const Span span = getSpan(tokens[position - error.numWords + error.word]);
  switch (error.kind) {
  case Kind::NoName:
    expectName(error.expected);
    return;
  case Kind::NoMark:
    expect(error.expected == ")" ? TokenKind::RightParen : TokenKind::Arrow,
           error.after);
    return;
  case Kind::UnknownRole: {
    std::vector<std::string> known;
    for (layout::Role role : layout::namedRoles)
      known.emplace_back(toString(role));
    report(Code::UnknownRole, span, toString(error))
        .didYouMean(layout::findNearest(error.name, known))
        .note("in front of \":\" stands params, gradients, state or the name "
              "of values in quotes");
    return;
  }
  case Kind::EmptyPattern:
    report(Code::ExpectedToken, span, toString(error));
    return;
  case Kind::EveryOfNothing:
    report(Code::ExpectedToken, span, toString(error))
        .help("write params: * -> data");
    return;
  case Kind::EveryOverNothing:
    report(Code::ExpectedToken, span, toString(error))
        .help("name the dimensions that stay whole: gradients: d -> ()");
    return;
  }
}

std::optional<ast::LayoutRule> Parser::parseRule() {
  const size_t first = position;
  if (is(TokenKind::String) && getText(peek()).empty() &&
      peek(1).kind == TokenKind::Colon) {
    position += 2; // it does not end, which was reported
    return std::nullopt;
  }
  auto parsed =
      layout::parseRule([&](size_t word) { return getRuleWord(peek(word)); });
  if (auto *error = std::get_if<layout::RuleSyntaxError>(&parsed)) {
    position += error->numWords;
    report(*error);
    return std::nullopt;
  }
  auto &found = std::get<layout::ParsedRule>(parsed);
  position += found.numWords;
  ast::LayoutRule rule{std::move(found.rule), {}, {}};
  for (const auto &[name, word] : found.words)
    rule.spans[name] = getSpan(tokens[first + word]);
  rule.span = getSpanFrom(tokens[first].begin);
  return rule;
}

/// Whether the rules of an option are as a spec has them: the short form has no
/// arrows and colons, nor one word behind another.
bool Parser::isLongForm() const {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].kind == TokenKind::Arrow ||
        tokens[i].kind == TokenKind::Colon ||
        (i > 0 && tokens[i - 1].kind == TokenKind::Name &&
         tokens[i].kind == TokenKind::Name))
      return true;
  return false;
}

/// dim=axis+axis,... or rules as a spec has them.
std::vector<ast::LayoutRule> Parser::parseLayoutOption() {
  std::vector<ast::LayoutRule> rules;
  if (is(TokenKind::End))
    return rules;
  const bool isShort = !isLongForm();
  bool isMore = true;
  while (isMore) {
    std::optional<ast::LayoutRule> rule =
        isShort ? parseShortRule() : parseRule();
    if (!rule)
      return rules;
    rules.push_back(std::move(*rule));
    // As in a spec a comma is between rules, or behind them, or nowhere.
    const bool hasComma = accept(TokenKind::Comma);
    isMore = isShort ? hasComma : !is(TokenKind::End);
  }
  expectEnd();
  return rules;
}

/// dim=axis+axis
std::optional<ast::LayoutRule> Parser::parseShortRule() {
  using layout::RulePart;
  ast::LayoutRule rule;
  std::optional<ast::Name> dim = expectName("a dimension");
  if (!dim || !expect(TokenKind::Equal, "the dimension"))
    return std::nullopt;
  rule.rule.dims.emplace_back(dim->text);
  rule.spans[{RulePart::Dims, 0}] = dim->span;
  do {
    std::optional<ast::Name> axis = expectName("a mesh axis");
    if (!axis)
      return std::nullopt;
    rule.spans[{RulePart::Axes, rule.rule.axes.size()}] = axis->span;
    rule.rule.axes.emplace_back(axis->text);
  } while (accept(TokenKind::Plus));
  rule.span = getSpanFrom(dim->span.begin);
  return rule;
}
