// Scopes, and the names of what is in them.

#include "frontend/BuilderState.h"

#include <algorithm>

#include <fmt/format.h>

namespace meshc::frontend {

Builder::ScopeId Builder::enterScope(const std::string &name,
                                     const Where &where) {
  auto [entry, isFirst] =
      state->scopes.back().children.try_emplace(name, where);
  if (!isFirst) {
    state
        ->fail(Code::DuplicateName, where,
               fmt::format("scope \"{}\" is taken", state->getFullName(name)))
        .related.push_back({entry->second, "by this call"});
    state->errors.back().helps.push_back(fmt::format(
        "write \"... with {}\" for a call with the variables of that one",
        name));
    // What follows gets names of its own, so that it does not clash as well.
    ScopeId opened = enterNumberedScope(name, where);
    state->scopes.back().stem.clear();
    return opened;
  }
  return state->openScope(name, name, where);
}

const std::set<std::string, std::less<>> &Builder::getScopes() const {
  return state->modelScopes;
}

nd::OriginAttr BuilderState::getOriginOf(const std::string &name) const {
  return nd::OriginAttr::get(scopes.back().scope,
                             mlir::StringAttr::get(context, name));
}

Builder::ScopeId BuilderState::openScope(const std::string &name,
                                         const std::string &stem,
                                         const Where &where) {
  auto inside = [&](nd::ScopeAttr around) {
    return nd::ScopeAttr::get(around, mlir::StringAttr::get(context, name));
  };
  const Scope &around = scopes.back();
  declaring.push_back({inside(around.variables.scope), getLoopsOfVariables()});
  Scope scope;
  scope.scope = inside(around.scope);
  if (!update)
    modelScopes.insert(scope.scope.getText());
  scope.variables = {declaring.back().scope, around.variables.loops};
  scope.firstLoop = around.firstLoop;
  scope.number = declaring.size() - 1;
  scope.isShared = around.isShared;
  scope.stem = stem;
  scope.where = where;
  scopes.push_back(std::move(scope));
  return {declaring.size() - 1, name};
}

void Builder::shareVariables(const ScopeId &of) {
  BuilderState::Scope &scope = state->scopes.back();
  scope.variables = state->declaring[of.number];
  state->declaring[scope.number] = scope.variables;
  scope.firstLoop = state->loops.size();
  scope.isShared = true;
}

std::vector<size_t> BuilderState::getLoopsOfVariables() const {
  std::vector<size_t> stacked = scopes.back().variables.loops;
  for (size_t i = scopes.back().firstLoop; i < loops.size(); ++i)
    stacked.push_back(i);
  return stacked;
}

nd::OriginAttr
BuilderState::getOriginOfVariable(const std::string &name) const {
  const auto origin = nd::OriginAttr::get(scopes.back().variables.scope,
                                          mlir::StringAttr::get(context, name));
  if (!update)
    return origin;
  nd::VariableOp parameter = update->parameter;
  return getOrigin(parameter.getLoc(), parameter.getSymName())
      .asState(origin.getText());
}

Builder::ScopeId Builder::enterNumberedScope(const std::string &stem,
                                             const Where &where) {
  BuilderState::Scope &scope = state->scopes.back();
  int &number = scope.lastNumbers[stem];
  std::string name = stem;
  do {
    if (++number > 1)
      name = fmt::format("{}_{}", stem, number);
  } while (!scope.children.try_emplace(name, where).second);
  return state->openScope(name, stem, where);
}

/// A number in the name of a parameter would depend on the order of the lines,
/// and so would what a checkpoint means.
void Builder::leaveScope() {
  BuilderState::Scope ended = std::move(state->scopes.back());
  state->scopes.pop_back();
  if (!ended.ownsParameters || ended.stem.empty())
    return;
  BuilderState::Scope &parent = state->scopes.back();
  auto [owner, isFirst] = parent.owners.try_emplace(ended.stem, ended.where);
  if (isFirst)
    return;
  BuildError &error =
      state->fail(Code::SharedScope, ended.where,
                  fmt::format("a second {} has parameters in scope \"{}\"",
                              ended.isLoop ? "loop" : "call",
                              state->getFullName(ended.stem)));
  error.related.push_back({owner->second, "the first"});
  error.notes.push_back("names of parameters do not depend on the order in "
                        "which they are written");
  error.helps.push_back(ended.isLoop
                            ? "call the position of this loop otherwise"
                            : "name the call: ... as NAME");
  if (!ended.isLoop)
    error.helps.push_back(fmt::format(
        "write \"... with {}\" for a call with the parameters of the first",
        ended.stem));
}

nd::OriginAttr BuilderState::makeUnique(nd::OriginAttr origin) {
  nd::OriginAttr unique = origin;
  // Numbers below the last one that was given are taken.
  int &number = valueNumbers.try_emplace(origin.getText(), 2).first->second;
  for (; !valueNames.insert(unique.getText()).second; ++number)
    unique = nd::OriginAttr::get(
        origin.getScope(),
        mlir::StringAttr::get(
            context, fmt::format("{}_{}", origin.getName().str(), number)));
  return unique;
}

/// Gives `value` its name, and what leads to it and has none a place inside it.
static void setOrigin(mlir::Value value, nd::OriginAttr origin) {
  value.setLoc(withName(value.getLoc(), origin));
  mlir::Operation *op = value.getDefiningOp();
  if (!op) // a slice that a loop is given: what leads to it is outside
    return;
  llvm::SmallVector<mlir::Value> inner(op->getOperands());
  while (!inner.empty()) {
    mlir::Operation *leading = inner.pop_back_val().getDefiningOp();
    if (!leading || !getValueName(leading->getLoc()).empty())
      continue;
    leading->setLoc(asInside(leading->getLoc(), origin));
    llvm::append_range(inner, leading->getOperands());
  }
}

/// The name of a value that is bound in a scope, or in that of a call in it.
static nd::OriginAttr getOriginOf(const BuilderState &state,
                                  const std::string &name,
                                  const std::string &call) {
  nd::OriginAttr origin = state.getOriginOf(name);
  if (call.empty())
    return origin;
  return origin.inScope(nd::ScopeAttr::get(
      origin.getScope(), mlir::StringAttr::get(state.context, call)));
}

void Builder::setName(Tensor value, const std::string &name,
                      const std::string &call) {
  if (!value || hasName(BuilderState::getValue(value).getLoc()))
    return;
  setOrigin(BuilderState::getValue(value),
            state->makeUnique(getOriginOf(*state, name, call)));
}

const layout::Layout *BuilderState::getTable() {
  if (!table) {
    std::vector<layout::LayoutRule> lines;
    for (const RuleSpec &spec : rules)
      lines.push_back(spec.rule);
    // Dims that are none of the program are reported by finishRules.
    auto made = layout::Layout::create(mesh, std::move(lines));
    auto *found = std::get_if<layout::Layout>(&made);
    table = found ? std::optional(std::move(*found)) : std::nullopt;
  }
  return *table ? &**table : nullptr;
}

void BuilderState::addNamedShape(const std::string &name,
                                 std::span<const Dim> dims, const Where &where,
                                 layout::Role role) {
  if (dims.empty())
    return;
  NamedShape &shape = namedShapes.emplace_back(name);
  for (const Dim &dim : dims) {
    shape.dims.push_back(dim.name);
    shape.sizes.push_back(dim.size);
  }
  shape.where = where;
  shape.role = role;
}

Tensor BuilderState::place(Tensor value, nd::OriginAttr origin,
                           const Where &where) {
  addNamedShape(origin.getText(), value.getDims(), where);
  const NamedShape &shape = namedShapes.back();
  auto found =
      getTable()->getLayout({shape.dims, shape.sizes, shape.name}, shape.role);
  auto *asked = std::get_if<layout::TensorLayout>(&found);
  // An error is reported by finishRules.
  if (!asked || !asked->isByName)
    return value;
  nd::NamedTensorType type = getType(value.getElementType(), value.getDims());
  auto op = nd::ReshardOp::create(
      operations, getValue(value).getLoc(),
      mlir::Type(
          type.withSharding(nd::getShardingAttr(type, mesh, asked->sharding))),
      getValue(value), mlir::ArrayAttr());
  return addNode(op.getResult(), value.getElementType(),
                 {value.getDims().begin(), value.getDims().end()}, where);
}

/// Calls `value` so, unless it has a name, and has it lie as rules for it say.
static Tensor bindTo(BuilderState &state, Tensor value, nd::OriginAttr origin,
                     const Where &where) {
  const bool isNamed = hasName(BuilderState::getValue(value).getLoc());
  // What an optimizer computes lies as its state does, by rules for roles.
  const layout::Layout *table = state.updates ? nullptr : state.getTable();
  const auto hasRules = [&](nd::OriginAttr called) {
    return table && !value.getDims().empty() &&
           table->hasRulesFor(std::string_view(called.getText()));
  };
  if (isNamed && !hasRules(origin))
    return value;
  origin = state.makeUnique(origin);
  if (!isNamed)
    setOrigin(BuilderState::getValue(value), origin);
  if (!hasRules(origin))
    return value;
  const Tensor placed = state.place(value, origin, where);
  // It stands where it gets its second name.
  if (isNamed &&
      BuilderState::getValue(placed) != BuilderState::getValue(value))
    BuilderState::getValue(placed).setLoc(
        withOrigin(state.getLocation(where), origin));
  return placed;
}

Tensor Builder::bind(Tensor value, const std::string &name,
                     const std::string &call, const Where &where) {
  return value ? bindTo(*state, value, getOriginOf(*state, name, call), where)
               : value;
}

Tensor Builder::bindToScope(Tensor value, const Where &where) {
  nd::ScopeAttr scope = state->scopes.back().scope;
  if (!value || !scope || hasName(BuilderState::getValue(value).getLoc()))
    return value;
  return bindTo(*state, value,
                nd::OriginAttr::get(scope.getParent(), scope.getName()), where);
}

} // namespace meshc::frontend
