#include "dialect/Locations.h"
#include "passes/LossScale.h"
#include "passes/ModuleLayout.h"
#include "passes/Passes.h"
#include "passes/ReverseSweep.h"
#include "passes/StepParts.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_BUILDSTEP
#include "passes/Passes.h.inc"
} // namespace meshc

namespace {

/// Has updates see gradients and parameters as the state of the optimizer lies,
/// where rules of the layout give that roles. So each device updates its part.
class UpdateShardings {
public:
  explicit UpdateShardings(ModuleLayout layout) : layout(std::move(layout)) {}

  Value constrainGradient(Value gradient, VariableOp parameter) {
    return constrain(gradient, parameter, layout::Role::Value);
  }
  Value constrainParameter(Value read, VariableOp parameter) {
    return constrain(read, parameter, layout::Role::Parameter);
  }

private:
  /// `value` lies as a tensor of `role`.
  Value constrain(Value value, VariableOp parameter, layout::Role role) {
    if (!value || !layout.hasRoles())
      return value;
    const NamedTensorType declared = parameter.getTensorType();
    auto wanted = layout.getSharding(parameter, layout::Role::State);
    auto had = role == layout::Role::Parameter
                   ? layout.getSharding(parameter, role)
                   : layout.getSharding(declared, parameter);
    if (failed(wanted) || failed(had) || *wanted == *had)
      return value; // nd-check-layout has told errors
    auto type = cast<NamedTensorType>(value.getType());
    layout::Sharding sharding;
    for (DimAttr dim : type.getDims())
      sharding.dims.push_back(
          wanted->dims[size_t(declared.findDim(dim.getName()))]);
    OpBuilder builder(value.getContext());
    builder.setInsertionPointToEnd(value.getParentBlock());
    // A gradient leaves as soon as it is there.
    const Location loc = role == layout::Role::Parameter
                             ? withPhase(value.getLoc(), Phase::Update)
                             : value.getLoc();
    auto ofGradients = layout.getSharding(parameter, layout::Role::Gradient);
    const LayoutRole asked = succeeded(ofGradients) && *ofGradients == *wanted
                                 ? LayoutRole::Gradients
                                 : LayoutRole::State;
    return ReshardOp::create(
        builder, loc,
        type.withSharding(getShardingAttr(type, layout.getMesh(), sharding)),
        value, ArrayAttr(), LayoutRoleAttr::get(value.getContext(), asked));
  }

  ModuleLayout layout;
};

/// Puts what @update says behind the gradients of a step: there its reads are
/// those of the step, and gradients the values that were found.
class Updates {
public:
  Updates(ProgramOp update, ProgramOp step, UpdateShardings &shardings)
      : update(update), step(step), shardings(shardings),
        builder(OpBuilder::atBlockEnd(&step.getBody().front())) {
    for (Operation &op : step.getBody().front()) {
      if (auto read = dyn_cast<ReadOp>(op))
        reads.try_emplace(read.getVariable(), read);
      else if (auto input = dyn_cast<InputOp>(op))
        inputs.try_emplace(input.getName(), input);
    }
  }

  /// A parameter that has no gradient: neither it nor what the optimizer
  /// remembers of it changes, and that is not declared.
  void leaveAlone(VariableOp parameter) {
    const OriginAttr origin = getOrigin(parameter);
    unchanged.insert(parameter.getSymName());
    for (auto variable : step->getParentOfType<ModuleOp>().getOps<VariableOp>())
      if (variable.getRole() == VariableRole::State &&
          getOrigin(variable).isOf(origin)) {
        unchanged.insert(variable.getSymName());
        states.push_back(variable);
      }
  }

  /// `getGradient` gives the gradient of a parameter, null without one.
  void append(function_ref<Value(StringRef)> getGradient) {
    const DenseSet<Operation *> needed = findNeeded();
    IRMapping values;
    for (Operation &op : update.getBody().front()) {
      if (!needed.contains(&op))
        continue;
      if (auto gradient = dyn_cast<GradientOp>(op)) {
        Value found = getGradient(gradient.getVariable());
        builder.setInsertionPointToEnd(&step.getBody().front());
        values.map(gradient, found ? found : getZeros(gradient));
      } else if (Value known = findInStep(op)) {
        values.map(op.getResult(0), known);
      } else {
        builder.clone(op, values);
      }
    }
    for (VariableOp state : states)
      state.erase();
  }

private:
  static OriginAttr getOrigin(VariableOp variable) {
    return meshc::getOrigin(variable.getLoc(), variable.getSymName());
  }

