// Items of a file.

#include "frontend/syntax/Parser.h"
#include "layout/Spelling.h"

#include <utility>

#include <fmt/format.h>

using namespace meshc::frontend;

ast::File Parser::parseFile() {
  ast::File file{};
  file.source = source;
  while (!is(TokenKind::End) && !diagnostics.isFull()) {
    size_t before = position;
    parseItem(file);
    // An error may leave the position where it was; always make progress.
    if (position == before)
      ++position;
  }
  return file;
}

void Parser::parseItem(ast::File &file) {
  switch (peek().kind) {
  case TokenKind::KwImport:
    parseImport(file);
    break;
  case TokenKind::KwFn:
    parseFunction(file);
    break;
  case TokenKind::KwDim:
  case TokenKind::KwLet: {
    bool isDim = is(TokenKind::KwDim);
    ++position;
    std::optional<ast::Definition> definition =
        parseDefinition(isDim ? "a dimension" : "a name");
    if (definition)
      (isDim ? file.dims : file.numbers).push_back(std::move(*definition));
    break;
  }
  default:
    if (isWord("mesh"))
      parseMesh(file);
    else if (isWord("layout"))
      parseLayout(file);
    else if (isWord("model"))
      parseModel(file);
    else if (isWord("data"))
      parseData(file);
    else if (isWord("train"))
      parseTrain(file);
    else if (isWord("program") && peek(1).kind == TokenKind::Name) {
      report(Code::NotSupported,
             "not supported yet: a program beside the model");
      ++position;
    } else {
      static const std::string words[] = {"import", "mesh",   "dim",
                                          "let",    "layout", "fn",
                                          "model",  "data",   "train"};
      Diagnostic &error = report(
          Code::ExpectedItem,
          fmt::format("expected an item such as \"dim\" or \"model\", found {}",
                      describeToken()));
      if (is(TokenKind::Name))
        error.didYouMean(layout::findNearest(getText(peek()), words));
      ++position;
    }
  }
  if (std::exchange(mustRecover, false))
    skipToItem();
}

void Parser::parseImport(ast::File &file) {
  ++position;
  const Token &token = peek();
  if (!expect(TokenKind::String, "\"import\""))
    return;
  std::string_view quoted = getText(token);
  if (quoted.empty())
    return;
  file.imports.push_back({getSpan(token), quoted.substr(1, quoted.size() - 2)});
}

std::optional<ast::Definition> Parser::parseDefinition(std::string_view what) {
  std::optional<ast::Name> name = expectName(what);
  if (!name || !expect(TokenKind::Equal, "the name"))
    return std::nullopt;
  ast::ExprPtr value = parseExpression();
  if (!value)
    return std::nullopt;
  return ast::Definition{*name, std::move(value)};
}

void Parser::parseMesh(ast::File &file) {
  ast::Mesh mesh{getSpan(peek()), {}};
  ++position;
  do {
    std::optional<ast::Definition> axis = parseDefinition("a mesh axis");
    if (!axis)
      return;
    mesh.axes.push_back(std::move(*axis));
  } while (accept(TokenKind::Comma));
  file.meshes.push_back(std::move(mesh));
}

Span Parser::parseBraces(std::string_view what, Entries entries,
                         const std::function<bool()> &parseEntry) {
  Span open = getSpan(peek());
  if (!expect(TokenKind::LeftBrace, what))
    return open;
  while (!is(TokenKind::RightBrace)) {
    if (is(TokenKind::End) || atItemAfter(entries)) {
      report(Code::ExpectedToken,
             fmt::format("expected \"}}\" before {}", describeToken()))
          .alsoAt(open, "this brace is not closed");
      mustRecover = false;
      return getSpan(peek());
    }
    size_t before = position;
    if (!parseEntry()) {
      if (diagnostics.isFull()) {
        position = tokens.size() - 1;
        return getSpan(peek());
      }
      if (position == before)
        ++position;
      skipToEntry(entries);
    }
  }
  Span close = getSpan(peek());
  ++position;
  mustRecover = false;
  return close;
}

