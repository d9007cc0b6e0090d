#include "passes/TermFlow.h"

#include "dialect/Casts.h"
#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "layout/Machine.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

FloatType meshc::getAddendType(Value value) {
  FloatType type;
  SmallVector<Value> open{value};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (isWideningCast(op)) {
      auto found = cast<FloatType>(
          cast<CastOp>(op).getInput().getType().getElementType());
      if (type && type != found)
        return {};
      type = found;
    } else if (isa_and_nonnull<AddOp, SubOp, NegOp, RenameOp>(op)) {
      for (Value operand : op->getOperands())
        if (seen.insert(operand).second)
          open.push_back(operand);
    } else {
      return {};
    }
  }
  return type;
}

/// Whether the output of a program takes a value as it is: only a scalar, which
/// costs its reader nothing to complete.
static bool takesAnything(OpOperand &use) {
  auto border = dyn_cast<BorderOpInterface>(use.getOwner());
  return border && !border.isVariable() &&
         cast<NamedTensorType>(use.get().getType()).getRank() == 0;
}

static SmallVector<OpOperand *> getReaders(Value value) {
  SmallVector<OpOperand *> readers;
  for (OpOperand &use : value.getUses())
    if (!takesAnything(use))
      readers.push_back(&use);
  return readers;
}

/// How many operands of `op` must be partial alike for any of them to be.
static size_t countJointOperands(PartitionOpInterface op,
                                 layout::ReduceKind kind) {
  size_t count = 0;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    count += op.getPartialUse(i, fromLayout(kind)) == PartialUse::Joint;
  return count;
}

/// Whether `use` is an operand of an addition of several values.
static bool isAdded(OpOperand &use, const Terms &terms) {
  auto op = dyn_cast<PartitionOpInterface>(use.getOwner());
  return op && countJointOperands(op, terms.kind) > 1;
}

/// Whether what `widening` makes of `pending` terms, under whatever name, is
/// added to others that are partial like it.
static bool isAddedWhenWide(Operation *widening, const Terms &pending,
                            const llvm::DenseMap<OpOperand *, Terms> &kept) {
  SmallVector<Operation *> open{widening};
  while (!open.empty())
    for (OpOperand &use : open.pop_back_val()->getUses()) {
      auto terms = kept.find(&use);
      if (terms == kept.end() || terms->second != pending)
        return false;
      if (isa<RenameOp>(use.getOwner()))
        open.push_back(use.getOwner());
      else if (!isa<AddOp, SubOp>(use.getOwner()) || !isAdded(use, pending))
        return false;
    }
  return true;
}

bool meshc::entersUpdate(OpOperand &use) {
  auto constraint = dyn_cast<ReshardOp>(use.getOwner());
  return (constraint && constraint.getRole()) ||
         (getPhase(use.getOwner()->getLoc()) == Phase::Update &&
          getPhase(use.get().getLoc()) != Phase::Update);
}

/// Adds the terms `more`, of the same kind, to `terms`.
static void add(Terms &terms, const Terms &more) {
  if (more.empty())
    return;
  terms.kind = more.kind;
  for (layout::AxisRef axis : more.axes)
    if (!llvm::is_contained(terms.axes, axis))
      terms.axes.push_back(axis);
  llvm::sort(terms.axes);
}

/// Those of any of the results of an operation.
static Terms getAll(ArrayRef<Terms> results) {
  Terms all;
  for (const Terms &terms : results)
    add(all, terms);
  return all;
}

/// The terms that a constraint gives its result, or that a variable has kept.
static Terms getGiven(Operation *op, const layout::Mesh &mesh,
                      const SymbolTable &variables) {
  NamedTensorType type;
  if (auto reshard = dyn_cast<ReshardOp>(op))
    type = reshard.getType();
  else if (auto read = dyn_cast<ReadOp>(op))
    type = variables.lookup<VariableOp>(read.getVariable()).getTensorType();
  if (!type || !type.getSharding() || !type.getSharding().isPartial())
    return {};
  layout::Sharding sharding = getSharding(type, mesh);
  return {sharding.partialKind, sharding.partialAxes};
}

