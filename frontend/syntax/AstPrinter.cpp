// Prints a syntax tree as the text it stands for.

#include "frontend/syntax/Ast.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc::frontend;
using namespace meshc::frontend::ast;

std::string_view ast::getSpelling(Operator op) {
  switch (op) {
  case Operator::Or:
    return "or";
  case Operator::And:
    return "and";
  case Operator::Not:
    return "not";
  case Operator::Equal:
    return "==";
  case Operator::NotEqual:
    return "!=";
  case Operator::Less:
    return "<";
  case Operator::LessEqual:
    return "<=";
  case Operator::Greater:
    return ">";
  case Operator::GreaterEqual:
    return ">=";
  case Operator::Add:
    return "+";
  case Operator::Subtract:
  case Operator::Negate:
    return "-";
  case Operator::Multiply:
    return "*";
  case Operator::Divide:
    return "/";
  case Operator::Remainder:
    return "%";
  case Operator::Power:
    return "^";
  }
  __builtin_unreachable();
}

namespace {

/// How tightly an expression holds together; parentheses go around an operand
/// that holds less tightly than its place needs.
enum Precedence {
  OrLevel,
  AndLevel,
  NotLevel,
  CompareLevel,
  SumLevel,
  ProductLevel,
  NegateLevel,
  PowerLevel,
  PostfixLevel,
};

Precedence getPrecedence(Operator op) {
  switch (op) {
  case Operator::Or:
    return OrLevel;
  case Operator::And:
    return AndLevel;
  case Operator::Not:
    return NotLevel;
  case Operator::Equal:
  case Operator::NotEqual:
  case Operator::Less:
  case Operator::LessEqual:
  case Operator::Greater:
  case Operator::GreaterEqual:
    return CompareLevel;
  case Operator::Add:
  case Operator::Subtract:
    return SumLevel;
  case Operator::Multiply:
  case Operator::Divide:
  case Operator::Remainder:
    return ProductLevel;
  case Operator::Negate:
    return NegateLevel;
  case Operator::Power:
    return PowerLevel;
  }
  __builtin_unreachable();
}

Precedence getPrecedence(const Expr &expr) {
  if (expr.kind == ExprKind::Unary)
    return getPrecedence(static_cast<const UnaryExpr &>(expr).op);
  if (expr.kind == ExprKind::Chain)
    return getPrecedence(static_cast<const ChainExpr &>(expr).ops.front());
  return PostfixLevel;
}

class Printer {
public:
  std::string print(const Expr &expr);
  std::string print(const Expr &expr, int atLeast);
  std::string print(const ChainExpr &chain);
  std::string print(const Argument &argument);
  std::string print(const IndexPart &part);
  std::string print(const TypeExpr &type);
  std::string print(const ParameterType &type);
  std::string print(const IfStatement &branch);
  std::string print(const Statement &statement);
  std::string print(const std::vector<Statement> &body);
  template <typename Element>
  std::string printList(const std::vector<Element> &elements);
  std::string print(const Name &name) { return std::string(name.text); }
  std::string print(const ExprPtr &expr) { return print(*expr); }
  std::string print(const Parameter &parameter);
  std::string print(const Input &input);
  std::string print(const Definition &definition);

private:
  size_t depth = 0; ///< of blocks around what is printed
};

} // namespace

template <typename Element>
std::string Printer::printList(const std::vector<Element> &elements) {
  std::string text;
  for (const Element &element : elements)
    text += (text.empty() ? "" : ", ") + print(element);
  return text;
}

std::string Printer::print(const Expr &expr, int atLeast) {
  std::string text = print(expr);
  return getPrecedence(expr) < atLeast ? "(" + text + ")" : text;
}

