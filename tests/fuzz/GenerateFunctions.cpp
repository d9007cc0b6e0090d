// Functions, calls that share parameters, and dims that functions make.

#include "tests/fuzz/Generator.h"

#include <cmath>

using namespace meshc::fuzz;

/// A function of what can be read here, and a call of it.
void Generator::addFunction(Body &body) {
  const Checker before(*checker);
  const std::vector<std::string> orderBefore = order, hiddenBefore = hidden;
  const std::string functionBefore = function;
  const size_t numFunctions = tree.functions.size();
  Function made;
  made.name = makeName("g");
  Statement use;
  use.kind = StatementKind::Call;
  use.value = make(ExprKind::Function, made.name, {});
  use.value.layer.scope = flip(3) ? made.name : makeName("l");
  Limits most;
  for (int64_t i = 0; i < 1 + pick(3); ++i) {
    auto name = flip(4) ? pickVariable([](const Variable &v) {
      return v.type.element != Element::F32 && !v.isPosition;
    })
                        : pickFloat();
    if (!name)
      continue;
    Expr argument = makeOperand(*name);
    if (!checker->check(argument))
      continue;
    most.types.push_back(argument.type);
    most.arguments.push_back(getMagnitude(argument));
    most.argumentBounds.push_back(getBound(argument));
    made.parameters.push_back(makeName("q"));
    use.value.operands.push_back(std::move(argument));
  }
  if (made.parameters.empty() ||
      !checker->enterCall(made, most.types, use.value.layer))
    return;
  order = made.parameters;
  hidden.clear();
  function = made.name;
  for (size_t i = 0; i < made.parameters.size(); ++i) {
    checker->getVariable(made.parameters[i]).magnitude = most.arguments[i];
    if (most.argumentBounds[i] > 0)
      bounds[made.parameters[i]] = most.argumentBounds[i];
  }
  fillFunction(made, most);
  *checker = before;
  order = orderBefore;
  hidden = hiddenBefore;
  function = functionBefore;
  for (size_t i = 0; i < made.results.size(); ++i)
    use.names.push_back(makeName("v"));
  tree.functions.push_back(made);
  limits[made.name] = most;
  if (made.results.empty() || !addUse(body, std::move(use)))
    tree.functions.resize(numFunctions);
  else if (flip())
    addCall(body);
}

/// Statements, and values that have no dim of the function's.
void Generator::fillFunction(Function &made, Limits &most) {
  if (allows("own-dim") && flip(3))
    addOwnDim(made.body);
  if (flip())
    addParameter(made.body);
  if (flip(4) && allows("state"))
    addState(made.body);
  addStatements(made.body, int(1 + pick(2)));
  std::vector<std::string> taken;
  for (int64_t i = 0; i < 1 + pick(3); ++i) {
    auto name = pickVariable([&](const Variable &v) {
      return !v.isPosition && std::ranges::all_of(v.type.dims, [&](DimId dim) {
        return tree.dims[size_t(dim)].function.empty();
      });
    });
    if (!name || std::ranges::find(taken, *name) != taken.end())
      continue;
    taken.push_back(*name);
    Expr result = makeOperand(*name);
    if (!checker->check(result))
      continue;
    const bool hasOwnDim = std::ranges::any_of(result.type.dims, [&](DimId d) {
      return !tree.dims[size_t(d)].function.empty();
    });
    if (hasOwnDim)
      continue;
    most.values.push_back(getMagnitude(result));
    most.valueBounds.push_back(getBound(result));
    made.results.push_back(std::move(result));
  }
}

bool Generator::addUse(Body &body, Statement use) {
  Checker trial(*checker);
  if (!trial.apply(use))
    return false;
  *checker = std::move(trial);
  const Limits &most = limits.at(use.value.name);
  for (size_t i = 0; i < use.names.size(); ++i) {
    checker->getVariable(use.names[i]).magnitude =
        std::max(most.values[i], 1e-3);
    if (most.valueBounds[i] > 0)
      bounds[use.names[i]] = most.valueBounds[i];
    order.push_back(use.names[i]);
  }
  body.push_back(std::move(use));
  return true;
}