TermFlow::TermFlow(ProgramOp program, const SplitMap &splits)
    : splits(splits), mesh(nd::getMesh(program)),
      machine(nd::getMachine(program)) {
  const SymbolTable variables(program->getParentOfType<ModuleOp>());
  SmallVector<Operation *> operations = getOperations(program);
  // Start with every value moving. A value stops where one of several readers
  // needs it complete, which may stop others; none ever starts again.
  for (bool changed = true; changed;) {
    changed = false;
    terms.clear();
    kept.clear();
    for (Operation *op : operations)
      if (auto partitioned = dyn_cast<PartitionOpInterface>(op))
        visit(partitioned);
      else if (Terms given = getGiven(op, mesh, variables); !given.empty())
        terms[op->getResult(0)] = std::move(given);
    for (auto &[value, pending] : terms) {
      if (stopped.contains(value))
        continue;
      SmallVector<OpOperand *> readers = getReaders(value);
      bool everyReaderMoves = llvm::all_of(readers, [&](OpOperand *use) {
        return kept.lookup(use) == pending && isAdded(*use, pending);
      });
      bool travelsWide = llvm::any_of(readers, [&](OpOperand *use) {
        return isWideningCast(use->getOwner()) &&
               !isAddedWhenWide(use->getOwner(), pending, kept);
      });
      if (travelsWide || (readers.size() > 1 && !everyReaderMoves)) {
        stopped.insert(value);
        changed = true;
      }
    }
  }
}

Terms TermFlow::getTerms(Value value) const { return terms.lookup(value); }

Terms TermFlow::getKept(OpOperand &use) const {
  return takesAnything(use) ? getTerms(use.get()) : kept.lookup(&use);
}

bool TermFlow::isMoving(Value value) const {
  return !getTerms(value).empty() && !stopped.contains(value);
}

int64_t TermFlow::getLocalElements(Value value) const {
  auto type = cast<NamedTensorType>(value.getType());
  layout::Sharding sharding;
  if (auto op = value.getDefiningOp<PartitionOpInterface>())
    sharding = getResultSharding(op, cast<OpResult>(value).getResultNumber(),
                                 splits.find(op)->second);
  else
    sharding.dims.resize(type.getRank());
  int64_t elements = 1;
  for (int64_t size : layout::getLocalShape(type.getSizes(), sharding))
    elements *= size;
  return elements;
}

int64_t TermFlow::getLargestResult(Operation *op) const {
  int64_t largest = 0;
  for (Value result : op->getResults())
    largest = std::max(largest, getLocalElements(result));
  return largest;
}

void TermFlow::visit(PartitionOpInterface op) {
  const IterationSplit &split = splits.find(op)->second;
  SmallVector<Terms, 1> results;
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    results.push_back(getOwnTerms(op, i, split));
  Terms own = getAll(results);
  SmallVector<OpOperand *> joint, alone;
  for (OpOperand &operand : op->getOpOperands()) {
    Terms pending = getTerms(operand.get());
    if (pending.empty() || stopped.contains(operand.get()) ||
        split.uses(pending.axes) || entersUpdate(operand) ||
        (isNarrowingCast(op) && (getPhase(op->getLoc()) != Phase::Backward ||
                                 !getAddendType(operand.get()))) ||
        (!own.empty() && own.kind != pending.kind))
      continue;
    // What a window has outside is 0, the identity of sums.
    if (pending.kind != layout::ReduceKind::Sum &&
        getOperandSharding(op, operand.getOperandNumber(), split).hasWindow())
      continue;
    switch (op.getPartialUse(operand.getOperandNumber(),
                             fromLayout(pending.kind))) {
    case PartialUse::Complete:
      break;
    case PartialUse::Joint:
      joint.push_back(&operand);
      break;
    case PartialUse::Alone:
      alone.push_back(&operand);
      break;
    }
  }
  keepJointly(op, joint);
  keepAlone(op, alone, own);

  for (OpOperand &operand : op->getOpOperands())
    for (Terms &result : results)
      add(result, kept.lookup(&operand));
  for (auto [result, pending] : llvm::zip_equal(op->getResults(), results))
    if (!pending.empty())
      terms[result] = std::move(pending);
}