std::string Printer::print(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Integer:
    return fmt::format("{}", static_cast<const IntegerExpr &>(expr).value);
  case ExprKind::Float: {
    // The shortest text that reads back as the same double, and as a double.
    std::string text =
        fmt::format("{}", static_cast<const FloatExpr &>(expr).value);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  case ExprKind::String:
    return fmt::format("\"{}\"", static_cast<const StringExpr &>(expr).value);
  case ExprKind::Name:
    return std::string(static_cast<const NameExpr &>(expr).name);
  case ExprKind::Tuple:
    return "(" + printList(static_cast<const TupleExpr &>(expr).elements) + ")";
  case ExprKind::Unary: {
    const auto &unary = static_cast<const UnaryExpr &>(expr);
    return fmt::format("{}{}{}", getSpelling(unary.op),
                       unary.op == Operator::Not ? " " : "",
                       print(*unary.operand, getPrecedence(unary.op)));
  }
  case ExprKind::Chain:
    return print(static_cast<const ChainExpr &>(expr));
  case ExprKind::Call: {
    const auto &call = static_cast<const CallExpr &>(expr);
    return fmt::format(
        "{}({}){}{}{}{}", call.callee.text, printList(call.arguments),
        call.variables ? " with " : "",
        call.variables ? call.variables->text : "", call.scope ? " as " : "",
        call.scope ? call.scope->text : "");
  }
  case ExprKind::Index: {
    const auto &index = static_cast<const IndexExpr &>(expr);
    return fmt::format("{}[{}{}{}]", print(*index.operand, PostfixLevel),
                       printList(index.parts), index.otherwise ? " else " : "",
                       index.otherwise ? print(*index.otherwise) : "");
  }
  }
  __builtin_unreachable();
}

std::string Printer::print(const ChainExpr &chain) {
  // An operand of the chain's own level has parentheses of its own; only the
  // exponent may be a negation.
  int own = getPrecedence(chain.ops.front());
  std::string text = print(*chain.operands[0], own + 1);
  for (size_t i = 0; i < chain.ops.size(); ++i) {
    const Expr &operand = *chain.operands[i + 1];
    bool isLastExponent =
        own == PowerLevel && i + 1 == chain.ops.size() &&
        operand.kind == ExprKind::Unary &&
        static_cast<const UnaryExpr &>(operand).op == Operator::Negate;
    text += fmt::format(" {} {}", getSpelling(chain.ops[i]),
                        print(operand, isLastExponent ? NegateLevel : own + 1));
  }
  return text;
}

std::string Printer::print(const IndexPart &part) {
  std::string dims = printList(part.dims);
  if (part.dims.size() != 1)
    dims = fmt::format("({})", dims);
  return fmt::format("{} = {}", dims, print(*part.position));
}

std::string Printer::print(const Argument &argument) {
  std::string text;
  if (argument.name)
    text += fmt::format("{} = ", argument.name->text);
  text += print(*argument.value);
  if (argument.arrow)
    text += " ->";
  if (argument.target)
    text += " " + print(*argument.target);
  return text;
}

std::string Printer::print(const TypeExpr &type) {
  std::string text(type.element ? type.element->text : "");
  if (type.dims.empty() && type.element)
    return text;
  std::vector<std::string> dims;
  for (const ExprPtr &dim : type.dims)
    dims.push_back(print(*dim));
  return fmt::format("{}[{}]", text, fmt::join(dims, ", "));
}

std::string Printer::print(const ParameterType &type) {
  switch (type.kind) {
  case ParameterType::Kind::Dim:
    return "dim";
  case ParameterType::Kind::Dims:
    return "dims";
  case ParameterType::Kind::Number:
    return "number";
  case ParameterType::Kind::Truth:
    return "truth";
  case ParameterType::Kind::Tensor:
    break;
  }
  std::string element(type.element ? type.element->text : "");
  if (type.element && type.dims.empty() && !type.isOpen)
    return element;
  return fmt::format("{}[{}{}{}]", element, type.isOpen ? ".." : "",
                     type.isOpen && !type.dims.empty() ? ", " : "",
                     printList(type.dims));
}

std::string Printer::print(const Parameter &parameter) {
  std::string text(parameter.name.text);
  if (parameter.type)
    text += ": " + print(*parameter.type);
  return parameter.defaultValue ? text + " = " + print(*parameter.defaultValue)
                                : text;
}

std::string Printer::print(const Input &input) {
  return fmt::format("{}: {}", input.name.text, print(input.type));
}

std::string Printer::print(const Definition &definition) {
  return fmt::format("{} = {}", definition.name.text, print(*definition.value));
}

