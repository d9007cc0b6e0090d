#include "tests/fuzz/Print.h"
#include "tests/fuzz/Check.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc::fuzz;

namespace {

class Printer {
public:
  explicit Printer(const Tree &tree) : tree(tree) {}

  std::string getName(DimId dim) const { return tree.dims[size_t(dim)].name; }
  std::string join(const Dims &dims) const {
    std::string text;
    for (DimId dim : dims)
      text += (text.empty() ? "" : ", ") + getName(dim);
    return text;
  }
  /// One dim by its name, several as a list.
  std::string getList(const Dims &dims) const {
    return dims.size() == 1 ? getName(dims[0]) : "(" + join(dims) + ")";
  }
  std::string print(const Type &type) const;
  std::string print(const Function &function);
  std::string print(const Expr &expr) const;
  std::string print(const Statement &statement, int depth) const;
  std::string print(const std::vector<Statement> &body, int depth) const {
    std::string text;
    for (const Statement &statement : body)
      text += print(statement, depth);
    return text;
  }

  /// Nothing is known of types in functions, nor where nothing is run.
  bool hasTypes = true;

private:
  std::string printLet(const Statement &let, const std::string &indent) const;
  std::string printBranch(const Statement &branch, int depth) const;
  /// Of this type, if it is a number.
  std::string printAs(Element element, const Expr &value) const {
    const bool isTruth =
        value.kind == ExprKind::Number && element == Element::Bool;
    return isTruth ? (value.number != 0 ? "true" : "false") : print(value);
  }
  std::string printFunctionCall(const Expr &expr) const;
  std::string printNumber(double value) const {
    if (std::isinf(value))
      return value < 0 ? "-inf" : "inf";
    return fmt::format("{}", value);
  }
  std::string printOperands(const Expr &expr) const {
    std::string text;
    for (const Expr &operand : expr.operands)
      text += (text.empty() ? "" : ", ") + print(operand);
    return text;
  }
  /// What may stand before an index, `@` or an operator.
  std::string printInner(const Expr &expr) const {
    const bool isBare =
        expr.kind == ExprKind::Name || expr.kind == ExprKind::Position ||
        expr.kind == ExprKind::Size || expr.kind == ExprKind::Tuple ||
        (expr.kind == ExprKind::Number && expr.number >= 0) ||
        expr.kind == ExprKind::Iota || expr.kind == ExprKind::Random ||
        expr.kind == ExprKind::Call;
    return isBare ? print(expr) : "(" + print(expr) + ")";
  }
  std::string printIndex(const Expr &expr) const;
  std::string printLayer(const Expr &expr) const;

  const Tree &tree;
};

} // namespace

std::string Printer::print(const Type &type) const {
  const char *element = type.element == Element::F32   ? "f32"
                        : type.element == Element::I32 ? "i32"
                                                       : "bool";
  return type.dims.empty() ? element
                           : fmt::format("{}[{}]", element, join(type.dims));
}

std::string Printer::printIndex(const Expr &expr) const {
  std::string text;
  for (const Part &part : expr.parts)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ",
                        getList(part.dims), print(part.position));
  if (expr.otherwise)
    text += " else " + printNumber(*expr.otherwise);
  return fmt::format("{}[{}]", printInner(expr.operands[0]), text);
}

std::string Printer::printLayer(const Expr &expr) const {
  const LayerArguments &layer = expr.layer;
  std::string text = expr.name + "(" + printOperands(expr);
  auto add = [&](const char *name, const Dims &dims) {
    if (!dims.empty())
      text += fmt::format(", {} = {}", name, getList(dims));
  };
  add("over", layer.over);
  if (layer.at != layer.over)
    add("at", layer.at);
  add("window", layer.window);
  if (expr.name == "conv" || expr.name == "grow" || expr.name == "dense") {
    text += ", from = " + getList(layer.from) + ", to = " + getList(layer.to);
    add("each", layer.each);
  }
  const int64_t usual = expr.name.ends_with("pool") ? 2 : 1;
  if (layer.stride != usual)
    text += fmt::format(", stride = {}", layer.stride);
  if (layer.dilation != 1)
    text += fmt::format(", dilation = {}", layer.dilation);
  text += ")";
  return layer.scope.empty() ? text : text + " as " + layer.scope;
}

std::string Printer::printFunctionCall(const Expr &expr) const {
  std::string text = expr.name + "(" + printOperands(expr) + ")";
  const LayerArguments &scopes = expr.layer;
  if (!scopes.with.empty())
    text += " with " + scopes.with;
  // The scope that it has anyway.
  return scopes.scope == expr.name ? text : text + " as " + scopes.scope;
}

