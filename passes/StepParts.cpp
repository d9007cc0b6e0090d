#include "passes/StepParts.h"

#include "dialect/Locations.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

static OpBuilder atEnd(ProgramOp program) {
  return OpBuilder::atBlockEnd(&program.getBody().front());
}

static Value getNumber(OpBuilder &builder, Location loc, TypedAttr number) {
  return ConstantOp::create(builder, loc,
                            NamedTensorType::get({}, number.getType()), number);
}

/// The input that says which part a program runs.
static Value getPart(ProgramOp program) {
  for (auto input : program.getOps<InputOp>())
    if (input.isPart())
      return input;
  auto builder = OpBuilder::atBlockBegin(&program.getBody().front());
  return InputOp::create(builder, builder.getUnknownLoc(),
                         NamedTensorType::get({}, builder.getI32Type()),
                         InputOp::partName);
}

StepParts::StepParts(ProgramOp step, int64_t numParts)
    : step(step), numParts(numParts) {
  OpBuilder builder(step);
  accumulate = cast<ProgramOp>(builder.clone(*step, inAccumulate));
  accumulate.setSymName(ProgramOp::accumulateName);
  const Value part = getPart(accumulate);
  builder = atEnd(accumulate);
  const Location loc = withPhase(step.getLoc(), Phase::Backward);
  isFirst =
      CompareOp::create(builder, loc, Predicate::Eq, part,
                        getNumber(builder, loc, builder.getI32IntegerAttr(0)));
}

VariableOp StepParts::declare(const Twine &name, Location loc,
                              NamedTensorType type) {
  OpBuilder builder(
      *step->getParentOfType<ModuleOp>().getOps<ProgramOp>().begin());
  return VariableOp::create(
      builder, loc, builder.getStringAttr(name), VariableRole::InStep, type,
      FillAttr::get(builder.getContext(), builder.getF64FloatAttr(0)));
}

Value StepParts::addUp(const Twine &name, Location loc, Value value) {
  loc = withPhase(loc, Phase::Backward);
  auto type = cast<NamedTensorType>(value.getType());
  VariableOp variable = declare(name, loc, type);
  auto add = [&](OpBuilder &builder, Value term) -> Value {
    Value sum = ReadOp::create(builder, loc, type, variable.getSymName());
    return AddOp::create(builder, loc, type, sum, term);
  };
  // Not a product with 0, since what a step before has left may be no number.
  OpBuilder builder = atEnd(accumulate);
  Value term = inAccumulate.lookup(value);
  Value sum =
      SelectOp::create(builder, loc, type, isFirst, term, add(builder, term));
  WriteOp::create(builder, loc, variable.getSymName(), sum);
  builder = atEnd(step);
  return add(builder, value);
}

Value StepParts::getMean(Value sum, Location loc) {
  OpBuilder builder = atEnd(step);
  auto type = cast<NamedTensorType>(sum.getType());
  return DivOp::create(
      builder, loc, type, sum,
      getNumber(builder, loc,
                FloatAttr::get(type.getElementType(), double(numParts))));
}

StepParts::Sum StepParts::addGradient(StringRef parameter, Value gradient) {
  const Location loc = gradient.getLoc();
  const Value sum = addUp("gradient of " + parameter, loc, gradient);
  return {sum, getMean(sum, withPhase(loc, Phase::Backward))};
}

void StepParts::averageOutputs() {
  for (auto output : llvm::make_early_inc_range(accumulate.getOps<OutputOp>()))
    output.erase();
  for (auto output : SmallVector<OutputOp>(step.getOps<OutputOp>())) {
    Value value = output.getValue();
    auto type = cast<NamedTensorType>(value.getType());
    if (type.getRank() > 0)
      continue;
    const Location loc = asInside(withPhase(output.getLoc(), Phase::Backward));
    auto convert = [&](ProgramOp program, Value x, Type element) -> Value {
      OpBuilder builder = atEnd(program);
      return CastOp::create(builder, loc, x, element);
    };
    auto *context = step.getContext();
    // Sums of integers stay exact until their mean is taken.
    Type element = type.getElementType();
    if (element.isInteger(1) || element.isInteger(8) || element.isInteger(16))
      element = IntegerType::get(context, 32);
    else if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
      element = Float32Type::get(context);
    if (element != type.getElementType()) {
      const Value inOther =
          convert(accumulate, inAccumulate.lookup(value), element);
      value = convert(step, value, element);
      inAccumulate.map(value, inOther);
    }
    Value sum = addUp("sum of " + output.getName(), loc, value);
    if (!isa<FloatType>(element))
      sum = convert(step, sum, Float32Type::get(context));
    output.getValueMutable().assign(getMean(sum, loc));
    output->moveBefore(&step.getBody().front(), step.getBody().front().end());
  }
}

void StepParts::rememberState() {
  OpBuilder builder = atEnd(accumulate);
  llvm::StringMap<Value> reads;
  for (auto read : accumulate.getOps<ReadOp>())
    reads.try_emplace(read.getVariable(), read);
  const SymbolTable variables(step->getParentOfType<ModuleOp>());
  for (auto write : SmallVector<WriteOp>(accumulate.getOps<WriteOp>())) {
    auto state = variables.lookup<VariableOp>(write.getVariable());
    if (state.getRole() != VariableRole::ModelState)
      continue;
    const Location loc = withPhase(state.getLoc(), Phase::Backward);
    const NamedTensorType type = state.getTensorType();
    VariableOp kept =
        declare(state.getSymName() + " before the step", loc, type);
    Value &now = reads[state.getSymName()];
    if (!now)
      now = ReadOp::create(builder, loc, type, state.getSymName());
    Value then = ReadOp::create(builder, loc, type, kept.getSymName());
    WriteOp::create(builder, loc, kept.getSymName(),
                    SelectOp::create(builder, loc, type, isFirst, now, then));
    OpBuilder inStep = atEnd(step);
    before[state.getSymName()] =
        ReadOp::create(inStep, loc, type, kept.getSymName());
  }
}
