#include "codegen/exec/Remarks.h"

#include "dialect/Locations.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::StepOpInterface;

/// What the body of a kernel, or of a group of them, yields as this result; an
/// argument where that is passed on.
static Value getComputed(Value result) {
  while (auto value = dyn_cast<OpResult>(result)) {
    const unsigned number = value.getResultNumber();
    if (auto kernel = dyn_cast<steps::KernelOp>(value.getOwner()))
      result = kernel.getYielded()[number];
    else if (auto group = dyn_cast<steps::GroupOp>(value.getOwner()))
      result = group.getYielded()[number];
    else
      break;
  }
  return result;
}

static nd::RemarkKindAttr getRemark(Operation *op) {
  return op ? op->getAttrOfType<nd::RemarkKindAttr>(
                  nd::NDDialect::getRemarkAttrName())
            : nd::RemarkKindAttr();
}

/// Whether what `op` of a body copies is in memory beside it: an operand of the
/// kernel, or a result of it too.
static bool copiesStored(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return !isa<RankedTensorType>(operand.getType()) || !producer ||
           isa<tensor::EmptyOp>(producer) ||
           llvm::any_of(operand.getUsers(), llvm::IsaPred<steps::YieldOp>) ||
           (getRemark(producer) && copiesStored(producer));
  });
}

/// Whether `op` of a body does nothing but store its operand in another order.
static bool isReordering(Operation *op) {
  auto generic = dyn_cast_or_null<linalg::LinalgOp>(op);
  if (!generic || generic.getNumDpsInputs() != 1 ||
      generic.getNumParallelLoops() != generic.getNumLoops() ||
      generic.getBlock()->getTerminator()->getOperand(0) !=
          generic.getBlock()->getArgument(0))
    return false;
  const AffineMap read =
      generic.getMatchingIndexingMap(generic.getDpsInputOperand(0));
  const AffineMap written =
      generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
  return read.isPermutation() && written.isPermutation() && read != written;
}

/// Whether a library reads a value, which takes no order but its own: kernels
/// read all of them, and the order of what the outside sees is written.
static bool isForLibrary(Value result) {
  return llvm::any_of(result.getUsers(), [](Operation *user) {
    return isa<StepOpInterface>(user) &&
           !isa<steps::KernelOp, steps::GroupOp>(user);
  });
}

std::optional<nd::RemarkKind> meshc::codegen::findRemark(Value result) {
  Operation *op = getComputed(result).getDefiningOp();
  if (isReordering(op) && copiesStored(op) && isForLibrary(result))
    return nd::RemarkKind::LibraryCopy;
  const nd::RemarkKindAttr remark = getRemark(op);
  if (!remark ||
      (remark.getValue() == nd::RemarkKind::LibraryCopy && !copiesStored(op)))
    return std::nullopt;
  return remark.getValue();
}

nd::OriginAttr meshc::codegen::findPurpose(Value result) {
  Operation *first = nullptr;
  for (Operation *user : result.getUsers())
    if (isa<StepOpInterface>(user) &&
        user->getBlock() == result.getParentBlock() &&
        (!first || user->isBeforeInBlock(first)))
      first = user;
  return first && first->getNumResults() > 0
             ? getOrigin(StepOpInterface(first).getResultLoc(0))
             : nd::OriginAttr();
}
