// Decides how every value lies on the mesh. The decision has three parts: how
// each operation splits its dimensions (IterationSplit), where pending terms
// move and where they are completed (TermFlow, RegroupAdditions, NarrowSums),
// and what this file does with both: types, and a reshard wherever a reader
// needs a value otherwise than its producer leaves it.

#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "passes/Causes.h"
#include "passes/ConstraintFlow.h"
#include "passes/NarrowSums.h"
#include "passes/Passes.h"
#include "passes/RegroupAdditions.h"
#include "passes/TransferOrders.h"

namespace meshc {
#define GEN_PASS_DEF_ASSIGNSHARDINGS
#include "passes/Passes.h.inc"
} // namespace meshc

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

static FailureOr<SplitMap> chooseSplits(ProgramOp program,
                                        const ModuleLayout &layout) {
  SplitMap splits;
  const auto followers = findFollowers(program, layout);
  bool failedAny = false;
  for (Operation *op : getOperations(program)) {
    auto partitioned = dyn_cast<PartitionOpInterface>(op);
    if (!partitioned) {
      if (isa<BorderOpInterface, ReshardOp>(op))
        continue;
      op->emitError() << "'" << op->getName()
                      << "' cannot be partitioned: it has no "
                         "PartitionOpInterface (nd-decompose rewrites "
                         "operations without one)";
      failedAny = true;
      continue;
    }
    splits[op] =
        chooseIterationSplit(partitioned, layout, splits, followers.lookup(op));
  }
  if (failedAny)
    return failure();
  return splits;
}

namespace {

/// Gives one program its types and reshards, from the decisions.
class ProgramRewriter {
public:
  ProgramRewriter(ProgramOp program, ModuleLayout &layout,
                  const SplitMap &splits, const TermFlow &flow)
      : program(program), layout(layout), splits(splits), flow(flow),
        causes(layout, splits, flow) {}

  /// Finds how every value is made and read.
  LogicalResult decide();
  /// What will be resharded.
  std::vector<ValueTransfer> getTransfers();
  void rewrite();

private:
  /// Sharding in which a value leaves its producer.
  FailureOr<layout::Sharding> getProduced(Value value);
  /// Sharding in which `use` reads its value.
  FailureOr<layout::Sharding> getNeeded(OpOperand &use);

  /// Sharding of a value that crosses the border of the program.
  FailureOr<layout::Sharding> getSharding(BorderOpInterface border,
                                          NamedTensorType type);
  void narrow(Value value, const layout::Sharding &had);
  bool isReadInOneSharding(Value value);
  std::vector<layout::Sharding> getStages(OpOperand &use);
  void rewrite(Operation *op);
  Value getResharded(OpOperand &use);
  Value getResharded(Value value, const layout::Sharding &had,
                     const layout::Sharding &needed, OpOperand &use);
  Value generate(Value value, const layout::Sharding &wanted);

  ProgramOp program;
  ModuleLayout &layout;
  const SplitMap &splits;
  const TermFlow &flow;
  CauseBuilder causes;
  const SymbolTable variables{program->getParentOfType<ModuleOp>()};
  llvm::DenseMap<Value, layout::Sharding> produced;
  llvm::DenseMap<OpOperand *, layout::Sharding> needed;
  /// Partial values that readers need in several complete shardings.
  llvm::DenseSet<Value> completedFirst;
  llvm::DenseMap<std::pair<Value, ShardingAttr>, ReshardOp> reshards;
  llvm::DenseMap<std::pair<Value, ShardingAttr>, Value> generated;
};

} // namespace

FailureOr<layout::Sharding>
ProgramRewriter::getSharding(BorderOpInterface border, NamedTensorType type) {
  if (!border.isVariable())
    return layout.getSharding(type, border, border.getBorderName());
  auto variable = variables.lookup<VariableOp>(border.getBorderName());
  return nd::getSharding(variable.getTensorType(), layout.getMesh());
}

