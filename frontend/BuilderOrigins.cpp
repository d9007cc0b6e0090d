// What values are made of.

#include "frontend/BuilderState.h"

using namespace meshc;
using namespace meshc::frontend;

/// Of an operation without operands, or with a region; nothing of others, which
/// are made of what their operands are made of.
static std::optional<Origin> findOwnOrigin(mlir::Operation *op) {
  if (mlir::isa_and_nonnull<nd::GradientOp>(op))
    return Origin::Inputs;
  if (auto input = mlir::dyn_cast_or_null<nd::InputOp>(op);
      input && (input.isStep() || input.isSetting()))
    return Origin::Numbers;
  // Random numbers of an initial value are what they are in every run.
  if (auto input = mlir::dyn_cast_or_null<nd::InputOp>(op);
      input && input.getName() == nd::InputOp::seedName &&
      op->getParentOfType<nd::ProgramOp>().getSymName() == "init")
    return Origin::Numbers;
  if (!op || op->getNumRegions() > 0 || mlir::isa<nd::InputOp>(op))
    return Origin::Inputs;
  if (mlir::isa<nd::ReadOp>(op))
    return Origin::Parameters;
  if (op->getNumOperands() == 0)
    return Origin::Numbers;
  return std::nullopt;
}

/// What a value that loops around read is a slice of; else the value.
static mlir::Value findWhole(const BuilderState &state, mlir::Value value) {
  for (size_t i = state.loops.size(); i-- > 0;)
    for (const auto &[whole, slice] : state.loops[i].slices)
      if (BuilderState::getValue(slice) == value)
        value = BuilderState::getValue(whole);
  return value;
}

Origin Builder::getOrigin(Tensor x) {
  return state->findOrigin(BuilderState::getValue(x));
}

Origin BuilderState::findOrigin(mlir::Value x) {
  llvm::DenseMap<mlir::Value, Origin> &known = origins;
  // Programs are deep: no recursion.
  const mlir::Value asked = findWhole(*this, x);
  std::vector<mlir::Value> open{asked};
  while (!open.empty()) {
    const mlir::Value value = open.back();
    mlir::Operation *op = value.getDefiningOp();
    std::optional<Origin> origin = findOwnOrigin(op);
    if (!origin && !known.contains(value)) {
      const size_t numOpen = open.size();
      origin = Origin::Numbers;
      for (mlir::Value operand : op->getOperands()) {
        operand = findWhole(*this, operand);
        if (auto found = known.find(operand); found != known.end())
          origin = std::max(*origin, found->second);
        else
          open.push_back(operand);
      }
      if (open.size() > numOpen)
        continue;
    }
    if (origin)
      known.insert({value, *origin});
    open.pop_back();
  }
  return known.find(asked)->second;
}