std::string Printer::print(const Expr &expr) const {
  switch (expr.kind) {
  case ExprKind::Number:
    return printNumber(expr.number);
  case ExprKind::Name:
    return expr.name;
  case ExprKind::Position:
    return getName(expr.dims[0]);
  case ExprKind::Size:
    return "size(" + getName(expr.dims[0]) + ")";
  case ExprKind::Tuple:
    return "(" + printOperands(expr) + ")";
  case ExprKind::Iota:
    return "iota(" + getName(expr.dims[0]) + ")";
  case ExprKind::Operator:
    if (expr.operands.size() == 1)
      return (expr.name == "not" ? "not " : expr.name) +
             printInner(expr.operands[0]);
    return fmt::format("{} {} {}", printInner(expr.operands[0]), expr.name,
                       printInner(expr.operands[1]));
  case ExprKind::Call:
    return expr.name + "(" + printOperands(expr) + ")";
  case ExprKind::Einsum:
    // Either spelling, of which an operation has always the same.
    if (hasTypes && (expr.operands.size() + expr.dims.size()) % 2 == 0)
      return fmt::format("einsum({} -> {})", printOperands(expr),
                         expr.type.dims.empty() ? "()" : join(expr.type.dims));
    [[fallthrough]];
  case ExprKind::Reduce:
    return fmt::format("{}({}, over = {})",
                       expr.kind == ExprKind::Einsum ? "einsum" : expr.name,
                       printOperands(expr), getList(expr.dims));
  case ExprKind::Index:
    return printIndex(expr);
  case ExprKind::Rename:
    return fmt::format("rename({}, {} -> {})", printOperands(expr),
                       getName(expr.dims[0]), getName(expr.targets[0]));
  case ExprKind::Broadcast:
    return fmt::format("broadcast({}, {})", printOperands(expr),
                       join(expr.dims));
  case ExprKind::Random:
    if (!expr.hasDims)
      return fmt::format("{}({}, {})", expr.name, printNumber(expr.number),
                         printNumber(expr.second));
    return fmt::format("{}({}, {}, dims = {})", expr.name,
                       printNumber(expr.number), printNumber(expr.second),
                       getList(expr.dims));
  case ExprKind::Gather:
    return fmt::format("gather({}, over = {})", printOperands(expr),
                       getName(expr.dims[0]));
  case ExprKind::Layer:
    return printLayer(expr);
  case ExprKind::Function:
    return printFunctionCall(expr);
  }
  __builtin_unreachable();
}

std::string Printer::printLet(const Statement &let,
                              const std::string &indent) const {
  std::string text = fmt::format("{}let {}", indent, let.name);
  if (let.form != TypeForm::None) {
    // Dims may stand in another order than where the value came from.
    Type type = let.type;
    std::reverse(type.dims.begin(), type.dims.end());
    std::string shape = print(type);
    if (let.form == TypeForm::Dims)
      shape = "[" + join(type.dims) + "]";
    if (let.form == TypeForm::Open)
      shape.insert(shape.find('[') + 1, ".., ");
    text += ": " + shape;
  }
  return fmt::format("{} = {}\n", text, printAs(let.type.element, let.value));
}

std::string Printer::printBranch(const Statement &branch, int depth) const {
  const std::string indent(size_t(2 * depth), ' ');
  Printer dead(*this);
  dead.hasTypes = false;
  const bool holds = evaluateCondition(tree, branch.value);
  std::string text =
      fmt::format("{}if {} {{\n{}{}}}", indent, print(branch.value),
                  (holds ? *this : dead).print(branch.body, depth + 1), indent);
  if (!branch.otherwise.empty())
    text += fmt::format(
        " else {{\n{}{}}}",
        (holds ? dead : *this).print(branch.otherwise, depth + 1), indent);
  return text + "\n";
}

std::string Printer::print(const Function &function) {
  hasTypes = false;
  std::string results;
  for (const Expr &result : function.results)
    results += (results.empty() ? "" : ", ") + print(result);
  const std::string text = fmt::format(
      "fn {}({}) {{\n{}  return {}\n}}\n\n", function.name,
      fmt::join(function.parameters, ", "), print(function.body, 1), results);
  hasTypes = true;
  return text;
}