FailureOr<layout::Sharding> ProgramRewriter::getProduced(Value value) {
  Operation *op = value.getDefiningOp();
  auto type = cast<NamedTensorType>(value.getType());
  if (auto border = dyn_cast<BorderOpInterface>(op))
    return getSharding(border, type);
  if (isa<ReshardOp>(op))
    return layout::getCanonical(layout.getMesh(),
                                nd::getSharding(type, layout.getMesh()));
  layout::Sharding sharding = getResultSharding(
      cast<PartitionOpInterface>(op), cast<OpResult>(value).getResultNumber(),
      splits.find(op)->second);
  Terms terms = flow.getTerms(value);
  sharding.partialKind = terms.kind;
  sharding.partialAxes = terms.axes;
  return sharding;
}

FailureOr<layout::Sharding> ProgramRewriter::getNeeded(OpOperand &use) {
  Operation *op = use.getOwner();
  auto type = cast<NamedTensorType>(use.get().getType());
  if (isa<ReshardOp>(op))
    return produced.find(op->getResult(0))->second;
  if (auto border = dyn_cast<BorderOpInterface>(op)) {
    if (!border.isVariable() && type.getRank() == 0)
      return produced.find(use.get())->second;
    return getSharding(border, type);
  }
  layout::Sharding sharding =
      getOperandSharding(cast<PartitionOpInterface>(op), use.getOperandNumber(),
                         splits.find(op)->second);
  Terms kept = flow.getKept(use);
  sharding.partialKind = kept.kind;
  sharding.partialAxes = kept.axes;
  return sharding;
}

LogicalResult ProgramRewriter::decide() {
  for (Operation *op : getOperations(program)) {
    for (Value result : op->getResults()) {
      FailureOr<layout::Sharding> sharding = getProduced(result);
      if (failed(sharding))
        return failure();
      produced[result] = std::move(*sharding);
    }
    for (OpOperand &use : op->getOpOperands()) {
      FailureOr<layout::Sharding> sharding = getNeeded(use);
      if (failed(sharding))
        return failure();
      needed[&use] = std::move(*sharding);
    }
  }
  for (auto &[value, had] : produced)
    narrow(value, had);
  for (auto &[value, had] : produced)
    if (had.isPartial() && !isReadInOneSharding(value))
      completedFirst.insert(value);
  return success();
}

/// The positions of a dimension that every device reads, as a window; nothing
/// where these are not known, or differ.
static std::optional<layout::Window> getRead(PartitionOpInterface op,
                                             const IterationSplit &split,
                                             unsigned operand, DimAttr dim) {
  // Only a view knows where a block of what it reads begins.
  if (!isa<ViewOp>(op))
    return std::nullopt;
  const DimAccess access = op.getOperandAccess(operand, dim.getName());
  const bool isSplit = llvm::any_of(access.getLoops(), [&](StringAttr loop) {
    return !split.get(loop).empty();
  });
  if (access.getSplitLoop() || isSplit)
    return std::nullopt;
  return getWindow(access, {}, op.getIterationDims());
}

/// Of a dimension that `value` has split, and that its readers need whole, they
/// get the positions that they read, if together these are not all.
void ProgramRewriter::narrow(Value value, const layout::Sharding &had) {
  auto type = cast<NamedTensorType>(value.getType());
  for (auto [number, dim] : llvm::enumerate(type.getDims())) {
    if (had.dims[number].empty())
      continue;
    SmallVector<std::pair<OpOperand *, layout::Window>> reads;
    llvm::SmallDenseSet<std::pair<int64_t, int64_t>> ranges;
    bool isNarrow = true;
    for (OpOperand &use : value.getUses()) {
      const layout::Sharding &wanted = needed.find(&use)->second;
      if (!wanted.dims[number].empty())
        continue;
      auto op = dyn_cast<PartitionOpInterface>(use.getOwner());
      std::optional<layout::Window> read;
      if (op && wanted.partialKind != layout::ReduceKind::Max &&
          wanted.partialKind != layout::ReduceKind::Min)
        read =
            getRead(op, splits.find(op)->second, use.getOperandNumber(), dim);
      isNarrow &= read.has_value();
      if (!read)
        continue;
      ranges.insert({read->low, read->high});
      reads.push_back({&use, *read});
    }
    int64_t count = 0;
    for (auto [low, high] : ranges)
      count += high - low + 1;
    if (!isNarrow || count >= dim.getSize())
      continue;
    for (auto &[use, window] : reads) {
      layout::Sharding &wanted = needed.find(use)->second;
      wanted.windows.resize(wanted.dims.size());
      wanted.windows[number] = window;
    }
  }
}

