#include "frontend/Rates.h"

#include "dialect/ND.h"
#include "runtime/settings/Settings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace meshc;

namespace {

using Constants = llvm::DenseMap<mlir::Value, mlir::TypedAttr>;

/// Steps at which rates are told, where the recipe has more.
constexpr int64_t shownSteps[] = {1, 10, 100, 1000, 10'000, 100'000};

} // namespace

static runtime::Result<runtime::Settings> readSettings(mlir::ModuleOp module) {
  exec::ExecutableT numbers;
  for (auto setting : module.getOps<nd::SettingOp>()) {
    auto entry = std::make_unique<exec::SettingT>();
    entry->name = setting.getName().str();
    entry->value = setting.getValue().str();
    numbers.settings.push_back(std::move(entry));
  }
  return runtime::Settings::create(numbers);
}

/// What an input of the program is in a step; null: not the same in each.
static mlir::TypedAttr getInputAt(nd::InputOp input, int64_t step,
                                  const runtime::Settings &settings) {
  const mlir::Type element = input.getType().getElementType();
  mlir::Builder builder(input.getContext());
  if (input.isStep())
    return builder.getIntegerAttr(element, step);
  if (!input.isSetting())
    return {};
  auto number = settings.evaluate(
      input.getName().drop_front(nd::InputOp::settingPrefix.size()).str());
  return number ? builder.getFloatAttr(element, number->toDouble())
                : mlir::TypedAttr();
}

/// Folds the operation's scalar form; null where it does not fold.
static mlir::TypedAttr foldScalar(nd::ElementwiseOpInterface op,
                                  const Constants &constants) {
  // arith folds only what narrower floats hold exactly.
  const mlir::Type element =
      mlir::cast<nd::NamedTensorType>(op->getResult(0).getType())
          .getElementType();
  if (auto cast = mlir::dyn_cast<nd::CastOp>(op.getOperation()))
    if (auto number = mlir::dyn_cast_or_null<mlir::FloatAttr>(
            constants.lookup(cast.getInput()));
        number && mlir::isa<mlir::FloatType>(element))
      return mlir::FloatAttr::get(element, number.getValueAsDouble());
  mlir::Block block;
  mlir::OpBuilder builder(op->getContext());
  builder.setInsertionPointToStart(&block);
  llvm::SmallVector<mlir::Value> operands;
  Constants scalars;
  for (mlir::Value operand : op->getOperands()) {
    const auto known = constants.find(operand);
    if (known == constants.end())
      return {};
    operands.push_back(
        mlir::arith::ConstantOp::create(builder, op.getLoc(), known->second));
  }
  const mlir::Value result = op.buildScalar(builder, op.getLoc(), operands);
  for (mlir::Operation &scalar : block) {
    llvm::SmallVector<mlir::Attribute> known;
    for (mlir::Value operand : scalar.getOperands())
      known.push_back(scalars.lookup(operand));
    llvm::SmallVector<mlir::OpFoldResult> folded;
    if (mlir::failed(scalar.fold(known, folded)) || folded.size() != 1)
      return {};
    const auto value = mlir::dyn_cast<mlir::Attribute>(folded.front());
    scalars[scalar.getResult(0)] =
        value ? mlir::dyn_cast<mlir::TypedAttr>(value)
              : scalars.lookup(mlir::cast<mlir::Value>(folded.front()));
  }
  return scalars.lookup(result);
}

/// What the program gives out in a step that is made of the step alone, by
/// name.
static std::vector<std::pair<mlir::StringAttr, double>>
evaluateRates(nd::ProgramOp program, int64_t step,
              const runtime::Settings &settings) {
  Constants constants;
  std::vector<std::pair<mlir::StringAttr, double>> rates;
  for (mlir::Operation &op : *program.getBody().begin()) {
    mlir::TypedAttr value;
    if (auto output = mlir::dyn_cast<nd::OutputOp>(op)) {
      if (auto rate = mlir::dyn_cast_or_null<mlir::FloatAttr>(
              constants.lookup(output.getValue())))
        rates.emplace_back(output.getNameAttr(), rate.getValueAsDouble());
      continue;
    }
    if (op.getNumResults() != 1 ||
        !mlir::cast<nd::NamedTensorType>(op.getResult(0).getType())
             .getDims()
             .empty())
      continue;
    if (auto input = mlir::dyn_cast<nd::InputOp>(op))
      value = getInputAt(input, step, settings);
    else if (auto constant = mlir::dyn_cast<nd::ConstantOp>(op))
      value = constant.getValue();
    else if (auto elementwise = mlir::dyn_cast<nd::ElementwiseOpInterface>(op))
      value = foldScalar(elementwise, constants);
    if (value)
      constants[op.getResult(0)] = value;
  }
  return rates;
}

void frontend::addRates(mlir::ModuleOp module) {
  auto program = module.lookupSymbol<nd::ProgramOp>(nd::ProgramOp::updateName);
  auto trainings = module.getOps<nd::TrainingOp>();
  runtime::Result<runtime::Settings> settings = readSettings(module);
  if (!program || trainings.empty() || !settings)
    return;
  mlir::MLIRContext *context = module.getContext();
  context->loadDialect<mlir::arith::ArithDialect, mlir::math::MathDialect>();
  nd::TrainingOp training = *trainings.begin();
  const auto last = int64_t(training.getSteps());
  std::vector<int64_t> steps;
  for (int64_t step : shownSteps)
    if (last == 0 || step < last)
      steps.push_back(step);
  if (last > 0)
    steps.push_back(last);
  llvm::MapVector<mlir::StringAttr, std::vector<double>> rates;
  for (int64_t step : steps)
    for (const auto &[name, rate] : evaluateRates(program, step, *settings))
      rates[name].push_back(rate);
  // Some operation may not fold at some step.
  rates.remove_if(
      [&](const auto &rate) { return rate.second.size() != steps.size(); });
  llvm::SmallVector<mlir::Attribute> told;
  for (const auto &[name, values] : rates)
    told.push_back(nd::RateAttr::get(
        context, name, mlir::DenseI64ArrayAttr::get(context, steps),
        mlir::DenseF64ArrayAttr::get(context, values)));
  if (!told.empty())
    training.setRatesAttr(mlir::ArrayAttr::get(context, told));
}
