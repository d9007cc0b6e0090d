// Branches that the compiler decides, types that a `let` says, and what
// parameters begin as.

#include "tests/fuzz/Generator.h"

#include <cmath>

using namespace meshc::fuzz;

//===-- Branches ----------------------------------------------------------===//

Expr Generator::makeComparison() {
  static const std::vector<std::string> operators = {"<",  "<=", ">",
                                                     ">=", "==", "!="};
  const Expr dim = positionOf(pickFrom(declared));
  Expr first = dim;
  switch (pick(3)) {
  case 0:
    first = binary("*", number(2), dim);
    break;
  case 1:
    first = make(ExprKind::Size, "", {}, dim.dims);
    break;
  default:
    break;
  }
  return binary(pickFrom(operators), std::move(first),
                flip() ? number(double(1 + pick(7)))
                       : positionOf(pickFrom(declared)));
}

Expr Generator::makeCondition() {
  switch (pick(8)) {
  case 0:
    return nameOf(flip() ? "true" : "false");
  case 1:
    return make(ExprKind::Operator, "not", {makeComparison()});
  case 2:
    return binary(flip() ? "and" : "or", makeComparison(), makeComparison());
  default:
    return makeComparison();
  }
}

Generator::Body Generator::makeDead() {
  Body body;
  for (int64_t i = 0; i < 1 + pick(2); ++i) {
    auto name = pickVariable([](const Variable &v) {
      return v.type.element == Element::F32 && !v.isNumber;
    });
    Statement dead;
    dead.name = makeName("d");
    dead.value = name ? nameOf(*name) : nameOf("nowhere");
    switch (pick(7)) {
    case 0:
      dead.value = binary("+", std::move(dead.value), nameOf("nowhere"));
      break;
    case 1:
      dead.value = call("nothing", {std::move(dead.value)});
      break;
    case 2:
      dead.kind = StatementKind::Param;
      dead.type = {Element::F32, {pickFrom(declared)}};
      break;
    case 3: {
      Expr outside = make(ExprKind::Index, "", {std::move(dead.value)});
      outside.parts.push_back({{pickFrom(declared)}, number(99)});
      dead.value = std::move(outside);
      break;
    }
    case 4:
      if (name) {
        dead.kind = StatementKind::Add;
        dead.name = *name;
      }
      break;
    default:
      // What the oracle would see, and loops would carry.
      if (name) {
        dead.kind = StatementKind::Assign;
        dead.name = *name;
        dead.value = binary("*", std::move(dead.value), number(1000));
      }
    }
    if (flip(4)) {
      Statement loop;
      loop.kind = StatementKind::For;
      loop.position = makeName("r");
      loop.dim = pickFrom(declared);
      loop.body.push_back(std::move(dead));
      dead = std::move(loop);
    }
    body.push_back(std::move(dead));
  }
  return body;
}

Statement Generator::wrap(Statement live) {
  Statement branch;
  branch.kind = StatementKind::If;
  branch.value = makeCondition();
  Body body, dead = makeDead();
  body.push_back(std::move(live));
  const bool holds = evaluateCondition(tree, branch.value);
  branch.body = holds ? std::move(body) : dead;
  if (!holds)
    branch.otherwise = std::move(body);
  else if (flip())
    branch.otherwise = std::move(dead);
  return branch;
}

bool Generator::addRebinding(Body &body, Statement statement,
                             double magnitude) {
  Checker trial(*checker);
  if (!trial.apply(statement))
    return false;
  *checker = std::move(trial);
  checker->getVariable(statement.name).magnitude = magnitude;
  std::erase(order, statement.name);
  order.push_back(statement.name);
  body.push_back(std::move(statement));
  return true;
}

/// What was bound outside of the branch, but not of the loop around.
void Generator::rebindInBranch(Body &body) {
  auto name = pickVariable([&](const Variable &v) {
    return v.depth == checker->getLoops().size() &&
           v.block < checker->getNumBlocks() && v.type.element == Element::F32;
  });
  auto other = pickFloat();
  if (!name || !other)
    return;
  Statement statement;
  statement.kind = flip(3) ? StatementKind::Add : StatementKind::Assign;
  statement.name = *name;
  std::optional<Expr> value = nameOf(*other);
  // Also one of another type.
  if (flip())
    value = makeLike(get(*name).type);
  if (!value)
    return;
  statement.value = call("tanh", {std::move(*value)});
  const double before = get(*name).magnitude;
  addRebinding(body, statement,
               statement.kind == StatementKind::Add ? before + 1 : 1);
}