bool ProgramRewriter::isReadInOneSharding(Value value) {
  const layout::Sharding *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    const layout::Sharding &wanted = needed.find(&use)->second;
    if (first && wanted != *first)
      return false;
    first = &wanted;
  }
  return true;
}

void ProgramRewriter::rewrite() {
  llvm::for_each(getOperations(program), [&](Operation *op) { rewrite(op); });
}

void ProgramRewriter::rewrite(Operation *op) {
  if (auto constraint = dyn_cast<ReshardOp>(op)) {
    OpOperand &use = constraint->getOpOperand(0);
    Value value = getResharded(use);
    // What it gives is remembered under its own result.
    constraint.getResult().replaceAllUsesWith(value);
    produced[value] = needed.find(&use)->second;
    op->erase();
    return;
  }
  for (OpOperand &use : op->getOpOperands())
    use.set(getResharded(use));
  for (Value result : op->getResults()) {
    auto type = cast<NamedTensorType>(result.getType());
    result.setType(type.withSharding(getShardingAttr(
        type, layout.getMesh(), produced.find(result)->second)));
  }
}

/// The shardings in which `use` gets its value, from that of its producer on.
std::vector<layout::Sharding> ProgramRewriter::getStages(OpOperand &use) {
  const layout::Sharding &had = produced.find(use.get())->second;
  const layout::Sharding &wanted = needed.find(&use)->second;
  std::vector<layout::Sharding> stages{had};
  // Readers that need it complete in different shardings share the completion.
  if (had != wanted && !wanted.isPartial() &&
      completedFirst.contains(use.get())) {
    stages.push_back(had);
    stages.back().partialKind = layout::ReduceKind::None;
    stages.back().partialAxes.clear();
  }
  if (stages.back() != wanted)
    stages.push_back(wanted);
  return stages;
}

std::vector<ValueTransfer> ProgramRewriter::getTransfers() {
  std::vector<ValueTransfer> transfers;
  for (Operation *op : getOperations(program))
    for (Value result : op->getResults()) {
      ValueTransfer transfer{result, {}, {}};
      for (OpOperand &use : result.getUses()) {
        const std::vector<layout::Sharding> stages = getStages(use);
        for (size_t i = 1; i < stages.size(); ++i)
          if (ValueTransfer::Change change{stages[i - 1], stages[i]};
              !llvm::is_contained(transfer.changes, change))
            transfer.changes.push_back(std::move(change));
        if (stages.size() > 1)
          transfer.uses.push_back(&use);
      }
      if (!transfer.changes.empty())
        transfers.push_back(std::move(transfer));
    }
  return transfers;
}

Value ProgramRewriter::getResharded(OpOperand &use) {
  const std::vector<layout::Sharding> stages = getStages(use);
  Value value = use.get();
  for (size_t i = 1; i < stages.size(); ++i)
    value = getResharded(value, stages[i - 1], stages[i], use);
  return value;
}

/// Elements one device holds of `type` under `sharding`.
static int64_t getLocalElements(NamedTensorType type,
                                const layout::Sharding &sharding) {
  int64_t elements = 1;
  for (int64_t size : layout::getLocalShape(type.getSizes(), sharding))
    elements *= size;
  return elements;
}

/// A value as it was before it was resharded.
static Value getSource(Value value) {
  while (auto reshard = value.getDefiningOp<ReshardOp>())
    value = reshard.getInput();
  return value;
}

