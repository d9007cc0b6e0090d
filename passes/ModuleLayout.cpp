#include "passes/ModuleLayout.h"

#include "dialect/ErrorKind.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

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
  std::vector<layout::LayoutRule> table;
  SmallVector<RuleOp> ops(module.getOps<RuleOp>());
  for (RuleOp rule : ops) {
    result.ruleOps[rule.getDim()] = rule;
    layout::LayoutRule line{rule.getDim().str(), {}};
    for (auto axis : rule.getAxes().getAsRange<StringAttr>())
      line.axes.push_back(axis.str());
    table.push_back(std::move(line));
  }
  auto created = layout::LayoutRules::create(result.mesh, std::move(table),
                                             collectDims(module));
  if (auto *rules = std::get_if<layout::LayoutRules>(&created)) {
    result.rules = std::move(*rules);
    return result;
  }
  for (const layout::LayoutError &error :
       std::get<std::vector<layout::LayoutError>>(created)) {
    // The verifier of the rule has found whatever else may be wrong with it.
    InFlightDiagnostic diagnostic = ops[error.rule].emitError()
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

RuleOp ModuleLayout::findRule(StringRef dim) const {
  return ruleOps.lookup(dim);
}

FailureOr<layout::Sharding> ModuleLayout::getSharding(NamedTensorType type,
                                                      Operation *op) {
  auto result = rules.getSharding(getDimNames(type));
  if (auto *sharding = std::get_if<layout::Sharding>(&result))
    return std::move(*sharding);
  auto &error = std::get<layout::LayoutError>(result);
  if (!reported.emplace(std::minmax(error.dim, error.otherDim)).second)
    return failure();
  InFlightDiagnostic diagnostic =
      op->emitError() << "dimensions \"" << error.otherDim << "\" and \""
                      << error.dim
                      << "\" of one tensor are split over one axis, \""
                      << error.axis << "\"";
  setKind(*diagnostic.getUnderlyingDiagnostic(), ErrorKind::SharedAxis);
  for (const std::string &dim : {error.otherDim, error.dim})
    diagnostic.attachNote(findRule(dim).getLoc())
        << "\"" << dim << "\" is split by this rule";
  return failure();
}

layout::Sharding ModuleLayout::getLegalSharding(NamedTensorType type) const {
  layout::Sharding sharding;
  std::set<int32_t> taken;
  for (DimAttr dim : type.getDims()) {
    layout::DimSplit split = getSplit(dim.getName().getValue());
    llvm::erase_if(split, [&](layout::AxisRef axis) {
      return !taken.insert(axis.axis).second;
    });
    sharding.dims.push_back(std::move(split));
  }
  return sharding;
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
