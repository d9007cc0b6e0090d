// Statements of a body.

#include "frontend/syntax/Parser.h"
#include "layout/Spelling.h"

#include <utility>

#include <fmt/format.h>

using namespace meshc::frontend;

Span Parser::parseBody(std::vector<ast::Statement> &body,
                       std::string_view after, bool isModel) {
  return parseBraces(after, isModel ? Entries::Model : Entries::Function,
                     [&] { return parseStatement(body, isModel); });
}

bool Parser::parseStatement(std::vector<ast::Statement> &body, bool isModel) {
  switch (peek().kind) {
  case TokenKind::KwParam:
  case TokenKind::KwState:
    return parseVariable(body);
  case TokenKind::KwLet:
    ++position;
    return parseLet(body, ast::LetStatement::Kind::Binds);
  case TokenKind::KwDim:
    return parseDim(body, isModel);
  case TokenKind::KwAssert:
    return parseAssert(body);
  case TokenKind::KwOutput:
    return parseOutput(body, isModel);
  case TokenKind::KwReturn:
    return parseReturn(body, isModel);
  case TokenKind::KwFor:
    return parseLoop(body, isModel);
  case TokenKind::KwIf:
    return parseIf(body, isModel);
  case TokenKind::Name:
    if (peek(1).kind == TokenKind::Equal || peek(1).kind == TokenKind::Comma)
      return parseLet(body, ast::LetStatement::Kind::Rebinds);
    if (peek(1).kind == TokenKind::PlusEqual)
      return parseLet(body, ast::LetStatement::Kind::Adds);
    if (peek(1).kind == TokenKind::LeftBracket)
      return parsePlace(body);
    break;
  default:
    break;
  }
  static const std::string words[] = {"param", "state",  "let",    "for",
                                      "if",    "assert", "output", "return"};
  Diagnostic &error = report(
      Code::ExpectedItem,
      fmt::format(
          "expected a statement, which begins with \"param\", \"state\", "
          "\"let\", \"for\", \"if\", \"assert\", \"{}\" or \"name =\", found "
          "{}",
          isModel ? "output" : "return", describeToken()));
  if (isWord("elif")) {
    error.help("write \"else if\"");
    return parseBranchesAfterError(isModel);
  }
  if (isWord("while")) {
    error.help("\"for t in time\" runs over the positions of the dimension "
               "\"time\"");
    return parseBodyAfterError(isModel);
  }
  const TokenKind next = peek(1).kind;
  const bool updates = is(TokenKind::Name) &&
                       peek(2).kind == TokenKind::Equal &&
                       (next == TokenKind::Minus || next == TokenKind::Star ||
                        next == TokenKind::Slash);
  if (updates)
    error.help(fmt::format("write \"{0} = {0} {1} (...)\"", getText(peek()),
                           getText(peek(1))));
  else if (is(TokenKind::Name))
    error.didYouMean(layout::findNearest(getText(peek()), words));
  return false;
}

bool Parser::parseVariable(std::vector<ast::Statement> &body) {
  ast::VariableStatement variable;
  variable.isState = is(TokenKind::KwState);
  ++position;
  const std::string what = variable.isState ? "state name" : "parameter name";
  do {
    std::optional<ast::Name> name = expectName("a " + what);
    if (!name)
      return false;
    variable.names.push_back(*name);
  } while (accept(TokenKind::Comma));
  if (!expect(TokenKind::Colon, "the " + what))
    return false;
  std::optional<ast::TypeExpr> type = parseType(/*isOfVariable=*/true);
  if (!type || !expect(TokenKind::Equal, "the type"))
    return false;
  variable.type = std::move(*type);
  variable.initializer = parseExpression();
  if (!variable.initializer)
    return false;
  body.push_back(std::move(variable));
  return true;
}

bool Parser::parseLet(std::vector<ast::Statement> &body,
                      ast::LetStatement::Kind kind) {
  using Kind = ast::LetStatement::Kind;
  ast::LetStatement let{{}, std::nullopt, nullptr, kind, {}};
  if (kind == Kind::Binds)
    let.keyword = getSpan(tokens[position - 1]);
  do {
    std::optional<ast::Name> name = expectName("a name");
    if (!name)
      return false;
    let.names.push_back(*name);
  } while (accept(TokenKind::Comma));
  if (kind == Kind::Binds && accept(TokenKind::Colon)) {
    let.type = parseShape("the type of a tensor, such as f32[batch, d]");
    if (!let.type)
      return false;
  }
  TokenKind sign = kind == Kind::Adds ? TokenKind::PlusEqual : TokenKind::Equal;
  if (!expect(sign, let.type                ? "the type"
                    : let.names.size() == 1 ? "the name"
                                            : "the names"))
    return false;
  let.value = parseExpression();
  if (!let.value)
    return false;
  body.push_back(std::move(let));
  return true;
}

/// dim half = over / 2
bool Parser::parseDim(std::vector<ast::Statement> &body, bool isModel) {
  const Span keyword = getSpan(peek());
  ++position;
  std::optional<ast::Definition> definition = parseDefinition("a dimension");
  if (!definition)
    return false;
  if (isModel)
    diagnostics
        .report(Code::MisplacedStatement, keyword,
                "a model has no dimensions of its own")
        .help("define it at the top level, where the layout can name it");
  body.push_back(
      ast::DimStatement{definition->name, std::move(definition->value)});
  return true;
}