std::string Printer::print(const Statement &statement, int depth) const {
  const std::string indent(size_t(2 * depth), ' ');
  switch (statement.kind) {
  case StatementKind::Param:
    return fmt::format(
        "{}param {}: {} = {}\n", indent, statement.name, print(statement.type),
        statement.isComputed ? print(statement.value) : "normal(stddev = 0.5)");
  case StatementKind::State:
    return fmt::format(
        "{}state {}: {} = {}\n", indent, statement.name, print(statement.type),
        printAs(statement.type.element,
                statement.isComputed ? statement.value : number(1)));
  case StatementKind::Let:
    return printLet(statement, indent);
  case StatementKind::Dim:
    return fmt::format("{}dim {} = {}\n", indent, getName(statement.dim),
                       print(statement.value));
  case StatementKind::Call:
    return fmt::format("{}let {} = {}\n", indent,
                       fmt::join(statement.names, ", "),
                       print(statement.value));
  case StatementKind::If:
    return printBranch(statement, depth);
  case StatementKind::Assign:
    return fmt::format("{}{} = {}\n", indent, statement.name,
                       printAs(statement.type.element, statement.value));
  case StatementKind::Add:
    return fmt::format("{}{} += {}\n", indent, statement.name,
                       print(statement.value));
  case StatementKind::Place:
    return fmt::format("{}{}[{} = {}] = {}\n", indent, statement.name,
                       getName(statement.dim), statement.position,
                       print(statement.value));
  case StatementKind::For:
    return fmt::format("{}for {} in {} {{\n{}{}}}\n", indent,
                       statement.position, getName(statement.dim),
                       print(statement.body, depth + 1), indent);
  case StatementKind::Output:
    return fmt::format("{}output {} = {}\n", indent, statement.name,
                       print(statement.value));
  }
  __builtin_unreachable();
}

std::string meshc::fuzz::print(const Tree &tree, const Expr &expr) {
  return Printer(tree).print(expr);
}

/// What an expression or statement names, and what has a prime that it names.
static void collect(const Tree &tree, const Dims &dims, Dims &used) {
  for (DimId dim : dims) {
    used = unite(used, {dim});
    const DimId declared = tree.dims[size_t(dim)].primeOf;
    if (declared >= 0)
      used = unite(used, {declared});
  }
}

static void collect(const Tree &tree, const Expr &expr, Dims &used) {
  const LayerArguments &layer = expr.layer;
  for (const Dims *dims : {&expr.dims, &expr.targets, &layer.over, &layer.at,
                           &layer.window, &layer.from, &layer.to, &layer.each})
    collect(tree, *dims, used);
  for (const Expr &operand : expr.operands)
    collect(tree, operand, used);
  for (const Part &part : expr.parts) {
    collect(tree, part.dims, used);
    collect(tree, part.position, used);
  }
}

static void collect(const Tree &tree, const std::vector<Statement> &body,
                    Dims &used) {
  for (const Statement &statement : body) {
    if (statement.dim >= 0)
      collect(tree, Dims{statement.dim}, used);
    collect(tree, statement.type.dims, used);
    collect(tree, statement.value, used);
    // Those of a call are the function's.
    if (statement.kind != StatementKind::Call)
      collect(tree, statement.body, used);
    collect(tree, statement.otherwise, used);
  }
}

Dims meshc::fuzz::findUsedDims(const Tree &tree) {
  Dims used;
  for (const Input &input : tree.inputs)
    collect(tree, input.type.dims, used);
  collect(tree, tree.body, used);
  for (const Function &function : tree.functions) {
    collect(tree, function.body, used);
    for (const Expr &result : function.results)
      collect(tree, result, used);
  }
  return used;
}

std::string meshc::fuzz::print(const Tree &tree, const std::string &recipe) {
  Printer printer(tree);
  std::string text, functions, inputs;
  const Dims used = findUsedDims(tree);
  for (DimId dim : used)
    if (tree.dims[size_t(dim)].primeOf < 0 &&
        tree.dims[size_t(dim)].function.empty())
      text += fmt::format("dim {} = {}\n", printer.getName(dim),
                          tree.dims[size_t(dim)].size *
                              (dim == Tree::batch ? tree.parts : 1));
  for (const Input &input : tree.inputs)
    inputs += fmt::format("{}{}: {}", inputs.empty() ? "" : ", ", input.name,
                          printer.print(input.type));
  for (const Function &function : tree.functions)
    functions += printer.print(function);
  std::string train = recipe;
  if (tree.parts > 1) {
    functions += fmt::format("data over {} {{", printer.getName(Tree::batch));
    for (const Input &input : tree.inputs)
      functions += fmt::format(" {} = npy(\"none.npy\")", input.name);
    functions += " }\n\n";
    train += fmt::format("microbatches {} ", tree.parts);
  }
  return fmt::format(
      "{}\n{}model random({}) {{\n{}}}\n\ntrain {{ minimize loss {}}}\n", text,
      functions, inputs, printer.print(tree.body, 1), train);
}
