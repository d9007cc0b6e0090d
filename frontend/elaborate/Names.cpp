// What names stand for, and lists of dims.

#include "frontend/elaborate/Elaborator.h"
#include "layout/Spelling.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;

const Value *Elaborator::lookUp(std::string_view name, Span *definedAt) {
  if (frame) {
    auto binding = frame->bindings.find(name);
    if (binding != frame->bindings.end()) {
      if (definedAt)
        *definedAt = binding->second.span;
      return &binding->second.value;
    }
  }
  // A function of the library sees nothing of the spec.
  const bool isInLibrary =
      frame && frame->function &&
      sources.get(frame->function->name.span.source).isLibrary();
  auto global = isInLibrary ? globals.end() : globals.find(name);
  if (global != globals.end()) {
    if (definedAt)
      *definedAt = global->second.definition->name.span;
    resolve(name, global->second);
    return &global->second.value;
  }
  if (frame && name == "training") {
    hasTrainingProgram = true;
    return &training;
  }
  if (updated && name == "step") {
    if (isPoison(step))
      step = builder.step();
    return &step;
  }
  auto known = predefined.find(name);
  if (known != predefined.end())
    return &known->second;
  return name.ends_with('\'') ? lookUpPrimed(name, definedAt) : nullptr;
}

/// d' is another dim of the size of d; of a list each.
const Value *Elaborator::lookUpPrimed(std::string_view name, Span *definedAt) {
  const Value *value = lookUp(name.substr(0, name.size() - 1), definedAt);
  const auto *dims = value ? std::get_if<Dims>(value) : nullptr;
  if (!dims)
    return value && isPoison(*value) ? value : nullptr;
  Dims second;
  std::string key;
  for (const Dim &dim : *dims) {
    second.push_back({dim.name + "'", dim.size});
    key += second.back().name + " ";
  }
  return &primed.insert_or_assign(key, second).first->second;
}

std::vector<std::string> Elaborator::getNamesInScope() const {
  std::vector<std::string> names;
  if (frame)
    names.emplace_back("training");
  for (const auto &[name, value] : predefined)
    names.emplace_back(name);
  if (frame)
    for (const auto &[name, binding] : frame->bindings)
      names.emplace_back(name);
  for (const auto &[name, global] : globals)
    names.emplace_back(name);
  return names;
}

Value Elaborator::evaluateName(const ast::NameExpr &expr) {
  if (const Value *value = lookUp(expr.name)) {
    if (const auto *dims = std::get_if<Dims>(value))
      readsParted |= std::ranges::any_of(
          *dims, [&](const Dim &dim) { return builder.isParted(dim.name); });
    return *value;
  }
  bool isFunction = findFunction(expr.name) || findBuiltin(expr.name);
  if (isFunction) {
    error(
        Code::WrongKind, expr.span,
        fmt::format("\"{}\" is a function; a call has parentheses", expr.name));
    return Poison();
  }
  Diagnostic &unknown = error(Code::UnknownName, expr.span,
                              fmt::format("\"{}\" is not defined", expr.name));
  if (expr.name == "step" && !updated)
    unknown.help("it counts the steps of a training, for optimizers and their "
                 "hyper-parameters");
  else if (expr.name == "training")
    unknown.help("it is known in the model and in functions: hand it on");
  else
    unknown.didYouMean(layout::findNearest(expr.name, getNamesInScope()));
  return Poison();
}

std::optional<Dims> Elaborator::lookUpDims(std::string_view name, Span span) {
  Span definedAt;
  const Value *value = lookUp(name, &definedAt);
  if (!value) {
    std::vector<std::string> names = getDimNames();
    if (frame)
      for (const auto &[bound, binding] : frame->bindings)
        if (std::holds_alternative<Dims>(binding.value))
          names.emplace_back(bound);
    error(Code::UnknownDim, span,
          fmt::format("there is no dimension \"{}\"", name))
        .didYouMean(layout::findNearest(name, names));
    return std::nullopt;
  }
  if (const auto *dims = std::get_if<Dims>(value))
    return *dims;
  if (!isPoison(*value))
    error(Code::WrongKind, span,
          fmt::format("\"{}\" is {}, expected a dimension", name,
                      describe(*value)))
        .alsoAt(definedAt, "defined here");
  return std::nullopt;
}

std::optional<Dims> Elaborator::evaluateDims(const ast::Expr &expr,
                                             std::vector<Operand> *spans) {
  if (expr.kind == ExprKind::Tuple) {
    Dims all;
    const auto &tuple = static_cast<const ast::TupleExpr &>(expr);
    for (const ast::ExprPtr &element : tuple.elements) {
      std::optional<Dims> dims = evaluateDims(*element, spans);
      if (!dims)
        return std::nullopt;
      all.insert(all.end(), dims->begin(), dims->end());
    }
    return all;
  }
  if (!countStep(expr.span))
    return std::nullopt;
  std::optional<Dims> dims;
  if (expr.kind == ExprKind::Name) {
    dims = lookUpDims(static_cast<const ast::NameExpr &>(expr).name, expr.span);
  } else {
    // dims(x), perhaps as a function of the spec gives it.
    const Value value =
        expr.kind == ExprKind::Call ? evaluateIn(false, expr) : Value(false);
    if (const auto *given = std::get_if<Dims>(&value))
      dims = *given;
    else if (!isPoison(value))
      error(Code::WrongKind, expr.span, "expected the name of a dimension");
  }
  if (dims && spans)
    spans->insert(spans->end(), dims->size(), Operand{expr.span});
  return dims;
}

std::optional<Dim> Elaborator::evaluateDim(const ast::Expr &expr) {
  std::optional<Dims> dims = evaluateDims(expr);
  if (!dims || dims->size() == 1)
    return dims ? std::optional(dims->front()) : std::nullopt;
  error(Code::WrongKind, expr.span,
        fmt::format("expected one dimension, found {}", dims->size()));
  return std::nullopt;
}
