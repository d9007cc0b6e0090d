// State, and what the training step alone does.

#include "tests/fuzz/Generator.h"

#include <cmath>

using namespace meshc::fuzz;

//===-- State -------------------------------------------------------------===//

Expr Generator::makeInitialOf(const Type &type) {
  if (type.element == Element::F32 && !type.dims.empty())
    return makeInitial(type);
  if (type.dims.empty() || flip())
    return number(double(pick(2)));
  const DimId dim = pickFrom(type.dims);
  const Expr place = make(ExprKind::Iota, "", {}, {dim});
  return type.element == Element::I32
             ? binary("*", place, number(double(1 + pick(2))))
             : binary("<", place,
                      flip() ? number(double(pick(3)))
                             : make(ExprKind::Iota, "", {},
                                    {pickFrom(type.dims)}));
}

/// Read and set by statements of any kind, and at the end, which may be in the
/// training step alone, or never.
void Generator::addState(Body &body) {
  static constexpr Element elements[] = {Element::F32, Element::F32,
                                         Element::F32, Element::F32,
                                         Element::I32, Element::Bool};
  Dims dims = declared;
  for (const auto &[dim, position] : checker->getLoops())
    std::erase(dims, dim);
  std::shuffle(dims.begin(), dims.end(), random);
  dims.resize(std::min(dims.size(), size_t(pick(4))));
  Statement state;
  state.kind = StatementKind::State;
  state.name = makeName("z");
  state.type = {elements[pick(6)], unite({}, dims)};
  if (flip(3) && allows("initial")) {
    state.isComputed = true;
    state.value = makeInitialOf(state.type);
  }
  const std::string name = state.name;
  if (!add(body, std::move(state), 1))
    return;
  addStatements(body, int(pick(3)));
  if (flip(6))
    return;
  if (allows("training") && flip())
    addTraining(body, name);
  else if (auto set = makeSetting(name, false))
    addRebinding(body, std::move(*set), 1);
  addStatements(body, int(pick(2)));
}

/// A value of integers or truths, of what can be read here and what there was.
std::optional<Expr> Generator::makeNextOf(const std::string &name) {
  const Type type = get(name).type;
  if (type.element == Element::I32)
    return flip() ? binary("+", nameOf(name), number(double(1 + pick(3))))
                  : makeIntegersLike(type);
  auto truth = pickVariable([&](const Variable &v) {
    return v.type.element == Element::Bool &&
           without(v.type.dims, type.dims).empty();
  });
  if (truth && flip())
    return binary(flip() ? "and" : "or", nameOf(name),
                  make(ExprKind::Operator, "not", {nameOf(*truth)}));
  auto x = makeLike({Element::F32, type.dims});
  return x ? std::optional(binary(flip() ? "<" : ">=", std::move(*x),
                                  number(pickNumber())))
           : std::nullopt;
}

/// NAME = ..., within [-1, 1].
std::optional<Statement> Generator::makeSetting(const std::string &name,
                                                bool isTraining) {
  Statement set;
  set.kind = StatementKind::Assign;
  set.name = name;
  set.type = get(name).type;
  if (set.type.element != Element::F32) {
    auto next = makeNextOf(name);
    if (next)
      set.value = std::move(*next);
    return next ? std::optional(set) : std::nullopt;
  }
  if (!isTraining && flip(8)) {
    set.value = number(std::clamp(pickNumber(), -1.0, 1.0));
    return set;
  }
  std::optional<Expr> now = makeLike(set.type);
  if (!set.type.dims.empty() && allows("draw") && flip(6)) {
    now = make(ExprKind::Random, "uniform", {}, set.type.dims);
    now->second = 1;
  }
  if (!now)
    return std::nullopt;
  Checker trial(*checker);
  if (!trial.check(*now))
    return std::nullopt;
  if (getMagnitude(*now) > 1)
    now = call("tanh", {std::move(*now)});
  if (flip())
    now = call("stop_gradient", {std::move(*now)});
  // A running mean, or what is there now.
  set.value = flip(3) ? std::move(*now)
                      : binary("+", binary("*", number(0.75), nameOf(name)),
                               binary("*", number(0.25), std::move(*now)));
  return set;
}

//===-- The training step -------------------------------------------------===//

/// if training { ... }, which sets a state or gives another value a new one.
/// What is read behind it is of evaluation here: its types are the same.
void Generator::addTraining(Body &body, const std::string &state) {
  const Checker before(*checker);
  const std::vector<std::string> orderBefore = order, hiddenBefore = hidden;
  Statement branch;
  branch.kind = StatementKind::If;
  branch.value = nameOf("training");
  isInTraining = true;
  checker->enterBranch();
  addStatements(branch.body, int(pick(3)));
  std::optional<Statement> set;
  if (!state.empty())
    set = makeSetting(state, true);
  else if (auto rebound = pickRebindable())
    set = makeRebinding(*rebound);
  const std::string name = set ? set->name : "";
  const bool isSet = set && addRebinding(branch.body, std::move(*set), 1);
  isInTraining = false;
  *checker = before;
  order = orderBefore;
  hidden = hiddenBefore;
  if (!isSet)
    return;
  if (state.empty() && allows("branch") && flip(3)) {
    checker->enterBranch();
    if (auto other = makeRebinding(name))
      branch.otherwise.push_back(std::move(*other));
    *checker = before;
  }
  Checker trial(*checker);
  if (!trial.apply(branch))
    return;
  *checker = std::move(trial);
  body.push_back(std::move(branch));
}

void Generator::addWhenTraining(Body &body, Statement statement) {
  Statement branch;
  branch.kind = StatementKind::If;
  branch.value = nameOf("training");
  branch.body.push_back(std::move(statement));
  Checker trial(*checker);
  if (trial.apply(branch))
    body.push_back(std::move(branch));
}

/// A value that a branch here may rebind, of floats.
std::optional<std::string> Generator::pickRebindable() {
  return pickVariable([&](const Variable &v) {
    return v.depth == checker->getLoops().size() &&
           v.block < checker->getNumBlocks() && !v.isPosition &&
           v.type.element == Element::F32 && v.magnitude >= 1;
  });
}

/// NAME = ... of its type, within [-1, 1].
std::optional<Statement> Generator::makeRebinding(const std::string &name) {
  auto value = makeLike(get(name).type);
  if (!value)
    return std::nullopt;
  Statement set;
  set.kind = StatementKind::Assign;
  set.name = name;
  set.value = call("tanh", {std::move(*value)});
  return set;
}
