#include "tests/fuzz/Check.h"

#include <algorithm>
#include <set>

using namespace meshc::fuzz;

Checker::Checker(const Tree &tree) : tree(&tree) {
  for (const Input &input : tree.inputs) {
    Variable variable;
    variable.type = input.type;
    frame.variables[input.name] = variable;
    leaves.push_back({input.name, input.type, LeafKind::Input, input.bound});
  }
}

/// Lists, which are in some order.
bool Checker::isSame(const Dims &lhs, const Dims &rhs) const {
  return unite({}, lhs) == unite({}, rhs);
}

bool Checker::check(Expr &expr) {
  if (expr.kind != ExprKind::Index)
    for (Expr &operand : expr.operands)
      if (!check(operand))
        return false;
  const bool isOfDim = expr.kind == ExprKind::Iota ||
                       expr.kind == ExprKind::Rename ||
                       expr.kind == ExprKind::Gather;
  if (isOfDim && expr.dims.size() != 1)
    return fail("no dim");
  const bool isOfNumbers =
      expr.kind == ExprKind::Number || expr.kind == ExprKind::Iota ||
      expr.kind == ExprKind::Operator || expr.kind == ExprKind::Call ||
      expr.kind == ExprKind::Random;
  if (isInitial && !isOfNumbers)
    return fail("an initial value that is not made of numbers");
  bool isLegal = true;
  switch (expr.kind) {
  case ExprKind::Number:
    expr.type = {};
    break;
  case ExprKind::Name: {
    auto found = frame.variables.find(expr.name);
    if (found == frame.variables.end())
      return fail("there is no " + expr.name);
    if (found->second.isNumber)
      return fail(expr.name + " is a number");
    expr.type = found->second.type;
    break;
  }
  case ExprKind::Iota:
    expr.type = {Element::I32, expr.dims};
    break;
  case ExprKind::Operator:
    isLegal = checkElementwise(expr);
    break;
  case ExprKind::Call:
    isLegal = checkCall(expr);
    break;
  case ExprKind::Reduce:
  case ExprKind::Einsum:
    isLegal = checkReduce(expr);
    break;
  case ExprKind::Index:
    isLegal = checkIndex(expr);
    break;
  case ExprKind::Rename: {
    const Type &from = expr.operands[0].type;
    if (!from.has(expr.dims[0]) || from.has(expr.targets[0]) ||
        size(expr.dims[0]) != size(expr.targets[0]))
      return fail("rename");
    expr.type = {from.element,
                 unite(without(from.dims, expr.dims), expr.targets)};
    break;
  }
  case ExprKind::Broadcast: {
    const Type &from = expr.operands[0].type;
    for (DimId dim : expr.dims)
      if (from.has(dim))
        return fail("broadcast");
    expr.type = {from.element, unite(from.dims, expr.dims)};
    break;
  }
  case ExprKind::Random:
    if (!expr.hasDims) {
      if (!isInitial)
        return fail("random numbers of no dims");
      expr.dims = frame.place.loops;
      expr.dims.insert(expr.dims.end(), initialType.dims.begin(),
                       initialType.dims.end());
    }
    expr.type = {Element::F32, unite({}, expr.dims)};
    if (expr.type.dims.size() != expr.dims.size())
      return fail("random numbers of a dim twice");
    break;
  case ExprKind::Gather: {
    const Type &from = expr.operands[0].type, &index = expr.operands[1].type;
    if (!from.has(expr.dims[0]) || index.has(expr.dims[0]) ||
        index.element != Element::I32 || from.element == Element::Bool)
      return fail("gather");
    expr.type = {from.element,
                 unite(without(from.dims, expr.dims), index.dims)};
    break;
  }
  case ExprKind::Layer:
    isLegal = checkLayer(expr);
    break;
  case ExprKind::Position:
  case ExprKind::Size:
  case ExprKind::Tuple:
    return fail("a position outside of an index");
  case ExprKind::Function:
    return fail("a function within an expression");
  }
  if (isLegal && !(checkVisible(expr.type.dims) && checkVisible(expr.dims)))
    return false;
  if (isLegal && countElements(*tree, expr.type.dims) > maxElements)
    return fail("too large");
  return isLegal;
}

