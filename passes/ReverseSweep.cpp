#include "passes/ReverseSweep.h"

#include "dialect/GradientBuilder.h"
#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "passes/ConstraintFlow.h"
#include "passes/LoopResiduals.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {
/// One walk backwards over a program, and over the regions of its loops.
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
  /// Marks what active values influence. A loop carries on what it is given and
  /// what an iteration makes of that.
  void markActive(Block &block);
  void markActive(LoopOp loop);
  bool readsActive(Operation *op) const;

  LogicalResult sweep(ArrayRef<Operation *> operations);
  LogicalResult passOn(Operation *op);
  /// Builds the loop that runs `loop` backwards.
  LogicalResult passOn(LoopOp loop);
  /// What operations in `block` built for operands that need no gradient is
  /// taken out.
  void discardUnused(Block &block);
  /// `gradient`, or 0, stored as `type`.
  Value store(Value gradient, Type type, Location loc);
  void accumulate(Value value, Value contribution, Location loc);
  bool isBackward(Operation *op) const {
    return op && forward.back()->isBeforeInBlock(op);
  }
  Value widenCast(CastOp cast, Value value);
  /// What `sum` adds up and moves, where that can be done as `type` for the
  /// conversion that alone reads it; else nothing.
  SmallVector<Value, 2> getTerms(Value sum, Type type) const;
  /// `value` as `type`, of its terms as `type` if it has some.
  Value makeWide(Value value, ArrayRef<Value> terms, Type type, Location loc);

  /// `gradient` summed over the dimensions that broadcasting added to `type`.
  Value fit(Value gradient, NamedTensorType type, Location loc);

  GradientBuilder builder;
  SmallVector<Operation *> forward;
  /// Values that some source influences.
  DenseSet<Value> active;
  /// Of the values that the operations of one block read, so far.
  llvm::MapVector<Value, Value> gradients;
  /// Of 16-bit values that adding and moving made, what they are as a wider
  /// type.
  DenseMap<std::pair<Value, Type>, Value> widened;
  /// Operations that are nowhere any more. The builder knows values by their
  /// addresses, which no other value may get while it is asked.
  SmallVector<Operation *> discarded;
};
} // namespace

ReverseSweep::ReverseSweep(ProgramOp program, ArrayRef<GradientSource> sources)
    : builder(program.getContext()) {
  builder.setInsertionPointToEnd(&program.getBody().front());
  for (const GradientSource &source : sources)
    active.insert_range(source.reads);
  Block &block = program.getBody().front();
  for (Operation &op : block)
    forward.push_back(&op);
  markActive(block);
}

