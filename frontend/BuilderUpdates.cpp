// What a training step makes of parameters: the program @update.

#include "frontend/BuilderState.h"

#include <algorithm>

#include <fmt/format.h>

namespace meshc::frontend {

void Builder::beginUpdates() {
  BuilderState &self = *state;
  self.finishVariables();
  self.operations.setInsertionPointToEnd(self.module->getBody());
  self.updates = nd::ProgramOp::create(self.operations,
                                       mlir::UnknownLoc::get(self.context),
                                       nd::ProgramOp::updateName);
  self.modelVariables = std::exchange(self.declared, {});
}

std::vector<std::string> Builder::getParameters() const {
  return state->getParameters();
}

std::vector<std::string> BuilderState::getParameters() const {
  std::vector<std::string> names;
  mlir::ModuleOp declared = *module;
  for (auto variable : declared.getOps<nd::VariableOp>())
    if (variable.getRole() == nd::VariableRole::Parameter)
      names.push_back(variable.getSymName().str());
  return names;
}

Tensor BuilderState::readGradient(const std::string &parameter,
                                  const Where &where) {
  const Declared &known = modelVariables.find(parameter)->second;
  mlir::Value value = nd::GradientOp::create(
      operations, getLocation(where),
      mlir::Type(variables.find(parameter)->second.getTensorType()), parameter);
  return addNode(value, known.value.getElementType(),
                 {known.value.getDims().begin(), known.value.getDims().end()},
                 where);
}

void Builder::clipNorm(const std::vector<std::string> &parameters, double limit,
                       const Where &where) {
  BuilderState &self = *state;
  self.operations.setInsertionPointToEnd(&self.updates.getBody().front());
  // The last thing that the backward pass has to say.
  self.ofUpdates = withName(
      withPhase(self.getLocation(where), nd::Phase::Backward), "clip", "norm");
  Tensor squares;
  for (const std::string &parameter : parameters) {
    Tensor gradient = self.readGradient(parameter, where);
    const std::vector<Dim> all(gradient.getDims().begin(),
                               gradient.getDims().end());
    Tensor square =
        cast(mul(gradient, gradient, where), ElementType::F32, where);
    Tensor sum =
        all.empty() ? square : reduce(Reduction::Sum, square, all, where);
    squares = squares ? add(squares, sum, where) : sum;
  }
  auto number = [&](double value) {
    return constant(value, ElementType::F32, where);
  };
  self.gradientFactor = minimum(
      number(1), div(number(limit), sqrt(squares, where), where), where);
  self.ofUpdates.reset();
}

void Builder::clipValue(double limit) { state->gradientLimit = limit; }

void Builder::keepMeans(double decay) { state->meanDecay = decay; }

void BuilderState::writeMean(std::string_view parameter, mlir::Value next,
                             const Where &where) {
  const std::string name = nd::getMeanName(parameter);
  const nd::NamedTensorType type = update->parameter.getTensorType();
  if (variables.contains(name)) {
    fail(Code::DuplicateName, where,
         fmt::format("the running mean \"{}\" is called like a variable of "
                     "the model",
                     name));
    return;
  }
  const mlir::Location location =
      withName(update->parameter.getLoc(),
               meshc::getOrigin(update->parameter.getLoc(), parameter)
                   .asState(nd::meanScope));
  mlir::OpBuilder::InsertionGuard place(declarations);
  declarations.setInsertionPointAfter(update->last);
  // nd-build-init has it start as the parameter.
  auto mean = nd::VariableOp::create(
      declarations, location, name, nd::VariableRole::State, type,
      mlir::FlatSymbolRefAttr::get(context, "init"));
  variables[name] = mean;
  update->last = mean;
  const mlir::Location ofUpdate = getUpdateOf(mean);
  auto number = [&](double value) {
    return nd::ConstantOp::create(
        operations, ofUpdate,
        nd::NamedTensorType::get({}, type.getElementType()),
        mlir::FloatAttr::get(type.getElementType(), value));
  };
  auto scale = [&](mlir::Value value, double factor) {
    return nd::MulOp::create(operations, ofUpdate, type, value, number(factor));
  };
  mlir::Value before =
      nd::ReadOp::create(operations, location, mlir::Type(type), name);
  mlir::Value after =
      nd::AddOp::create(operations, ofUpdate, type, scale(before, *meanDecay),
                        scale(next, 1 - *meanDecay));
  nd::WriteOp::create(operations, ofUpdate, name, after);
}

Tensor BuilderState::clip(Tensor gradient, const Where &where) {
  const ElementType element = gradient.getElementType();
  const std::vector<Dim> dims(gradient.getDims().begin(),
                              gradient.getDims().end());
  auto number = [&](double value) {
    return nd::ConstantOp::create(
        operations, getLocation(where), getType(element, {}),
        mlir::cast<mlir::TypedAttr>(
            mlir::Attribute(mlir::FloatAttr::get(getType(element), value))));
  };
  if (gradientFactor) {
    Tensor factor = gradientFactor;
    if (factor.getElementType() != element)
      factor = create<nd::CastOp>(where, element, {}, getValue(factor));
    gradient = create<nd::MulOp>(where, element, dims, getValue(gradient),
                                 getValue(factor));
  }
  if (gradientLimit) {
    gradient = create<nd::MinimumOp>(where, element, dims, getValue(gradient),
                                     number(*gradientLimit));
    gradient = create<nd::MaximumOp>(where, element, dims, getValue(gradient),
                                     number(-*gradientLimit));
  }
  return gradient;
}

void BuilderState::openUpdate(const std::string &parameter,
                              const std::string &optimizer) {
  nd::VariableOp variable = variables.find(parameter)->second;
  const nd::OriginAttr origin = meshc::getOrigin(variable.getLoc(), parameter);
  const mlir::Location location =
      withName(withPhase(variable.getLoc(), nd::Phase::Update),
               origin.withKind(nd::OriginKind::Update));
  const mlir::Location ofStep =
      withName(withPhase(getLocation(trainingWhere), nd::Phase::Update),
               optimizer, "step");
  operations.setInsertionPointToEnd(&updates.getBody().front());
  scopes.assign(1, Scope{});
  declaring.clear();
  declared.clear();
  // A parameter's update is as large as a program may be.
  firstNode = nodes.size();
  update.emplace(Update{variable, variable, location, ofStep, Tensor()});
}

void Builder::beginRate(const std::string &parameter,
                        const std::string &optimizer) {
  state->openUpdate(parameter, optimizer);
}

void Builder::endRate(const std::string &name, Tensor rate,
                      const Where &where) {
  BuilderState &self = *state;
  if (rate && rate.getDims().empty() && isFloat(rate.getElementType())) {
    const Tensor narrow = rate.getElementType() == ElementType::F32
                              ? rate
                              : cast(rate, ElementType::F32, where);
    nd::OutputOp::create(self.operations, self.update->ofStep, name,
                         BuilderState::getValue(narrow));
  }
  self.update.reset();
}

Builder::Update Builder::beginUpdate(const std::string &parameter,
                                     const std::string &optimizer,
                                     const Where &where) {
  BuilderState &self = *state;
  const BuilderState::Declared &known =
      self.modelVariables.find(parameter)->second;
  self.openUpdate(parameter, optimizer);
  nd::VariableOp variable = self.update->parameter;
  const ElementType element = known.value.getElementType();
  const std::vector<Dim> dims(known.value.getDims().begin(),
                              known.value.getDims().end());
  auto add = [&](mlir::Value value) {
    return self.addNode(value, element, dims, where);
  };
  const mlir::Type type = variable.getTensorType();
  const Tensor whole = add(
      nd::ReadOp::create(self.operations, variable.getLoc(), type, parameter));
  Tensor gradient = self.readGradient(parameter, where);
  self.declared.try_emplace(
      parameter,
      BuilderState::Declared{nd::VariableRole::Parameter, whole, known.where});
  for (size_t i = 0; i < known.numStacked; ++i) {
    beginLoop(dims[i].name, dims[i], {}, where);
    // The optimizer is in none of the model's loops.
    self.scopes.back().scope = {};
    self.scopes.back().variables.scope = {};
    gradient = self.slice(self.loops.back(), gradient, where);
  }
  self.update->gradient = self.clip(gradient, where);
  return {self.readVariable(self.declared.find(parameter)->second, where),
          self.update->gradient};
}

void Builder::endUpdate(Tensor next, const Where &where) {
  BuilderState &self = *state;
  auto &[name, parameter] =
      *std::ranges::find_if(self.declared, [](const auto &variable) {
        return variable.second.role == nd::VariableRole::Parameter;
      });
  const bool isValid =
      next && self.checkSet(parameter, name, Code::WrongUpdate, next, where);
  if (isValid && BuilderState::getValue(self.update->gradient).use_empty())
    self.fail(Code::UnusedGradient, where,
              fmt::format("parameter \"{}\" gets a value that nothing of its "
                          "gradient is in",
                          name));
  while (!self.loops.empty())
    endLoop({}, {}, {}, where);
  if (isValid && !self.failed)
    for (const auto &[variable, entry] : self.declared) {
      if (entry.last) {
        mlir::Value value = BuilderState::getValue(entry.last);
        nd::WriteOp::create(
            self.operations,
            entry.role == nd::VariableRole::Parameter
                ? self.update->location
                : self.getUpdateOf(self.variables.find(variable)->second),
            variable, value);
        if (self.meanDecay && entry.role == nd::VariableRole::Parameter)
          self.writeMean(variable, value, where);
      } else {
        self.failNeverSet(variable, entry.where);
      }
    }
  self.update.reset();
}

mlir::Location BuilderState::getUpdateOf(nd::VariableOp variable) const {
  return withName(update->location,
                  getOrigin(variable.getLoc(), variable.getSymName()));
}

Tensor Builder::step(const Where &where) {
  BuilderState &self = *state;
  if (!self.stepNumber) {
    mlir::OpBuilder first =
        mlir::OpBuilder::atBlockBegin(&self.updates.getBody().front());
    self.stepNumber = self.addNode(
        nd::InputOp::create(first, mlir::UnknownLoc::get(self.context),
                            mlir::Type(self.getType(ElementType::I32, {})),
                            nd::InputOp::stepName),
        ElementType::I32, {}, where);
  }
  return self.stepNumber;
}

Tensor Builder::setting(const std::string &expression, ElementType type,
                        const Where &where) {
  BuilderState &self = *state;
  mlir::OpBuilder first =
      mlir::OpBuilder::atBlockBegin(&self.updates.getBody().front());
  return self.addNode(
      nd::InputOp::create(first, mlir::UnknownLoc::get(self.context),
                          mlir::Type(self.getType(type, {})),
                          nd::InputOp::settingPrefix.str() + expression),
      type, {}, where);
}

void Builder::fixSetting(Tensor setting, double value) {
  state->fixedSettings.emplace_back(setting, value);
}

void BuilderState::finishSettings() {
  for (const auto &[setting, value] : fixedSettings) {
    mlir::Operation *input = getValue(setting).getDefiningOp();
    mlir::OpBuilder there(input);
    const mlir::Type type = input->getResult(0).getType();
    auto constant = nd::ConstantOp::create(
        there, input->getLoc(), type,
        mlir::cast<mlir::TypedAttr>(mlir::Attribute(mlir::FloatAttr::get(
            mlir::cast<nd::NamedTensorType>(type).getElementType(), value))));
    input->getResult(0).replaceAllUsesWith(constant.getResult());
    input->erase();
  }
}

void Builder::addSetting(const std::string &name, const std::string &value,
                         bool isFixed) {
  nd::SettingOp::create(state->declarations,
                        mlir::UnknownLoc::get(state->context), name, value,
                        isFixed);
}

void Builder::addRequirement(const std::string &expression) {
  nd::RequirementOp::create(state->declarations,
                            mlir::UnknownLoc::get(state->context), expression);
}

bool BuilderState::isNumberOfStep(Tensor x) {
  return update && x.getDims().empty() && isFloat(x.getElementType()) &&
         findOrigin(getValue(x)) == Origin::Numbers;
}

} // namespace meshc::frontend
