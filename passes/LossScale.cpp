#include "passes/LossScale.h"

#include "dialect/Locations.h"

#include <limits>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

static constexpr StringRef scope = "fp16";
// In this scope.
static constexpr StringRef scaleName = "loss_scale";
static constexpr StringRef goodName = "good_steps";
static constexpr StringRef skippedName = "skipped_steps";
static constexpr StringRef retryName = "retry";
static constexpr StringRef overflowName = "overflow";

static std::string getFullName(StringRef name) {
  return (scope + "/" + name).str();
}

static constexpr double lowestScale = 0x1p-24, highestScale = 0x1p24;

/// Declares the state in front of the programs.
static void declareState(PrecisionOp precision) {
  auto module = precision->getParentOfType<ModuleOp>();
  if (module.lookupSymbol<VariableOp>(getFullName(scaleName)))
    return;
  OpBuilder builder(*module.getOps<ProgramOp>().begin());
  auto declare = [&](StringRef name, Type elementType, double value) {
    VariableOp::create(
        builder, withName(precision.getLoc(), scope, name), getFullName(name),
        VariableRole::State, NamedTensorType::get({}, elementType),
        FillAttr::get(builder.getContext(), builder.getF64FloatAttr(value)));
  };
  declare(scaleName, builder.getF32Type(),
          precision.getScale().convertToDouble());
  declare(goodName, builder.getI32Type(), 0);
  declare(skippedName, builder.getI32Type(), 0);
}

std::optional<LossScale> LossScale::create(ProgramOp program) {
  auto module = program->getParentOfType<ModuleOp>();
  for (auto precision : module.getOps<PrecisionOp>())
    if (precision.getPrecision() == Precision::FP16) {
      declareState(precision);
      return LossScale(program, precision);
    }
  return std::nullopt;
}

LossScale::LossScale(ProgramOp program, PrecisionOp precision)
    : program(program), precision(precision),
      builder(OpBuilder::atBlockEnd(&program.getBody().front())),
      loc(withName(withPhase(precision.getLoc(), Phase::Update), scope,
                   scaleName)) {
  scale = read(scaleName);
}

Value LossScale::read(StringRef name) {
  const std::string variable = getFullName(name);
  auto declared =
      program->getParentOfType<ModuleOp>().lookupSymbol<VariableOp>(variable);
  return ReadOp::create(builder, withName(loc, scope, name),
                        declared.getTensorType(), variable);
}

void LossScale::write(StringRef name, Value value) {
  WriteOp::create(builder, withName(loc, scope, name), getFullName(name),
                  value);
}

void LossScale::giveOut(StringRef name, Value value) {
  OutputOp::create(builder, withName(loc, scope, name), getFullName(name),
                   value);
}

Value LossScale::splat(TypedAttr value) {
  return ConstantOp::create(builder, loc,
                            NamedTensorType::get({}, value.getType()), value);
}
Value LossScale::splat(double value) {
  return splat(builder.getF32FloatAttr(float(value)));
}
Value LossScale::splat(int32_t value) {
  return splat(builder.getI32IntegerAttr(value));
}

Value LossScale::unscale(Value gradient) {
  if (!gradient)
    return gradient;
  builder.setInsertionPointToEnd(&program.getBody().front());
  if (!inverse)
    inverse = DivOp::create(builder, loc, splat(1.0), scale);
  Type elementType = cast<NamedTensorType>(gradient.getType()).getElementType();
  Value factor = inverse;
  if (!elementType.isF32())
    factor = CastOp::create(builder, loc, factor, elementType);
  return MulOp::create(builder, gradient.getLoc(), gradient.getType(), gradient,
                       factor);
}

/// Whether no gradient has an infinite or NaN element. Counted rather than
/// compared one by one: the counts of parameters that are split alike are added
/// before they are completed, in one sum over the devices.
Value LossScale::buildIsFinite(ArrayRef<Value> gradients) {
  Value count = splat(0.0);
  for (Value gradient : gradients) {
    auto type = cast<NamedTensorType>(gradient.getType());
    auto element = cast<FloatType>(type.getElementType());
    Value largest = splat(FloatAttr::get(
        element, APFloat::getLargest(element.getFloatSemantics())));
    Value size = AbsOp::create(builder, loc, gradient);
    // A comparison with NaN is false.
    Value isFinite =
        CompareOp::create(builder, loc, Predicate::Le, size, largest);
    Value isBad =
        SelectOp::create(builder, loc, isFinite, splat(0.0), splat(1.0));
    Value bad = ReduceOp::create(builder, loc,
                                 NamedTensorType::get({}, builder.getF32Type()),
                                 Reduction::Sum, isBad);
    count = AddOp::create(builder, loc, count, bad);
  }
  return CompareOp::create(builder, loc, Predicate::Eq, count, splat(0.0));
}

