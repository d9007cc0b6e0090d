// nd.loop: what it must fulfil, and how values flow through its region.

#include "dialect/ND.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

NamedTensorType nd::withoutDim(NamedTensorType type, StringRef dim) {
  SmallVector<DimAttr> dims;
  llvm::copy_if(type.getDims(), std::back_inserter(dims),
                [&](DimAttr other) { return other.getName() != dim; });
  return NamedTensorType::get(dims, type.getElementType());
}

NamedTensorType nd::withDimFirst(NamedTensorType type, DimAttr dim) {
  SmallVector<DimAttr> dims{dim};
  llvm::append_range(dims, type.getDims());
  return NamedTensorType::get(dims, type.getElementType());
}

//===-- Parts -------------------------------------------------------------===//

YieldOp LoopOp::getYield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

BlockArgument LoopOp::getPosition() { return getBody().getArgument(0); }

ArrayRef<BlockArgument> LoopOp::getCarriedArguments() {
  return getBody().getArguments().slice(1, getInitial().size());
}

ArrayRef<BlockArgument> LoopOp::getSlices() {
  return getBody().getArguments().drop_front(1 + getInitial().size());
}

ResultRange LoopOp::getCarriedResults() {
  return getResults().take_front(getInitial().size());
}

ResultRange LoopOp::getStackedResults() {
  return getResults().slice(getInitial().size(),
                            getYield().getStacked().size());
}

ResultRange LoopOp::getSummedResults() {
  return getResults().take_back(getYield().getSummed().size());
}

Value LoopOp::getYielded(OpResult result) {
  return getYield()->getOperand(result.getResultNumber());
}

Value LoopOp::getSlicedOperand(BlockArgument slice) {
  return getSliced()[slice.getArgNumber() - 1 - getInitial().size()];
}

int64_t LoopOp::getPositionOf(int64_t iteration) {
  return getReverse() ? getDim().getSize() - 1 - iteration : iteration;
}

//===-- Constraints -------------------------------------------------------===//

/// (C1), (C2)
static LogicalResult verifyArguments(LoopOp op) {
  DimAttr dim = op.getDim();
  SmallVector<Type> wanted{NamedTensorType::get(
      ArrayRef<DimAttr>(), IntegerType::get(op.getContext(), 32))};
  llvm::append_range(wanted, op.getInitial().getTypes());
  for (Value sliced : op.getSliced()) {
    auto type = cast<NamedTensorType>(sliced.getType());
    if (!llvm::is_contained(type.getDims(), dim))
      return op.emitOpError("(C1) a sliced operand has no dimension ")
             << dim.getName() << " of " << dim.getSize() << ": " << type;
    wanted.push_back(withoutDim(type, dim.getName()));
  }
  auto found = op.getBody().getArgumentTypes();
  if (found.size() != wanted.size())
    return op.emitOpError("(C2) the region has ")
           << found.size() << " arguments, expected " << wanted.size();
  for (auto [i, type] : llvm::enumerate(wanted))
    if (found[i] != type)
      return op.emitOpError("(C2) argument ")
             << i << " of the region is " << found[i] << ", expected " << type;
  return success();
}

/// (C3), (C4), (C5)
static LogicalResult verifyResults(LoopOp op, YieldOp yield) {
  DimAttr dim = op.getDim();
  if (yield.getCarried().getTypes() != op.getInitial().getTypes())
    return op.emitOpError("(C3) the carried types are ")
           << yield.getCarried().getTypes() << ", expected "
           << op.getInitial().getTypes();
  for (auto values : {yield.getCarried(), yield.getStacked()})
    for (Value value : values)
      if (cast<NamedTensorType>(value.getType()).hasDim(dim.getName()))
        return op.emitOpError("(C5) ")
               << (values == yield.getCarried() ? "a carried" : "a stacked")
               << " value has dimension " << dim.getName() << " of the loop";
  SmallVector<Type> wanted(op.getInitial().getTypes());
  for (Value value : yield.getStacked())
    wanted.push_back(withDimFirst(cast<NamedTensorType>(value.getType()), dim));
  for (Value value : yield.getSummed())
    wanted.push_back(cast<NamedTensorType>(value.getType()).withoutSharding());
  SmallVector<Type> found(op.getResultTypes());
  for (Type &type : MutableArrayRef(found).take_back(yield.getSummed().size()))
    type = cast<NamedTensorType>(type).withoutSharding();
  if (found != wanted)
    return op.emitOpError("(C4) the results are ")
           << op.getResultTypes() << ", expected " << wanted;
  return success();
}

LogicalResult LoopOp::verify() {
  if (getBody().front().empty() || !isa<YieldOp>(getBody().front().back()))
    return emitOpError("(C3) the region does not end with nd.yield");
  if (failed(verifyArguments(*this)) ||
      failed(verifyResults(*this, getYield())))
    return failure();
  for (Value value : getYield().getSummed()) {
    Type element = cast<NamedTensorType>(value.getType()).getElementType();
    if (element.isInteger(1) || isForData(element))
      return emitOpError("(C6) ")
             << (isForData(element) ? "data" : "booleans") << " are not summed";
  }
  WalkResult found = getBody().walk([](Operation *inner) {
    if (!isa<BorderOpInterface>(inner))
      return WalkResult::advance();
    inner->emitOpError("(C6) cannot be in a loop");
    return WalkResult::interrupt();
  });
  return failure(found.wasInterrupted());
}

//===-- Flow of values ----------------------------------------------------===//

OperandRange LoopOp::getEntrySuccessorOperands(RegionSuccessor) {
  return getInitial();
}

void LoopOp::getSuccessorRegions(RegionBranchPoint point,
                                 SmallVectorImpl<RegionSuccessor> &regions) {
  Block::BlockArgListType arguments = getBody().getArguments();
  regions.emplace_back(&getBody(), arguments.slice(1, getInitial().size()));
  // A dimension has a position: the region runs before the loop is left.
  if (!point.isParent())
    regions.emplace_back(getOperation(), getCarriedResults());
}

MutableOperandRange YieldOp::getMutableSuccessorOperands(RegionSuccessor) {
  return getCarriedMutable();
}