void Parser::parseLayout(ast::File &file) {
  ast::Layout layout{getSpan(peek()), {}};
  ++position;
  parseBraces("\"layout\"", Entries::Names, [&] {
    std::optional<ast::LayoutRule> rule = parseRule();
    if (!rule)
      return false;
    layout.rules.push_back(std::move(*rule));
    accept(TokenKind::Comma);
    return true;
  });
  file.layouts.push_back(std::move(layout));
}

void Parser::parseFunction(ast::File &file) {
  ++position;
  std::optional<ast::Name> name = expectName("a function name");
  if (!name)
    return;
  ast::Function function{*name, {}, {}, {}};
  if (!expect(TokenKind::LeftParen, "the function name") ||
      !parseParameters(function.parameters)) {
    parseBodyAfterError(/*isModel=*/false);
    return;
  }
  function.end = parseBody(function.body, "the parameters", /*isModel=*/false);
  file.functions.push_back(std::move(function));
}

bool Parser::parseParameters(std::vector<ast::Parameter> &parameters) {
  if (accept(TokenKind::RightParen))
    return true;
  do {
    std::optional<ast::Name> name = expectName("a parameter name");
    if (!name)
      return false;
    ast::Parameter parameter{*name, std::nullopt, nullptr};
    if (accept(TokenKind::Colon)) {
      parameter.type = parseParameterType();
      if (!parameter.type)
        return false;
    }
    if (accept(TokenKind::Equal)) {
      parameter.defaultValue = parseExpression();
      if (!parameter.defaultValue)
        return false;
    }
    parameters.push_back(std::move(parameter));
  } while (accept(TokenKind::Comma));
  return expect(TokenKind::RightParen, "the parameters");
}

/// dim, dims, number, truth, f32, [batch, d], f32[.., d]
std::optional<ast::ParameterType> Parser::parseParameterType() {
  using Kind = ast::ParameterType::Kind;
  constexpr std::pair<std::string_view, Kind> words[] = {
      {"dim", Kind::Dim},
      {"dims", Kind::Dims},
      {"number", Kind::Number},
      {"truth", Kind::Truth}};
  uint32_t begin = peek().begin;
  for (auto [word, kind] : words)
    if (getText(peek()) == word) {
      ++position;
      return ast::ParameterType{kind, getSpanFrom(begin)};
    }
  return parseShape(
      "\"dim\", \"dims\", \"number\", \"truth\" or the shape of a "
      "tensor");
}

/// f32, [batch, d], f32[.., d]; `what` is expected where none of these begins.
std::optional<ast::ParameterType> Parser::parseShape(std::string_view what) {
  ast::ParameterType type;
  const uint32_t begin = peek().begin;
  if (!is(TokenKind::LeftBracket)) {
    type.element = expectName(what);
    if (!type.element)
      return std::nullopt;
  }
  if (accept(TokenKind::LeftBracket)) {
    type.isOpen = accept(TokenKind::DotDot);
    bool hasDims =
        type.isOpen ? accept(TokenKind::Comma) : !is(TokenKind::RightBracket);
    while (hasDims) {
      std::optional<ast::Name> dim = expectDim(type.element);
      if (!dim)
        return std::nullopt;
      type.dims.push_back(*dim);
      hasDims = accept(TokenKind::Comma);
    }
    if (!expect(TokenKind::RightBracket, "the dimensions"))
      return std::nullopt;
  }
  type.span = getSpanFrom(begin);
  return type;
}

void Parser::parseModel(ast::File &file) {
  ++position;
  std::optional<ast::Name> name = expectName("a model name");
  if (!name)
    return;
  ast::Model model{*name, {}, {}, {}};
  if (!expect(TokenKind::LeftParen, "the model name") ||
      !parseInputs(model.inputs)) {
    parseBodyAfterError(/*isModel=*/true);
    return;
  }
  model.end = parseBody(model.body, "the inputs", /*isModel=*/true);
  file.models.push_back(std::move(model));
}

bool Parser::parseInputs(std::vector<ast::Input> &inputs) {
  if (accept(TokenKind::RightParen))
    return true;
  do {
    std::optional<ast::Name> name = expectName("an input name");
    if (!name || !expect(TokenKind::Colon, "the input name"))
      return false;
    std::optional<ast::TypeExpr> type = parseType();
    if (!type)
      return false;
    inputs.push_back({*name, std::move(*type)});
  } while (accept(TokenKind::Comma));
  return expect(TokenKind::RightParen, "the inputs");
}

