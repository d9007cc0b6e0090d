#include "dialect/GradientBuilder.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace meshc::nd;

/// Brings `known` to hold `value`: `find` on each value that `getNeeded` leads
/// to and that is not known, after those it needs. No recursion, since a
/// program may be one long chain.
template <typename T, typename Needed, typename Find>
static T resolve(DenseMap<Value, T> &known, Value value, Needed getNeeded,
                 Find find) {
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Value next = open.back();
    if (known.contains(next)) {
      open.pop_back();
      continue;
    }
    size_t before = open.size();
    for (Value needed : getNeeded(next))
      if (!known.contains(needed))
        open.push_back(needed);
    if (open.size() > before)
      continue;
    open.pop_back();
    known[next] = find(next);
  }
  return known.lookup(value);
}

/// The operands of `op` that vary.
static SmallVector<Value> getVariable(Operation *op) {
  return llvm::to_vector(
      llvm::make_filter_range(op->getOperands(), [](Value x) {
        return !matchPattern(x, m_Constant());
      }));
}

/// Whether `op` multiplies the gradient, its first operand, by what varies.
static bool isProduct(Operation *op) {
  return isa<EinsumOp, MulOp, DivOp>(op) && getVariable(op).size() > 1;
}

/// Whether `op` leaves zeros where something was not chosen: by a condition or
/// by an index.
static bool isChoice(Operation *op) {
  return isa<SelectOp, GatherOp, PutOp>(op);
}

/// What the result of a loop or a slice in it has its elements from; null for
/// what passes from one iteration to the next, and for other values.
static Value getLoopOrigin(Value value) {
  if (auto loop = value.getDefiningOp<LoopOp>())
    return llvm::is_contained(loop.getStackedResults(), value)
               ? loop.getYielded(cast<OpResult>(value))
               : Value();
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument
                  ? dyn_cast_or_null<LoopOp>(argument.getOwner()->getParentOp())
                  : LoopOp();
  return loop && llvm::is_contained(loop.getSlices(), argument)
             ? loop.getSlicedOperand(argument)
             : Value();
}

/// The values through which a gradient arrives at `value`.
SmallVector<Value> GradientBuilder::getGradientOperands(Value value) const {
  if (auto origin = origins.find(value); origin != origins.end())
    return origin->second ? SmallVector<Value>{origin->second}
                          : SmallVector<Value>();
  Operation *op = value.getDefiningOp();
  if (!op || isChoice(op))
    return {};
  if (auto loop = dyn_cast<LoopOp>(op))
    return {loop.getYielded(cast<OpResult>(value))};
  if (isProduct(op))
    return {op->getOperand(0)};
  SmallVector<Value> variable = getVariable(op);
  if (!isa<AddOp, SubOp, StackOp>(op) && variable.size() > 1)
    return {};
  return variable;
}

GradientBuilder::ChoiceZeros GradientBuilder::findChoiceZeros(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && isChoice(op))
    return {true, true};
  SmallVector<Value> operands = getGradientOperands(value);
  if (operands.empty())
    return {false, origins.contains(value)};
  ChoiceZeros found{false, true};
  for (Value operand : operands) {
    ChoiceZeros zeros = choiceZeros.lookup(operand);
    found.anyTerm |= zeros.anyTerm && !(op && isProduct(op));
    found.allTerms &= zeros.allTerms;
  }
  return found;
}

GradientBuilder::ChoiceZeros GradientBuilder::getChoiceZeros(Value gradient) {
  return resolve(
      choiceZeros, gradient,
      [this](Value value) { return getGradientOperands(value); },
      [this](Value value) { return findChoiceZeros(value); });
}

llvm::FPClassTest GradientBuilder::findClasses(Value value) {
  if (Value origin = getLoopOrigin(value))
    return classes.lookup(origin);
  Operation *op = value.getDefiningOp();
  // What iterations make of one another's values may be any float.
  if (!op || isa<LoopOp>(op))
    return isa<FloatType>(
               cast<NamedTensorType>(value.getType()).getElementType())
               ? llvm::fcAllFlags
               : llvm::fcFinite;
  auto told = dyn_cast<FloatClassOpInterface>(op);
  // Inputs and parameters count as finite: else every contraction of one of
  // them behind a relu would choose, for each element of it.
  if (!told)
    return llvm::fcFinite;
  SmallVector<llvm::FPClassTest> operands;
  for (Value operand : op->getOperands())
    operands.push_back(classes.lookup(operand));
  return told.getResultClasses(operands);
}

bool GradientBuilder::mayHold(Value value, llvm::FPClassTest wanted) {
  llvm::FPClassTest found = resolve(
      classes, value,
      [](Value value) -> SmallVector<Value> {
        if (Value origin = getLoopOrigin(value))
          return {origin};
        Operation *op = value.getDefiningOp();
        if (!isa_and_present<FloatClassOpInterface>(op))
          return {};
        return llvm::to_vector(op->getOperands());
      },
      [this](Value value) { return findClasses(value); });
  return (found & wanted) != llvm::fcNone;
}