std::string Printer::print(const IfStatement &branch) {
  std::string text = fmt::format("if {} {}", print(*branch.condition),
                                 print(branch.then->statements));
  if (!branch.otherwise)
    return text;
  const std::vector<Statement> &otherwise = branch.otherwise->statements;
  const bool isIf = otherwise.size() == 1 &&
                    std::holds_alternative<IfStatement>(otherwise.front());
  return text + " else " + (isIf ? print(otherwise.front()) : print(otherwise));
}

std::string Printer::print(const Statement &statement) {
  if (const auto *variable = std::get_if<VariableStatement>(&statement))
    return fmt::format("{} {}: {} = {}", variable->isState ? "state" : "param",
                       printList(variable->names), print(variable->type),
                       print(*variable->initializer));
  if (const auto *let = std::get_if<LetStatement>(&statement))
    return fmt::format(
        "{}{}{} {} {}", let->kind == LetStatement::Kind::Binds ? "let " : "",
        printList(let->names), let->type ? ": " + print(*let->type) : "",
        let->kind == LetStatement::Kind::Adds ? "+=" : "=", print(*let->value));
  if (const auto *dim = std::get_if<DimStatement>(&statement))
    return fmt::format("dim {} = {}", dim->name.text, print(*dim->value));
  if (const auto *place = std::get_if<PlaceStatement>(&statement))
    return fmt::format("{}[{} = {}] = {}", place->name.text, place->dim.text,
                       print(*place->position), print(*place->value));
  if (const auto *loop = std::get_if<LoopStatement>(&statement))
    return fmt::format("for {} in {} {}", loop->variable.text,
                       print(*loop->dim), print(loop->body->statements));
  if (const auto *branch = std::get_if<IfStatement>(&statement))
    return print(*branch);
  if (const auto *output = std::get_if<OutputStatement>(&statement))
    return fmt::format("output {}{} = {}", output->name.text,
                       output->order ? print(*output->order) : "",
                       print(*output->value));
  if (const auto *assertion = std::get_if<AssertStatement>(&statement))
    return "assert " + print(*assertion->condition);
  return "return " + printList(std::get<ReturnStatement>(statement).values);
}

std::string Printer::print(const std::vector<Statement> &body) {
  std::string text = "{\n";
  ++depth;
  for (const Statement &statement : body)
    text += std::string(2 * depth, ' ') + print(statement) + "\n";
  --depth;
  return text + std::string(2 * depth, ' ') + "}";
}

std::string ast::print(const Expr &expr) { return Printer().print(expr); }

std::string ast::print(const File &file) {
  Printer printer;
  std::string text;
  for (const Import &import : file.imports)
    text += fmt::format("import \"{}\"\n", import.path);
  for (const Mesh &mesh : file.meshes)
    text += fmt::format("mesh {}\n", printer.printList(mesh.axes));
  for (const Definition &number : file.numbers)
    text += fmt::format("let {}\n", printer.print(number));
  for (const Definition &dim : file.dims)
    text += fmt::format("dim {}\n", printer.print(dim));
  for (const Layout &layout : file.layouts) {
    text += "layout {\n";
    for (const LayoutRule &rule : layout.rules)
      text += "  " + toString(rule.rule) + "\n";
    text += "}\n";
  }
  for (const Function &function : file.functions)
    text += fmt::format("fn {}({}) {}\n", function.name.text,
                        printer.printList(function.parameters),
                        printer.print(function.body));
  for (const Model &model : file.models)
    text +=
        fmt::format("model {}({}) {}\n", model.name.text,
                    printer.printList(model.inputs), printer.print(model.body));
  for (const Data &data : file.datas) {
    text += fmt::format("data over {} {{\n", data.over.text);
    for (const DataBinding &binding : data.bindings)
      text += fmt::format("  {} = {}\n", binding.input.text,
                          printer.print(*binding.value));
    text += "}\n";
  }
  for (const Train &train : file.trains) {
    text += "train {\n";
    for (const Setting &setting : train.settings) {
      text += fmt::format("  {} {}", setting.name.text,
                          printer.print(*setting.value));
      for (const StringExpr &name : setting.more)
        text += fmt::format(", {}", printer.print(name));
      for (const StringExpr &pattern : setting.patterns)
        text += fmt::format(
            "{} {}", &pattern == &setting.patterns.front() ? " for" : ",",
            printer.print(pattern));
      text += '\n';
    }
    text += "}\n";
  }
  return text;
}
