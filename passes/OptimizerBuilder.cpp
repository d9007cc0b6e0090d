#include "passes/OptimizerBuilder.h"

#include "dialect/Locations.h"
#include "layout/Spelling.h"

#include <cmath>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

//===-- Checks ------------------------------------------------------------===//

/// `known` as a list for a suggestion.
template <typename Range>
static std::string suggest(StringRef name, const Range &known) {
  std::vector<std::string> names;
  for (const auto &entry : known)
    names.emplace_back(entry.name);
  std::string nearest = layout::findNearest(name.str(), names);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

/// The hyper-parameters are exactly the optimizer's, each in its range.
static LogicalResult checkHyper(TrainingOp training,
                                const Optimizer &optimizer) {
  for (NamedAttribute given : training.getHyper()) {
    StringRef name = given.getName().getValue();
    const HyperParameter *hyper = optimizer.findHyper(name);
    if (!hyper)
      return training.emitError() << "optimizer \"" << training.getOptimizer()
                                  << "\" has no hyper-parameter \"" << name
                                  << "\"" << suggest(name, optimizer.hyper);
    auto value = dyn_cast<FloatAttr>(given.getValue());
    if (!value)
      return training.emitError()
             << "hyper-parameter \"" << name << "\" must be a float, found "
             << given.getValue();
    if (!hyper->accepts(value.getValueAsDouble()))
      return training.emitError()
             << "hyper-parameter \"" << name << "\" must lie in [" << hyper->low
             << ", " << hyper->high << "), found " << value;
  }
  for (const HyperParameter &hyper : optimizer.hyper)
    if (!training.getHyper().contains(hyper.name))
      return training.emitError()
             << "optimizer \"" << training.getOptimizer()
             << "\" needs the hyper-parameter \"" << hyper.name << "\"";
  return success();
}

FailureOr<OptimizerBuilder> OptimizerBuilder::create(TrainingOp training,
                                                     ProgramOp program) {
  const Optimizer *optimizer = findOptimizer(training.getOptimizer());
  if (!optimizer)
    return training.emitError()
               << "there is no optimizer \"" << training.getOptimizer() << "\""
               << suggest(training.getOptimizer(), getOptimizers()),
           failure();
  if (failed(checkHyper(training, *optimizer)))
    return failure();
  return OptimizerBuilder(training, program, *optimizer);
}

OptimizerBuilder::OptimizerBuilder(TrainingOp training, ProgramOp program,
                                   const Optimizer &optimizer)
    : training(training), optimizer(&optimizer),
      builder(OpBuilder::atBlockEnd(&program.getBody().front())),
      loc(training.getLoc()) {}

//===-- Pieces ------------------------------------------------------------===//

double OptimizerBuilder::getHyper(StringRef name) {
  return cast<FloatAttr>(training.getHyper().get(name)).getValueAsDouble();
}

Value OptimizerBuilder::splat(double value, Type elementType) {
  return ConstantOp::create(builder, loc, NamedTensorType::get({}, elementType),
                            FloatAttr::get(elementType, value));
}

/// The value that a variable is.
static OriginAttr getOriginOf(VariableOp variable) {
  return getOrigin(variable.getLoc(), variable.getSymName());
}

VariableOp OptimizerBuilder::declareState(VariableOp parameter,
                                          StringRef state) {
  return declareState(
      parameter,
      withName(parameter.getLoc(), getOriginOf(parameter).asState(state)),
      parameter.getTensorType());
}

VariableOp OptimizerBuilder::declareState(VariableOp after, Location at,
                                          NamedTensorType type) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfter(after);
  return VariableOp::create(
      builder, at, getValueName(at), VariableRole::State, type,
      FillAttr::get(builder.getContext(), builder.getF64FloatAttr(0)));
}

Value OptimizerBuilder::average(VariableOp variable, double decay,
                                double weight, Value term) {
  NamedTensorType type = variable.getTensorType();
  Type elementType = type.getElementType();
  Location at = withName(loc, getOriginOf(variable));
  Value old = ReadOp::create(builder, at, type, variable.getSymName());
  Value kept = MulOp::create(builder, loc, old, splat(decay, elementType));
  Value added = weight == 1 ? term
                            : MulOp::create(builder, loc, type, term,
                                            splat(weight, elementType));
  Value result = AddOp::create(builder, at, type, kept, added);
  WriteOp::create(builder, at, variable.getSymName(), result);
  return result;
}

