// Elementwise operations, reductions, choices, integers and layers.

#include "tests/fuzz/Generator.h"

#include <cmath>

using namespace meshc::fuzz;

/// In (-1, 1).
static Expr bounded(Expr x) { return call("tanh", {std::move(x)}); }
/// At least 1/2, smooth.
static Expr positive(Expr x) {
  return binary("+", binary("^", bounded(std::move(x)), number(2)),
                number(0.5));
}

std::optional<Expr> Generator::makeUnary(Expr x) {
  switch (pick(17)) {
  case 0:
    return call("exp", {bounded(x)});
  case 1:
    return call("log", {positive(x)});
  case 2:
    return call("logistic", {x});
  case 3:
    return call(flip() ? "sqrt" : "rsqrt", {positive(x)});
  case 4:
    return call("erf", {x});
  case 5:
    return call("gelu", {x});
  case 6:
    return call("gelu_tanh", {x});
  case 7:
    return call("silu", {x});
  case 8:
    return call("relu", {x});
  case 9:
    return call("abs", {x});
  case 10:
    return call("stop_gradient", {x});
  case 11:
    return make(ExprKind::Operator, "-", {x});
  case 12:
    return binary("^", positive(x), number(flip() ? 1.5 : -1));
  case 13:
    return call("sin", {x});
  case 14:
    return call("cos", {x});
  case 15:
    return call("erf_inv", {binary("*", bounded(x), number(0.75))});
  default:
    return bounded(x);
  }
}

std::optional<Expr> Generator::makeElementwise() {
  auto first = pickFloat(), second = pickFloat();
  if (!first || !second)
    return std::nullopt;
  Expr x = nameOf(*first), y = nameOf(*second);
  switch (pick(9)) {
  case 0:
  case 1:
    return binary(flip() ? "+" : "-", x, y);
  case 2:
  case 3:
    return binary("*", x, y);
  case 4:
    return binary("/", x, positive(y));
  case 5:
    return binary(flip() ? "*" : "+", x, number(pickNumber()));
  case 6:
    return call(flip() ? "maximum" : "minimum",
                {x, flip() ? y : number(pickNumber())});
  default:
    return makeUnary(std::move(x));
  }
}

std::optional<Expr> Generator::makeReduction() {
  auto name = pickFloatWithDims();
  if (!name)
    return std::nullopt;
  const Dims dims = pickSubset(getDims(*name), false);
  if (allows("softmax") && flip(3)) {
    if (flip(3)) {
      const DimId over = pickFrom(dims);
      auto label = pickVariable([&](const Variable &v) {
        return v.type.element == Element::I32 && !v.type.has(over);
      });
      if (label && bounds.contains(*label) && bounds[*label] <= size(over))
        return make(ExprKind::Reduce, "cross_entropy",
                    {nameOf(*name), nameOf(*label)}, {over});
    }
    return make(ExprKind::Reduce, flip() ? "softmax" : "log_softmax",
                {nameOf(*name)}, dims);
  }
  if (!allows("reduce"))
    return std::nullopt;
  static const std::vector<std::string> names = {"sum", "mean", "max", "min",
                                                 "norm"};
  return make(ExprKind::Reduce, pickFrom(names), {nameOf(*name)}, dims);
}

std::optional<Expr> Generator::makeEinsum() {
  if (!allows("einsum"))
    return std::nullopt;
  std::vector<Expr> operands;
  Dims dims;
  for (int64_t i = 0; i < 2 + pick(5) / 4; ++i) {
    auto name = pickFloatWithDims();
    if (!name)
      return std::nullopt;
    operands.push_back(nameOf(*name));
    dims = unite(dims, getDims(*name));
  }
  return make(ExprKind::Einsum, "", std::move(operands),
              pickSubset(dims, false));
}

/// rename, broadcast, gather, and a name for one use of a value.
std::optional<Expr> Generator::makeShape() {
  auto name = pickFloat();
  if (!name)
    return std::nullopt;
  const Dims &dims = getDims(*name);
  if (allows("alias") && !dims.empty() && flip(3))
    return nameOf(*name);
  if (!allows("shape"))
    return std::nullopt;
  if (flip(3)) {
    auto dim = pickOtherDim(dims);
    return dim ? std::optional(
                     make(ExprKind::Broadcast, "", {nameOf(*name)}, {*dim}))
               : std::nullopt;
  }
  if (dims.empty())
    return std::nullopt;
  const DimId from = pickFrom(dims);
  if (flip(3)) {
    auto index = pickVariable([&](const Variable &v) {
      return v.type.element == Element::I32 && !v.type.has(from);
    });
    return index && (!bounds.contains(*index) || bounds[*index] <= size(from))
               ? std::optional(make(ExprKind::Gather, "",
                                    {nameOf(*name), nameOf(*index)}, {from}))
               : std::nullopt;
  }
  auto to = pickOtherDim(dims, size(from));
  if (!to)
    return std::nullopt;
  Expr renamed = make(ExprKind::Rename, "", {nameOf(*name)}, {from});
  renamed.targets = {*to};
  return renamed;
}

