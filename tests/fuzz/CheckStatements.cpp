// Statements, and what they bind.

#include "tests/fuzz/Check.h"
#include "tests/fuzz/Position.h"

#include <algorithm>

using namespace meshc::fuzz;

//===-- What the compiler decides -----------------------------------------===//

int64_t meshc::fuzz::evaluateSize(const Tree &tree, const Expr &size) {
  std::vector<int64_t> sizes;
  for (const Dim &dim : tree.dims)
    sizes.push_back(dim.size);
  const Fraction value =
      evaluatePosition(tree, size, 0, sizes, [](const Expr &) { return 0; });
  return value.isWhole() && value.get() > 0 ? value.get() : 0;
}

bool meshc::fuzz::isOfTraining(const Expr &condition) {
  return condition.kind == ExprKind::Name && condition.name == "training";
}

bool meshc::fuzz::evaluateCondition(const Tree &tree, const Expr &condition) {
  if (condition.kind == ExprKind::Name)
    return isOfTraining(condition) ? tree.isTraining : condition.name == "true";
  const std::string &op = condition.name;
  if (op == "not")
    return !evaluateCondition(tree, condition.operands[0]);
  if (op == "and" || op == "or") {
    const bool first = evaluateCondition(tree, condition.operands[0]),
               second = evaluateCondition(tree, condition.operands[1]);
    return op == "and" ? first && second : first || second;
  }
  std::vector<int64_t> sizes;
  for (const Dim &dim : tree.dims)
    sizes.push_back(dim.size);
  auto evaluate = [&](const Expr &expr) {
    return evaluatePosition(tree, expr, 0, sizes,
                            [](const Expr &) { return 0; });
  };
  const Fraction x = evaluate(condition.operands[0]),
                 y = evaluate(condition.operands[1]);
  const int64_t difference = x.over * y.under - y.over * x.under;
  return op == "<"    ? difference < 0
         : op == "<=" ? difference <= 0
         : op == ">"  ? difference > 0
         : op == ">=" ? difference >= 0
         : op == "==" ? difference == 0
                      : difference != 0;
}

static const std::vector<Statement> &getLive(const Tree &tree,
                                             const Statement &branch) {
  return evaluateCondition(tree, branch.value) ? branch.body : branch.otherwise;
}

std::vector<const Statement *>
meshc::fuzz::flatten(const Tree &tree, const std::vector<Statement> &body) {
  std::vector<const Statement *> all;
  for (const Statement &statement : body) {
    if (statement.kind != StatementKind::If) {
      all.push_back(&statement);
      continue;
    }
    for (const Statement *inner : flatten(tree, getLive(tree, statement)))
      all.push_back(inner);
  }
  return all;
}

//===-- Blocks ------------------------------------------------------------===//

bool Checker::enter(DimId dim, const std::string &position) {
  for (const auto &[known, name] : loops)
    if (known == dim)
      return fail("a loop within a loop over the same dim");
  if (!checkNew(position) || !checkVisible({dim}))
    return false;
  outer.push_back(frame);
  loops.push_back({dim, position});
  frame.place.path += position + "/";
  frame.place.loops.push_back(dim);
  bind(position, {Element::I32, {}});
  frame.variables[position].isPosition = true;
  return true;
}

/// Whether an expression reads `name`; `sliced`: but for x[dim = position].
static bool mentions(const Expr &expr, const std::string &name,
                     const Statement *sliced) {
  if (sliced && expr.kind == ExprKind::Index && expr.operands[0].name == name &&
      expr.operands[0].kind == ExprKind::Name)
    for (const Part &part : expr.parts)
      if (part.dims == Dims{sliced->dim} &&
          part.position.kind == ExprKind::Name &&
          part.position.name == sliced->position)
        return false;
  if (expr.kind == ExprKind::Name && expr.name == name)
    return true;
  for (const Expr &operand : expr.operands)
    if (mentions(operand, name, sliced))
      return true;
  for (const Part &part : expr.parts)
    if (mentions(part.position, name, sliced))
      return true;
  return false;
}

