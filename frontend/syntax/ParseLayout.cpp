// Rules of the layout, in a spec and on the command line.

#include "frontend/syntax/Parser.h"
#include "layout/Layout.h"
#include "layout/Spelling.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

/// name, or (name, name).
bool Parser::parseNames(std::vector<ast::Name> &names, std::string_view what,
                        bool mayBeNone) {
  const bool isList = accept(TokenKind::LeftParen);
  if (!isList || !mayBeNone || !is(TokenKind::RightParen)) {
    do {
      std::optional<ast::Name> name = expectName(what);
      if (!name)
        return false;
      names.push_back(*name);
    } while (isList && accept(TokenKind::Comma));
  }
  return !isList || expect(TokenKind::RightParen, "the names");
}

/// The word in front of ":".
bool Parser::parseRole(ast::LayoutRule &rule) {
  const Token word = peek();
  if (word.kind == TokenKind::String) {
    const std::string_view quoted = getText(word);
    position += 2;
    if (quoted.empty()) // it does not end, which was reported
      return false;
    rule.values = ast::Name{quoted.substr(1, quoted.size() - 2), getSpan(word)};
    if (!rule.values->text.empty())
      return true;
    report(Code::ExpectedToken, rule.values->span,
           "expected the name of values, found an empty one");
    return false;
  }
  rule.role = ast::Name{getText(word), getSpan(word)};
  position += 2;
  std::vector<std::string> known;
  for (layout::Role role :
       {layout::Role::Parameter, layout::Role::Gradient, layout::Role::State})
    known.emplace_back(toString(role));
  if (std::ranges::find(known, rule.role->text) != known.end())
    return true;
  report(Code::UnknownRole, rule.role->span,
         fmt::format("a layout has no rules for \"{}\"", rule.role->text))
      .didYouMean(layout::findNearest(rule.role->text, known))
      .note("in front of \":\" stands params, gradients, state or the name of "
            "values in quotes");
  return false;
}

/// [role:] dims -> axes [unless dims]; dim -> () for one that is to stay whole.
std::optional<ast::LayoutRule> Parser::parseRule() {
  ast::LayoutRule rule;
  const uint32_t begin = getSpan(peek()).begin;
  if (peek(1).kind == TokenKind::Colon && !parseRole(rule))
    return std::nullopt;
  const uint32_t beginOfDims = getSpan(peek()).begin;
  if (is(TokenKind::Star) && !rule.role) {
    report(Code::ExpectedToken, "\"*\" stands behind a role")
        .help("write params: * -> data");
    return std::nullopt;
  }
  if (!(rule.role && accept(TokenKind::Star)) &&
      !parseNames(rule.dims, "a dimension"))
    return std::nullopt;
  rule.dimsSpan = getSpanFrom(beginOfDims);
  if (!expect(TokenKind::Arrow, "the dimension") ||
      !parseNames(rule.axes, "a mesh axis", /*mayBeNone=*/true))
    return std::nullopt;
  // A dim may be called so.
  if (is(TokenKind::Name) && getText(peek()) == "unless" &&
      peek(1).kind != TokenKind::Arrow) {
    ++position;
    if (!parseNames(rule.unless, "a dimension"))
      return std::nullopt;
  }
  rule.span = getSpanFrom(begin);
  return rule;
}

/// dim=axis+axis,... or, where there is an arrow, rules as a spec has them.
std::vector<ast::LayoutRule> Parser::parseLayoutOption() {
  std::vector<ast::LayoutRule> rules;
  if (is(TokenKind::End))
    return rules;
  const bool isShort = std::ranges::none_of(tokens, [](const Token &token) {
    return token.kind == TokenKind::Arrow;
  });
  do {
    std::optional<ast::LayoutRule> rule =
        isShort ? parseShortRule() : parseRule();
    if (!rule)
      return rules;
    rules.push_back(std::move(*rule));
  } while (accept(TokenKind::Comma) || (!isShort && !is(TokenKind::End)));
  expectEnd();
  return rules;
}

/// dim=axis+axis
std::optional<ast::LayoutRule> Parser::parseShortRule() {
  ast::LayoutRule rule;
  std::optional<ast::Name> dim = expectName("a dimension");
  if (!dim || !expect(TokenKind::Equal, "the dimension"))
    return std::nullopt;
  rule.dims = {*dim};
  rule.dimsSpan = dim->span;
  do {
    std::optional<ast::Name> axis = expectName("a mesh axis");
    if (!axis)
      return std::nullopt;
    rule.axes.push_back(*axis);
  } while (accept(TokenKind::Plus));
  rule.span = getSpanFrom(dim->span.begin);
  return rule;
}
