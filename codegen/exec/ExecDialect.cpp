#include "codegen/exec/Exec.h"

#include "dialect/Locations.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

#include "codegen/exec/ExecDialect.cpp.inc"
#include "codegen/exec/ExecEnums.cpp.inc"
#include "codegen/exec/ExecInterfaces.cpp.inc"

void ExecDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "codegen/exec/ExecOps.cpp.inc"
      >();
}

void ProgramOp::build(OpBuilder &builder, OperationState &state,
                      StringRef name) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

LogicalResult ProgramOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<StepOpInterface, spmd::InputOp, spmd::ReadOp, spmd::OutputOp,
             spmd::WriteOp>(op))
      return emitOpError("(C1) holds '")
             << op.getName()
             << "', which is no step and not on the border of a program";
  return success();
}

Location steps::getValueLoc(Value value) {
  if (auto step = value.getDefiningOp<StepOpInterface>())
    return step.getResultLoc(cast<OpResult>(value).getResultNumber());
  return value.getLoc();
}

std::vector<StepOpInterface> steps::getSteps(Block &block) {
  auto steps = block.getOps<StepOpInterface>();
  return {steps.begin(), steps.end()};
}

std::vector<StepOpInterface> steps::getSteps(ProgramOp program) {
  return getSteps(program.getBody().front());
}

void steps::moveUses(Value from, Value to,
                     llvm::function_ref<bool(Operation *)> isMoved) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : from.getUses())
    if (isMoved(use.getOwner()))
      uses.push_back(&use);
  // The last use that is added becomes the first.
  for (OpOperand *use : llvm::reverse(uses))
    use->set(to);
}

bool steps::isStackOf(Type whole, Type part, int64_t count) {
  auto wholeType = cast<RankedTensorType>(whole);
  auto partType = cast<RankedTensorType>(part);
  return wholeType.getElementType() == partType.getElementType() &&
         wholeType.getRank() == partType.getRank() + 1 &&
         wholeType.getDimSize(0) == count &&
         wholeType.getShape().drop_front() == partType.getShape();
}

/// The dimensions behind those of size 1 in front.
static ArrayRef<int64_t> dropOnes(ArrayRef<int64_t> shape) {
  return shape.drop_while([](int64_t size) { return size == 1; });
}

bool steps::isCutInto(Type whole, Type part, int64_t count) {
  auto wholeType = cast<RankedTensorType>(whole);
  auto partType = cast<RankedTensorType>(part);
  if (wholeType.getElementType() != partType.getElementType() ||
      wholeType.getNumElements() != count * partType.getNumElements())
    return false;
  if (count == 1)
    return dropOnes(wholeType.getShape()) == dropOnes(partType.getShape());
  const ArrayRef<int64_t> all = dropOnes(wholeType.getShape());
  const ArrayRef<int64_t> one = partType.getShape();
  // Along a dimension that each has one position of, or some.
  return dropOnes(all.drop_front()) == dropOnes(one) ||
         (all.size() <= one.size() &&
          all.drop_front() == one.take_back(all.size() - 1));
}

LogicalResult steps::verifyBody(Operation *step) {
  Block &body = step->getRegion(0).front();
  if (body.getArgumentTypes() != step->getOperandTypes())
    return step->emitOpError("(C1) the block arguments have other types than "
                             "the operands");
  if (body.getTerminator()->getOperandTypes() != step->getResultTypes())
    return step->emitOpError("(C1) what is yielded has other types than the "
                             "results");
  return success();
}

#define GET_OP_CLASSES
#include "codegen/exec/ExecOps.cpp.inc"
