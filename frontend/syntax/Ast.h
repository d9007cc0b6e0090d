#ifndef MESHC_FRONTEND_SYNTAX_AST_H
#define MESHC_FRONTEND_SYNTAX_AST_H

/// The syntax tree of one spec file, as written: names are not resolved, and
/// nothing is checked beyond the grammar in frontend/README.md.
///
/// Names view the text of the Source, which must outlive the tree. Operators of
/// one precedence form one flat chain, so that a sum of a million terms is not
/// a tree a million deep; all other nesting is bounded by Limits::nesting.

#include "frontend/syntax/Source.h"
#include "layout/LayoutRule.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace meshc::frontend::ast {

struct Name {
  std::string_view text;
  Span span;
};

enum class ExprKind : uint8_t {
  Integer,
  Float,
  String,
  Name,
  Tuple,
  Unary,
  Chain,
  Call,
  Index,
};

struct Expr {
  ExprKind kind;
  Span span;

  virtual ~Expr() = default;

protected:
  Expr(ExprKind kind, Span span) : kind(kind), span(span) {}
};

using ExprPtr = std::unique_ptr<Expr>;

struct IntegerExpr : Expr {
  int64_t value;

  IntegerExpr(Span span, int64_t value)
      : Expr(ExprKind::Integer, span), value(value) {}
};

struct FloatExpr : Expr {
  double value;

  FloatExpr(Span span, double value)
      : Expr(ExprKind::Float, span), value(value) {}
};

struct StringExpr : Expr {
  std::string_view value; ///< without the quotes

  StringExpr(Span span, std::string_view value)
      : Expr(ExprKind::String, span), value(value) {}
};

struct NameExpr : Expr {
  std::string_view name;

  NameExpr(Span span, std::string_view name)
      : Expr(ExprKind::Name, span), name(name) {}
};

/// (pos, class): several dims.
struct TupleExpr : Expr {
  std::vector<ExprPtr> elements;

  explicit TupleExpr(Span span) : Expr(ExprKind::Tuple, span) {}
};

enum class Operator : uint8_t {
  Or,
  And,
  Not,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Add,
  Subtract,
  Multiply,
  Divide,
  Remainder,
  Negate,
  Power,
};

/// As written: "or", "==", "^".
std::string_view getSpelling(Operator op);

struct UnaryExpr : Expr {
  Operator op; ///< Not or Negate
  ExprPtr operand;

  UnaryExpr(Span span, Operator op, ExprPtr operand)
      : Expr(ExprKind::Unary, span), op(op), operand(std::move(operand)) {}
};

/// operands[0] ops[0] operands[1] ops[1] ...: operators of one precedence.
/// Powers group to the right, all others to the left; there is one comparison
/// at most.
struct ChainExpr : Expr {
  std::vector<ExprPtr> operands;
  std::vector<Operator> ops;
  std::vector<Span> opSpans;

  explicit ChainExpr(Span span) : Expr(ExprKind::Chain, span) {}
};

/// value, name = value, value -> target, or -> target.
struct Argument {
  std::optional<Name> name;
  ExprPtr value; ///< null before an arrow that follows "("
  std::optional<Span> arrow;
  ExprPtr target; ///< null after an arrow that precedes ")"
};

struct CallExpr : Expr {
  Name callee;
  std::vector<Argument> arguments;
  std::optional<Name> variables; ///< with NAME
  std::optional<Name> scope;     ///< as NAME

  CallExpr(Span span, Name callee)
      : Expr(ExprKind::Call, span), callee(callee) {}
};

/// A line of the layout, and where it says its names.
struct LayoutRule {
  layout::LayoutRule rule;
  std::map<layout::RuleName, Span> spans;
  Span span;
};

/// dim = position, or (dim, dim) = position for dims that go in step.
struct IndexPart {
  std::vector<Name> dims;
  ExprPtr position;
};

/// operand[dim = position, ... else otherwise]
struct IndexExpr : Expr {
  ExprPtr operand;
  std::vector<IndexPart> parts;
  ExprPtr otherwise; ///< null without "else"

  IndexExpr(Span span, ExprPtr operand)
      : Expr(ExprKind::Index, span), operand(std::move(operand)) {}
};

/// f32[batch, pixel]
struct TypeExpr {
  std::optional<Name> element; ///< none, of a variable: its parameter's
  std::vector<ExprPtr> dims;   ///< names; of a variable dims(x) too
  Span span;
};

