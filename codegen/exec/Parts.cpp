#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

//===-- Slices ------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  auto whole = cast<RankedTensorType>(getInput().getType());
  auto part = cast<RankedTensorType>(getResult().getType());
  if (whole.getElementType() != part.getElementType())
    return emitOpError("(C1) takes ") << part << " out of " << whole;
  if (int64_t(getOffset()) > whole.getNumElements() - part.getNumElements())
    return emitOpError("(C2) takes ")
           << part << " from element " << getOffset() << " of " << whole;
  return success();
}

Location SliceOp::getResultLoc(unsigned) { return getLoc(); }

Sharing SliceOp::getSharing(codegen::KernelBodies &) { return Sharing(1); }

double SliceOp::getWork() { return 0; }

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

LogicalResult StackOp::addCommands(codegen::CommandBuilder &commands) {
  commands.addCopies(*this);
  return success();
}