Value LossScale::buildHalved() {
  return MaximumOp::create(builder, loc,
                           MulOp::create(builder, loc, scale, splat(0.5)),
                           splat(lowestScale));
}

void LossScale::search(ArrayRef<Value> outputs, ArrayRef<Value> gradients) {
  builder.setInsertionPointToEnd(&program.getBody().front());
  loc = withName(withPhase(loc, Phase::Backward), scope, overflowName);
  SmallVector<Value> given;
  llvm::copy_if(gradients, std::back_inserter(given),
                [](Value gradient) { return bool(gradient); });
  Value isGood = buildIsFinite(given);
  Value mayHalve =
      CompareOp::create(builder, loc, Predicate::Gt, scale, splat(lowestScale));
  Value isNumber = buildIsFinite(outputs);
  Value repeats =
      AndOp::create(builder, loc, NotOp::create(builder, loc, isGood),
                    AndOp::create(builder, loc, mayHalve, isNumber));
  write(scaleName,
        SelectOp::create(builder, loc, repeats, buildHalved(), scale));
  giveOut(retryName,
          SelectOp::create(builder, loc, repeats, splat(1), splat(0)));
}

void LossScale::guard(ArrayRef<Value> gradients,
                      function_ref<Value(StringRef)> getBefore) {
  builder.setInsertionPointToEnd(&program.getBody().front());
  // The last thing that the backward pass has to say.
  loc = withName(withPhase(loc, Phase::Backward), scope, overflowName);
  Value isGood = buildIsFinite(gradients);

  llvm::StringMap<Value> olds;
  for (auto old : program.getOps<ReadOp>())
    olds.try_emplace(old.getVariable(), old.getResult());
  SmallVector<WriteOp> updates(program.getOps<WriteOp>());
  for (WriteOp update : updates) {
    Value &old = olds[update.getVariable()];
    Value updated = update.getValue();
    builder.setInsertionPointToEnd(&program.getBody().front());
    if (Value before = getBefore(update.getVariable()))
      old = before;
    else if (!old)
      old = ReadOp::create(builder, update.getLoc(), updated.getType(),
                           update.getVariable());
    Value kept = SelectOp::create(builder, update.getLoc(), updated.getType(),
                                  isGood, updated, old);
    update.getValueMutable().assign(kept);
    update->moveAfter(kept.getDefiningOp());
  }

  builder.setInsertionPointToEnd(&program.getBody().front());
  loc = withName(withPhase(loc, Phase::Update), scope, scaleName);
  auto select = [&](Value condition, Value whenTrue, Value whenFalse) -> Value {
    return SelectOp::create(builder, loc, condition, whenTrue, whenFalse);
  };
  Value good = AddOp::create(builder, loc, read(goodName), splat(1));
  Value mayGrow = CompareOp::create(
      builder, loc, Predicate::Ge, good,
      splat(int32_t(std::min<uint64_t>(precision.getGrowthSteps(),
                                       std::numeric_limits<int32_t>::max()))));
  Value doubled = MinimumOp::create(
      builder, loc, MulOp::create(builder, loc, scale, splat(2.0)),
      splat(highestScale));
  Value halved = buildHalved();
  Value grown = select(mayGrow, doubled, scale);
  Value after = select(isGood, grown, halved);
  Value goodAfter = select(isGood, select(mayGrow, splat(0), good), splat(0));
  Value skipped = read(skippedName);
  Value skippedAfter =
      select(isGood, skipped, AddOp::create(builder, loc, skipped, splat(1)));
  write(scaleName, after);
  write(goodName, goodAfter);
  write(skippedName, skippedAfter);
  giveOut(scaleName, after);
  giveOut(skippedName, skippedAfter);
}
