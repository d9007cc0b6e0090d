// Whether the shardings of a program agree with what its operations do.

#include "dialect/ND.h"
#include "dialect/ProgramWalk.h"

#include "layout/AxisParts.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

std::string nd::toString(ShardingAttr sharding) {
  std::string text;
  llvm::raw_string_ostream os(text);
  sharding.printStripped(os);
  return text;
}

namespace {

/// Checks one operation that has a PartitionOpInterface.
class OperationCheck {
public:
  OperationCheck(PartitionOpInterface op, const layout::Mesh &mesh)
      : op(op), mesh(mesh) {}

  LogicalResult run() {
    if (failed(joinSplits()))
      return failure();
    for (const Loop &loop : loops)
      if (failed(checkLoop(loop)))
        return failure();
    if (failed(checkAxes()) || failed(checkOperandTerms()))
      return failure();
    for (OpResult result : op->getResults())
      if (failed(checkResultTerms(result)))
        return failure();
    return success();
  }

private:
  struct Loop {
    StringAttr name;
    std::optional<ArrayRef<AxisRefAttr>> split; ///< of the dimensions it is
    BitVector results;                          ///< those that have it
  };

  NamedTensorType getOperandType(unsigned operand) {
    return cast<NamedTensorType>(op->getOperand(operand).getType());
  }
  static NamedTensorType getType(OpResult result) {
    return cast<NamedTensorType>(result.getType());
  }

  /// Finds how each loop is split, which operands and results agree about.
  LogicalResult joinSplits() {
    for (DimAttr dim : op.getIterationDims())
      loops.push_back(
          {dim.getName(), std::nullopt, BitVector(op->getNumResults())});
    for (OpResult result : op->getResults())
      for (DimAttr dim : getType(result).getDims()) {
        unsigned number = result.getResultNumber();
        DimAccess access = op.getResultAccess(number, dim.getName());
        if (failed(join(getType(result), dim.getName(), access)))
          return failure();
        if (Loop *loop = find(access.getSplitLoop()))
          loop->results.set(number);
      }
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      for (DimAttr dim : getOperandType(i).getDims())
        if (failed(join(getOperandType(i), dim.getName(),
                        op.getOperandAccess(i, dim.getName()))))
          return failure();
    return success();
  }

  Loop *find(StringAttr name) {
    auto found =
        llvm::find_if(loops, [&](Loop &loop) { return loop.name == name; });
    return found == loops.end() ? nullptr : &*found;
  }

  /// Adds how dimension `dim` of `type` is split.
  LogicalResult join(NamedTensorType type, StringAttr dim,
                     const DimAccess &access) {
    ArrayRef<AxisRefAttr> here = type.getSharding().getAxes(dim);
    Loop *loop = find(access.getSplitLoop());
    if (WindowAttr window = type.getSharding().getWindow(dim)) {
      const StringAttr name =
          window.getLoop() ? window.getLoop().getName() : StringAttr();
      const bool hasSplitLoop =
          !name && llvm::any_of(access.getLoops(), [&](StringAttr other) {
            const Loop *known = find(other);
            return known && known->split && !known->split->empty();
          });
      if (loop || hasSplitLoop ||
          getWindow(access, name, op.getIterationDims()) != toLayout(window))
        return op->emitOpError("takes position ")
               << toString(access) << " of dimension " << dim
               << ", which is not the window "
               << toString(ShardingAttr::get(
                      op->getContext(),
                      DimSplitAttr::get(op->getContext(), dim, here, window),
                      std::nullopt, {}));
      loop = name ? find(name) : nullptr;
    }
    if (!loop && (here.empty() || isDigit(type, dim, access)))
      return success();
    if (!loop)
      return op->emitOpError("needs dimension ")
             << dim << " whole, as it takes position " << toString(access)
             << ", found it split over " << here.front().getName();
    if (!loop->split)
      loop->split = here;
    if (*loop->split == here)
      return success();
    return op->emitOpError("splits dimension ")
           << loop->name << " in two ways: operands and result must agree";
  }

  /// Whether `dim`, which is no loop, has the blocks that digits have where the
  /// loops are split as they are.
  bool isDigit(NamedTensorType type, StringAttr dim, const DimAccess &access) {
    auto getSplit = [&](StringAttr name) {
      const Loop *loop = find(name);
      return getSplitOf(loop && loop->split ? *loop->split
                                            : ArrayRef<AxisRefAttr>());
    };
    const auto blocks =
        findDigitBlocks(access, type.getDims()[type.findDim(dim)].getSize(),
                        op.getIterationDims(), getSplit);
    return blocks &&
           blocks->split == getSplitOf(type.getSharding().getAxes(dim));
  }

