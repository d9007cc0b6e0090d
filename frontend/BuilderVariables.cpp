// Parameters and state: what is declared, shared, and set in the training step.

#include "frontend/BuilderState.h"

#include <algorithm>

#include <fmt/format.h>

namespace meshc::frontend {

/// Whether the module has or will have a symbol of this name besides the
/// variable: a program, or the state of the loss scale.
static bool isReserved(std::string_view name) {
  for (std::string_view program :
       {"forward", "training", "init", "step", "eval", "gradient",
        "training_gradient", "update", "accumulate"})
    if (name == program)
      return true;
  return name.starts_with("fp16/"); // the loss scale
}

/// "parameter" or "state", for messages.
static std::string_view describe(nd::VariableRole role) {
  return role == nd::VariableRole::Parameter ? "parameter" : "state";
}

static bool drawsNumbers(Initializer::Kind kind) {
  switch (kind) {
  case Initializer::Kind::Normal:
  case Initializer::Kind::Uniform:
  case Initializer::Kind::TruncatedNormal:
    return true;
  case Initializer::Kind::Fill:
  case Initializer::Kind::Computed:
    return false;
  }
  llvm_unreachable("not a kind of initializer");
}

mlir::Attribute BuilderState::getInit(const Initializer &initializer) const {
  mlir::Builder builder(context);
  auto first = builder.getF64FloatAttr(initializer.first);
  if (drawsNumbers(initializer.kind))
    return nd::RandomAttr::get(context, getDistribution(initializer.kind),
                               first,
                               builder.getF64FloatAttr(initializer.second));
  if (initializer.kind == Initializer::Kind::Fill)
    return nd::FillAttr::get(context, first);
  return mlir::FlatSymbolRefAttr::get(context, "init");
}

BuilderState::Declared *
BuilderState::checkVariable(nd::VariableRole role, const std::string &fullName,
                            ElementType type, const Initializer &initializer,
                            const Where &where) {
  const std::string_view kind = describe(role);
  auto [entry, isFirst] =
      declared.try_emplace(fullName, Declared{role, Tensor(), where});
  if (!isFirst) {
    const bool isOther = entry->second.role != role;
    fail(Code::DuplicateName, where,
         isOther
             ? fmt::format("a parameter and state are called \"{}\"", fullName)
             : fmt::format("two {} are called \"{}\"",
                           role == nd::VariableRole::Parameter ? "parameters"
                                                               : "states",
                           fullName))
        .related.push_back({entry->second.where, "the first"});
    return nullptr;
  }
  if (update && variables.contains(fullName)) {
    fail(Code::DuplicateName, where,
         fmt::format("the optimizer's state \"{}\" is called like a variable "
                     "of the model",
                     fullName));
    return nullptr;
  }
  if (isReserved(fullName)) {
    fail(Code::ReservedWord, where,
         fmt::format("no {} can be called \"{}\"", kind, fullName))
        .notes.push_back("the compiler's programs and its loss scale have "
                         "such names");
    return nullptr;
  }
  if (role == nd::VariableRole::Parameter && !isFloat(type)) {
    fail(Code::WrongElementType, where,
         fmt::format("a parameter has float elements, not {}", getName(type)));
    return nullptr;
  }
  if (isForData(type)) {
    fail(Code::WrongElementType, where,
         fmt::format("state has elements that are computed with, not {}",
                     getName(type)));
    return nullptr;
  }
  if (drawsNumbers(initializer.kind) && !isFloat(type)) {
    fail(Code::WrongElementType, where,
         fmt::format("random numbers are floats, and {} \"{}\" is of {}", kind,
                     fullName, getName(type)));
    return nullptr;
  }
  return &entry->second;
}

Tensor BuilderState::declare(nd::VariableRole role, const std::string &name,
                             ElementType type, const std::vector<Dim> &dims,
                             Initializer initializer, const Where &where) {
  const std::string fullName = getVariableName(name);
  // Of a variable in loops there is one for each of their positions.
  std::vector<Dim> allDims;
  for (size_t loop : getLoopsOfVariables())
    allDims.push_back(loops[loop].dim);
  allDims.insert(allDims.end(), dims.begin(), dims.end());
  if (scopes.back().isShared)
    return shareVariable(role, fullName, type, allDims, initializer, where);
  Declared *variable = checkVariable(role, fullName, type, initializer, where);
  if (!variable)
    return {};
  std::vector<Loop> around;
  std::swap(around, loops);
  const bool isValid = checkType(type, allDims, where);
  std::swap(around, loops);
  if (!isValid)
    return {};
  for (Scope &scope : scopes)
    scope.ownsParameters = true;
  const mlir::Attribute init = getInit(initializer);
  variable->numStacked = allDims.size() - dims.size();
  const nd::OriginAttr origin = getOriginOfVariable(name);
  const mlir::Location location = withName(
      update ? mlir::Location(update->parameter.getLoc()) : getLocation(where),
      origin);
  valueNames.insert(fullName);
  if (role != nd::VariableRole::State)
    addNamedShape(fullName, allDims, where,
                  role == nd::VariableRole::Parameter ? layout::Role::Parameter
                                                      : layout::Role::Value);
  const nd::NamedTensorType tensorType = getType(type, allDims);
  if (!isTraining || update) {
    mlir::OpBuilder::InsertionGuard place(declarations);
    if (update)
      declarations.setInsertionPointAfter(update->last);
    nd::VariableOp made = nd::VariableOp::create(
        declarations, location, fullName, role, tensorType, init);
    variables[fullName] = made;
    if (update)
      update->last = made;
    if (initializer.kind == Initializer::Kind::Computed)
      setInitial(fullName, tensorType, initializer.value, location);
  } else if (!checkElaborations(role, fullName, tensorType, initializer,
                                where)) {
    return {};
  }
  mlir::OpBuilder::InsertionGuard guard(operations);
  if (!loops.empty())
    operations.restoreInsertionPoint(loops.front().outside);
  auto read = nd::ReadOp::create(operations, location, mlir::Type(tensorType),
                                 fullName);
  variable->value = addNode(read.getResult(), type, std::move(allDims), where);
  return readVariable(*variable, where);
}

Tensor Builder::parameter(const std::string &name, ElementType type,
                          const std::vector<Dim> &dims, Initializer initializer,
                          const Where &where) {
  return state->declare(nd::VariableRole::Parameter, name, type, dims,
                        initializer, where);
}

Tensor Builder::modelState(const std::string &name, ElementType type,
                           const std::vector<Dim> &dims,
                           Initializer initializer, const Where &where) {
  if (!state->update)
    return state->declare(nd::VariableRole::ModelState, name, type, dims,
                          initializer, where);
  return state->declare(nd::VariableRole::State, name, type,
                        state->orderLikeParameter(dims), initializer, where);
}

std::vector<Dim>
BuilderState::orderLikeParameter(const std::vector<Dim> &dims) {
  nd::VariableOp parameter = update->parameter;
  std::vector<Dim> ordered, others;
  for (nd::DimAttr dim : parameter.getTensorType().getDims())
    for (const Dim &given : dims)
      if (given.name == dim.getName().getValue())
        ordered.push_back(given);
  for (const Dim &given : dims)
    if (std::ranges::find(ordered, given) == ordered.end())
      others.push_back(given);
  ordered.insert(ordered.end(), others.begin(), others.end());
  return ordered;
}

Tensor BuilderState::readVariable(Declared &variable, const Where &where) {
  Tensor value = variable.last ? variable.last : variable.value;
  const bool isSet =
      (isTraining || update) && variable.role != nd::VariableRole::Parameter;
  const std::vector<size_t> own = getLoopsOfVariables();
  for (size_t i = variable.last ? variable.numLoops : 0;
       value && i < loops.size(); ++i)
    if (std::ranges::find(own, i) != own.end())
      value = slice(loops[i], value, where);
    else if (isSet)
      value = carryState(loops[i], variable, value, where);
  return value;
}

Tensor BuilderState::shareVariable(nd::VariableRole role,
                                   const std::string &fullName,
                                   ElementType type, std::span<const Dim> dims,
                                   const Initializer &initializer,
                                   const Where &where) {
  const std::string_view kind = describe(role);
  auto entry = declared.find(fullName);
  if (entry == declared.end()) {
    if (!failed) // of a call in error some are missing
      fail(Code::SharedVariableDiffers, where,
           fmt::format("there is no {} \"{}\" that the call could share", kind,
                       fullName))
          .notes.push_back(
              "the call whose variables this one has declares none "
              "of this name");
    return {};
  }
  Declared &shared = entry->second;
  if (!shared.value)
    return {};
  const Tensor whole = shared.value;
  const bool isOther = shared.role != role;
  const bool isOfType = !isOther && whole.getElementType() == type &&
                        std::ranges::equal(whole.getDims(), dims);
  if (isOfType && startsAs(fullName, initializer))
    return readVariable(shared, where);
  fail(
      Code::SharedVariableDiffers, where,
      isOfType
          ? fmt::format("the call shares {} \"{}\", whose initial value is "
                        "another one here",
                        kind, fullName)
          : fmt::format("the call shares {} \"{}\", which is {}, and {}{} here",
                        describe(shared.role), fullName,
                        toString(whole.getElementType(), whole.getDims()),
                        isOther ? fmt::format("a {} of ", kind) : "",
                        toString(type, dims)))
      .related.push_back({shared.where, "declared here"});
  return {};
}

bool BuilderState::checkElaborations(nd::VariableRole role,
                                     const std::string &name,
                                     nd::NamedTensorType type,
                                     const Initializer &initializer,
                                     const Where &where) {
  auto known = evaluated.find(name);
  if (known == evaluated.end()) {
    fail(Code::ParameterOfOneElaboration, where,
         fmt::format("\"{}\" is a {} of the training step alone", name,
                     describe(role)))
        .helps.push_back("declare it outside of the \"if\"");
    return false;
  }
  nd::VariableOp variable = variables.find(name)->second;
  if (variable.getRole() == role && variable.getType() == type &&
      startsAs(name, initializer))
    return true;
  fail(Code::ParameterOfOneElaboration, where,
       fmt::format("{} \"{}\" has another type or initial value in the "
                   "training step than in evaluation",
                   describe(role), name))
      .related.push_back({known->second.where, "of evaluation"});
  return false;
}

//===-- State that the model sets -----------------------------------------===//

void Builder::setModelState(const std::string &name, Tensor value,
                            const Where &where) {
  const std::string fullName = state->getVariableName(name);
  if (!state->isTraining && !state->update) {
    state->fail(
        Code::MisplacedStatement, where,
        fmt::format("state \"{}\" is set in the program of the training "
                    "step alone",
                    fullName));
    return;
  }
  auto entry = state->declared.find(fullName);
  if (entry == state->declared.end() ||
      entry->second.role == nd::VariableRole::Parameter) {
    state->fail(Code::UnknownName, where,
                fmt::format("there is no state \"{}\" to set", fullName));
    return;
  }
  BuilderState::Declared &variable = entry->second;
  if (!value || !variable.value) // in error
    return;
  if (!state->checkSet(variable, fullName, Code::CarriedTypeChanges, value,
                       where) ||
      !state->update)
    return;
  // What is made for it is called like it, beside the parameter's update.
  mlir::Operation *op = BuilderState::getValue(variable.last).getDefiningOp();
  if (op && !mlir::isa<nd::ReadOp, nd::GradientOp, nd::InputOp>(op))
    op->setLoc(state->getUpdateOf(state->variables.find(fullName)->second));
}

bool BuilderState::checkSet(Declared &variable, std::string_view name,
                            Code code, Tensor value, const Where &where) {
  std::vector<Dim> dims(variable.value.getDims().begin() +
                            std::ptrdiff_t(getLoopsOfVariables().size()),
                        variable.value.getDims().end());
  const ElementType element = variable.value.getElementType();
  if (value.getElementType() != element ||
      !std::is_permutation(dims.begin(), dims.end(), value.getDims().begin(),
                           value.getDims().end())) {
    fail(code, where,
         fmt::format("{} \"{}\" is {}, and {} after the step",
                     describe(variable.role), name, toString(element, dims),
                     toString(value.getElementType(), value.getDims())))
        .related.push_back({variable.where, "declared here"});
    return false;
  }
  // The same dimensions as it is stored, without a sharding of its own.
  if (getValue(value).getType() != getType(element, dims))
    value = create<nd::BroadcastOp>(where, element, std::move(dims),
                                    getValue(value));
  if (!readVariable(variable, where)) // as what loops around carry
    return false;
  variable.last = value;
  variable.numLoops = loops.size();
  for (Loop &loop : loops)
    loop.setsStates |= loop.findState(variable) != nullptr;
  if (!loops.empty())
    checkNumOperations(where);
  return true;
}

void BuilderState::failNeverSet(std::string_view name, const Where &where) {
  const std::string last(
      update ? name.substr(0, name.size() -
                                  update->parameter.getSymName().size() - 1)
             : name);
  fail(Code::StateNeverSet, where,
       fmt::format("no training step sets state \"{}\"", name))
      .helps.push_back(
          fmt::format("set it by \"{} = ...\"; what stays as it is, is a value",
                      last.substr(last.rfind('/') + 1)));
}

void BuilderState::finishVariables() {
  if (!isTraining || failed || updates)
    return;
  // Those of the training step are checked where they are declared.
  for (const auto &[name, variable] : evaluated)
    if (!declared.contains(name))
      fail(
          Code::ParameterOfOneElaboration, variable.where,
          fmt::format("\"{}\" is a {} of evaluation alone, so that no training "
                      "changes it",
                      name, describe(variable.role)))
          .helps.push_back("declare it outside of the \"if\"");
  for (const auto &[name, variable] : declared) {
    if (variable.role == nd::VariableRole::Parameter)
      continue;
    nd::VariableOp declaration = variables.find(name)->second;
    if (variable.last) {
      mlir::Value value = getValue(variable.last);
      auto write = nd::WriteOp::create(operations, declaration.getLoc(),
                                       declaration.getSymName(), value);
      // What is computed for it alone is its update, not a value beside it.
      if (mlir::Operation *op = value.getDefiningOp();
          value.hasOneUse() && op->getNumResults() == 1 &&
          op->getNumRegions() == 0 && !mlir::isa<nd::ReadOp, nd::InputOp>(op)) {
        op->setLoc(withName(
            withPhase(op->getLoc(), nd::Phase::Update),
            getOrigin(declaration.getLoc()).withKind(nd::OriginKind::Update)));
        write->setLoc(op->getLoc());
      }
    } else if (training && !training->optimizer.empty())
      failNeverSet(name, variable.where);
  }
}

} // namespace meshc::frontend
