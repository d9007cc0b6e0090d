#include "passes/ModuleLayout.h"

#include "dialect/ErrorKind.h"
#include "dialect/Locations.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// What rules call a variable, or the parameter that it is of.
static std::string getPath(VariableOp variable) {
  return getOrigin(variable.getLoc(), variable.getSymName()).getPath();
}

/// Names of all dimensions of a module, each once, in order of appearance.
static std::vector<std::string> collectDims(ModuleOp module) {
  std::vector<std::string> names;
  llvm::StringMap<bool> known;
  auto add = [&](StringRef name) {
    if (known.try_emplace(name, true).second)
      names.push_back(name.str());
  };
  auto addType = [&](Type type) {
    if (auto named = dyn_cast<NamedTensorType>(type))
      for (DimAttr dim : named.getDims())
        add(dim.getName());
  };
  module.walk([&](Operation *op) {
    if (auto dim = dyn_cast<DimOp>(op))
      add(dim.getName());
    if (auto variable = dyn_cast<VariableOp>(op))
      addType(variable.getType());
    llvm::for_each(op->getResultTypes(), addType);
  });
  return names;
}

FailureOr<ModuleLayout> ModuleLayout::create(ModuleOp module) {
  ModuleLayout result;
  result.mesh = nd::getMesh(module);
  result.plans = std::make_unique<layout::ReshardPlans>(result.mesh,
                                                        nd::getMachine(module));
  for (auto variable : module.getOps<VariableOp>())
    result.variables[variable.getSymName()] = variable;
  std::vector<layout::LayoutRule> table;
  for (auto rule : module.getOps<RuleOp>()) {
    result.ruleOps.push_back(rule);
    table.push_back(rule.getRule());
  }
  auto created = layout::Layout::create(result.mesh, std::move(table),
                                        collectDims(module));
  if (auto *rules = std::get_if<layout::Layout>(&created)) {
    result.rules = std::move(*rules);
    for (auto variable : module.getOps<VariableOp>())
      if (variable.getRole() == VariableRole::Parameter &&
          result.liesByName(variable))
        result.namedParameters.insert(getPath(variable));
    result.areRoles = result.rules.hasRulesFor(layout::Role::State) ||
                      !result.namedParameters.empty();
    return result;
  }
  for (const layout::LayoutError &error :
       std::get<std::vector<layout::LayoutError>>(created)) {
    // The verifier of the rule has found whatever else may be wrong with it.
    InFlightDiagnostic diagnostic = result.ruleOps[error.rule].emitError()
                                    << "layout rule for \"" << error.dim
                                    << "\" names no dimension of the program";
    if (!error.suggestion.empty())
      diagnostic << "; did you mean \"" << error.suggestion << "\"?";
  }
  return failure();
}

const layout::ReshardChoice &
ModuleLayout::planReshard(NamedTensorType type, const layout::Sharding &source,
                          const layout::Sharding &target) const {
  const llvm::SmallVector<int64_t> sizes = type.getSizes();
  return plans->get({{sizes.begin(), sizes.end()}, source, target},
                    getElementBytes(type));
}

layout::DimSplit ModuleLayout::getSplit(StringRef dim) const {
  layout::Sharding sharding;
  sharding.dims.push_back(rules.getSplit(std::string_view(dim)));
  return layout::getCanonical(mesh, std::move(sharding)).dims.front();
}

bool ModuleLayout::isExempt(StringRef dim, ArrayRef<DimAttr> dims) const {
  std::vector<std::string> names;
  for (DimAttr other : dims)
    names.push_back(other.getName().str());
  return rules.isExempt(std::string_view(dim), names);
}

RuleOp ModuleLayout::findRule(StringRef dim) const {
  std::optional<size_t> rule = rules.findRule(std::string_view(dim));
  return rule ? ruleOps[*rule] : RuleOp();
}

FailureOr<layout::Sharding> ModuleLayout::getSharding(NamedTensorType type,
                                                      std::string_view name,
                                                      layout::Role role,
                                                      Operation *op) {
  const std::vector<std::string> names = getDimNames(type);
  auto result = rules.getLayout({names, type.getSizes(), name}, role);
  if (auto *found = std::get_if<layout::TensorLayout>(&result))
    return std::move(found->sharding);
  auto &error = std::get<layout::LayoutError>(result);
  if (!reported.emplace(std::minmax(error.dim, error.otherDim)).second)
    return failure();
  InFlightDiagnostic diagnostic =
      op->emitError() << "dimensions \"" << error.otherDim << "\" and \""
                      << error.dim
                      << "\" of one tensor are split over one axis, \""
                      << error.axis << "\"";
  setKind(*diagnostic.getUnderlyingDiagnostic(), ErrorKind::SharedAxis);
  for (auto [dim, rule] : {std::pair(error.otherDim, error.otherRule),
                           std::pair(error.dim, error.rule)})
    diagnostic.attachNote(RuleOp(ruleOps[rule]).getLoc())
        << "\"" << dim << "\" is split by this rule";
  return failure();
}