void Generator::addBranch(Body &body) {
  const std::vector<std::string> hiddenBefore = hidden;
  Statement branch;
  branch.kind = StatementKind::If;
  branch.value = makeCondition();
  Body live, dead = makeDead();
  checker->enterBranch();
  addStatements(live, int(pick(2)));
  if (flip(3) && allows("loop-parameter"))
    addParameter(live);
  rebindInBranch(live);
  checker->leaveBranch();
  hidden = hiddenBefore;
  std::erase_if(order, [&](const std::string &name) {
    return !checker->getVariables().contains(name);
  });
  const bool holds = evaluateCondition(tree, branch.value);
  branch.body = holds ? std::move(live) : dead;
  if (!holds)
    branch.otherwise = std::move(live);
  else if (flip())
    branch.otherwise = std::move(dead);
  body.push_back(std::move(branch));
}

/// if training { x = dropout(x) }
void Generator::addDropout(Body &body) {
  auto name = pickVariable([&](const Variable &v) {
    return v.depth == checker->getLoops().size() &&
           v.type.element == Element::F32 && !v.type.dims.empty();
  });
  if (!name)
    return;
  Expr draw = make(ExprKind::Random, "uniform", {}, getDims(*name));
  draw.second = 1;
  Statement masked;
  masked.kind = StatementKind::Assign;
  masked.name = *name;
  masked.value = call("where", {binary("<", std::move(draw), number(0.25)),
                                number(0), nameOf(*name)});
  addWhenTraining(body, std::move(masked));
}

//===-- Types -------------------------------------------------------------===//

bool Generator::addTyped(Body &body) {
  Statement let;
  let.name = makeName("v");
  double magnitude = 1;
  if (flip()) {
    static constexpr Element elements[] = {Element::F32, Element::F32,
                                           Element::I32, Element::Bool};
    let.form = TypeForm::Exact;
    let.type.element = elements[pick(4)];
    Dims dims = declared;
    for (const auto &[dim, position] : checker->getLoops())
      std::erase(dims, dim);
    let.type.dims = pickSubset(dims, true);
    let.type.dims.resize(std::min(let.type.dims.size(), size_t(2)));
    let.value = number(let.type.element == Element::F32 ? pickNumber()
                                                        : double(pick(2)));
    magnitude = std::fabs(let.value.number);
  } else {
    auto value = flip() ? makeElementwise() : makeInteger();
    if (!value || !checker->check(*value))
      return false;
    magnitude = getMagnitude(*value);
    if (magnitude > 6)
      return false;
    let.type = value->type;
    let.form = TypeForm::Exact;
    if (!let.type.dims.empty() && flip())
      let.form = TypeForm::Dims;
    else if (!let.type.dims.empty() && flip()) {
      let.form = TypeForm::Open;
      let.type.dims = pickSubset(let.type.dims, false);
    }
    let.value = std::move(*value);
  }
  return add(body, std::move(let), magnitude);
}

//===-- Initial values ----------------------------------------------------===//

Expr Generator::makeInitialTerm(const Type &type) {
  Dims dims = type.dims;
  for (const auto &[dim, position] : checker->getLoops())
    if (flip())
      dims.push_back(dim);
  const DimId dim = pickFrom(dims);
  const Expr place = make(ExprKind::Iota, "", {}, {dim});
  auto toFloat = [](Expr x) { return call("f32", {std::move(x)}); };
  switch (pick(4)) {
  case 0:
    return binary("*", toFloat(place), number(0.125));
  case 1:
    return toFloat(binary("==", place,
                          flip()
                              ? make(ExprKind::Iota, "", {}, {pickFrom(dims)})
                              : number(double(pick(3)))));
  default:
    static const std::vector<std::string> names = {"uniform", "normal",
                                                   "truncated_normal"};
    Expr draw = make(ExprKind::Random, pickFrom(names), {});
    draw.hasDims = flip(3);
    draw.dims = {dim};
    draw.number = pickNumber() / 4;
    draw.second = draw.name == "uniform" ? draw.number + 1 : 0.5;
    return flip() ? call("tanh", {std::move(draw)})
                  : binary("*", number(0.5), std::move(draw));
  }
}

Expr Generator::makeInitial(const Type &type) {
  switch (pick(4)) {
  case 0:
    return number(pickNumber());
  case 1:
    return binary(flip() ? "+" : "*", makeInitialTerm(type),
                  makeInitialTerm(type));
  default:
    return makeInitialTerm(type);
  }
}