/// Whether constants and positions are all that a value is computed from,
/// element by element, in a few operations: each device makes any part of it
/// sooner than it would receive it.
static bool isGenerated(Value value, int maxDepth = 4) {
  Operation *op = getSource(value).getDefiningOp();
  if (isa<ConstantOp, IotaOp>(op))
    return true;
  return maxDepth > 0 && isa<ElementwiseOpInterface>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isGenerated(operand, maxDepth - 1);
         });
}

/// The same value, made in another sharding.
Value ProgramRewriter::generate(Value value, const layout::Sharding &wanted) {
  value = getSource(value);
  auto type = cast<NamedTensorType>(value.getType());
  const ShardingAttr attr = getShardingAttr(type, layout.getMesh(), wanted);
  if (type.getSharding() == attr)
    return value;
  if (Value known = generated.lookup({value, attr}))
    return known;
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    layout::Sharding own;
    for (DimAttr dim : cast<NamedTensorType>(operand.getType()).getDims())
      own.dims.push_back(wanted.dims[size_t(type.findDim(dim.getName()))]);
    operands.push_back(generate(operand, own));
  }
  OpBuilder builder(program.getContext());
  builder.setInsertionPointAfterValue(value);
  Operation *made = builder.clone(*op);
  made->setOperands(operands);
  made->getResult(0).setType(type.withSharding(attr));
  return generated[{value, attr}] = made->getResult(0);
}

Value ProgramRewriter::getResharded(Value value, const layout::Sharding &had,
                                    const layout::Sharding &wanted,
                                    OpOperand &use) {
  auto type = cast<NamedTensorType>(value.getType());
  if (!had.isPartial() && !wanted.hasWindow() && isGenerated(value))
    return generate(value, wanted);
  const layout::Mesh &mesh = layout.getMesh();
  ShardingAttr attr = getShardingAttr(type, mesh, wanted);
  SmallVector<Attribute> why =
      causes.build(use, had, wanted, layout.planReshard(type, had, wanted));
  ReshardOp &reshard = reshards[{value, attr}];
  if (reshard) {
    SmallVector<Attribute> all(reshard.getCausesAttr().getValue());
    llvm::append_range(all, why);
    reshard.setCausesAttr(ArrayAttr::get(type.getContext(), all));
    return reshard;
  }
  // What takes memory is made late, the rest at once.
  OpBuilder builder(program.getContext());
  // What a constraint gives has the constraint's name and place.
  Location loc = isa<ReshardOp>(use.getOwner()) ? use.getOwner()->getLoc()
                                                : value.getLoc();
  if (getLocalElements(type, wanted) > getLocalElements(type, had)) {
    builder.setInsertionPoint(use.getOwner());
    loc = withPhase(loc, getPhase(use.getOwner()->getLoc()));
    if (!isa<ReshardOp>(use.getOwner()))
      loc = asPart(loc, OriginPart::Gathered);
  } else {
    builder.setInsertionPointAfterValue(value);
  }
  auto constraint = dyn_cast<ReshardOp>(use.getOwner());
  reshard = ReshardOp::create(builder, loc, type.withSharding(attr), value,
                              builder.getArrayAttr(why),
                              constraint ? constraint.getRoleAttr() : nullptr);
  return reshard;
}

/// Sharding of a value that lives between programs, or comes from outside.
static LogicalResult assignVariables(ModuleOp module, ModuleLayout &layout) {
  bool failedAny = false;
  for (auto variable : module.getOps<VariableOp>()) {
    NamedTensorType type = variable.getTensorType();
    FailureOr<layout::Sharding> sharding = layout.getSharding(variable);
    failedAny |= failed(sharding);
    if (succeeded(sharding))
      variable.setType(type.withSharding(
          getShardingAttr(type, layout.getMesh(), *sharding)));
  }
  return failure(failedAny);
}

/// Where one part of a step leaves `variable` for the next; null: nowhere.
static WriteOp findPartSum(ProgramOp accumulate, StringRef variable) {
  for (auto write : accumulate.getOps<WriteOp>())
    if (write.getVariable() == variable)
      return write;
  return {};
}