/// A number takes the type of what stands beside it.
static bool agree(const Expr &lhs, const Expr &rhs) {
  if (lhs.kind == ExprKind::Number && rhs.kind == ExprKind::Number)
    return false;
  if (lhs.kind == ExprKind::Number)
    return rhs.type.element != Element::Bool;
  if (rhs.kind == ExprKind::Number)
    return lhs.type.element != Element::Bool;
  return lhs.type.element == rhs.type.element;
}

bool Checker::checkElementwise(Expr &expr) {
  static const std::set<std::string> comparisons = {"==", "!=", "<",
                                                    "<=", ">",  ">="};
  const Expr &lhs = expr.operands[0];
  if (expr.operands.size() == 1) {
    expr.type = lhs.type;
    return (expr.name == "not") == (lhs.type.element == Element::Bool) ||
           fail("unary");
  }
  const Expr &rhs = expr.operands[1];
  if (!agree(lhs, rhs))
    return fail("operands of " + expr.name);
  const Element element =
      lhs.kind == ExprKind::Number ? rhs.type.element : lhs.type.element;
  const bool isLogic = expr.name == "and" || expr.name == "or";
  if (isLogic != (element == Element::Bool))
    return fail("operands of " + expr.name);
  expr.type = {comparisons.contains(expr.name) ? Element::Bool : element,
               unite(lhs.type.dims, rhs.type.dims)};
  return true;
}

bool Checker::checkCall(Expr &expr) {
  const Expr &first = expr.operands[0];
  const std::string &name = expr.name;
  if (name == "where") {
    const Expr &a = expr.operands[1], &b = expr.operands[2];
    if (first.type.element != Element::Bool || !agree(a, b))
      return fail("where");
    expr.type = {a.kind == ExprKind::Number ? b.type.element : a.type.element,
                 unite(first.type.dims, unite(a.type.dims, b.type.dims))};
    return true;
  }
  if (name == "maximum" || name == "minimum") {
    const Expr &b = expr.operands[1];
    if (!agree(first, b) || first.type.element == Element::Bool)
      return fail(name);
    expr.type = {first.kind == ExprKind::Number ? b.type.element
                                                : first.type.element,
                 unite(first.type.dims, b.type.dims)};
    return true;
  }
  expr.type = first.type;
  if (name == "f32" || name == "i32") {
    expr.type.element = name == "f32" ? Element::F32 : Element::I32;
    return (name == "f32" || first.type.element == Element::Bool) ||
           fail("conversion that rounds");
  }
  if (first.kind == ExprKind::Number)
    return fail(name + " of a number");
  if (name == "abs" || name == "stop_gradient")
    return first.type.element != Element::Bool || fail(name);
  return first.type.element == Element::F32 || fail(name);
}

bool Checker::checkReduce(Expr &expr) {
  Dims dims;
  for (const Expr &operand : expr.operands) {
    if (operand.kind == ExprKind::Number)
      return fail("a reduction of a number");
    dims = unite(dims, operand.type.dims);
  }
  for (DimId dim : expr.dims)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end())
      return fail("over a dim that is not there");
  if (expr.dims.empty())
    return fail("over nothing");
  const std::string &name = expr.name;
  const Element element = expr.operands[0].type.element;
  if (name == "cross_entropy") {
    const Type &label = expr.operands[1].type;
    expr.type = {Element::F32, without(dims, expr.dims)};
    return (element == Element::F32 && label.element == Element::I32 &&
            expr.dims.size() == 1 && !label.has(expr.dims[0]) &&
            expr.operands[0].type.has(expr.dims[0])) ||
           fail(name);
  }
  for (const Expr &operand : expr.operands)
    if (operand.type.element != element || element == Element::Bool)
      return fail(name);
  const bool keepsDims = name == "softmax" || name == "log_softmax";
  const bool isPosition = name == "argmax" || name == "argmin";
  if (isPosition && expr.dims.size() != 1)
    return fail(name);
  const bool needsFloats = expr.kind == ExprKind::Einsum || name == "mean" ||
                           name == "norm" || keepsDims;
  if (needsFloats && element != Element::F32)
    return fail(name);
  // What an einsum multiplies.
  if (expr.kind == ExprKind::Einsum && countElements(*tree, dims) > 20000)
    return fail("too large");
  expr.type = {isPosition ? Element::I32 : element,
               keepsDims ? dims : without(dims, expr.dims)};
  return true;
}

