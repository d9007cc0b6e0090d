// What functions ask of their arguments: kinds and shapes of parameters, and
// assert.

#include "frontend/elaborate/Elaborator.h"
#include "layout/Spelling.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;
using Kind = ast::ParameterType::Kind;

/// As `describe` says it of a value.
static std::string_view describeKind(Kind kind) {
  switch (kind) {
  case Kind::Dim:
    return "a dimension";
  case Kind::Dims:
    return "dimensions";
  case Kind::Number:
    return "a number";
  case Kind::Truth:
    return "a truth value";
  case Kind::Tensor:
    return "a tensor";
  }
  __builtin_unreachable();
}

static bool isOfKind(const Value &value, Kind kind) {
  const auto *dims = std::get_if<Dims>(&value);
  switch (kind) {
  case Kind::Dim:
    return dims && dims->size() == 1;
  case Kind::Dims:
    return dims;
  case Kind::Number:
    return std::holds_alternative<Number>(value);
  case Kind::Truth:
    return std::holds_alternative<bool>(value);
  case Kind::Tensor:
    return std::holds_alternative<Tensor>(value);
  }
  __builtin_unreachable();
}

void Elaborator::checkArguments(Frame *caller) {
  for (const ast::Parameter &parameter : frame->function->parameters) {
    Binding &binding = frame->bindings[parameter.name.text];
    if (parameter.type && !isPoison(binding.value) &&
        !checkArgument(parameter, binding, caller))
      binding.value = Poison();
  }
}

bool Elaborator::checkArgument(const ast::Parameter &parameter,
                               Binding &binding, Frame *caller) {
  Kind kind = parameter.type->kind;
  // Dims serve as their size where a number is needed.
  if (kind == Kind::Number)
    if (std::optional<Number> number = getNumber(binding.value))
      binding.value = *number;
  if (isOfKind(binding.value, kind))
    return kind != Kind::Tensor || checkShape(parameter, binding, caller);
  std::string_view function = frame->function->name.text;
  Frame *callee = std::exchange(frame, caller);
  error(Code::WrongKind, binding.span,
        fmt::format("\"{}\" of \"{}\" is {}, found {}", parameter.name.text,
                    function, describeKind(kind), describe(binding.value)));
  frame = callee;
  return false;
}

bool Elaborator::checkShape(const ast::Parameter &parameter,
                            const Binding &binding, Frame *caller) {
  const ast::ParameterType &type = *parameter.type;
  const Tensor x = std::get<Tensor>(binding.value);
  const std::string found = toString(x.getElementType(), x.getDims());
  std::string takes = fmt::format("\"{}\" takes ", frame->function->name.text);
  /// An error at an argument, which stands at the call.
  auto fail = [&](Code code, Span span, std::string message) -> Diagnostic & {
    Frame *callee = std::exchange(frame, caller);
    Diagnostic &reported = error(code, span, takes + message);
    frame = callee;
    if (span != binding.span)
      reported.alsoAt(getUserSpan(binding.span), found);
    return reported;
  };
  std::optional<ElementType> element = x.getElementType();
  if (type.element && !(element = getElementType(*type.element)))
    return false;
  if (*element != x.getElementType()) {
    fail(Code::WrongElementType, binding.span,
         fmt::format("\"{}\" of {}, found {}", parameter.name.text,
                     getName(*element), found))
        .help(fmt::format("{}(...) converts", getName(*element)));
    return false;
  }
  Dims taken;
  for (const ast::Name &name : type.dims) {
    std::optional<Dims> dims = lookUpDims(name.text, name.span);
    if (!dims)
      return false;
    taken.insert(taken.end(), dims->begin(), dims->end());
    auto lacking = std::ranges::find_if(
        *dims, [&](const Dim &dim) { return !x.hasDim(dim.name); });
    if (lacking == dims->end())
      continue;
    // The argument that names the dim, where one does.
    auto source = frame->bindings.find(name.text);
    Span span = source != frame->bindings.end() &&
                        !sources.get(source->second.span.source).isLibrary()
                    ? source->second.span
                    : binding.span;
    Diagnostic &reported =
        fail(Code::DimNotInTensor, span,
             fmt::format("\"{}\" with dimension \"{}\", which {} lacks",
                         parameter.name.text, lacking->name, found));
    std::vector<std::string> names;
    for (const Dim &dim : x.getDims())
      names.push_back(dim.name);
    if (sources.getText(span) == lacking->name)
      reported.didYouMean(layout::findNearest(lacking->name, names));
    return false;
  }
  auto isTaken = [&](const Dim &dim) {
    return std::ranges::find(taken, dim) != taken.end();
  };
  if (type.isOpen || std::ranges::all_of(x.getDims(), isTaken))
    return true;
  fail(Code::UnexpectedDim, binding.span,
       fmt::format("\"{}\" as {}, found {}", parameter.name.text,
                   toString(*element, taken), found))
      .help("\"[.., d]\" takes tensors of any other dimensions too");
  return false;
}