/// One more call of a function, with parameters of its own or those of an
/// earlier call.
bool Generator::addCall(Body &body) {
  if (tree.functions.empty())
    return false;
  const Function &called =
      flip() ? tree.functions.back() : pickFrom(tree.functions);
  const Limits &most = limits.at(called.name);
  Statement use;
  use.kind = StatementKind::Call;
  use.value = make(ExprKind::Function, called.name, {});
  for (size_t i = 0; i < called.parameters.size(); ++i) {
    const Type &type = most.types[i];
    const bool isAny = flip(4);
    auto name = pickVariable([&](const Variable &v) {
      return v.type.element == type.element && !v.isPosition &&
             (isAny || v.type == type);
    });
    if (!name)
      return false;
    Expr argument = nameOf(*name);
    const int64_t bound = getBound(argument), limit = most.argumentBounds[i];
    if (bound > limit || (bound == 0) != (limit == 0))
      return false;
    if (type.element == Element::F32 &&
        getMagnitude(argument) > most.arguments[i])
      argument = binary("*", call("tanh", {std::move(argument)}),
                        number(std::exp2(std::floor(std::log2(
                            std::clamp(most.arguments[i], 1e-6, 1.0))))));
    use.value.operands.push_back(std::move(argument));
  }
  const std::vector<std::string> calls = checker->getCalls(called.name);
  if (!calls.empty() && allows("with") && (isInTraining || !flip(3)))
    use.value.layer.with = pickFrom(calls);
  else if (isInTraining) // which has no variables of its own
    return false;
  use.value.layer.scope = makeName("l");
  for (size_t i = 0; i < called.results.size(); ++i)
    use.names.push_back(makeName("v"));
  return addUse(body, std::move(use));
}

/// A dim of the function's own; a value and a parameter that have it.
void Generator::addOwnDim(Body &body) {
  auto of = pickOtherDim({});
  auto name = pickFloatWithDims();
  if (!of || !name)
    return;
  Expr places = positionOf(*of);
  switch (pick(4)) {
  case 0:
    places = binary("*", number(2), std::move(places));
    break;
  case 1:
    places = binary("+", std::move(places), number(double(1 + pick(2))));
    break;
  case 2:
    places = call("floor", {binary("/", std::move(places), number(2))});
    break;
  default:
    break;
  }
  const int64_t extent = evaluateSize(tree, places);
  if (extent == 0 || extent > 10)
    return;
  const auto own = DimId(tree.dims.size());
  Statement dim;
  dim.kind = StatementKind::Dim;
  dim.name = makeName("h");
  dim.dim = own;
  dim.value = std::move(places);
  tree.dims.push_back({dim.name, extent, -1, function});
  if (!checker->apply(dim))
    return;
  body.push_back(std::move(dim));
  const DimId read = pickFrom(getDims(*name));
  Expr view = make(ExprKind::Index, "", {nameOf(*name)});
  Expr place = binary("+", positionOf(own), number(double(pick(3))));
  if (flip())
    view.parts.push_back(
        {{read}, binary("%", place, make(ExprKind::Size, "", {}, {read}))});
  else
    view.parts.push_back({{read}, std::move(place)}), view.otherwise = 0;
  bind(body, std::move(view));
  Statement parameter;
  parameter.kind = StatementKind::Param;
  parameter.name = makeName("p");
  parameter.type = {Element::F32, {own}};
  if (auto other = pickOtherDim({own}))
    parameter.type.dims = unite({own}, {*other});
  if (flip(3) && allows("initial")) {
    parameter.isComputed = true;
    parameter.value = makeInitial(parameter.type);
  }
  add(body, std::move(parameter), 1);
}