bool Checker::addLeaf(const std::string &name, Type type, LeafKind kind,
                      bool isPositive) {
  for (const auto &[dim, position] : loops)
    if (type.has(dim))
      return fail("a variable has the dim of a loop");
  const Place &place = frame.place;
  const size_t numOwn = type.dims.size();
  type.dims = unite(type.dims, place.loops);
  if (type.dims.size() != numOwn + place.loops.size())
    return fail("a variable has the dim of a loop");
  auto known = std::ranges::find(leaves, place.path + name, &Leaf::name);
  if (frame.isShared)
    return (known != leaves.end() && known->type == type &&
            known->kind == kind) ||
           fail("a shared variable of another type");
  if (known != leaves.end())
    return fail("a variable of this name");
  if (countElements(*tree, type.dims) > maxElements)
    return fail("too large");
  // Integers are small, as those of inputs are.
  leaves.push_back({place.path + name, type, kind, 4, isPositive});
  return checkVisible(type.dims);
}

bool Checker::checkLayer(Expr &expr) {
  const LayerArguments &layer = expr.layer;
  const Type &x = expr.operands[0].type;
  if (x.element != Element::F32)
    return fail("a layer of integers");
  auto hasAll = [&](const Dims &dims) {
    return std::all_of(dims.begin(), dims.end(),
                       [&](DimId dim) { return x.has(dim); });
  };
  auto hasAny = [&](const Dims &dims) {
    return std::any_of(dims.begin(), dims.end(),
                       [&](DimId dim) { return x.has(dim); });
  };
  auto addVariable = [&](const std::string &name, const Dims &dims,
                         LeafKind kind, bool isPositive = false) {
    const Dims set = unite({}, dims);
    return (set.size() == dims.size() || fail("a dim twice")) &&
           addLeaf(layer.scope + "/" + name, {Element::F32, set}, kind,
                   isPositive);
  };
  auto addWeight = [&](const std::string &name, const Dims &dims) {
    return addVariable(name, dims, LeafKind::Parameter);
  };
  auto concat = [](Dims a, const Dims &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  if (!hasAll(layer.over) || !hasAll(layer.from) || !hasAll(layer.each) ||
      hasAny(layer.to) || hasAny(layer.window))
    return fail("dims of a layer");
  if (expr.name != "conv" && !layer.each.empty())
    return fail("each of another layer than conv");
  if (expr.name == "dense") {
    expr.type = {Element::F32, unite(without(x.dims, layer.from), layer.to)};
    return addWeight("weight", concat(layer.from, layer.to)) &&
           addWeight("bias", layer.to);
  }
  if (expr.name == "layer_norm" || expr.name == "batch_norm") {
    expr.type = x;
    if (!addWeight("gain", layer.over) || !addWeight("bias", layer.over))
      return false;
    if (expr.name == "layer_norm")
      return true;
    if (without(x.dims, layer.over).empty())
      return fail("a mean over no dims");
    return addVariable("centre", layer.over, LeafKind::State) &&
           addVariable("spread", layer.over, LeafKind::State, true);
  }
  // What the window sees has to be within, as for any index.
  Expr seen = make(ExprKind::Index, "", {expr.operands[0]});
  for (size_t i = 0; i < layer.over.size(); ++i) {
    const Expr at = positionOf(layer.at[i]),
               window = positionOf(layer.window[i]);
    const int64_t width = size(layer.window[i]);
    const Expr position =
        expr.name == "grow"
            ? binary("/", binary("-", at, window), number(double(width)))
            : binary(
                  "+", binary("*", number(double(layer.stride)), at),
                  binary("*", number(double(layer.dilation)),
                         binary("-", window, number(double((width - 1) / 2)))));
    seen.parts.push_back({{layer.over[i]}, position});
  }
  seen.otherwise = 0;
  const bool isPool = expr.name == "max_pool" || expr.name == "mean_pool";
  Checker inner(*this);
  if (!inner.checkIndex(seen))
    return fail(inner.reason);
  const Dims all = unite(seen.type.dims, layer.to);
  if (countElements(*tree, all) > 20000)
    return fail("too large");
  for (DimId dim : layer.at)
    if (x.has(dim) && std::find(layer.over.begin(), layer.over.end(), dim) ==
                          layer.over.end())
      return fail("a layer's result has a dim twice");
  expr.type = {Element::F32, without(seen.type.dims, layer.window)};
  if (isPool)
    return true;
  expr.type.dims = unite(without(expr.type.dims, layer.from), layer.to);
  return addWeight("weight", concat(concat(layer.each, layer.window),
                                    concat(layer.from, layer.to)));
}
