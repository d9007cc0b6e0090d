#include "passes/ReverseSweep.h"

#include "dialect/GradientBuilder.h"
#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "layout/Spelling.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
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

Objective meshc::findObjective(ModuleOp module) {
  for (auto training : module.getOps<TrainingOp>())
    return {training.getMinimize().str(), training.getLoc()};
  for (auto objective : module.getOps<ObjectiveOp>())
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

namespace {
/// One walk backwards over a program.
class ReverseSweep {
public:
  ReverseSweep(ProgramOp program, ArrayRef<GradientSource> sources);

  LogicalResult run(Value output, Value scale);
  Value getGradient(const GradientSource &source);
  /// `gradient` with the sums that lead to it alone computed in its own type
  /// where they were rounded to 16 bits before.
  Value widen(Value gradient);
  /// Erases what operations built for operands that need no gradient.
  void eraseUnused(ArrayRef<Value> kept);

private:
  LogicalResult passOn(Operation *op);
  void accumulate(Value value, Value contribution, Location loc);
  bool isBackward(Operation *op) const {
    return op && forward.back()->isBeforeInBlock(op);
  }
  Value widenCast(CastOp cast, Value value);

  /// `gradient` summed over the dimensions that broadcasting added to `type`.
  Value fit(Value gradient, NamedTensorType type, Location loc);

  GradientBuilder builder;
  SmallVector<Operation *> forward;
  /// Values that some source influences.
  DenseSet<Value> active;
  DenseMap<Value, Value> gradients;
};
} // namespace

ReverseSweep::ReverseSweep(ProgramOp program, ArrayRef<GradientSource> sources)
    : builder(program.getContext()) {
  builder.setInsertionPointToEnd(&program.getBody().front());
  for (const GradientSource &source : sources)
    active.insert_range(source.reads);
  for (Operation &op : program.getBody().front()) {
    forward.push_back(&op);
    if (llvm::any_of(op.getOperands(),
                     [&](Value x) { return active.contains(x); }))
      active.insert_range(op.getResults());
  }
}

Value ReverseSweep::fit(Value gradient, NamedTensorType type, Location loc) {
  if (cast<NamedTensorType>(gradient.getType()).getRank() == type.getRank())
    return gradient;
  return ReduceOp::create(builder, loc, type.withoutSharding(), Reduction::Sum,
                          gradient);
}

void ReverseSweep::accumulate(Value value, Value contribution, Location loc) {
  auto type = cast<NamedTensorType>(value.getType());
  Value term = fit(contribution, type, loc);
  Value &sum = gradients[value];
  sum = sum ? AddOp::create(builder, loc, sum, term).getResult() : term;
}

LogicalResult ReverseSweep::passOn(Operation *op) {
  SmallVector<Value, 1> arrived;
  for (Value result : op->getResults())
    arrived.push_back(gradients.lookup(result));
  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable)
    return op->emitError() << "'" << op->getName() << "' has no gradient";
  for (auto [operand, contribution] : llvm::zip_equal(
           op->getOperands(), differentiable.buildGradients(builder, arrived)))
    if (contribution && active.contains(operand))
      accumulate(operand, contribution, getGradientLoc(op, operand));
  return success();
}

LogicalResult ReverseSweep::run(Value output, Value scale) {
  Location loc = withPhase(output.getLoc(), Phase::Backward);
  StringRef name = getValueName(loc);
  if (!name.empty())
    loc = withName(loc, "gradient of " + name);
  if (active.contains(output) && scale) {
    gradients[output] = scale;
  } else if (active.contains(output)) {
    auto type = cast<NamedTensorType>(output.getType()).withoutSharding();
    gradients[output] = ConstantOp::create(
        builder, loc, type, FloatAttr::get(type.getElementType(), 1));
  }
  for (Operation *op : llvm::reverse(forward))
    if (llvm::any_of(op->getResults(),
                     [&](Value y) { return gradients.contains(y); }) &&
        llvm::any_of(op->getOperands(),
                     [&](Value x) { return active.contains(x); }))
      if (failed(passOn(op)))
        return failure();
  return success();
}

Value ReverseSweep::getGradient(const GradientSource &source) {
  Value sum;
  for (Value read : source.reads) {
    Value gradient = gradients.lookup(read);
    if (gradient && sum)
      sum = AddOp::create(builder, gradient.getLoc(), sum, gradient);
    else if (gradient)
      sum = gradient;
  }
  return sum;
}

