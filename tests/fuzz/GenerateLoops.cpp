// Loops: what they carry, sum and stack.

#include "tests/fuzz/Generator.h"

using namespace meshc::fuzz;

/// Chooses values that the block will rebind, and makes those that there are
/// not.
Generator::Roles Generator::makeRoles(Body &body, DimId dim) {
  Roles roles;
  auto isTaken = [&](const std::string &name) {
    for (const auto *names : {&roles.carried, &roles.summed, &roles.stacked})
      if (std::find(names->begin(), names->end(), name) != names->end())
        return true;
    return false;
  };
  // Those of blocks further out are carried by the loops between, too.
  const size_t level = checker->getLoops().size();
  auto mayRebind = [&](const Variable &v) {
    return !v.isPosition && (v.depth == level || flip(3)) &&
           (v.type.element == Element::F32 ||
            (v.type.element == Element::I32 && allows("integer-loop")));
  };
  const bool isMap = allows("map") && (flip(3) || !allows("carried"));
  for (int64_t i = 0; i < (isMap ? 0 : 1 + pick(2)); ++i)
    if (auto name = pickVariable([&](const Variable &v) {
          return mayRebind(v) && !v.type.has(dim);
        }))
      if (!isTaken(*name))
        roles.carried.push_back(*name);
  if (allows("summed"))
    for (int64_t i = 0; i < pick(3); ++i) {
      if (flip()) {
        Statement zero;
        zero.name = makeName("s");
        zero.value = number(flip() ? 0 : 0.5);
        if (add(body, zero, 0.5))
          roles.summed.push_back(zero.name);
        continue;
      }
      auto name = pickVariable(
          [&](const Variable &v) { return mayRebind(v) && !v.type.has(dim); });
      if (name && !isTaken(*name))
        roles.summed.push_back(*name);
    }
  if (!allows("stacked"))
    return roles;
  for (int64_t i = 0; i < 1 + pick(2); ++i) {
    auto name = pickVariable([&](const Variable &v) {
      return mayRebind(v) && v.type.has(dim) && v.type.dims.size() <= 3;
    });
    if (name && !isTaken(*name)) {
      roles.stacked.push_back(*name);
      continue;
    }
    Dims dims = {dim};
    if (auto other = pickOtherDim(dims))
      dims.push_back(*other);
    if (bind(body,
             make(ExprKind::Broadcast, "", {call("f32", {number(0)})}, dims)))
      roles.stacked.push_back(order.back());
  }
  return roles;
}

void Generator::addLoop(Body &body) {
  auto dim = pickOtherDim({});
  if (!dim)
    return;
  // All of it is taken back if the whole is illegal after all.
  const Checker before(*checker);
  const std::vector<std::string> orderBefore = order, hiddenBefore = hidden;
  const size_t numFunctions = tree.functions.size();
  Body all;
  const Roles roles = makeRoles(all, *dim);
  Statement loop;
  loop.kind = StatementKind::For;
  loop.dim = *dim;
  loop.position = makeName("r");
  const bool isEmpty =
      roles.carried.empty() && roles.summed.empty() && roles.stacked.empty();
  bool isLegal = !isEmpty && checker->enter(*dim, loop.position);
  if (isLegal) {
    order.push_back(loop.position);
    fillLoop(loop, roles);
    isLegal = checker->leave(loop);
  }
  hidden = hiddenBefore;
  if (!isLegal) {
    *checker = before;
    order = orderBefore;
    tree.functions.resize(numFunctions);
    return;
  }
  std::erase_if(order, [&](const std::string &name) {
    return !checker->getVariables().contains(name);
  });
  for (const auto *names : {&roles.carried, &roles.summed, &roles.stacked})
    for (const std::string &name : *names) {
      // The newest values are those that the loop has made.
      std::erase(order, name);
      order.push_back(name);
    }
  all.push_back(std::move(loop));
  for (Statement &statement : all)
    body.push_back(std::move(statement));
}

