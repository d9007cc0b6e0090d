// Functions that draw random numbers.

#include "frontend/elaborate/Builtins.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

static const RandomFunction &getRandom(std::string_view name) {
  return *std::find_if(
      std::begin(randomFunctions), std::end(randomFunctions),
      [&](const RandomFunction &random) { return random.name == name; });
}

/// uniform(low, high, dims), normal(mean, stddev, dims). What the compiler does
/// not know of these numbers is multiplied and added behind the draw, of which
/// it may be a gradient's way.
Value Elaborator::callRandom(const ast::CallExpr &call,
                             const Arguments &arguments) {
  const RandomFunction &random = getRandom(call.callee.text);
  std::vector<Operand> spans;
  std::optional<Dims> dims;
  if (arguments[2]) {
    dims = evaluateDims(*arguments[2]->value, &spans);
  } else if (initialDims) {
    dims = initialDims;
  } else {
    error(Code::MissingArgument, call.span,
          fmt::format("\"{}\" needs an argument for \"dims\"", random.name))
        .help(fmt::format("write {}(dims = (a, b)) for a tensor of the "
                          "dimensions a and b, or dims = () for one number",
                          random.name));
  }
  Value numbers[] = {Number::of(int64_t(0)), Number::of(int64_t(1))};
  bool isKnown = true, isValid = dims.has_value();
  for (size_t i = 0; i < 2; ++i) {
    if (!arguments[i])
      continue;
    const ast::Expr &argument = *arguments[i]->value;
    numbers[i] = evaluate(argument);
    if (isPoison(numbers[i])) {
      isValid = false;
      continue;
    }
    if (std::optional<Number> number = getNumber(numbers[i])) {
      const double value = number->toDouble();
      const std::string_view name = i == 0 ? random.first : random.second;
      numbers[i] = *number;
      if (std::isfinite(value) && (name != "stddev" || value >= 0))
        continue;
      error(Code::InvalidSetting, argument.span,
            fmt::format("{} of \"{}\" cannot be {}", name, random.name, value));
      isValid = false;
      continue;
    }
    isKnown = false;
    const Tensor given = toTensor(numbers[i], argument.span, ElementType::F32);
    isValid &= given && given.getElementType() == ElementType::F32;
    if (given && given.getElementType() != ElementType::F32)
      error(Code::WrongElementType, argument.span,
            fmt::format("{} of \"{}\" is f32, as what is drawn, found {}",
                        i == 0 ? random.first : random.second, random.name,
                        toString(given.getElementType(), given.getDims())))
          .help("f32(...) converts");
  }
  if (!isValid)
    return Poison();

  Initializer distribution{random.kind, 0, 1};
  if (isKnown) {
    distribution.first = getNumber(numbers[0])->toDouble();
    distribution.second = getNumber(numbers[1])->toDouble();
    if (random.kind == Initializer::Kind::Uniform &&
        distribution.first > distribution.second) {
      error(Code::InvalidSetting, call.span,
            fmt::format("the low end {} of \"uniform\" lies above the high end "
                        "{}",
                        distribution.first, distribution.second));
      return Poison();
    }
  }
  Tensor drawn =
      checked(builder.random(std::string(frame->target), distribution,
                             ElementType::F32, *dims, getWhere(call.span)),
              spans);
  if (!drawn || isKnown)
    return orPoison(drawn);
  auto getSpan = [&](size_t i) {
    return arguments[i] ? arguments[i]->value->span : call.span;
  };
  Value scale = numbers[1];
  if (random.kind == Initializer::Kind::Uniform)
    scale = apply(ast::Operator::Subtract, numbers[1], getSpan(1), numbers[0],
                  getSpan(0));
  return apply(
      ast::Operator::Add, numbers[0], getSpan(0),
      apply(ast::Operator::Multiply, scale, getSpan(1), drawn, call.span),
      call.span);
}

/// The dims of a tensor in the order of their names, which no compiler and no
/// spec changes; none of a number.
Value Elaborator::callDims(const ast::CallExpr &call,
                           const Arguments &arguments) {
  const ast::Expr &operand = *arguments[0]->value;
  const Value value = evaluate(operand);
  std::optional<Dims> except = Dims();
  std::vector<Operand> spans;
  if (arguments[1])
    except = evaluateDims(*arguments[1]->value, &spans);
  if (isPoison(value) || !except)
    return Poison();
  Dims dims;
  if (const auto *tensor = std::get_if<Tensor>(&value))
    dims.assign(tensor->getDims().begin(), tensor->getDims().end());
  else if (std::holds_alternative<Dims>(value)) {
    error(Code::WrongKind, operand.span,
          "\"dims\" gives the dimensions of a tensor, and this is a dimension "
          "itself");
    return Poison();
  }
  for (size_t i = 0; i < except->size(); ++i) {
    if (std::find(dims.begin(), dims.end(), (*except)[i]) != dims.end())
      continue;
    error(Code::DimNotInTensor, spans[i].span,
          fmt::format("\"dims\" leaves out \"{}\", which the tensor does not "
                      "have",
                      (*except)[i].name));
    return Poison();
  }
  std::erase_if(dims, [&](const Dim &dim) {
    return std::find(except->begin(), except->end(), dim) != except->end();
  });
  std::sort(dims.begin(), dims.end(),
            [](const Dim &a, const Dim &b) { return a.name < b.name; });
  return dims;
}