  layout::DimSplit getSplitOf(ArrayRef<AxisRefAttr> axes) const {
    return layout::joinParts(llvm::map_to_vector(
        axes, [&](AxisRefAttr axis) { return getAxisRef(axis, mesh); }));
  }

  LogicalResult checkLoop(const Loop &loop) {
    if (!loop.split || loop.split->empty())
      return success();
    DimUse use = op.getDimUse(loop.name);
    if (!use.maySplit())
      return op->emitOpError("needs dimension ")
             << loop.name << " whole, found it split over "
             << loop.split->front().getName();
    if (use.isReduced() && failed(addReduced(use.reduce, *loop.split)))
      return failure();
    llvm::append_range(used, *loop.split);
    return success();
  }

  LogicalResult addReduced(ReduceKind kind, ArrayRef<AxisRefAttr> axes) {
    llvm::append_range(pending, axes);
    if (!pendingKind)
      pendingKind = kind;
    if (*pendingKind == kind)
      return success();
    return op->emitOpError("mixes pending terms of ")
           << stringifyReduceKind(*pendingKind) << " and "
           << stringifyReduceKind(kind);
  }

  /// No axis splits two dimensions of the iteration space.
  LogicalResult checkAxes() {
    if (!overlap(used))
      return success();
    InFlightDiagnostic error =
        op->emitOpError("splits two dimensions over one axis:");
    for (AxisRefAttr axis : used)
      error << " " << axis.getName();
    return error;
  }

  std::vector<layout::AxisRef> getSorted(ArrayRef<AxisRefAttr> axes) {
    std::vector<layout::AxisRef> sorted;
    for (AxisRefAttr axis : axes)
      sorted.push_back(getAxisRef(axis, mesh));
    llvm::sort(sorted);
    return sorted;
  }

  /// Whether a position of some axis is in `axes` twice.
  bool overlap(ArrayRef<AxisRefAttr> axes) {
    layout::Sharding sharding;
    sharding.partialAxes = getSorted(axes);
    sharding.partialKind =
        axes.empty() ? layout::ReduceKind::None : layout::ReduceKind::Sum;
    return !layout::getViolation(mesh, sharding, 0).empty();
  }

  LogicalResult checkOperandTerms() {
    std::optional<ShardingAttr> joint;
    bool anyPartial = false;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      anyPartial |= getOperandType(i).isPartial();
    if (!anyPartial)
      return success();
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      ShardingAttr sharding = getOperandType(i).getSharding();
      if (!sharding.isPartial()) {
        if (failed(checkComplete(i)))
          return failure();
        continue;
      }
      ReduceKind kind = *sharding.getPartialKind();
      switch (op.getPartialUse(i, kind)) {
      case PartialUse::Complete:
        return op->emitOpError("operand ")
               << i << " must be complete, found " << toString(sharding);
      case PartialUse::Joint:
        if (joint && (joint->getPartialKind() != sharding.getPartialKind() ||
                      joint->getPartialAxes() != sharding.getPartialAxes()))
          return op->emitOpError("operands must be partial alike, found ")
                 << toString(*joint) << " and " << toString(sharding);
        if (!joint && failed(addReduced(kind, sharding.getPartialAxes())))
          return failure();
        joint = sharding;
        break;
      case PartialUse::Alone:
        if (failed(addReduced(kind, sharding.getPartialAxes())))
          return failure();
        break;
      }
      SmallVector<AxisRefAttr> all(used);
      llvm::append_range(all, sharding.getPartialAxes());
      if (overlap(all))
        return op->emitOpError("operand ")
               << i << " is " << toString(sharding)
               << ", but one of these axes splits a "
               << "dimension";
    }
    if (overlap(pending))
      return op->emitOpError("several operands are partial over one axis");
    return success();
  }