static bool mentions(const Tree &tree, const Statement &statement,
                     const std::string &name, const Statement *sliced) {
  if (mentions(statement.value, name, sliced))
    return true;
  if (statement.kind != StatementKind::For)
    return false;
  const auto inner = flatten(tree, statement.body);
  return std::ranges::any_of(inner, [&](const Statement *s) {
    return mentions(tree, *s, name, sliced);
  });
}

/// Whether a block gives `name` another value; in loops of it alone.
static bool rebinds(const Tree &tree, const std::vector<Statement> &body,
                    const std::string &name, StatementKind kind,
                    bool inLoops = false) {
  const auto all = flatten(tree, body);
  return std::ranges::any_of(all, [&](const Statement *s) {
    return (!inLoops && s->kind == kind && s->name == name) ||
           (s->kind == StatementKind::For &&
            rebinds(tree, s->body, name, kind));
  });
}

bool Checker::leave(const Statement &loop) {
  const Frame inside = std::move(frame);
  frame = std::move(outer.back());
  outer.pop_back();
  loops.pop_back();
  const std::vector<Statement> &body = loop.body;
  const auto all = flatten(*tree, body);
  for (auto &[name, variable] : frame.variables) {
    using enum StatementKind;
    const bool isAssigned = rebinds(*tree, body, name, Assign);
    const bool isAdded = rebinds(*tree, body, name, Add);
    const bool isPlaced = rebinds(*tree, body, name, Place);
    if (!isAssigned && !isAdded && !isPlaced)
      continue;
    if (variable.isPosition)
      return fail("the position of a loop is rebound");
    if (int(isAssigned) + int(isAdded) + int(isPlaced) > 1)
      return fail("a name is rebound in several ways");
    const bool isMentioned = std::ranges::any_of(all, [&](const Statement *s) {
      return mentions(*tree, *s, name, nullptr);
    });
    const bool isSum =
        isAdded && !isMentioned && !rebinds(*tree, body, name, Add, true);
    const bool isStacked = isPlaced && !rebinds(*tree, body, name, Place, true);
    const Type &after = inside.variables.at(name).type;
    if (isSum) {
      variable.type = after;
      variable.origin = Origin::Summed;
    } else if (after != variable.type || variable.isNumber) {
      return fail("a carried value changes its type");
    } else {
      variable.origin = isStacked ? Origin::Stacked : Origin::Carried;
    }
    variable.isNumber = false;
    if (!isStacked && variable.type.has(loop.dim))
      return fail("a carried value has the dim of the loop");
    if (!isStacked)
      continue;
    bool isSet = false;
    for (const Statement *statement : all) {
      if (mentions(*tree, *statement, name, isSet ? nullptr : &loop))
        return fail("a block reads what it sets");
      isSet |= statement->kind == Place && statement->name == name;
    }
  }
  return true;
}

/// What a branch rebinds stays.
void Checker::leaveBranch() {
  const Frame inside = std::move(frame);
  frame = std::move(outer.back());
  outer.pop_back();
  for (auto &[name, variable] : frame.variables)
    variable = inside.variables.at(name);
}

bool Checker::enterCall(const Function &function,
                        const std::vector<Type> &arguments,
                        const LayerArguments &scopes) {
  if (arguments.size() != function.parameters.size())
    return fail("arguments of " + function.name);
  Frame callee;
  callee.function = function.name;
  callee.place = frame.place;
  callee.place.path += scopes.scope + "/";
  callee.isShared = frame.isShared;
  if (!scopes.with.empty()) {
    auto known = frame.calls.find(scopes.with);
    if (known == frame.calls.end() || known->second.function != function.name)
      return fail("there is no call " + scopes.with);
    callee.place = known->second.place;
    callee.isShared = true;
  }
  if (!frame.calls.insert({scopes.scope, {function.name, callee.place}}).second)
    return fail("a scope is taken");
  outer.push_back(std::move(frame));
  frame = std::move(callee);
  for (size_t i = 0; i < arguments.size(); ++i)
    bind(function.parameters[i], arguments[i]);
  return true;
}

