#include "passes/Causes.h"

#include "dialect/Casts.h"
#include "dialect/Locations.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// The operation that makes a value, or in which it is an argument.
static Operation *getMaker(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? op : value.getParentBlock()->getParentOp();
}

/// Name of a value, or of the operation that makes it.
static std::string getName(Value value) {
  std::string name = getValueName(value.getLoc());
  return name.empty() ? getMaker(value)->getName().getStringRef().str() : name;
}

/// The name of an operation without its dialect, "einsum".
static StringAttr getOperationName(Operation *op) {
  return StringAttr::get(op->getContext(), op->getName().stripDialect());
}

/// What reads a value: of the border what it is called there, which of an
/// update is the variable.
static OriginAttr getReaderOrigin(Operation *op) {
  OriginAttr origin = getOrigin(op->getLoc(), "");
  auto border = dyn_cast<BorderOpInterface>(op);
  if (!border)
    return origin;
  if (origin.getKind() == OriginKind::Update)
    origin = origin.withKind(OriginKind::Value);
  const auto name = StringAttr::get(op->getContext(), border.getBorderName());
  return origin.getText() == name ? origin : OriginAttr::get(ScopeAttr(), name);
}

static std::string quote(StringRef text) { return "\"" + text.str() + "\""; }

/// `"x"`, or `s "x", "y"` behind the word "dimension".
static std::string listDims(ArrayRef<std::string> dims) {
  std::string text = dims.size() > 1 ? "s " : " ";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(dims, os,
                        [&](const std::string &dim) { os << quote(dim); });
  return text;
}

void CauseBuilder::addRule(StringRef dim, Reason &reason) const {
  if (RuleOp rule = layout.findRule(dim))
    reason.spans.push_back(rule.getLoc());
}

CauseBuilder::Reason
CauseBuilder::getReasonOfTerms(Value value,
                               ArrayRef<layout::AxisRef> completed) const {
  // Follow the terms to the operations that made them.
  Reason reason;
  SmallVector<std::string> dims;
  bool isContraction = false;
  SmallVector<Value> worklist{value};
  llvm::DenseSet<Operation *> seen;
  while (!worklist.empty()) {
    auto op = worklist.pop_back_val().getDefiningOp<PartitionOpInterface>();
    if (!op || !seen.insert(op).second)
      continue;
    const IterationSplit &split = splits.find(op)->second;
    for (auto [dim, axes] : llvm::zip_equal(split.dims, split.splits)) {
      bool isCompleted = llvm::any_of(axes, [&](layout::AxisRef axis) {
        return llvm::is_contained(completed, axis);
      });
      std::string name = dim.getName().str();
      if (!op.getDimUse(name).isReduced() || !isCompleted)
        continue;
      isContraction |= isa<EinsumOp>(op);
      reason.spans.push_back(op.getLoc());
      if (llvm::is_contained(dims, name))
        continue;
      dims.push_back(name);
      addRule(name, reason);
    }
    // The last is looked at first.
    for (OpOperand &operand : llvm::reverse(op->getOpOperands()))
      if (!flow.getKept(operand).empty())
        worklist.push_back(operand.get());
  }
  if (dims.empty()) {
    // Terms that a constraint asked for.
    reason.rule = "constraint on " + quote(getName(value));
  } else {
    reason.kind = isContraction ? CauseKind::Contraction : CauseKind::Reduction;
    reason.rule = stringifyCauseKind(reason.kind).str() +
                  " over split dimension" + listDims(dims);
  }
  if (getPhase(value.getLoc()) == Phase::Backward)
    reason.rule = getName(value) + ": " + reason.rule;
  return reason;
}

void CauseBuilder::addRuleOfVariable(OpOperand &use, DimAttr dim,
                                     Reason &reason) const {
  RuleOp rule = layout.findRoleRule(use, dim.getName());
  if (!rule)
    return;
  reason.isWritten = true;
  reason.rule += " beside " + quote(rule.getRule());
  reason.spans.push_back(rule.getLoc());
}