void TermFlow::keepJointly(PartitionOpInterface op,
                           ArrayRef<OpOperand *> operands) {
  if (operands.empty())
    return;
  // Every operand that would have to be partial too must be among them.
  Terms shared = getTerms(operands.front()->get());
  if (countJointOperands(op, shared.kind) != operands.size())
    return;
  int64_t elements = 0;
  for (OpOperand *operand : operands) {
    Terms pending = getTerms(operand->get());
    if (pending.kind != shared.kind)
      return;
    llvm::erase_if(shared.axes, [&](layout::AxisRef axis) {
      return !llvm::is_contained(pending.axes, axis);
    });
    elements += getLocalElements(operand->get());
  }
  if (shared.axes.empty() || getLargestResult(op) > elements)
    return;
  if (auto stack = dyn_cast<StackOp>(*op);
      stack && isCompletedInParts(stack, shared))
    return;
  for (OpOperand *operand : operands)
    kept[operand] = shared;
}

bool TermFlow::isCompletedInParts(StackOp stack, const Terms &shared) const {
  const bool isForUpdate = llvm::all_of(stack->getUses(), entersUpdate);
  const bool liesInParts =
      stack.getType().findDim(stack.getDim()) == 0 &&
      splits.find(stack)->second.get(stack.getDimAttr()).empty();
  // Threads of a host send in the time in which they would compute.
  if (!isForUpdate || !liesInParts || !machine.getGpuConstants())
    return false;
  const layout::GroupReach reach = machine.getReach(mesh, shared.axes);
  auto getUs = [&](int64_t bytes) {
    constexpr auto kind = layout::CollectiveKind::AllReduce;
    return machine.getCollectiveUs(
        kind, reach, bytes, layout::getWireBytes(kind, bytes, reach.ranks));
  };
  const int64_t parts = int64_t(stack.getInputs().size());
  const int64_t bytes =
      getLocalElements(stack) * getElementBytes(stack.getType()) / parts;
  // What is hidden of a part's time is more than the latency that it adds.
  return getUs(bytes) >= 2 * getUs(0);
}

void TermFlow::keepAlone(PartitionOpInterface op,
                         ArrayRef<OpOperand *> operands, const Terms &own) {
  // The largest first: of two partial over one axis it is the one to complete
  // later.
  SmallVector<OpOperand *> sorted(operands);
  llvm::sort(sorted, [&](OpOperand *a, OpOperand *b) {
    int64_t sizeA = getLocalElements(a->get());
    int64_t sizeB = getLocalElements(b->get());
    return std::tuple(-sizeA, a->getOperandNumber()) <
           std::tuple(-sizeB, b->getOperandNumber());
  });
  std::vector<layout::AxisRef> taken = own.axes;
  layout::ReduceKind kind = own.kind;
  int64_t resultElements = getLargestResult(op);
  for (OpOperand *operand : sorted) {
    Terms pending = getTerms(operand->get());
    bool overlaps = llvm::any_of(pending.axes, [&](layout::AxisRef axis) {
      return llvm::any_of(taken, [&](layout::AxisRef other) {
        return other.axis == axis.axis;
      });
    });
    if (overlaps || resultElements > getLocalElements(operand->get()) ||
        (kind != layout::ReduceKind::None && kind != pending.kind))
      continue;
    kind = pending.kind;
    taken.insert(taken.end(), pending.axes.begin(), pending.axes.end());
    kept[operand] = std::move(pending);
  }
}