std::vector<std::string> Checker::getCalls(const std::string &function) const {
  std::vector<std::string> scopes;
  for (const auto &[scope, call] : frame.calls)
    if (call.function == function)
      scopes.push_back(scope);
  return scopes;
}

//===-- Statements --------------------------------------------------------===//

bool Checker::checkNew(const std::string &name) {
  return !frame.variables.contains(name) || fail("the name is taken");
}

/// Dims of functions are there in theirs alone, once they are made.
bool Checker::checkVisible(const Dims &dims) {
  return std::ranges::all_of(dims, [&](DimId dim) {
    return tree->dims[size_t(dim)].function.empty() ||
           std::ranges::find(frame.ownDims, dim) != frame.ownDims.end() ||
           fail("a dim of a function that is not there");
  });
}

void Checker::bind(const std::string &name, const Type &type, bool isNumber) {
  Variable variable;
  variable.type = type;
  variable.depth = loops.size();
  variable.block = outer.size();
  variable.isNumber = isNumber;
  frame.variables[name] = variable;
}

bool Checker::applyVariable(Statement &statement) {
  const Type &type = statement.type;
  if (!checkNew(statement.name) || !checkVisible(type.dims))
    return false;
  if (statement.isComputed) {
    isInitial = true;
    initialType = type;
    const bool isLegal = check(statement.value);
    isInitial = false;
    if (!isLegal)
      return false;
    const Type &value = statement.value.type;
    const bool isNumber = statement.value.kind == ExprKind::Number;
    if ((value.element != type.element && !isNumber) ||
        !without(value.dims, unite(type.dims, frame.place.loops)).empty())
      return fail("an initial value of another type");
  }
  const bool isState = statement.kind == StatementKind::State;
  if (!isState && type.element != Element::F32)
    return fail("a parameter of integers");
  if (!addLeaf(statement.name, type,
               isState ? LeafKind::State : LeafKind::Parameter))
    return false;
  bind(statement.name, type);
  getVariable(statement.name).isState = isState;
  return true;
}

/// A value whose type the statement says.
bool Checker::applyTyped(Statement &statement) {
  Expr &value = statement.value;
  const Type &type = statement.type;
  if (!checkVisible(type.dims))
    return false;
  if (value.kind == ExprKind::Number) {
    if (statement.form != TypeForm::Exact)
      return fail("a number of an open type");
    value.type = type;
    return countElements(*tree, type.dims) <= maxElements || fail("too large");
  }
  if (statement.form != TypeForm::Exact && type.dims.empty())
    return fail("a shape of no dims");
  const bool hasElement =
      statement.form == TypeForm::Dims || value.type.element == type.element;
  const bool hasDims = statement.form == TypeForm::Open
                           ? without(type.dims, value.type.dims).empty()
                           : type.dims == value.type.dims;
  return (hasElement && hasDims) || fail("another type than it says");
}

bool Checker::applyLet(Statement &statement) {
  Expr &value = statement.value;
  if (!check(value) || !checkNew(statement.name))
    return false;
  if (statement.kind == StatementKind::Output && !outer.empty())
    return fail("an output in a block");
  const bool isTyped = statement.form != TypeForm::None;
  if (isTyped && !applyTyped(statement))
    return false;
  bind(statement.name, value.type, value.kind == ExprKind::Number && !isTyped);
  return true;
}

bool Checker::applyDim(const Statement &statement) {
  const Dim &dim = tree->dims[size_t(statement.dim)];
  if (dim.function.empty() || dim.function != frame.function ||
      frame.variables.contains(dim.name) ||
      std::ranges::find(frame.ownDims, statement.dim) != frame.ownDims.end())
    return fail("a dim where there is none");
  bool isVisible = true;
  forEachExpr(statement.value,
              [&](const Expr &expr) { isVisible &= checkVisible(expr.dims); });
  if (!isVisible || evaluateSize(*tree, statement.value) != dim.size)
    return fail("a dim of another size");
  frame.ownDims.push_back(statement.dim);
  return true;
}