  /// A complete operand may not stand beside one that is partial jointly.
  LogicalResult checkComplete(unsigned operand) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      ShardingAttr sharding = getOperandType(i).getSharding();
      if (!sharding.isPartial())
        continue;
      ReduceKind kind = *sharding.getPartialKind();
      if (op.getPartialUse(i, kind) == PartialUse::Joint &&
          op.getPartialUse(operand, kind) == PartialUse::Joint)
        return op->emitOpError("operand ")
               << operand << " is complete where operand " << i << " is "
               << toString(sharding);
    }
    return success();
  }

  /// A result is partial over exactly the axes that are pending, but for those
  /// of loops that it has.
  LogicalResult checkResultTerms(OpResult result) {
    ShardingAttr sharding = getType(result).getSharding();
    SmallVector<AxisRefAttr> pending = this->pending;
    for (const Loop &loop : loops)
      if (loop.split && loop.results[result.getResultNumber()])
        llvm::erase_if(pending, [&](AxisRefAttr axis) {
          return llvm::is_contained(*loop.split, axis);
        });
    if (layout::joinParts(getSorted(sharding.getPartialAxes())) ==
            layout::joinParts(getSorted(pending)) &&
        (pending.empty() || sharding.getPartialKind() == pendingKind))
      return success();
    InFlightDiagnostic error = op->emitOpError("result must be ");
    if (pending.empty())
      error << "complete";
    else
      error << toString(
          ShardingAttr::get(op->getContext(), {}, pendingKind, pending));
    return error << ", found " << toString(sharding);
  }

  PartitionOpInterface op;
  const layout::Mesh &mesh;
  SmallVector<Loop> loops;
  SmallVector<AxisRefAttr> used;    ///< by dimensions of the iteration space
  SmallVector<AxisRefAttr> pending; ///< over which results have terms
  std::optional<ReduceKind> pendingKind;
};

} // namespace

LogicalResult nd::verifySharding(Operation *op, NamedTensorType type,
                                 const layout::Mesh &mesh, StringRef label) {
  ShardingAttr sharding = type.getSharding();
  if (!sharding)
    return op->emitOpError(label) << "has a value without a sharding: " << type
                                  << " (nd-assign-shardings gives it one)";
  auto checkAxis = [&](AxisRefAttr axis) -> LogicalResult {
    if (mesh.findAxis(axis.getName().getValue()))
      return success();
    return op->emitOpError(label) << "has a sharding over " << axis.getName()
                                  << ", which is no axis of the mesh";
  };
  for (DimSplitAttr split : sharding.getSplits())
    for (AxisRefAttr axis : split.getAxes())
      if (failed(checkAxis(axis)))
        return failure();
  for (AxisRefAttr axis : sharding.getPartialAxes())
    if (failed(checkAxis(axis)))
      return failure();
  std::string violation = layout::getViolation(mesh, getSharding(type, mesh),
                                               size_t(type.getRank()));
  if (!violation.empty())
    return op->emitOpError(label)
           << "has a sharding that does not fit the mesh: " << violation;
  return success();
}

/// Checks one operation of a program. Types that fit the mesh are added to
/// `fitting`.
static LogicalResult check(Operation *op, const layout::Mesh &mesh,
                           llvm::DenseSet<Type> &fitting) {
  auto checkType = [&](Type type) -> LogicalResult {
    auto named = dyn_cast<NamedTensorType>(type);
    if (!named || fitting.contains(type))
      return success();
    if (failed(verifySharding(op, named, mesh)))
      return failure();
    fitting.insert(type);
    return success();
  };
  for (Type type : op->getOperandTypes())
    if (failed(checkType(type)))
      return failure();
  for (Type type : op->getResultTypes())
    if (failed(checkType(type)))
      return failure();
  if (auto partitioned = dyn_cast<PartitionOpInterface>(op))
    return OperationCheck(partitioned, mesh).run();
  // No device owns a part of a window: only operations read one.
  auto hasWindow = [](Type type) {
    auto named = dyn_cast<NamedTensorType>(type);
    return named && named.getSharding().hasWindow();
  };
  if (llvm::any_of(op->getOperandTypes(), hasWindow) ||
      (!isa<ReshardOp>(op) && llvm::any_of(op->getResultTypes(), hasWindow)))
    return op->emitOpError("has a window, which no device owns a part of");
  if (auto border = dyn_cast<BorderOpInterface>(op))
    // What parts of a step leave of a sum is another matter.
    if (border.isEntry() && !border.isVariable() &&
        border.getGlobalType().isPartial())
      return border->emitOpError("cannot be partial, found ")
             << toString(border.getGlobalType().getSharding());
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    ShardingAttr source = reshard.getInput().getType().getSharding();
    ShardingAttr target = reshard.getType().getSharding();
    if (source.isPartial() && target.isPartial() &&
        source.getPartialKind() != target.getPartialKind())
      return reshard.emitOpError("cannot turn ")
             << toString(source) << " into " << toString(target);
  }
  return success();
}

LogicalResult nd::verifyShardings(ProgramOp program) {
  layout::Mesh mesh = getMesh(program);
  LogicalResult result = success();
  llvm::DenseSet<Type> fitting;
  for (Operation *op : getOperations(program))
    if (failed(check(op, mesh, fitting)))
      result = failure();
  return result;
}