bool ReverseSweep::readsActive(Operation *op) const {
  return op
      ->walk([&](Operation *reader) {
        return llvm::any_of(reader->getOperands(),
                            [&](Value x) { return active.contains(x); })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

void ReverseSweep::markActive(Block &block) {
  for (Operation &op : block)
    if (auto loop = dyn_cast<LoopOp>(op))
      markActive(loop);
    else if (readsActive(&op))
      active.insert_range(op.getResults());
}

void ReverseSweep::markActive(LoopOp loop) {
  for (auto [values, arguments] :
       {std::pair(loop.getInitial(), loop.getCarriedArguments()),
        std::pair(loop.getSliced(), loop.getSlices())})
    for (auto [value, argument] : llvm::zip_equal(values, arguments))
      if (active.contains(value))
        active.insert(argument);
  for (bool changed = true; changed;) {
    changed = false;
    markActive(loop.getBody().front());
    for (auto [argument, next] : llvm::zip_equal(loop.getCarriedArguments(),
                                                 loop.getYield().getCarried()))
      if (active.contains(next))
        changed |= active.insert(argument).second;
  }
  for (OpResult result : loop->getOpResults())
    if (active.contains(loop.getYielded(result)))
      active.insert(result);
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

Value ReverseSweep::store(Value gradient, Type type, Location loc) {
  auto wanted = cast<NamedTensorType>(type).withoutSharding();
  if (!gradient)
    return ConstantOp::create(builder, loc, wanted,
                              FloatAttr::get(wanted.getElementType(), 0));
  if (gradient.getType() == wanted)
    return gradient;
  return ReduceOp::create(builder, loc, wanted, Reduction::Sum, gradient);
}

LogicalResult ReverseSweep::sweep(ArrayRef<Operation *> operations) {
  for (Operation *op : llvm::reverse(operations)) {
    if (llvm::none_of(op->getResults(),
                      [&](Value y) { return gradients.contains(y); }) ||
        !readsActive(op))
      continue;
    auto loop = dyn_cast<LoopOp>(op);
    if (failed(loop ? passOn(loop) : passOn(op)))
      return failure();
  }
  return success();
}

void ReverseSweep::discardUnused(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op)) {
      op.dropAllReferences();
      op.remove();
      discarded.push_back(&op);
    }
}

LogicalResult ReverseSweep::passOn(LoopOp loop) {
  Location loc = asGradient(loop.getLoc());
  YieldOp yield = loop.getYield();
  Region region;
  Block &block = region.emplaceBlock();
  block.addArgument(loop.getPosition().getType(), loc);
  SmallVector<Value> initial, sliced;
  OpBuilder::InsertPoint outside = builder.saveInsertionPoint();

  // What arrives at the values that an iteration yields.
  SmallVector<std::pair<Value, Value>> arrived;
  SmallVector<std::pair<Value, BlockArgument>> carried; // of it and argument
  for (auto [value, argument, next, result] :
       llvm::zip_equal(loop.getInitial(), loop.getCarriedArguments(),
                       yield.getCarried(), loop.getCarriedResults())) {
    auto type = cast<NamedTensorType>(argument.getType());
    if (!active.contains(argument) || !isa<FloatType>(type.getElementType()))
      continue;
    Value last = gradients.lookup(result);
    initial.push_back(store(last, type, loc));
    BlockArgument gradient = block.addArgument(initial.back().getType(), loc);
    builder.setOrigin(gradient, last);
    carried.push_back({value, argument});
    arrived.push_back({next, gradient});
  }
  for (auto [yielded, result] :
       llvm::zip_equal(yield.getStacked(), loop.getStackedResults()))
    if (Value whole = gradients.lookup(result)) {
      auto type = cast<NamedTensorType>(whole.getType());
      BlockArgument gradient = block.addArgument(
          withoutDim(type, loop.getDim().getName().getValue()), loc);
      builder.setOrigin(gradient, whole);
      sliced.push_back(whole);
      arrived.push_back({yielded, gradient});
    }
  for (auto [yielded, result] :
       llvm::zip_equal(yield.getSummed(), loop.getSummedResults()))
    if (Value gradient = gradients.lookup(result))
      arrived.push_back({yielded, gradient});

  llvm::MapVector<Value, Value> outer;
  std::swap(outer, gradients);
  builder.setInsertionPointToStart(&block);
  for (auto [yielded, gradient] : arrived)
    if (active.contains(yielded))
      accumulate(yielded, gradient, gradient.getLoc());
  SmallVector<Operation *> operations;
  for (Operation &op : loop.getBody().front().without_terminator())
    operations.push_back(&op);
  if (failed(sweep(operations)))
    return failure();

  SmallVector<Value> carriedOn, stacked, summed;
  SmallVector<Value> slices, captured; // what the last two are gradients of
  for (auto [value, argument] : carried)
    carriedOn.push_back(
        store(gradients.lookup(argument), argument.getType(), loc));
  for (auto [value, argument] :
       llvm::zip_equal(loop.getSliced(), loop.getSlices()))
    if (Value gradient = gradients.lookup(argument)) {
      slices.push_back(value);
      stacked.push_back(gradient);
    }
  for (auto [value, gradient] : gradients)
    if (!isWithin(value, loop.getBody())) {
      captured.push_back(value);
      summed.push_back(gradient);
    }
  YieldOp::create(builder, loc, carriedOn, stacked, summed);
  std::swap(outer, gradients);

  discardUnused(block);
  LoopOp forwardLoop = keepResiduals(loop, block, sliced);
  if (forwardLoop != loop) {
    llvm::replace(forward, loop.getOperation(), forwardLoop.getOperation());
    for (Value result : loop.getResults())
      gradients.erase(result);
    loop->dropAllReferences();
    loop->remove();
    discarded.push_back(loop);
  }
  SmallVector<Type> types(ValueRange(initial).getTypes());
  for (Value value : stacked)
    types.push_back(withDimFirst(cast<NamedTensorType>(value.getType()),
                                 forwardLoop.getDim()));
  llvm::append_range(types, ValueRange(summed).getTypes());
  builder.restoreInsertionPoint(outside);
  auto backward = LoopOp::create(builder, loc, types, forwardLoop.getDim(),
                                 initial, sliced, !forwardLoop.getReverse());
  backward.getBody().takeBody(region);
  for (auto [pair, gradient] :
       llvm::zip_equal(carried, backward.getCarriedResults()))
    if (active.contains(pair.first))
      accumulate(pair.first, gradient, loc);
  for (auto [value, gradient] :
       llvm::zip_equal(slices, backward.getStackedResults()))
    accumulate(value, gradient, loc);
  for (auto [value, gradient] :
       llvm::zip_equal(captured, backward.getSummedResults()))
    accumulate(value, gradient, loc);
  return success();
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
  OriginAttr origin = getOrigin(output.getLoc());
  Location loc = asGradient(
      origin ? withOrigin(output.getLoc(), origin.withPart(OriginPart::Itself))
             : output.getLoc());
  if (active.contains(output) && scale) {
    gradients[output] = scale;
  } else if (active.contains(output)) {
    auto type = cast<NamedTensorType>(output.getType()).withoutSharding();
    gradients[output] = ConstantOp::create(
        builder, loc, type, FloatAttr::get(type.getElementType(), 1));
  }
  // Loops that stack more take the places of others in the list.
  LogicalResult result = sweep(SmallVector<Operation *>(forward));
  for (Operation *op : discarded)
    op->destroy();
  return result;
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

/// What adds and moves elements, each of which is as wide in the result as in
/// the operands.
static bool isLinear(Operation *op) {
  if (isa_and_present<AddOp, NegOp, StackOp, SubOp>(op))
    return true;
  if (auto reduce = dyn_cast_if_present<ReduceOp>(op))
    return reduce.getKind() == Reduction::Sum;
  auto told = dyn_cast_if_present<PrecisionOpInterface>(op);
  return told && told.getPrecisionUse() == PrecisionUse::Move;
}

static bool isFloat(Value value) {
  return isa<FloatType>(
      cast<NamedTensorType>(value.getType()).getElementType());
}

/// Whether nothing reads a result of `op` but conversions to `type`, under
/// whatever name, where it has several.
static bool areWidened(Operation *op, Type type) {
  if (op->getNumResults() == 1)
    return true;
  SmallVector<Operation *> readers(op->getUsers());
  while (!readers.empty()) {
    Operation *reader = readers.pop_back_val();
    if (auto cast = dyn_cast<CastOp>(reader)) {
      if (cast.getType().getElementType() != type)
        return false;
      continue;
    }
    if (!isa<RenameOp>(reader) || reader->use_empty())
      return false;
    llvm::append_range(readers, reader->getUsers());
  }
  return true;
}

SmallVector<Value, 2> ReverseSweep::getTerms(Value sum, Type type) const {
  Operation *op = sum.getDefiningOp();
  SmallVector<Value, 2> terms;
  if (isBackward(op) && isLinear(op) && sum.hasOneUse() && areWidened(op, type))
    llvm::copy_if(op->getOperands(), std::back_inserter(terms), isFloat);
  return terms;
}

Value ReverseSweep::makeWide(Value value, ArrayRef<Value> terms, Type type,
                             Location loc) {
  Operation *op = value.getDefiningOp();
  auto wide = cast<NamedTensorType>(value.getType()).withElementType(type);
  if (!terms.empty()) {
    const Value *next = terms.begin();
    Operation *made = builder.clone(*op);
    made->setLoc(loc);
    for (OpOperand &operand : made->getOpOperands())
      if (isFloat(operand.get()))
        operand.set(*next++);
    for (auto [narrow, result] :
         llvm::zip_equal(op->getResults(), made->getResults())) {
      result.setType(
          cast<NamedTensorType>(narrow.getType()).withElementType(type));
      widened[{narrow, type}] = result;
    }
    return widened.lookup({value, type});
  }
  const bool isReadOnce = isBackward(op) && value.hasOneUse();
  if (auto einsum = dyn_cast_if_present<EinsumOp>(op); einsum && isReadOnce)
    return EinsumOp::create(builder, loc, wide, einsum.getInputs());
  if (auto put = dyn_cast_if_present<PutOp>(op);
      put && isReadOnce && type.isF32())
    return PutOp::create(builder, loc, wide, put.getInput(), put.getIndex(),
                         put.getDimAttr());
  return CastOp::create(builder, loc, wide, value);
}

/// `value`, of 16-bit elements, as `cast` would widen it. Operands come first,
/// however many sums lead to one another. Each stands where the narrow one
/// does: a gradient that is complete early, as that of one layer of many, is
/// there early.
Value ReverseSweep::widenCast(CastOp cast, Value value) {
  Type type = cast.getType().getElementType();
  // Sums, stacks and views that nothing else reads are made anew of what they
  // consist of.
  struct Frame {
    Value value;
    SmallVector<Value, 2> terms, widened;
  };
  SmallVector<Frame> open;
  open.push_back({value, getTerms(value, type), {}});
  while (true) {
    Frame &frame = open.back();
    Value made = widened.lookup({frame.value, type});
    if (!made && frame.widened.size() < frame.terms.size()) {
      Value term = frame.terms[frame.widened.size()];
      open.push_back({term, getTerms(term, type), {}});
      continue;
    }
    if (!made) {
      Operation *op = frame.value.getDefiningOp();
      // What the forward phase has made is widened for its one reader.
      if (isBackward(op))
        builder.setInsertionPointAfter(op);
      else if (open.size() > 1)
        builder.setInsertionPoint(open[open.size() - 2].value.getDefiningOp());
      else
        builder.setInsertionPoint(cast);
      made = makeWide(frame.value, frame.widened, type, cast.getLoc());
    }
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
    return widenCast(cast, cast.getInput());
  };
  // What several uses of a source bring, added one after the other, or one for
  // each of its positions, and whatever views of it were read. What others read
  // too is no gradient of the source alone.
  SmallVector<Value> open{gradient};
  SmallPtrSet<Operation *, 8> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!isBackward(op) || !isLinear(op) || !seen.insert(op).second)
      continue;
    for (OpOperand &term : op->getOpOperands()) {
      if (!isFloat(term.get()) || !term.get().hasOneUse())
        continue;
      Value wide = widenOne(term.get());
      if (wide == term.get())
        open.push_back(wide);
      term.set(wide);
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

/// Constraints that alone read what they are on.
static SmallVector<ReshardOp> findOnlyConstraints(ProgramOp program) {
  SmallVector<ReshardOp> found;
  for (Operation *op : getOperations(program))
    if (isConstraint(op) && findOnlyConstraint(op->getOperand(0)))
      found.push_back(cast<ReshardOp>(op));
  return found;
}

FailureOr<SmallVector<Value>>
meshc::appendGradients(ProgramOp program, Value output,
                       ArrayRef<GradientSource> sources, Value scale) {
  const SmallVector<ReshardOp> constraints = findOnlyConstraints(program);
  ReverseSweep sweep(program, sources);
  if (failed(sweep.run(output, scale)))
    return failure();
  for (ReshardOp constraint : constraints)
    constraint.getInput().replaceAllUsesExcept(constraint, constraint);
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

FailureOr<SmallVector<Value>>
meshc::appendGradients(ProgramOp program, ArrayRef<ObjectiveGroup> groups,
                       ArrayRef<GradientSource> sources, Value scale) {
  SmallVector<Value> gradients(sources.size());
  for (const ObjectiveGroup &group : groups) {
    FailureOr<Value> minimized =
        findMinimized(program, group.minimize, group.loc);
    if (failed(minimized))
      return failure();
    SmallVector<GradientSource> own;
    for (size_t place : group.sources)
      own.push_back(sources[place]);
    FailureOr<SmallVector<Value>> found =
        appendGradients(program, *minimized, own, scale);
    if (failed(found))
      return failure();
    for (auto [place, gradient] : llvm::zip_equal(group.sources, *found))
      gradients[place] = gradient;
  }
  return gradients;
}