/// The training step is elaborated too: it has the same parameters, and here
/// the same types behind the branch.
bool Checker::applyWhenTraining(Statement &statement) {
  Checker trial(*this);
  trial.enterBranch();
  for (Statement &inner : statement.body)
    if (!trial.apply(inner))
      return fail(trial.reason);
  trial.leaveBranch();
  if (trial.leaves.size() != leaves.size())
    return fail("a variable of the training step alone");
  return std::ranges::all_of(frame.variables, [&](const auto &known) {
    const Variable &after = trial.frame.variables.at(known.first);
    return (after.type == known.second.type &&
            after.isNumber == known.second.isNumber) ||
           fail("a type of the training step alone");
  });
}

bool Checker::applyBranch(Statement &statement) {
  bool isVisible = true;
  forEachExpr(statement.value,
              [&](const Expr &expr) { isVisible &= checkVisible(expr.dims); });
  if (!isVisible)
    return false;
  if (isOfTraining(statement.value) && !tree->isTraining &&
      !applyWhenTraining(statement))
    return false;
  enterBranch();
  for (Statement &inner : evaluateCondition(*tree, statement.value)
                              ? statement.body
                              : statement.otherwise)
    if (!apply(inner))
      return false;
  leaveBranch();
  return true;
}

bool Checker::applyCall(Statement &statement) {
  Expr &value = statement.value;
  const Function *function = tree->findFunction(value.name);
  if (!function)
    return fail("there is no function " + value.name);
  std::vector<Type> arguments;
  for (Expr &operand : value.operands) {
    if (!check(operand) || operand.kind == ExprKind::Number)
      return fail("an argument that is a number");
    arguments.push_back(operand.type);
  }
  if (statement.names.size() != function->results.size())
    return fail("another number of values");
  for (const std::string &name : statement.names)
    if (!checkNew(name) || std::ranges::count(statement.names, name) != 1)
      return fail("the name is taken");
  if (!enterCall(*function, arguments, value.layer))
    return false;
  statement.body = function->body;
  for (Statement &inner : statement.body)
    if (!apply(inner))
      return false;
  statement.results = function->results;
  for (Expr &result : statement.results) {
    if (!check(result))
      return false;
    if (result.kind == ExprKind::Number)
      return fail("a result that is a number");
    for (DimId dim : result.type.dims)
      if (!tree->dims[size_t(dim)].function.empty())
        return fail("a function returns a dim of its own");
  }
  frame = std::move(outer.back());
  outer.pop_back();
  for (size_t i = 0; i < statement.names.size(); ++i)
    bind(statement.names[i], statement.results[i].type);
  return true;
}

bool Checker::applyRebinding(Statement &statement) {
  Expr &value = statement.value;
  if (!check(value))
    return false;
  auto found = frame.variables.find(statement.name);
  if (found == frame.variables.end())
    return fail("there is no " + statement.name);
  Variable &variable = found->second;
  if (variable.block == outer.size() && !variable.isState)
    return fail("a block's own value is rebound");
  // Branches may change it.
  const bool isCarried = variable.depth != loops.size();
  if (value.kind == ExprKind::Number) {
    if (isCarried || !variable.isState ||
        statement.kind != StatementKind::Assign)
      return fail("a number is carried");
    variable.isNumber = true; // of the type that the state has
    return true;
  }
  if (variable.isState &&
      (value.type.element != variable.type.element ||
       !without(value.type.dims, variable.type.dims).empty()))
    return fail("state changes its type");
  switch (statement.kind) {
  case StatementKind::Assign:
    if (variable.isPosition ||
        ((isCarried || variable.isState) &&
         ((isCarried && variable.isNumber) || value.type != variable.type)))
      return fail("a carried value changes its type");
    variable.type = value.type;
    variable.isNumber = false;
    return true;
  case StatementKind::Add: {
    if (value.type.element != variable.type.element ||
        value.type.element == Element::Bool || variable.isPosition)
      return fail("a term of another type");
    const Dims dims = unite(variable.type.dims, value.type.dims);
    if (isCarried && variable.depth + 1 != loops.size() &&
        dims != variable.type.dims)
      return fail("a carried value changes its type");
    for (const auto &[dim, position] : loops)
      if (isCarried && value.type.has(dim))
        return fail("a term has the dim of a loop");
    if (countElements(*tree, dims) > maxElements)
      return fail("too large");
    variable.type.dims = dims;
    variable.isNumber &= isCarried;
    return true;
  }
  case StatementKind::Place: {
    if (loops.empty() || !isCarried)
      return fail("elements are set outside of loops");
    const auto &[dim, position] = loops.back();
    if (dim != statement.dim || position != statement.position ||
        !frame.variables.contains(position) || !variable.type.has(dim) ||
        value.type.has(dim) || variable.type.element != value.type.element ||
        without(variable.type.dims, {dim}) != value.type.dims)
      return fail("what is placed has another type");
    return true;
  }
  default:
    return fail("a statement that is none");
  }
}