std::optional<Expr> Generator::makeChoice() {
  if (!allows("where"))
    return std::nullopt;
  auto x = pickFloat(), y = pickFloat();
  auto condition = pickVariable(
      [](const Variable &v) { return v.type.element == Element::Bool; });
  if (!x || !y || !condition)
    return std::nullopt;
  switch (pick(4)) {
  case 0:
    return binary(flip() ? ">" : "<=", nameOf(*x), number(pickNumber()));
  case 1: {
    auto dim = pickOtherDim({}), other = pickOtherDim({*dim});
    return other
               ? std::optional(binary(
                     flip() ? ">=" : "!=", make(ExprKind::Iota, "", {}, {*dim}),
                     flip() ? number(double(pick(4)))
                            : make(ExprKind::Iota, "", {}, {*other})))
               : std::nullopt;
  }
  default:
    return call("where", {nameOf(*condition), nameOf(*x),
                          flip() ? nameOf(*y) : number(pickNumber())});
  }
}

/// Integers and truths from others, and floats from both.
std::optional<Expr> Generator::makeInteger() {
  auto x = pickFloatWithDims();
  auto i = pickVariable(
      [](const Variable &v) { return v.type.element == Element::I32; });
  auto c = pickVariable(
      [](const Variable &v) { return v.type.element == Element::Bool; });
  if (!x || !i || !c)
    return std::nullopt;
  switch (pick(6)) {
  case 0:
    return make(ExprKind::Reduce, flip() ? "argmax" : "argmin", {nameOf(*x)},
                {pickFrom(getDims(*x))});
  case 1:
    return binary(flip() ? "+" : "-", nameOf(*i), number(double(1 + pick(3))));
  case 2:
    return binary("*", call("f32", {nameOf(*i)}), number(0.125));
  case 3:
    return call(flip() ? "f32" : "i32", {nameOf(*c)});
  case 4: {
    auto dim = pickOtherDim({});
    return binary("+", nameOf(*i), make(ExprKind::Iota, "", {}, {*dim}));
  }
  default:
    return make(ExprKind::Operator, "not", {nameOf(*c)});
  }
}

/// Random numbers, a mask of them, or a value of which some are left out.
std::optional<Expr> Generator::makeDraw() {
  if (!allows("draw"))
    return std::nullopt;
  auto name = pickFloat();
  const bool isDropout = name && flip();
  Dims dims = isDropout ? getDims(*name) : Dims();
  while (!isDropout && dims.size() < 3 && (dims.empty() || flip()))
    if (auto dim = pickOtherDim(dims))
      dims.push_back(*dim);
  if (dims.empty())
    return std::nullopt;
  std::shuffle(dims.begin(), dims.end(), random);
  static const std::vector<std::string> names = {"uniform", "normal",
                                                 "truncated_normal"};
  Expr draw = make(ExprKind::Random, isDropout ? "uniform" : pickFrom(names),
                   {}, std::move(dims));
  if (isDropout) {
    draw.second = 1;
    return call("where", {binary("<", std::move(draw), number(0.25)), number(0),
                          binary("/", nameOf(*name), number(0.75))});
  }
  draw.number = pickNumber() / 4;
  draw.second = draw.name == "uniform" ? draw.number + 1 : 0.5;
  if (flip(3))
    return binary(flip() ? "<" : ">=", std::move(draw),
                  number(pickNumber() / 4));
  // Two in one statement are others.
  if (flip(3))
    return binary("-", draw, draw);
  return draw;
}

//===-- Layers ------------------------------------------------------------===//

std::optional<Expr> Generator::makeLayer() {
  auto name = pickFloatWithDims();
  if (!name)
    return std::nullopt;
  const Dims dims = getDims(*name);
  if (flip(3))
    return makeWindowed(*name);
  Expr layer = make(ExprKind::Layer, "", {nameOf(*name)});
  if (flip(6) && dims.size() > 1 && allows("batch-norm")) {
    layer.name = "batch_norm";
    layer.layer.over = without(dims, {pickFrom(dims)});
    if (layer.layer.over.size() > 1 && flip())
      layer.layer.over.pop_back();
  } else if (flip() && allows("layer-norm")) {
    layer.name = "layer_norm";
    layer.layer.over = pickSubset(dims, false);
  } else if (allows("dense")) {
    layer.name = "dense";
    layer.layer.from = pickSubset(dims, false);
    auto to = pickOtherDim(dims);
    if (!to)
      return std::nullopt;
    layer.layer.to = {*to};
  } else {
    return std::nullopt;
  }
  layer.layer.scope = makeName("l");
  return layer;
}