/// Slices, parameters and others; at the end what the names become.
void Generator::fillLoop(Statement &loop, const Roles &roles) {
  ++depth;
  for (const std::string &name : roles.carried) {
    Variable &variable = checker->getVariable(name);
    variable.magnitude = std::max(1.0, variable.magnitude);
    std::erase(order, name);
    order.push_back(name);
  }
  for (const std::string &name : roles.summed)
    hidden.push_back(name);
  // Of what is stacked the block may read the slice at the position.
  for (const std::string &name : roles.stacked) {
    if (flip() && allows("loop-slice")) {
      Expr slice = make(ExprKind::Index, "", {nameOf(name)});
      slice.parts.push_back({{loop.dim}, nameOf(loop.position)});
      bind(loop.body, std::move(slice));
    }
    hidden.push_back(name);
  }
  if (flip() && allows("loop-parameter"))
    addParameter(loop.body);
  for (int64_t i = 0; i < pick(3); ++i)
    if (auto slice = makeSlice())
      bind(loop.body, std::move(*slice));
  addStatements(loop.body, int(1 + pick(3)));
  update(loop.body, loop, roles);
  --depth;
}

/// Integers of this type; positions of loops are among them.
std::optional<Expr> Generator::makeIntegersLike(const Type &type) {
  auto name = pickVariable([&](const Variable &v) {
    return v.type.element == Element::I32 &&
           without(v.type.dims, type.dims).empty();
  });
  if (!name)
    return std::nullopt;
  const Dims missing = without(type.dims, getDims(*name));
  Expr value = nameOf(*name);
  if (flip())
    value =
        binary(flip() ? "+" : "-", std::move(value), number(double(pick(4))));
  return missing.empty()
             ? value
             : make(ExprKind::Broadcast, "", {std::move(value)}, missing);
}

/// A value of this type, of what can be read here.
std::optional<Expr> Generator::makeLike(const Type &type) {
  if (type.element == Element::I32)
    return makeIntegersLike(type);
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto name = pickVariable([&](const Variable &v) {
      if (v.type.element != Element::F32)
        return false;
      for (const auto &[dim, position] : checker->getLoops())
        if (v.type.has(dim))
          return false;
      return true;
    });
    if (!name)
      return std::nullopt;
    const Dims &dims = getDims(*name);
    const Dims more = without(dims, type.dims),
               missing = without(type.dims, dims);
    Expr value = nameOf(*name);
    if (!more.empty())
      value = flip() ? make(ExprKind::Reduce, flip() ? "mean" : "sum",
                            {std::move(value)}, more)
                     : make(ExprKind::Reduce, "max", {std::move(value)}, more);
    if (!missing.empty())
      value = make(ExprKind::Broadcast, "", {std::move(value)}, missing);
    return value;
  }
  return std::nullopt;
}

void Generator::update(Body &body, const Statement &loop, const Roles &roles) {
  // Terms first, then what is carried: an order as any other.
  auto addUpdate = [&](StatementKind kind, const std::string &name, Expr value,
                       double magnitude) {
    Statement statement;
    statement.kind = kind;
    statement.name = name;
    statement.value = std::move(value);
    statement.dim = loop.dim;
    statement.position = loop.position;
    Checker trial(*checker);
    if (!trial.apply(statement))
      return;
    if (allows("training") && get(name).isState && flip(4))
      return addWhenTraining(body, std::move(statement));
    *checker = std::move(trial);
    checker->getVariable(name).magnitude = magnitude;
    body.push_back(allows("branch") && flip(8) ? wrap(std::move(statement))
                                               : std::move(statement));
  };
  auto bound = [&](Expr value, double limit) {
    Checker trial(*checker);
    if (!trial.check(value) || value.type.element != Element::F32)
      return value;
    return getMagnitude(value) > limit ? call("tanh", {std::move(value)})
                                       : value;
  };
  auto getSlice = [&](const std::string &name) {
    Type type = get(name).type;
    type.dims = without(type.dims, {loop.dim});
    return type;
  };
  for (const std::string &name : roles.summed) {
    Type type = get(name).type;
    if (get(name).isNumber && flip())
      if (auto other = pickOtherDim({}))
        type.dims = {*other};
    if (auto term = makeLike(type)) {
      const double before = get(name).magnitude;
      addUpdate(StatementKind::Add, name, bound(std::move(*term), 1),
                before + double(size(loop.dim)));
    }
  }
  for (const std::string &name : roles.carried)
    if (auto value = makeLike(get(name).type)) {
      const double limit = get(name).magnitude;
      Expr next =
          flip() ? std::move(*value)
                 : binary(flip() ? "+" : "*", nameOf(name), std::move(*value));
      addUpdate(StatementKind::Assign, name, bound(std::move(next), limit),
                limit);
    }
  for (const std::string &name : roles.stacked)
    if (auto value = makeLike(getSlice(name)))
      addUpdate(StatementKind::Place, name, bound(std::move(*value), 6), 6);
}