  /// The operations that what is written is made of.
  DenseSet<Operation *> findNeeded() {
    DenseSet<Operation *> needed;
    for (Operation &op : llvm::reverse(update.getBody().front())) {
      auto write = dyn_cast<WriteOp>(op);
      const bool isNeeded =
          write ? !unchanged.contains(write.getVariable())
                : isa<OutputOp>(op) || // a number of the step
                      llvm::any_of(op.getUsers(), [&](Operation *user) {
                        return needed.contains(user);
                      });
      if (isNeeded)
        needed.insert(&op);
    }
    return needed;
  }

  Value findInStep(Operation &op) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      Value known = reads.lookup(read.getVariable());
      auto variable = variables.lookup<VariableOp>(read.getVariable());
      return variable.getRole() == VariableRole::Parameter
                 ? shardings.constrainParameter(known, variable)
                 : known;
    }
    if (auto input = dyn_cast<InputOp>(op))
      return inputs.lookup(input.getName());
    return {};
  }

  Value getZeros(GradientOp gradient) {
    auto type = cast<NamedTensorType>(gradient.getType());
    return ConstantOp::create(builder, gradient.getLoc(), type,
                              FloatAttr::get(type.getElementType(), 0));
  }

  ProgramOp update, step;
  UpdateShardings &shardings;
  const SymbolTable variables{step->getParentOfType<ModuleOp>()};
  OpBuilder builder;
  llvm::StringMap<Value> reads, inputs;
  llvm::StringSet<> unchanged;
  SmallVector<VariableOp> states; ///< of these
};

} // namespace

/// Whether what `program` gives out as `output` is made of a parameter.
static bool influences(const GradientSource &parameter, ProgramOp program,
                       StringRef output) {
  SetVector<Operation *> reached;
  auto addUsers = [&](Value value) {
    reached.insert(value.getUsers().begin(), value.getUsers().end());
  };
  llvm::for_each(parameter.reads, addUsers);
  for (size_t next = 0; next < reached.size(); ++next) {
    Operation *op = reached[next];
    if (auto border = dyn_cast<OutputOp>(op);
        border && border.getName() == output)
      return true;
    llvm::for_each(op->getResults(), addUsers);
    // A loop gives out what its region yields.
    if (Operation *parent = op->getParentOp(); parent != program)
      reached.insert(parent);
  }
  return false;
}

/// Appends gradients and updates to `program`: the model for training.
static LogicalResult appendUpdates(ProgramOp program, TrainingOp training,
                                   ProgramOp update) {
  auto module = program->getParentOfType<ModuleOp>();
  llvm::StringSet<> updated;
  for (auto gradient : update.getOps<GradientOp>())
    updated.insert(gradient.getVariable());
  SmallVector<GradientSource> parameters;
  for (GradientSource &source : findGradientSources(program))
    if (source.isParameter && updated.contains(source.name))
      parameters.push_back(std::move(source));
  std::optional<LossScale> lossScale = LossScale::create(program);
  const SmallVector<ObjectiveGroup> groups = groupByObjective(
      module, {training.getMinimize().str(), training.getLoc()}, parameters);
  FailureOr<SmallVector<Value>> gradients = appendGradients(
      program, groups, parameters, lossScale ? lossScale->getScale() : Value());
  if (failed(gradients))
    return failure();

  // Updates behind what they are of.
  std::optional<StepParts> parts;
  if (training.getParts() > 1)
    parts.emplace(program, int64_t(training.getParts()));
  const SymbolTable variables(module);
  FailureOr<ModuleLayout> layout = ModuleLayout::create(module);
  if (failed(layout))
    return failure();
  UpdateShardings shardings(std::move(*layout));
  Updates updates(update, program, shardings);
  llvm::StringMap<Value> byName;
  SmallVector<Value> scaled;
  for (const ObjectiveGroup &group : groups)
    for (size_t place : group.sources) {
      const GradientSource &parameter = parameters[place];
      if (Value gradient = (*gradients)[place]) {
        StepParts::Sum sum{gradient, gradient};
        if (parts)
          sum = parts->addGradient(parameter.name, gradient);
        const Value mean = shardings.constrainGradient(
            sum.mean, variables.lookup<VariableOp>(parameter.name));
        // What overflows, does so in parts of the mean, too.
        scaled.push_back(mean == sum.mean ? sum.sum : mean);
        byName[parameter.name] = mean;
        continue;
      }
      updates.leaveAlone(variables.lookup<VariableOp>(parameter.name));
      if (influences(parameter, program, group.minimize))
        emitRemark(parameter.loc) << "parameter \"" << parameter.name
                                  << "\" is frozen: \"" << group.minimize
                                  << "\" depends on it, but no gradient comes "
                                     "from there, so it stays as it starts";
      else
        emitWarning(parameter.loc)
            << "parameter \"" << parameter.name << "\" does not influence \""
            << group.minimize << "\": it stays as it starts";
    }
  if (parts) {
    parts->averageOutputs();
    if (lossScale)
      parts->rememberState();
  }
  updates.append([&](StringRef parameter) {
    Value gradient = byName.lookup(parameter);
    return lossScale ? lossScale->unscale(gradient) : gradient;
  });
  if (lossScale)
    lossScale->guard(scaled, [&](StringRef variable) {
      return parts ? parts->getBefore(variable) : Value();
    });
  return success();
}