/// x[time = t] = value
bool Parser::parsePlace(std::vector<ast::Statement> &body) {
  ast::PlaceStatement place;
  place.name = *expectName("a name");
  ++position; // the bracket
  std::optional<ast::Name> dim = expectName("a dimension");
  if (!dim || !expect(TokenKind::Equal, "the dimension"))
    return false;
  place.dim = *dim;
  place.position = parseExpression();
  if (!place.position || !expect(TokenKind::RightBracket, "the position"))
    return false;
  if (is(TokenKind::PlusEqual)) {
    report(Code::NotSupported,
           "not supported yet: adding to elements of a tensor");
    return false;
  }
  if (!expect(TokenKind::Equal, "\"]\""))
    return false;
  place.value = parseExpression();
  if (!place.value)
    return false;
  body.push_back(std::move(place));
  return true;
}

bool Parser::parseAssert(std::vector<ast::Statement> &body) {
  ++position;
  ast::ExprPtr condition = parseExpression();
  if (!condition)
    return false;
  body.push_back(ast::AssertStatement{std::move(condition)});
  return true;
}

bool Parser::parseOutput(std::vector<ast::Statement> &body, bool isModel) {
  Span keyword = getSpan(peek());
  ++position;
  if (!isModel) {
    report(Code::ExpectedItem, keyword, "a function has no outputs")
        .help("return the value and make it an output in the model");
    return false;
  }
  ast::OutputStatement output;
  std::optional<ast::Name> name = expectName("an output name");
  if (!name)
    return false;
  output.name = *name;
  if (is(TokenKind::LeftBracket)) {
    output.order = parseType(/*isOfVariable=*/true);
    if (!output.order)
      return false;
  }
  if (!expect(TokenKind::Equal, output.order ? "the order" : "the name"))
    return false;
  output.value = parseExpression();
  if (!output.value)
    return false;
  body.push_back(std::move(output));
  return true;
}

bool Parser::parseReturn(std::vector<ast::Statement> &body, bool isModel) {
  Span keyword = getSpan(peek());
  ++position;
  if (isModel) {
    report(Code::ExpectedItem, keyword, "a model does not return")
        .help("write \"output name = value\"");
    return false;
  }
  ast::ReturnStatement statement{keyword, {}};
  do {
    ast::ExprPtr value = parseExpression();
    if (!value)
      return false;
    statement.values.push_back(std::move(value));
  } while (accept(TokenKind::Comma));
  body.push_back(std::move(statement));
  return true;
}

bool Parser::parseLoop(std::vector<ast::Statement> &body, bool isModel) {
  NestingGuard guard(nesting);
  if (guard.isTooDeep()) {
    report(Code::NestingTooDeep,
           fmt::format("loop nested more than {} deep", Limits::nesting));
    return false;
  }
  ++position;
  std::optional<ast::Name> variable = expectName("a name");
  if (!variable) {
    return parseBodyAfterError(isModel);
  }
  if (!isWord("in")) {
    report(Code::ExpectedToken,
           fmt::format("expected \"in\" after the name, found {}",
                       describeToken()))
        .help("\"for t in time\" runs over the positions of the dimension "
              "\"time\"");
    return parseBodyAfterError(isModel);
  }
  ++position;
  ast::LoopStatement loop{*variable, parseExpression(),
                          std::make_unique<ast::Block>()};
  if (!loop.dim) {
    return parseBodyAfterError(isModel);
  }
  if (isWord("while")) {
    report(Code::NotSupported, "not supported yet: loops with a condition");
    return parseBodyAfterError(isModel);
  }
  if (!is(TokenKind::LeftBrace)) {
    expect(TokenKind::LeftBrace, "the dimension");
    return parseBodyAfterError(isModel);
  }
  parseBody(loop.body->statements, "the dimension", isModel);
  checkBlock(loop.body->statements, "a loop");
  body.push_back(std::move(loop));
  return true;
}

bool Parser::parseIf(std::vector<ast::Statement> &body, bool isModel) {
  NestingGuard guard(nesting);
  ast::IfStatement branch{getSpan(peek()), nullptr,
                          std::make_unique<ast::Block>(), nullptr};
  ++position;
  if (guard.isTooDeep()) {
    report(Code::NestingTooDeep,
           fmt::format("\"if\" nested more than {} deep", Limits::nesting));
    return false;
  }
  branch.condition = parseExpression();
  if (!branch.condition)
    return parseBranchesAfterError(isModel);
  if (!is(TokenKind::LeftBrace)) {
    expect(TokenKind::LeftBrace, "the condition");
    return parseBranchesAfterError(isModel);
  }
  parseBody(branch.then->statements, "the condition", isModel);
  checkBlock(branch.then->statements, "an \"if\"");
  bool isParsed = true;
  if (accept(TokenKind::KwElse)) {
    branch.otherwise = std::make_unique<ast::Block>();
    if (is(TokenKind::KwIf)) {
      isParsed = parseIf(branch.otherwise->statements, isModel);
    } else {
      parseBody(branch.otherwise->statements, "\"else\"", isModel);
      checkBlock(branch.otherwise->statements, "an \"if\"");
    }
  }
  body.push_back(std::move(branch));
  return isParsed;
}

bool Parser::parseBranchesAfterError(bool isModel) {
  bool isParsed = parseBodyAfterError(isModel);
  while (isParsed && (accept(TokenKind::KwElse) || isWord("elif")))
    isParsed = parseBodyAfterError(isModel);
  return isParsed;
}

void Parser::checkBlock(const std::vector<ast::Statement> &block,
                        std::string_view what) {
  for (const ast::Statement &statement : block)
    if (const auto *output = std::get_if<ast::OutputStatement>(&statement))
      diagnostics
          .report(Code::MisplacedStatement, output->name.span,
                  fmt::format("an output stands in {}", what))
          .help("make an output behind the block of a value that it rebinds");
    else if (const auto *early = std::get_if<ast::ReturnStatement>(&statement))
      diagnostics
          .report(Code::MisplacedStatement, early->keyword,
                  fmt::format("{} does not return", what))
          .help("return a value that it rebinds behind the block");
}