std::optional<Expr> Generator::makeWindowed(const std::string &name) {
  const Dims dims = getDims(name);
  Dims free = dims, used = dims;
  std::shuffle(free.begin(), free.end(), random);
  static const std::vector<std::string> names = {
      "conv", "conv", "conv", "grow", "max_pool", "mean_pool"};
  Expr layer = make(ExprKind::Layer, pickFrom(names), {nameOf(name)});
  const bool isPool = layer.name.ends_with("pool");
  if (!allows(isPool ? "pool" : layer.name.c_str()))
    return std::nullopt;
  if (layer.name == "conv" && !allows("conv-shared"))
    layer.operands[0] = bounded(std::move(layer.operands[0]));
  LayerArguments &arguments = layer.layer;
  const size_t numOver = 1 + size_t(pick(2));
  for (size_t i = 0; i < numOver; ++i) {
    if (free.empty())
      return std::nullopt;
    const DimId over = free.back();
    free.pop_back();
    auto window = pickOtherDim(used, 0, 3);
    if (!window)
      return std::nullopt;
    used.push_back(*window);
    DimId at = over;
    if (layer.name != "conv" || flip()) {
      auto other = pickOtherDim(used);
      if (!other)
        return std::nullopt;
      at = *other;
    }
    used.push_back(at);
    arguments.over.push_back(over);
    arguments.window.push_back(*window);
    arguments.at.push_back(at);
  }
  // Where results lie is a list of its own, or `over`.
  for (size_t i = 0; i < numOver; ++i)
    if ((arguments.at[i] == arguments.over[i]) !=
        (arguments.at[0] == arguments.over[0]))
      return std::nullopt;
  arguments.stride = isPool ? 1 + pick(2) : 1;
  if (layer.name == "conv" && arguments.at != arguments.over) {
    arguments.stride = 1 + pick(2);
    arguments.dilation = 1 + pick(2);
  }
  if (isPool)
    return layer;
  arguments.scope = makeName("l");
  if (layer.name == "conv" && !free.empty() && flip(4)) {
    arguments.each = {free.back()};
    free.pop_back();
  }
  if (!free.empty()) {
    arguments.from = {free.back()};
    auto to = pickOtherDim(used);
    if (!to)
      return std::nullopt;
    arguments.to = {*to};
  }
  return layer;
}

//===-- Magnitudes --------------------------------------------------------===//

double Generator::getLayerMagnitude(const Expr &expr) {
  const LayerArguments &layer = expr.layer;
  const double x = getMagnitude(expr.operands[0]);
  if (expr.name == "layer_norm")
    return std::sqrt(double(countElements(tree, layer.over))) + 1;
  if (expr.name == "batch_norm") // of what the step sees, and of state
    return std::max(
        2 * (x + 1),
        1 + std::sqrt(double(countElements(
                tree, without(expr.operands[0].type.dims, layer.over)))));
  if (expr.name.ends_with("pool"))
    return x;
  return x * double(countElements(tree, layer.from)) *
             double(countElements(tree, layer.window)) +
         1;
}

double Generator::getMagnitude(const Expr &expr) {
  auto of = [&](size_t i) { return getMagnitude(expr.operands[i]); };
  const std::string &name = expr.name;
  switch (expr.kind) {
  case ExprKind::Number:
    return std::fabs(expr.number);
  case ExprKind::Name:
    return get(name).type.element == Element::F32 ? get(name).magnitude : 10;
  case ExprKind::Operator:
    if (expr.operands.size() == 1)
      return of(0);
    if (name == "+" || name == "-")
      return of(0) + of(1);
    if (name == "*")
      return of(0) * of(1);
    if (name == "/")
      return 2 * of(0);
    if (name == "^")
      return std::max(4.0, of(0) * of(0));
    return 1;
  case ExprKind::Random:
    return std::fabs(expr.number) + (name == "uniform" ? 1 : 3 * expr.second);
  case ExprKind::Call:
    if (name == "where")
      return std::max(of(1), of(2));
    if (name == "maximum" || name == "minimum")
      return std::max(of(0), of(1));
    if (name == "exp" || name == "log" || name == "sqrt" || name == "rsqrt")
      return 3;
    if (name == "tanh" || name == "erf" || name == "logistic" ||
        name == "sin" || name == "cos")
      return 1;
    return of(0);
  case ExprKind::Reduce:
    if (name == "sum" || name == "norm")
      return of(0) * double(countElements(tree, expr.dims));
    if (name == "softmax")
      return 1;
    if (name == "log_softmax" || name == "cross_entropy")
      return 2 * of(0) + 3;
    return of(0);
  case ExprKind::Einsum: {
    double product = double(countElements(tree, expr.dims));
    for (size_t i = 0; i < expr.operands.size(); ++i)
      product *= of(i);
    return product;
  }
  case ExprKind::Index:
    return std::max(of(0), expr.otherwise && std::isfinite(*expr.otherwise)
                               ? std::fabs(*expr.otherwise)
                               : 0);
  case ExprKind::Layer:
    return getLayerMagnitude(expr);
  default:
    return expr.operands.empty() ? 10 : of(0);
  }
}