/// Removes the outputs that nothing reads after a step: a training reports
/// numbers.
static void removeTensorOutputs(ProgramOp step) {
  for (auto output : llvm::make_early_inc_range(step.getOps<OutputOp>()))
    if (cast<NamedTensorType>(output.getValue().getType()).getRank() > 0)
      output.erase();
}

/// Makes of a program for training one that changes no variable: what it would
/// set of the model's state it gives out, under the state's name.
static void giveOutState(ProgramOp program) {
  auto module = program->getParentOfType<ModuleOp>();
  llvm::StringMap<Value> values;
  for (auto read : program.getOps<ReadOp>())
    values[read.getVariable()] = read.getResult();
  for (auto write : program.getOps<WriteOp>())
    values[write.getVariable()] = write.getValue();
  auto builder = OpBuilder::atBlockEnd(&program.getBody().front());
  for (auto variable : module.getOps<VariableOp>())
    if (Value value = values.lookup(variable.getSymName());
        value && variable.getRole() == VariableRole::ModelState)
      OutputOp::create(builder, variable.getLoc(), variable.getSymName(),
                       value);
  const SymbolTable variables(module);
  for (auto write : llvm::make_early_inc_range(program.getOps<WriteOp>()))
    if (variables.lookup<VariableOp>(write.getVariable()).getRole() ==
        VariableRole::ModelState)
      write.erase();
}

/// Has `program` read the running means of parameters instead of these, where
/// there are such.
static void readMeans(ProgramOp program) {
  auto module = program->getParentOfType<ModuleOp>();
  for (auto read : program.getOps<ReadOp>())
    if (VariableOp mean = findMean(module, read.getVariable()))
      read.setVariable(mean.getSymName());
}

namespace {
struct BuildStep : meshc::impl::BuildStepBase<BuildStep> {
  using BuildStepBase::BuildStepBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<ProgramOp>("forward");
    if (!forward) {
      module.emitError() << "there is no program @forward to train";
      return signalPassFailure();
    }
    auto training = module.lookupSymbol<ProgramOp>("training");
    auto trainings = module.getOps<TrainingOp>();
    auto update = module.lookupSymbol<ProgramOp>(ProgramOp::updateName);
    if (!trainings.empty()) {
      if (!update) {
        (*trainings.begin())->emitError()
            << "there is no program @" << ProgramOp::updateName
            << " that says how parameters change";
        return signalPassFailure();
      }
      OpBuilder builder(forward);
      auto step =
          cast<ProgramOp>(builder.clone(*(training ? training : forward)));
      step.setSymName("step");
      if (failed(appendUpdates(step, *trainings.begin(), update)))
        return signalPassFailure();
      removeTensorOutputs(step);
    }
    if (update)
      update.erase();
    for (StringRef name : {"training", "training_gradient"})
      if (auto program = module.lookupSymbol<ProgramOp>(name))
        giveOutState(program);
    forward.setSymName("eval");
    for (StringRef name : {"eval", "gradient"})
      if (auto program = module.lookupSymbol<ProgramOp>(name))
        readMeans(program);
  }
};
} // namespace