CauseBuilder::Reason
CauseBuilder::getReason(OpOperand &use, const layout::Sharding &had,
                        const layout::Sharding &needed) const {
  Operation *reader = use.getOwner();
  std::vector<layout::AxisRef> completed;
  for (layout::AxisRef axis : had.partialAxes)
    if (!llvm::is_contained(needed.partialAxes, axis))
      completed.push_back(axis);
  if (!completed.empty())
    return getReasonOfTerms(use.get(), completed);

  auto type = cast<NamedTensorType>(use.get().getType());
  Reason reason;
  if (isa<ReshardOp>(reader)) {
    reason.rule = "constraint on " + quote(getName(reader->getResult(0)));
    return reason;
  }
  auto known = splits.find(reader);
  if (known != splits.end() && known->second.constrained) {
    reason.rule = "constraint on " + quote(*known->second.constrained);
    // What costs less is the compiler's choice.
    reason.isWritten =
        known->second.source == IterationSplit::Source::Constraint;
    return reason;
  }
  if (known != splits.end() && known->second.conflict) {
    reason.kind = CauseKind::Conflict;
    reason.conflict = &*known->second.conflict;
    reason.rule = "dimensions " + quote(reason.conflict->dim) + " and " +
                  quote(reason.conflict->otherDim) + " share axis " +
                  quote(reason.conflict->axis);
    addRule(reason.conflict->dim, reason);
    addRule(reason.conflict->otherDim, reason);
    for (auto [dim, lies, wanted] :
         llvm::zip_equal(type.getDims(), had.dims, needed.dims))
      if (!reason.isWritten && lies != wanted)
        addRuleOfVariable(use, dim, reason);
    return reason;
  }
  for (auto [number, dim] : llvm::enumerate(type.getDims())) {
    const layout::Window *window = needed.getWindow(number);
    if (!window && had.dims[number] == needed.dims[number])
      continue;
    StringRef name = dim.getName();
    std::string prefix;
    if (auto op = dyn_cast<PartitionOpInterface>(reader)) {
      DimAccess access =
          op.getOperandAccess(use.getOperandNumber(), dim.getName());
      if (StringAttr loop = access.getSplitLoop())
        name = loop;
      if (window) {
        if (!window->loop.empty())
          name = window->loop;
        prefix = "window " + quote(dim.getName()) + " = " + toString(access) +
                 " of ";
      }
    }
    RuleOp rule = layout.findRule(name);
    reason.kind = window ? CauseKind::Window
                  : rule ? CauseKind::Rule
                         : CauseKind::NoRule;
    if (rule) {
      reason.rule = prefix + "layout rule " + quote(name) + " -> ";
      llvm::raw_string_ostream os(reason.rule);
      llvm::interleaveComma(
          rule.getRule().axes, os,
          [&](const std::string &axis) { os << quote(axis); });
      reason.spans.push_back(rule.getLoc());
    } else {
      reason.rule = "no layout rule for " + quote(name);
      addRule(dim.getName(), reason);
    }
    addRuleOfVariable(use, dim, reason);
    return reason;
  }
  reason.rule = "constraint on " + quote(getName(use.get()));
  return reason;
}

/// "reduce_scatter + all_gather"
static std::string describe(const layout::ReshardPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      plan.steps, os,
      [&](const layout::ReshardStep &step) {
        os << layout::getName(step.kind);
      },
      " + ");
  return text;
}

/// Those that the value of `use` is for.
static SmallVector<Operation *> getReaders(OpOperand &use) {
  Operation *reader = use.getOwner();
  auto constraint = dyn_cast<ReshardOp>(reader);
  const bool isWidened =
      isWideningCast(reader) && reader->getLoc() == use.get().getLoc();
  if (!(isWidened || (constraint && constraint.getRole())) ||
      reader->use_empty())
    return {reader};
  SetVector<Operation *> readers(reader->user_begin(), reader->user_end());
  readers = topologicalSort(readers);
  return SmallVector<Operation *>(readers.begin(), readers.end());
}

SmallVector<Attribute>
CauseBuilder::build(OpOperand &use, const layout::Sharding &had,
                    const layout::Sharding &needed,
                    const layout::ReshardChoice &choice) const {
  MLIRContext *context = use.get().getContext();
  Builder builder(context);
  Reason reason = getReason(use, had, needed);

  StringAttr alternative;
  FloatAttr alternativeUs, chosenUs;
  // What costs the same was not rejected for its cost.
  auto setAlternative = [&](StringRef text, double us, double usOfChosen) {
    constexpr double samePart = 1e-6;
    if (us <= usOfChosen * (1 + samePart))
      return;
    alternative = builder.getStringAttr(text);
    alternativeUs = builder.getF64FloatAttr(us);
    chosenUs = builder.getF64FloatAttr(usOfChosen);
  };
  if (reason.conflict)
    setAlternative(reason.conflict->rejected, reason.conflict->rejectedUs,
                   reason.conflict->chosenUs);
  else if (choice.secondBest)
    setAlternative(describe(*choice.secondBest), choice.secondBest->costUs,
                   choice.best.costUs);
  std::vector<std::string> names =
      getDimNames(cast<NamedTensorType>(use.get().getType()));
  const layout::Mesh &mesh = layout.getMesh();
  SmallVector<Attribute> causes;
  for (Operation *reader : getReaders(use)) {
    SmallVector<Attribute> spans;
    auto addSpan = [&](Location loc) {
      if (!llvm::is_contained(spans, Attribute(LocationAttr(loc))))
        spans.push_back(LocationAttr(loc));
    };
    addSpan(reader->getLoc());
    addSpan(use.get().getLoc());
    llvm::for_each(reason.spans, addSpan);
    const OriginAttr consumer = getReaderOrigin(reader);
    const OriginAttr operand = getOrigin(use.get().getLoc(), "");
    causes.push_back(CauseAttr::get(
        context, reason.kind, builder.getStringAttr(reason.rule), consumer,
        operand, builder.getStringAttr(layout::toString(mesh, needed, names)),
        builder.getStringAttr(layout::toString(mesh, had, names)),
        builder.getArrayAttr(spans),
        consumer.hasName() ? StringAttr() : getOperationName(reader),
        operand.hasName() && operand.isItself()
            ? StringAttr()
            : getOperationName(getMaker(use.get())),
        alternative, alternativeUs, chosenUs,
        isa<ReshardOp>(use.getOwner()) || reason.isWritten
            ? builder.getUnitAttr()
            : UnitAttr()));
  }
  return causes;
}
