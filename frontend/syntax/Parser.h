#ifndef MESHC_FRONTEND_SYNTAX_PARSER_H
#define MESHC_FRONTEND_SYNTAX_PARSER_H

#include "frontend/syntax/Ast.h"
#include "frontend/syntax/Lexer.h"

#include <functional>

namespace meshc::frontend {

/// Counts one level of nesting while it lives.
class NestingGuard {
public:
  explicit NestingGuard(int &nesting) : nesting(++nesting) {}
  ~NestingGuard() { --nesting; }
  NestingGuard(const NestingGuard &) = delete;
  bool isTooDeep() const { return nesting > Limits::nesting; }

private:
  int &nesting;
};

/// Recursive-descent parser of the grammar in frontend/README.md.
///
/// After an error it goes on with the next statement or item, so that one run
/// reports several errors; a tree that comes with errors is incomplete and only
/// good for finding more of them. Recursion is bounded by Limits::nesting.
class Parser {
public:
  Parser(const SourceSet &sources, uint32_t source, Diagnostics &diagnostics);

  ast::File parseFile();

  /// The forms that command-line options have; each must be the whole source.
  /// data=4,model=2; `what` says what is defined, for messages.
  std::vector<ast::Definition> parseDefinitions(std::string_view what);
  /// batch=data+model,hidden=model, or nothing
  std::vector<ast::LayoutRule> parseLayoutOption();
  /// One expression, up to the end; null after an error.
  ast::ExprPtr parseExpressionOption();

private:
  // Tokens.
  const Token &peek(size_t distance = 0) const;
  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool isWord(std::string_view word, size_t distance = 0) const;
  bool accept(TokenKind kind);
  /// Reports an error at a place, by default the next token. What the lexer has
  /// said of that token is enough: of a malformed one nothing is kept.
  Diagnostic &report(Code code, std::string message);
  Diagnostic &report(Code code, Span span, std::string message);
  /// Consumes a token of this kind or reports that `what` was expected.
  bool expect(TokenKind kind, std::string_view after);
  std::optional<ast::Name> expectName(std::string_view what);
  /// A dimension in a type of these elements: people write sizes there.
  std::optional<ast::Name> expectDim(const std::optional<ast::Name> &element);
  void expectEnd();
  Span getSpan(const Token &token) const;
  std::string_view getText(const Token &token) const;
  Span getSpanFrom(uint32_t begin) const;
  std::string describeToken() const;
  bool startsLine(size_t index) const;

  // Expressions.
  ast::ExprPtr parseExpression();
  ast::ExprPtr parseBinary(int level);
  ast::ExprPtr parsePrefix(int level, ast::Operator op);
  ast::ExprPtr parsePower();
  ast::ExprPtr parsePostfix();
  ast::ExprPtr parsePrimary();
  ast::ExprPtr parseParenthesis();
  ast::ExprPtr parseCall(ast::Name callee);
  std::optional<ast::Argument> parseArgument();
  ast::ExprPtr parseNumber();
  ast::ExprPtr parseIndex(ast::ExprPtr operand);
  std::optional<ast::IndexPart> parseIndexPart();
  std::optional<ast::LayoutRule> parseRule();
  bool isLongForm() const;
  std::optional<ast::LayoutRule> parseShortRule();
  layout::RuleWord getRuleWord(const Token &token) const;
  void report(const layout::RuleSyntaxError &error);

  // Statements and items.
  void parseItem(ast::File &file);
  void parseImport(ast::File &file);
  void parseMesh(ast::File &file);
  void parseLayout(ast::File &file);
  void parseFunction(ast::File &file);
  void parseModel(ast::File &file);
  void parseData(ast::File &file);
  void parseTrain(ast::File &file);
  std::optional<ast::Definition> parseDefinition(std::string_view what);
  bool parsePatterns(std::vector<ast::StringExpr> &patterns);
  /// Past a comma that a string follows.
  bool acceptListed();
  std::optional<ast::TypeExpr> parseType(bool isOfVariable = false);
  bool parseParameters(std::vector<ast::Parameter> &parameters);
  std::optional<ast::ParameterType> parseParameterType();
  std::optional<ast::ParameterType> parseShape(std::string_view what);
  bool parseInputs(std::vector<ast::Input> &inputs);
  /// The statements between braces; the span of the closing brace.
  Span parseBody(std::vector<ast::Statement> &body, std::string_view after,
                 bool isModel);
  bool parseStatement(std::vector<ast::Statement> &body, bool isModel);
  bool parseVariable(std::vector<ast::Statement> &body);
  bool parseDim(std::vector<ast::Statement> &body, bool isModel);
  bool parseLet(std::vector<ast::Statement> &body,
                ast::LetStatement::Kind kind);
  bool parsePlace(std::vector<ast::Statement> &body);
  bool parseAssert(std::vector<ast::Statement> &body);
  bool parseOutput(std::vector<ast::Statement> &body, bool isModel);
  bool parseReturn(std::vector<ast::Statement> &body, bool isModel);
  bool parseLoop(std::vector<ast::Statement> &body, bool isModel);
  bool parseIf(std::vector<ast::Statement> &body, bool isModel);
  /// After an error in a condition: the blocks of it and what is behind them.
  bool parseBranchesAfterError(bool isModel);
  /// Reports what cannot stand in a block, "a loop" or "an if".
  void checkBlock(const std::vector<ast::Statement> &block,
                  std::string_view what);
  /// What a block holds: statements, which begin with a word or a name that
  /// they bind, of a function or of the model; rules, data or settings, which
  /// begin with a name.
  enum class Entries : uint8_t { Function, Model, Names };
  /// Parses entries up to the closing brace with `parseEntry`, which returns
  /// false after an error; a comma between entries is optional.
  Span parseBraces(std::string_view what, Entries entries,
                   const std::function<bool()> &parseEntry);
  /// After an error ahead of a block: parses the block for its errors, if it
  /// begins before the next item or statement. Whether it does; then what is
  /// behind the block comes next.
  bool parseBodyAfterError(bool isModel);

  // Recovery.
  bool atItemWord(size_t index) const;
  bool atItemStart(size_t index) const;
  /// Whether an item shows that the brace of a block is missing.
  bool atItemAfter(Entries entries) const;
  void skipToItem();
  void skipToEntry(Entries entries);
  bool atStatement(size_t index) const;
  void skipBalancedBraces();

  uint32_t source;
  std::string_view text;
  Diagnostics &diagnostics;
  std::vector<Token> tokens;
  size_t position = 0;
  int nesting = 0;
  /// After an error, until parsing is back at a place where it can go on.
  bool mustRecover = false;
  Diagnostic ignored{};
};

} // namespace meshc::frontend

#endif