/// Has sums over the parts of a step stay terms on each device, as far as they
/// are where they are made and lie on the devices as the sum does. What is
/// split in the sum over the axis of the terms is scattered, part by part.
static LogicalResult assignPartSums(ModuleOp module, ModuleLayout &layout) {
  auto program = module.lookupSymbol<ProgramOp>(ProgramOp::accumulateName);
  if (!program)
    return success();
  FailureOr<SplitMap> splits = chooseSplits(program, layout);
  if (failed(splits))
    return failure();
  const layout::Mesh &mesh = layout.getMesh();
  auto setTerms = [&](VariableOp variable, const Terms &terms) {
    layout::Sharding sharding = getSharding(variable.getTensorType(), mesh);
    sharding.partialKind =
        terms.empty() ? layout::ReduceKind::None : terms.kind;
    sharding.partialAxes = terms.axes;
    NamedTensorType type = variable.getTensorType();
    variable.setType(type.withSharding(getShardingAttr(type, mesh, sharding)));
  };
  SmallVector<std::pair<VariableOp, WriteOp>> sums;
  const TermFlow complete(program, *splits);
  for (auto variable : module.getOps<VariableOp>()) {
    WriteOp write = variable.getRole() == VariableRole::InStep
                        ? findPartSum(program, variable.getSymName())
                        : WriteOp();
    auto first =
        write ? write.getValue().getDefiningOp<SelectOp>() : SelectOp();
    if (!first)
      continue;
    Terms terms = complete.getTerms(first.getWhenTrue());
    const layout::Sharding sharding =
        getSharding(variable.getTensorType(), mesh);
    llvm::erase_if(terms.axes, [&](layout::AxisRef axis) {
      return llvm::any_of(sharding.dims, [&](const layout::DimSplit &split) {
        return llvm::any_of(split, [&](layout::AxisRef other) {
          return other.axis == axis.axis;
        });
      });
    });
    if (terms.empty() || terms.kind != layout::ReduceKind::Sum)
      continue;
    setTerms(variable, terms);
    sums.emplace_back(variable, write);
  }
  // Those stay that arrive. With fewer terms kept there are not more elsewhere.
  for (bool changed = true; changed;) {
    changed = false;
    const TermFlow flow(program, *splits);
    for (auto &[variable, write] : sums) {
      const layout::Sharding had = getSharding(variable.getTensorType(), mesh);
      const Terms terms = flow.getTerms(write.getValue());
      if (terms.axes == had.partialAxes)
        continue;
      changed = true;
      setTerms(variable, terms);
    }
  }
  return success();
}

static LogicalResult assignProgram(ProgramOp program, ModuleLayout &layout) {
  FailureOr<SplitMap> splits = chooseSplits(program, layout);
  if (failed(splits))
    return failure();
  for (auto improve : {regroupAdditions, narrowSums})
    if (improve(program, TermFlow(program, *splits))) {
      splits = chooseSplits(program, layout);
      if (failed(splits))
        return failure();
    }
  // Twice where values that travel are stored in another order for it.
  for (bool mayReorder : {true, false}) {
    TermFlow flow(program, *splits);
    ProgramRewriter rewriter(program, layout, *splits, flow);
    if (failed(rewriter.decide()))
      return failure();
    if (mayReorder &&
        orderTransfers(program, layout, rewriter.getTransfers())) {
      splits = chooseSplits(program, layout);
      if (failed(splits))
        return failure();
      continue;
    }
    rewriter.rewrite();
    break;
  }
  return verifyShardings(program);
}

namespace {
struct AssignShardings : meshc::impl::AssignShardingsBase<AssignShardings> {
  void runOnOperation() override {
    FailureOr<ModuleLayout> layout = ModuleLayout::create(getOperation());
    if (failed(layout))
      return signalPassFailure();
    bool failedAny = failed(assignVariables(getOperation(), *layout));
    if (!failedAny)
      failedAny |= failed(assignPartSums(getOperation(), *layout));
    for (auto program : getOperation().getOps<ProgramOp>())
      failedAny |= failed(assignProgram(program, *layout));
    if (failedAny)
      signalPassFailure();
  }
};
} // namespace