/// What a name takes: dim, dims, number, truth, or tensors of a shape, as
/// f32[batch, pixel] or, with any other dims too, [.., pixel].
struct ParameterType {
  enum class Kind : uint8_t { Dim, Dims, Number, Truth, Tensor };
  Kind kind = Kind::Tensor;
  Span span = {};
  std::optional<Name> element = {};
  std::vector<Name> dims = {};
  bool isOpen = false; ///< with "..": these dims at least
};

/// param a, b: type = initializer, or state a, b: type = initializer
struct VariableStatement {
  bool isState = false;
  std::vector<Name> names;
  TypeExpr type;
  ExprPtr initializer;
};

/// let name: type = value, or name = value or name += value for a name that is
/// bound already. Several names take the values of one call, but for +=.
struct LetStatement {
  enum class Kind : uint8_t { Binds, Rebinds, Adds };
  std::vector<Name> names;
  std::optional<ParameterType> type; ///< of let; of kind Tensor
  ExprPtr value;
  Kind kind;
  Span keyword; ///< of "let"
};

/// dim name = value, in a function
struct DimStatement {
  Name name;
  ExprPtr value;
};

/// name[dim = position] = value
struct PlaceStatement {
  Name name;
  Name dim;
  ExprPtr position;
  ExprPtr value;
};

/// assert condition
struct AssertStatement {
  ExprPtr condition;
};

struct Block;

/// for variable in dim { ... }
struct LoopStatement {
  Name variable;
  ExprPtr dim;
  std::unique_ptr<Block> body;
};

/// if condition { ... } else { ... }; in place of the second block another if,
/// which is then the only statement in there.
struct IfStatement {
  Span keyword;
  ExprPtr condition;
  std::unique_ptr<Block> then;
  std::unique_ptr<Block> otherwise; ///< may be null
};

/// output y = value, output y[batch, class] = value
struct OutputStatement {
  Name name;
  std::optional<TypeExpr> order; ///< its dims, without an element type
  ExprPtr value;
};

/// return value, value
struct ReturnStatement {
  Span keyword;
  std::vector<ExprPtr> values;
};

using Statement = std::variant<VariableStatement, LetStatement, DimStatement,
                               PlaceStatement, AssertStatement, IfStatement,
                               LoopStatement, OutputStatement, ReturnStatement>;

struct Block {
  std::vector<Statement> statements;
};

/// import "path"
struct Import {
  Span span; ///< the string
  std::string_view path;
};

/// One axis of a mesh, or a top-level `let` or `dim`.
struct Definition {
  Name name;
  ExprPtr value;
};

struct Mesh {
  Span keyword;
  std::vector<Definition> axes;
};

struct Layout {
  Span keyword;
  std::vector<LayoutRule> rules;
};

struct Parameter {
  Name name;
  std::optional<ParameterType> type; ///< without: takes anything
  ExprPtr defaultValue;              ///< may be null
};

struct Function {
  Name name;
  std::vector<Parameter> parameters;
  std::vector<Statement> body;
  Span end; ///< the closing brace
};

struct Input {
  Name name;
  TypeExpr type;
};

struct Model {
  Name name;
  std::vector<Input> inputs;
  std::vector<Statement> body;
  Span end;
};

/// input = reader("file", ...).
struct DataBinding {
  Name input;
  ExprPtr value;
};

struct Data {
  Span keyword;
  Name over; ///< the dim that counts samples
  std::vector<DataBinding> bindings;
};

/// minimize NAME, optimizer CALL, epochs N, freeze "...", "..." ..., and for
/// which of the parameters.
struct Setting {
  Name name;
  ExprPtr value;
  std::vector<StringExpr> more = {};     ///< behind a value that is a string
  std::vector<StringExpr> patterns = {}; ///< for "...", "..."
};

struct Train {
  Span keyword;
  std::vector<Setting> settings;
};

/// Everything in one file; kinds apart, each in source order.
struct File {
  uint32_t source;
  std::vector<Import> imports;
  std::vector<Mesh> meshes;
  std::vector<Definition> dims;
  std::vector<Definition> numbers;
  std::vector<Layout> layouts;
  std::vector<Function> functions;
  std::vector<Model> models;
  std::vector<Data> datas;
  std::vector<Train> trains;
};

/// The file in canonical form: one statement a line, two blanks of indent,
/// parentheses only where precedence needs them. Parsing it gives the same
/// tree.
std::string print(const File &file);
std::string print(const Expr &expr);

} // namespace meshc::frontend::ast

#endif
