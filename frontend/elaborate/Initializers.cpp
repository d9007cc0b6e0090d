// What parameters start as: an initializer that is one word or one call, or any
// other expression of numbers and positions.

#include "frontend/elaborate/Builtins.h"
#include "frontend/syntax/ForeignNames.h"
#include "layout/Spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace meshc;
using namespace meshc::frontend;

/// The parameters of an initializer that is called; nothing of others. A draw
/// has "dims", which no initial value that is one takes.
static std::vector<std::string> getParameters(std::string_view initializer) {
  if (initializer == "constant")
    return {"value"};
  for (const RandomFunction &random : randomFunctions)
    if (random.name == initializer)
      return {std::string(random.first), std::string(random.second), "dims"};
  return {};
}

bool Elaborator::isExpression(const ast::Expr &expr) {
  if (expr.kind == ast::ExprKind::Call) {
    const std::string_view name =
        static_cast<const ast::CallExpr &>(expr).callee.text;
    return getParameters(name).empty() &&
           (findFunction(name) || findBuiltin(name));
  }
  if (expr.kind != ast::ExprKind::Name)
    return true;
  const std::string_view name = static_cast<const ast::NameExpr &>(expr).name;
  return name != "zeros" && name != "ones" && lookUp(name);
}

std::optional<Initializer> Elaborator::getInitializer(const ast::Expr &expr,
                                                      ElementType element,
                                                      const Dims &dims) {
  if (!isExpression(expr))
    return getNamedInitializer(expr, element);
  initialDims = builder.beginInitial(dims);
  const Value value = evaluate(expr);
  initialDims.reset();
  const auto *tensor = std::get_if<Tensor>(&value);
  Tensor initial = builder.endInitial(tensor ? *tensor : Tensor(), element,
                                      dims, getWhere(expr.span));
  reportBuildErrors({});
  if (initial)
    return Initializer::computed(initial);
  if (std::optional<Number> number = getNumber(value))
    return getFill(number->toDouble(), element, expr.span);
  if (const auto *truth = std::get_if<bool>(&value);
      truth && element == ElementType::Bool)
    return Initializer::fill(*truth);
  if (!tensor && !isPoison(value))
    error(Code::WrongKind, expr.span,
          fmt::format("an initial value is a number or a tensor, found {}",
                      describe(value)));
  return std::nullopt;
}

/// Whether a finite number is a value of this type, exactly if that has
/// integers: a double holds those up to 2^53.
static bool isInitial(double value, ElementType element) {
  if (isFloat(element))
    return element == ElementType::F64 || std::isfinite(float(value));
  if (element == ElementType::Bool || std::trunc(value) != value)
    return false;
  return std::abs(value) <= (element == ElementType::I32 ? 0x7fffffff : 0x1p53);
}

std::optional<Initializer> Elaborator::getFill(double value,
                                               ElementType element, Span span) {
  if (!std::isfinite(value)) {
    error(Code::InvalidSetting, span,
          fmt::format("an initial value cannot be {}", value));
    return std::nullopt;
  }
  if (!isInitial(value, element)) {
    error(Code::NotRepresentable, span,
          fmt::format("{} is not a value of type {}", value, getName(element)));
    return std::nullopt;
  }
  return Initializer::fill(value);
}

std::optional<Initializer>
Elaborator::getNamedInitializer(const ast::Expr &expr, ElementType element) {
  std::string_view name;
  Arguments arguments;
  const ast::CallExpr *call = nullptr;
  if (expr.kind == ast::ExprKind::Name)
    name = static_cast<const ast::NameExpr &>(expr).name;
  if (expr.kind == ast::ExprKind::Call) {
    call = static_cast<const ast::CallExpr *>(&expr);
    name = call->callee.text;
  }
  if (!call && name == "zeros")
    return Initializer::fill(0);
  if (!call && name == "ones")
    return Initializer::fill(1);

  const std::vector<std::string> parameters = getParameters(name);
  if (parameters.empty() || !call) {
    std::vector<std::string> names{"zeros", "ones", "constant"};
    for (const RandomFunction &random : randomFunctions)
      names.emplace_back(random.name);
    Diagnostic &reported =
        error(Code::UnknownInitializer, call ? call->callee.span : expr.span,
              parameters.empty()
                  ? fmt::format("there is no initializer \"{}\"", name)
                  : fmt::format("initializer \"{}\" needs arguments", name));
    reported.note("initializers are zeros, ones, constant(value), "
                  "normal(mean, stddev), truncated_normal(mean, stddev), "
                  "uniform(low, high), and expressions of numbers, positions "
                  "and random numbers");
    if (parameters.empty() &&
        !adviseForeign(reported, ForeignKind::Initializer, name))
      reported.didYouMean(layout::findNearest(name, names));
    return std::nullopt;
  }
  std::optional<Arguments> bound = bind(*call, parameters, 0);
  if (!bound)
    return std::nullopt;
  double values[2] = {0, 0};
  if (parameters.size() > std::size(values) && bound->back()) {
    const ast::Argument &dims = *bound->back();
    error(Code::UnknownArgument, dims.name ? dims.name->span : dims.value->span,
          fmt::format("an initial value that is one draw has the declared "
                      "dimensions: \"{}\" takes no \"dims\" here",
                      name))
        .help("leave it out");
    return std::nullopt;
  }
  for (size_t i = 0; i < std::min(parameters.size(), std::size(values)); ++i) {
    const ast::Argument *argument = (*bound)[i];
    if (!argument) {
      if (parameters[i] == "stddev" && call->arguments.size() == 1 &&
          !call->arguments.front().name) {
        const std::string_view number = diagnostics.getSources().getText(
            call->arguments.front().value->span);
        error(Code::MissingArgument, call->span,
              fmt::format("\"{}\" of one number: is {} the mean or the "
                          "standard deviation?",
                          name, number))
            .help(fmt::format("write {}(stddev = {}), with the mean 0,", name,
                              number))
            .help(fmt::format("or {}(mean = {}, stddev = ...)", name, number));
        return std::nullopt;
      }
      if (name != "constant") {
        values[i] = double(i); // mean 0, stddev 1; low 0, high 1
        continue;
      }
      error(Code::MissingArgument, call->span,
            fmt::format("\"{}\" needs an argument for \"{}\"", name,
                        parameters[i]));
      return std::nullopt;
    }
    std::optional<Number> number =
        evaluateNumber(*argument->value, parameters[i]);
    if (!number)
      return std::nullopt;
    values[i] = number->toDouble();
    if (!std::isfinite(values[i]) ||
        (parameters[i] == "stddev" && values[i] < 0)) {
      error(Code::InvalidSetting, argument->value->span,
            fmt::format("{} of \"{}\" cannot be {}", parameters[i], name,
                        values[i]));
      return std::nullopt;
    }
  }
  if (name == "constant")
    return getFill(values[0], element, call->span);
  if (name == "normal")
    return Initializer::normal(values[0], values[1]);
  if (name == "truncated_normal")
    return Initializer::truncatedNormal(values[0], values[1]);
  if (values[0] <= values[1])
    return Initializer::uniform(values[0], values[1]);
  error(Code::InvalidSetting, call->span,
        fmt::format("the low end {} of \"uniform\" lies above the high end {}",
                    values[0], values[1]));
  return std::nullopt;
}