bool Checker::apply(Statement &statement) {
  switch (statement.kind) {
  case StatementKind::Param:
  case StatementKind::State:
    return applyVariable(statement);
  case StatementKind::Let:
  case StatementKind::Output:
    return applyLet(statement);
  case StatementKind::For:
    if (!enter(statement.dim, statement.position))
      return false;
    for (Statement &inner : statement.body)
      if (!apply(inner))
        return false;
    return leave(statement);
  case StatementKind::If:
    return applyBranch(statement);
  case StatementKind::Dim:
    return applyDim(statement);
  case StatementKind::Call:
    return applyCall(statement);
  case StatementKind::Assign:
  case StatementKind::Add:
  case StatementKind::Place:
    return applyRebinding(statement);
  }
  __builtin_unreachable();
}

/// As what it is for; sets its leaves.
static std::string checkAlone(Tree &tree, std::vector<Leaf> &leaves) {
  Checker checker(tree);
  for (Statement &statement : tree.body)
    if (!checker.apply(statement))
      return checker.getReason();
  leaves = checker.getLeaves();
  auto loss = checker.getVariables().find("loss");
  if (loss == checker.getVariables().end() ||
      loss->second.type != Type{Element::F32, {}} || loss->second.isNumber)
    return "no loss";
  return {};
}

std::string meshc::fuzz::check(Tree &tree) {
  std::vector<Leaf> leaves, others;
  std::string reason = checkAlone(tree, leaves);
  if (!reason.empty() || !mayDifferInTraining(tree))
    return reason;
  Tree other = tree;
  other.isTraining = !tree.isTraining;
  reason = checkAlone(other, others);
  if (reason.empty() && !std::ranges::is_permutation(leaves, others, {},
                                                     &Leaf::name, &Leaf::name))
    return "variables of one elaboration";
  return reason;
}

Tree meshc::fuzz::makeTrainingStep(Tree tree) {
  tree.isTraining = true;
  check(tree);
  return tree;
}

static bool mayDiffer(const std::vector<Statement> &body) {
  return std::ranges::any_of(body, [](const Statement &statement) {
    bool isFound = statement.kind == StatementKind::State;
    forEachExpr(statement.value, [&](const Expr &expr) {
      isFound |= isOfTraining(expr) || expr.name == "batch_norm";
    });
    return isFound || mayDiffer(statement.body) ||
           mayDiffer(statement.otherwise);
  });
}

bool meshc::fuzz::mayDifferInTraining(const Tree &tree) {
  return mayDiffer(tree.body) ||
         std::ranges::any_of(tree.functions, [](const Function &function) {
           return mayDiffer(function.body) ||
                  std::ranges::any_of(function.results, [](const Expr &result) {
                    return result.name == "batch_norm";
                  });
         });
}

std::vector<Leaf> meshc::fuzz::getLeaves(Tree &tree) {
  Checker checker(tree);
  for (Statement &statement : tree.body)
    if (!checker.apply(statement))
      return {};
  return checker.getLeaves();
}
