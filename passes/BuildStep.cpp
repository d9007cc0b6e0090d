#include "dialect/Locations.h"
#include "passes/LossScale.h"
#include "passes/OptimizerBuilder.h"
#include "passes/Passes.h"
#include "passes/ReverseSweep.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_BUILDSTEP
#include "passes/Passes.h.inc"
} // namespace meshc

/// Appends gradients and updates to `program`: the model for training.
static LogicalResult appendUpdates(ProgramOp program, TrainingOp training) {
  FailureOr<Value> minimized =
      findMinimized(program, training.getMinimize(), training.getLoc());
  if (failed(minimized))
    return failure();
  SmallVector<GradientSource> parameters;
  for (GradientSource &source : findGradientSources(program))
    if (source.isParameter)
      parameters.push_back(std::move(source));
  std::optional<LossScale> lossScale = LossScale::create(program);
  FailureOr<SmallVector<Value>> gradients =
      appendGradients(program, *minimized, parameters,
                      lossScale ? lossScale->getScale() : Value());
  if (failed(gradients))
    return failure();
  FailureOr<OptimizerBuilder> optimizer =
      OptimizerBuilder::create(training, program);
  if (failed(optimizer))
    return failure();

  const SymbolTable variables(program->getParentOfType<ModuleOp>());
  SmallVector<Value> scaled;
  for (auto [parameter, gradient] : llvm::zip_equal(parameters, *gradients)) {
    if (gradient) {
      scaled.push_back(gradient);
      optimizer->update(variables.lookup<VariableOp>(parameter.name),
                        parameter.reads.front(),
                        lossScale ? lossScale->unscale(gradient) : gradient);
      continue;
    }
    // Every optimizer leaves a parameter alone whose gradient is always 0.
    emitWarning(parameter.loc)
        << "parameter \"" << parameter.name << "\" does not influence \""
        << training.getMinimize() << "\": it stays as it starts";
  }
  if (lossScale)
    lossScale->guard(scaled);
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
    if (!trainings.empty()) {
      OpBuilder builder(forward);
      auto step =
          cast<ProgramOp>(builder.clone(*(training ? training : forward)));
      step.setSymName("step");
      if (failed(appendUpdates(step, *trainings.begin())))
        return signalPassFailure();
      removeTensorOutputs(step);
    }
    for (StringRef name : {"training", "training_gradient"})
      if (auto program = module.lookupSymbol<ProgramOp>(name))
        giveOutState(program);
    forward.setSymName("eval");
  }
};
} // namespace