/// `value`, of 16-bit elements, as `cast` would widen it. Operands come first,
/// however many sums lead to one another.
Value ReverseSweep::widenCast(CastOp cast, Value value) {
  Location loc = cast.getLoc();
  Type elementType = cast.getType().getElementType();
  // Sums that nothing else reads are made anew of what they add up.
  auto getTerms = [&](Value sum) -> SmallVector<Value, 2> {
    Operation *op = sum.getDefiningOp();
    if (!isBackward(op) || !sum.hasOneUse())
      return {};
    if (auto add = dyn_cast<AddOp>(op))
      return {add.getLhs(), add.getRhs()};
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && reduce.getKind() == Reduction::Sum)
      return {reduce.getInput()};
    return {};
  };
  struct Frame {
    Value value;
    SmallVector<Value, 2> terms, widened;
  };
  SmallVector<Frame> open;
  open.push_back({value, getTerms(value), {}});
  while (true) {
    Frame &frame = open.back();
    if (frame.widened.size() < frame.terms.size()) {
      Value term = frame.terms[frame.widened.size()];
      open.push_back({term, getTerms(term), {}});
      continue;
    }
    Operation *op = frame.value.getDefiningOp();
    auto type = mlir::cast<NamedTensorType>(frame.value.getType())
                    .withElementType(elementType);
    auto einsum = dyn_cast_if_present<EinsumOp>(op);
    Value made;
    if (frame.widened.size() == 2)
      made =
          AddOp::create(builder, loc, type, frame.widened[0], frame.widened[1]);
    else if (frame.widened.size() == 1)
      made = ReduceOp::create(builder, loc, type, Reduction::Sum,
                              frame.widened[0]);
    else if (einsum && isBackward(op) && frame.value.hasOneUse())
      made = EinsumOp::create(builder, loc, type, einsum.getInputs());
    else
      made = CastOp::create(builder, loc, type, frame.value);
    open.pop_back();
    if (open.empty())
      return made;
    open.back().widened.push_back(made);
  }
}

Value ReverseSweep::widen(Value gradient) {
  OpBuilder::InsertionGuard guard(builder);
  // A conversion as wider terms, or itself.
  auto widenOne = [&](Value value) -> Value {
    auto cast = value.getDefiningOp<CastOp>();
    if (!cast || !isBackward(cast))
      return value;
    Type from = cast.getInput().getType().getElementType();
    if (!isa<FloatType>(from) || from.getIntOrFloatBitWidth() >= 32)
      return value;
    builder.setInsertionPoint(cast);
    return widenCast(cast, cast.getInput());
  };
  // What several uses of a source bring, added one after the other, or one for
  // each of its positions.
  SmallVector<Value> open{gradient};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!isa_and_present<AddOp, StackOp>(op) || !isBackward(op))
      continue;
    for (OpOperand &term : op->getOpOperands()) {
      Value widened = widenOne(term.get());
      if (widened == term.get())
        open.push_back(widened);
      term.set(widened);
    }
  }
  return widenOne(gradient);
}

void ReverseSweep::eraseUnused(ArrayRef<Value> kept) {
  llvm::SmallPtrSet<Operation *, 16> keptOps;
  for (Value value : kept)
    if (value)
      keptOps.insert(value.getDefiningOp());
  Block &block = *builder.getInsertionBlock();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (&op == forward.back())
      return;
    if (!keptOps.contains(&op) && isOpTriviallyDead(&op))
      op.erase();
  }
}

FailureOr<SmallVector<Value>>
meshc::appendGradients(ProgramOp program, Value output,
                       ArrayRef<GradientSource> sources, Value scale) {
  ReverseSweep sweep(program, sources);
  if (failed(sweep.run(output, scale)))
    return failure();
  SmallVector<Value> gradients;
  for (const GradientSource &source : sources)
    gradients.push_back(sweep.getGradient(source));
  // Only when all of them stand is it known what else reads a sum.
  sweep.eraseUnused(gradients);
  for (Value &gradient : gradients)
    if (gradient)
      gradient = sweep.widen(gradient);
  sweep.eraseUnused(gradients);
  return gradients;
}