/// f32[batch, pixel], or f32 for a scalar; of variables [batch], f32[dims(x)]
/// too.
std::optional<ast::TypeExpr> Parser::parseType(bool isOfVariable) {
  const uint32_t begin = peek().begin;
  ast::TypeExpr type;
  if (!isOfVariable || !is(TokenKind::LeftBracket)) {
    type.element = expectName("an element type");
    if (!type.element)
      return std::nullopt;
    type.span = type.element->span;
  }
  if (!accept(TokenKind::LeftBracket))
    return type;
  if (!is(TokenKind::RightBracket)) {
    do {
      const bool isCall = isOfVariable && is(TokenKind::Name) &&
                          tokens[position + 1].kind == TokenKind::LeftParen;
      if (isCall) {
        type.dims.push_back(parseExpression());
        if (!type.dims.back())
          return std::nullopt;
        continue;
      }
      std::optional<ast::Name> dim = expectDim(type.element);
      if (!dim)
        return std::nullopt;
      type.dims.push_back(
          std::make_unique<ast::NameExpr>(dim->span, dim->text));
    } while (accept(TokenKind::Comma));
  }
  if (!expect(TokenKind::RightBracket, "the dimensions"))
    return std::nullopt;
  type.span = getSpanFrom(begin);
  return type;
}

void Parser::parseData(ast::File &file) {
  ast::Data data{getSpan(peek()), {}, {}};
  ++position;
  std::optional<ast::Name> over;
  if (is(TokenKind::Name) && getText(peek()) == "over") {
    ++position;
    over = expectName("the dim that counts samples");
  } else {
    report(Code::ExpectedToken,
           fmt::format("expected \"over\", found {}", describeToken()))
        .help("name the dim that counts samples: data over batch { ... }");
  }
  mustRecover = false;
  parseBraces("\"data\"", Entries::Names, [&] {
    std::optional<ast::Definition> binding = parseDefinition("an input name");
    if (!binding)
      return false;
    data.bindings.push_back({binding->name, std::move(binding->value)});
    accept(TokenKind::Comma);
    return true;
  });
  if (!over)
    return;
  data.over = *over;
  file.datas.push_back(std::move(data));
}

/// "encoder/*", "*/bias": a comma that no string follows is another's.
bool Parser::parsePatterns(std::vector<ast::StringExpr> &patterns) {
  do {
    if (!is(TokenKind::String)) {
      report(Code::ExpectedToken,
             fmt::format("expected the names of parameters, found {}",
                         describeToken()))
          .help("write them as a string: for \"encoder/*\"");
      return false;
    }
    ast::ExprPtr pattern = parseExpression();
    if (!pattern)
      return false;
    if (pattern->kind != ast::ExprKind::String) {
      diagnostics.report(Code::ExpectedToken, pattern->span,
                         "expected the names of parameters as a string");
      return false;
    }
    patterns.push_back(static_cast<const ast::StringExpr &>(*pattern));
  } while (acceptListed());
  return true;
}

bool Parser::acceptListed() {
  return is(TokenKind::Comma) &&
         tokens[position + 1].kind == TokenKind::String &&
         accept(TokenKind::Comma);
}

void Parser::parseTrain(ast::File &file) {
  ast::Train train{getSpan(peek()), {}};
  ++position;
  parseBraces("\"train\"", Entries::Names, [&] {
    std::optional<ast::Name> name = expectName("a setting");
    if (!name)
      return false;
    ast::ExprPtr value = parseExpression();
    if (!value)
      return false;
    ast::Setting setting{*name, std::move(value)};
    if (setting.value->kind == ast::ExprKind::String && acceptListed() &&
        !parsePatterns(setting.more))
      return false;
    if (accept(TokenKind::KwFor) && !parsePatterns(setting.patterns))
      return false;
    train.settings.push_back(std::move(setting));
    accept(TokenKind::Comma);
    return true;
  });
  file.trains.push_back(std::move(train));
}