//===-- Updates -----------------------------------------------------------===//

void OptimizerBuilder::update(VariableOp parameter, Value value,
                              Value gradient) {
  loc = withName(withPhase(parameter.getLoc(), Phase::Update),
                 getOriginOf(parameter).withKind(OriginKind::Update));
  Value result;
  switch (optimizer->kind) {
  case OptimizerKind::Sgd:
    result = updateSgd(value, gradient);
    break;
  case OptimizerKind::Momentum:
    result = updateMomentum(parameter, value, gradient);
    break;
  case OptimizerKind::Adam:
    result = updateAdam(parameter, value, gradient);
    break;
  }
  WriteOp::create(builder, loc, parameter.getSymName(), result);
}

Value OptimizerBuilder::updateSgd(Value value, Value gradient) {
  auto type = cast<NamedTensorType>(value.getType());
  Value step = MulOp::create(builder, loc, type, gradient,
                             splat(getHyper("lr"), type.getElementType()));
  return SubOp::create(builder, loc, type, value, step);
}

Value OptimizerBuilder::updateMomentum(VariableOp parameter, Value value,
                                       Value gradient) {
  VariableOp velocity = declareState(parameter, "momentum/v");
  return updateSgd(value, average(velocity, getHyper("beta"), 1, gradient));
}

void OptimizerBuilder::countStep(VariableOp first) {
  auto scalar = NamedTensorType::get({}, builder.getF32Type());
  Location parameterLoc = loc;
  const Location at = withName(training.getLoc(), "adam", "step");
  loc = withPhase(at, Phase::Update);
  VariableOp counter = declareState(first, at, scalar);
  auto constant = [&](double value) {
    return splat(value, scalar.getElementType());
  };

  Value last = ReadOp::create(builder, loc, scalar, counter.getSymName());
  Value count = AddOp::create(builder, loc, last, constant(1));
  WriteOp::create(builder, loc, counter.getSymName(), count);

  // beta^t as exp(t log(beta)), exact at beta = 0 too.
  auto correct = [&](double numerator, double beta) -> Value {
    Value exponent =
        MulOp::create(builder, loc, count, constant(std::log(beta)));
    Value power = ExpOp::create(builder, loc, exponent);
    Value divisor = SubOp::create(builder, loc, constant(1), power);
    return DivOp::create(builder, loc, constant(numerator), divisor);
  };
  rate = correct(getHyper("lr"), getHyper("beta1"));
  spread = correct(1, getHyper("beta2"));
  loc = parameterLoc;
}

Value OptimizerBuilder::updateAdam(VariableOp parameter, Value value,
                                   Value gradient) {
  if (!rate)
    countStep(parameter);
  NamedTensorType type = parameter.getTensorType();
  Type elementType = type.getElementType();
  VariableOp second = declareState(parameter, "adam/v");
  VariableOp first = declareState(parameter, "adam/m");

  double beta1 = getHyper("beta1"), beta2 = getHyper("beta2");
  Value mean = average(first, beta1, 1 - beta1, gradient);
  Value square = MulOp::create(builder, loc, type, gradient, gradient);
  Value variance = average(second, beta2, 1 - beta2, square);

  auto match = [&](Value scalar) -> Value {
    if (elementType.isF32())
      return scalar;
    return CastOp::create(builder, loc, scalar, elementType);
  };
  Value spreadOut = MulOp::create(builder, loc, variance, match(spread));
  Value root = SqrtOp::create(builder, loc, spreadOut);
  Value divisor = AddOp::create(builder, loc, root,
                                splat(getHyper("epsilon"), elementType));
  Value scaled = MulOp::create(builder, loc, mean, match(rate));
  Value step = DivOp::create(builder, loc, scaled, divisor);
  return SubOp::create(builder, loc, value, step);
}
