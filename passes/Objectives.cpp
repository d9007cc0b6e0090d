#include "passes/Objectives.h"

#include "dialect/ProgramWalk.h"
#include "layout/Spelling.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

SmallVector<GradientSource> meshc::findGradientSources(ProgramOp program) {
  SmallVector<GradientSource> sources;
  llvm::StringMap<size_t> parameters, inputs;
  auto module = program->getParentOfType<ModuleOp>();
  for (auto variable : module.getOps<VariableOp>()) {
    if (variable.getRole() != VariableRole::Parameter)
      continue;
    parameters[variable.getSymName()] = sources.size();
    sources.push_back({variable.getSymName(),
                       /*isParameter=*/true,
                       {},
                       variable.getTensorType(),
                       variable.getLoc()});
  }
  for (Operation *op : getOperations(program)) {
    auto entry = dyn_cast<BorderOpInterface>(op);
    if (!entry || entry.isExit())
      continue;
    StringRef name = entry.getBorderName();
    NamedTensorType type = entry.getGlobalType();
    if (entry.isVariable()) {
      auto known = parameters.find(name);
      if (known != parameters.end())
        sources[known->second].reads.push_back(entry.getBorderValue());
    } else if (isa<FloatType>(type.getElementType())) {
      auto [known, isFirst] = inputs.try_emplace(name, sources.size());
      if (isFirst)
        sources.push_back(
            {name, /*isParameter=*/false, {}, type, entry->getLoc()});
      sources[known->second].reads.push_back(entry.getBorderValue());
    }
  }
  return sources;
}

SmallVector<ObjectiveGroup>
meshc::groupByObjective(ModuleOp module, const Objective &first,
                        ArrayRef<GradientSource> sources) {
  SmallVector<ObjectiveGroup> groups{{first.minimize, first.loc}};
  llvm::StringMap<size_t> groupOf; // of parameters
  for (auto objective : module.getOps<ObjectiveOp>()) {
    std::optional<ArrayAttr> parameters = objective.getParameters();
    if (!parameters)
      continue;
    for (auto name : parameters->getAsRange<StringAttr>())
      groupOf[name.getValue()] = groups.size();
    groups.push_back({objective.getMinimize().str(), objective.getLoc()});
  }
  for (auto [place, source] : llvm::enumerate(sources))
    groups[source.isParameter ? groupOf.lookup(source.name) : 0]
        .sources.push_back(place);
  return groups;
}

Objective meshc::findObjective(ModuleOp module) {
  for (auto training : module.getOps<TrainingOp>())
    return {training.getMinimize().str(), training.getLoc()};
  for (auto objective : module.getOps<ObjectiveOp>())
    if (!objective.getParameters())
      return {objective.getMinimize().str(), objective.getLoc()};
  Objective found{"", module.getLoc()};
  if (auto forward = module.lookupSymbol<ProgramOp>("forward"))
    for (auto output : forward.getOps<OutputOp>()) {
      NamedTensorType type = output.getValue().getType();
      if (type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
        continue;
      found.candidates.push_back(output.getName());
      found.loc = output.getLoc();
    }
  if (found.candidates.size() == 1)
    found.minimize = found.candidates.front().str();
  return found;
}

FailureOr<Value> meshc::findMinimized(ProgramOp program, StringRef name,
                                      Location loc) {
  std::vector<std::string> known;
  for (auto output : program.getOps<OutputOp>()) {
    known.push_back(output.getName().str());
    if (output.getName() != name)
      continue;
    NamedTensorType type = output.getValue().getType();
    if (type.getRank() == 0 && isa<FloatType>(type.getElementType()))
      return Value(output.getValue());
    emitError(loc) << "only a scalar of floats can be minimized, and output \""
                   << name << "\" is " << type.withoutSharding();
    return failure();
  }
  InFlightDiagnostic error = emitError(loc) << "there is no output \"" << name
                                            << "\" to minimize";
  std::string nearest = layout::findNearest(name.str(), known);
  if (!nearest.empty())
    error << "; did you mean \"" << nearest << "\"?";
  return failure();
}