//===----------------------------------------------------------------------===//
// assert
//===----------------------------------------------------------------------===//

namespace {
/// The names that stand in an expression, each once.
void collectNames(const ast::Expr &expr, std::vector<std::string_view> &names) {
  auto collectAll = [&](const std::vector<ast::ExprPtr> &all) {
    for (const ast::ExprPtr &each : all)
      collectNames(*each, names);
  };
  switch (expr.kind) {
  case ExprKind::Name: {
    std::string_view name = static_cast<const ast::NameExpr &>(expr).name;
    if (std::ranges::find(names, name) == names.end())
      names.push_back(name);
    return;
  }
  case ExprKind::Tuple:
    return collectAll(static_cast<const ast::TupleExpr &>(expr).elements);
  case ExprKind::Unary:
    return collectNames(*static_cast<const ast::UnaryExpr &>(expr).operand,
                        names);
  case ExprKind::Chain:
    return collectAll(static_cast<const ast::ChainExpr &>(expr).operands);
  case ExprKind::Call:
    for (const ast::Argument &argument :
         static_cast<const ast::CallExpr &>(expr).arguments)
      if (argument.value)
        collectNames(*argument.value, names);
    return;
  case ExprKind::Integer:
  case ExprKind::Float:
  case ExprKind::String:
  case ExprKind::Index:
    return; // of these no truth is made
  }
}
} // namespace

std::string Elaborator::describeNames(const ast::Expr &expr) {
  std::vector<std::string_view> names;
  collectNames(expr, names);
  std::vector<std::string> all;
  for (std::string_view name : names) {
    const Value *value = lookUp(name);
    const auto *dims = value ? std::get_if<Dims>(value) : nullptr;
    if (const auto *number = value ? std::get_if<Number>(value) : nullptr)
      all.push_back(fmt::format("\"{}\" is {}", name, toString(*number)));
    for (const Dim &dim : dims ? *dims : Dims())
      all.push_back(dim.name == name
                        ? fmt::format("\"{}\" has size {}", name, dim.size)
                        : fmt::format("\"{}\" is \"{}\" of size {}", name,
                                      dim.name, dim.size));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

bool Elaborator::execute(const ast::AssertStatement &assertion) {
  const ast::Expr &condition = *assertion.condition;
  Value value = evaluate(condition);
  if (isPoison(value))
    return true;
  const auto *truth = std::get_if<bool>(&value);
  if (!truth) {
    error(Code::WrongKind, condition.span,
          fmt::format("what is asserted is a truth known to the compiler, "
                      "found {}",
                      describe(value)));
    return true;
  }
  if (*truth)
    return true;
  bool isInFunction = frame->function;
  Diagnostic &reported = error(
      Code::AssertFails, isInFunction ? frame->call : condition.span,
      isInFunction ? fmt::format("\"{}\" asserts {}",
                                 frame->function->name.text, print(condition))
                   : fmt::format("{} does not hold", print(condition)));
  if (isInFunction && !sources.get(condition.span.source).isLibrary())
    reported.alsoAt(condition.span, "which does not hold");
  std::string names = describeNames(condition);
  if (!names.empty())
    reported.note(std::move(names));
  return false;
}
