#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

ArrayRef<BlockArgument> LoopOp::getCarriedArguments() {
  return getBody().getArguments().take_front(getInitial().size());
}

ArrayRef<BlockArgument> LoopOp::getSlices() {
  return getBody().getArguments().slice(getInitial().size(),
                                        getSliced().size());
}

ArrayRef<BlockArgument> LoopOp::getCapturedArguments() {
  return getBody().getArguments().take_back(getCaptured().size());
}

ResultRange LoopOp::getCarriedResults() {
  return getOutputs().take_front(getInitial().size());
}

ResultRange LoopOp::getStackedResults() {
  return getOutputs().drop_front(getInitial().size());
}

OperandRange LoopOp::getYielded() {
  return getBody().front().getTerminator()->getOperands();
}

std::vector<StepOpInterface> LoopOp::getSteps() {
  return steps::getSteps(getBody().front());
}

LogicalResult LoopOp::verifyRegions() {
  const auto iterations = int64_t(getIterations());
  for (Value whole : getSliced())
    if (auto type = cast<RankedTensorType>(whole.getType());
        type.getNumElements() % iterations != 0)
      return emitOpError("(C1) slices ")
             << type << ", which has not " << iterations << " slices";
  if (getBody().getNumArguments() != getNumOperands())
    return emitOpError("(C2) has a body with ")
           << getBody().getNumArguments() << " arguments for "
           << getNumOperands() << " operands";
  for (auto [argument, value] :
       llvm::zip_equal(getCarriedArguments(), getInitial()))
    if (argument.getType() != value.getType())
      return emitOpError("(C2) carries ")
             << value.getType() << " as " << argument.getType();
  for (auto [argument, value] : llvm::zip_equal(getSlices(), getSliced()))
    if (!isCutInto(value.getType(), argument.getType(), iterations))
      return emitOpError("(C2) slices ")
             << value.getType() << " as " << argument.getType();
  for (auto [argument, value] :
       llvm::zip_equal(getCapturedArguments(), getCaptured()))
    if (argument.getType() != value.getType())
      return emitOpError("(C2) captures ")
             << value.getType() << " as " << argument.getType();
  if (getYielded().size() != getNumResults() ||
      getNumResults() < getInitial().size())
    return emitOpError("(C3) yields ")
           << getYielded().size() << " values for " << getNumResults()
           << " results, " << getInitial().size() << " of them carried";
  for (auto [argument, result, yielded] :
       llvm::zip(getCarriedArguments(), getCarriedResults(), getYielded()))
    if (result.getType() != argument.getType() ||
        yielded.getType() != argument.getType())
      return emitOpError("(C3) carries ")
             << argument.getType() << ", yields " << yielded.getType()
             << " and results in " << result.getType();
  for (auto [result, yielded] : llvm::zip_equal(
           getStackedResults(), getYielded().drop_front(getInitial().size())))
    if (!isCutInto(result.getType(), yielded.getType(), iterations))
      return emitOpError("(C3) stacks ")
             << yielded.getType() << " as " << result.getType();
  if (!(*this)->getParentOfType<ProgramOp>())
    return success();
  for (Operation &op : getBody().front().without_terminator())
    if (!isa<StepOpInterface>(op))
      return emitOpError("(C4) holds '")
             << op.getName() << "', which is no step";
  return success();
}

Location LoopOp::getResultLoc(unsigned result) {
  return getValueLoc(getYielded()[result]);
}

/// Which memory its results take SlotPlan says by what they are.
Sharing LoopOp::getSharing(codegen::KernelBodies &) {
  return Sharing(getNumResults());
}

double LoopOp::getWork() {
  double work = 0;
  for (StepOpInterface step : getSteps())
    work += step.getWork();
  return work * double(getIterations());
}

LogicalResult LoopOp::prepare(codegen::CommandBuilder &commands) {
  return commands.prepare(getSteps());
}

LogicalResult LoopOp::addCommands(codegen::CommandBuilder &commands) {
  return commands.addLoop(*this);
}