FailureOr<layout::Sharding> ModuleLayout::getSharding(NamedTensorType type,
                                                      Operation *op,
                                                      std::string_view name) {
  return getSharding(type, name, layout::Role::Value, op);
}

FailureOr<layout::Sharding> ModuleLayout::getSharding(VariableOp variable) {
  return getSharding(variable, getRole(variable));
}

FailureOr<layout::Sharding> ModuleLayout::getSharding(VariableOp variable,
                                                      layout::Role role) {
  return getSharding(variable.getTensorType(), getPath(variable), role,
                     variable);
}

layout::Sharding ModuleLayout::getLegalSharding(Value value) const {
  auto type = cast<NamedTensorType>(value.getType());
  if (value.getDefiningOp<ReshardOp>())
    return layout::getCanonical(mesh, nd::getSharding(type, mesh));
  if (auto border = value.getDefiningOp<BorderOpInterface>()) {
    const std::vector<std::string> names = getDimNames(type);
    const SmallVector<int64_t> sizes = type.getSizes();
    const VariableOp variable = border.isVariable()
                                    ? variables.lookup(border.getBorderName())
                                    : VariableOp();
    const std::string name =
        variable ? getPath(variable) : border.getBorderName().str();
    auto found =
        rules.getLayout({names, sizes, name},
                        variable ? getRole(variable) : layout::Role::Value);
    if (auto *known = std::get_if<layout::TensorLayout>(&found))
      return std::move(known->sharding);
  }
  auto [known, isFirst] = legalShardings.try_emplace(type);
  if (isFirst) {
    const std::vector<std::string> names = getDimNames(type);
    const SmallVector<int64_t> sizes = type.getSizes();
    known->second = rules.getLegalSharding({names, sizes});
  }
  return known->second;
}

RuleOp ModuleLayout::findRoleRule(OpOperand &use, StringRef dim) const {
  VariableOp variable;
  layout::Role role = layout::Role::State;
  if (auto read = use.get().getDefiningOp<ReadOp>()) {
    variable = variables.lookup(read.getVariable());
    role = getRole(variable);
  } else if (auto write = dyn_cast<WriteOp>(use.getOwner())) {
    variable = variables.lookup(write.getVariable());
  } else {
    return {};
  }
  const NamedTensorType type = variable.getTensorType();
  const std::vector<std::string> names = getDimNames(type);
  const SmallVector<int64_t> sizes = type.getSizes();
  const std::string name = getPath(variable);
  auto found = rules.getLayout({names, sizes, name}, role);
  auto *known = std::get_if<layout::TensorLayout>(&found);
  if (!known || !type.hasDim(dim))
    return {};
  for (size_t rule : known->rules[size_t(type.findDim(dim))])
    if (!rules.getRules()[rule].isOfDims())
      return ruleOps[rule];
  return {};
}

bool ModuleLayout::liesByName(VariableOp parameter) const {
  const NamedTensorType type = parameter.getTensorType();
  const std::vector<std::string> names = getDimNames(type);
  const SmallVector<int64_t> sizes = type.getSizes();
  const std::string path = getPath(parameter);
  auto found = rules.getLayout({names, sizes, path}, layout::Role::Parameter);
  auto *known = std::get_if<layout::TensorLayout>(&found);
  return known && known->isByName;
}

std::optional<std::string> ModuleLayout::findNamedParameter(Value value) const {
  Operation *op = value.getDefiningOp();
  auto reshard = dyn_cast_or_null<ReshardOp>(op);
  if (!isa_and_present<ReadOp>(op) && !(reshard && reshard.getRole()))
    return std::nullopt;
  const OriginAttr origin = getOrigin(op->getLoc(), "");
  const std::string path = origin.getPath();
  const bool isOf =
      origin.getKind() != OriginKind::State && namedParameters.contains(path);
  return isOf ? std::optional(path) : std::nullopt;
}

bool ModuleLayout::isReadOfSum(Value value) const {
  auto read = value.getDefiningOp<ReadOp>();
  return read && getRole(variables.lookup(read.getVariable())) ==
                     layout::Role::Gradient;
}

layout::Role meshc::getRole(VariableOp variable) {
  switch (variable.getRole()) {
  case VariableRole::Parameter:
    return layout::Role::Parameter;
  case VariableRole::State:
    return layout::Role::State;
  case VariableRole::InStep:
    return getOrigin(variable.getLoc(), "").getKind() == OriginKind::Gradient
               ? layout::Role::Gradient
               : layout::Role::Value;
  case VariableRole::ModelState:
    return layout::Role::Value;
  }
  llvm_unreachable("unknown role of a variable");
}

std::vector<std::string> meshc::getDimNames(NamedTensorType type) {
  std::vector<std::string> names;
  for (DimAttr dim : type.getDims())
    names.push_back(dim.getName().str());
  return names;
}

int64_t meshc::getElementBytes(NamedTensorType type) {
  return llvm::divideCeil(type.getElementType().getIntOrFloatBitWidth(), 8);
}
