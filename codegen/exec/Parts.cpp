#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

//===-- Slices ------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  auto whole = cast<RankedTensorType>(getInput().getType());
  auto part = cast<RankedTensorType>(getResult().getType());
  if (whole.getElementType() != part.getElementType())
    return emitOpError("(C1) takes ") << part << " out of " << whole;
  if (getStrides() && int64_t(getStrides()->size()) != part.getRank())
    return emitOpError("(C3) has ")
           << getStrides()->size() << " strides of " << part;
  int64_t last = int64_t(getOffset());
  for (auto [size, stride] :
       llvm::zip_equal(part.getShape(), getResultStrides())) {
    if (stride < 0)
      return emitOpError("(C3) has the stride ") << stride;
    if (llvm::MulOverflow(size - 1, stride, stride) ||
        llvm::AddOverflow(last, stride, last))
      last = whole.getNumElements();
  }
  if (last >= whole.getNumElements())
    return emitOpError("(C2) takes ")
           << part << " from element " << getOffset() << " of " << whole;
  if (!getStrides())
    return success();
  for (OpOperand &use : getResult().getUses()) {
    auto matmul = dyn_cast<MatmulOp>(use.getOwner());
    if (!matmul ||
        (&use != &matmul.getLhsMutable() && &use != &matmul.getRhsMutable()))
      return emitOpError("(C4) has strides and is read by '")
             << use.getOwner()->getName() << "'";
  }
  return success();
}

SmallVector<int64_t> SliceOp::getResultStrides() {
  return getStrides() ? SmallVector<int64_t>(*getStrides())
                      : computeStrides(getResult().getType().getShape());
}

Location SliceOp::getResultLoc(unsigned) { return getLoc(); }

Sharing SliceOp::getSharing(codegen::KernelBodies &) { return Sharing(1); }

double SliceOp::getWork() { return 0; }

bool SliceOp::readsAnywhere() { return true; }

LogicalResult SliceOp::addCommands(codegen::CommandBuilder &commands) {
  commands.addCopies(*this);
  return success();
}

//===-- Stacks ------------------------------------------------------------===//

LogicalResult StackOp::verify() {
  if (getParts().empty())
    return emitOpError("(C1) has no operand");
  const Type part = getParts().front().getType();
  for (Type type : getParts().getTypes())
    if (type != part)
      return emitOpError("(C1) has operands of the types ")
             << part << " and " << type;
  if (!isStackOf(getResult().getType(), part, int64_t(getParts().size())))
    return emitOpError("(C2) makes ")
           << getResult().getType() << " of " << getParts().size()
           << " operands " << part;
  return success();
}

Location StackOp::getResultLoc(unsigned) { return getLoc(); }

Sharing StackOp::getSharing(codegen::KernelBodies &) { return Sharing(1); }

double StackOp::getWork() { return 0; }

bool StackOp::readsAnywhere() { return true; }

LogicalResult StackOp::addCommands(codegen::CommandBuilder &commands) {
  commands.addCopies(*this);
  return success();
}
