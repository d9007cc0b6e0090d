#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"
#include "codegen/exec/KernelBody.h"

#include "dialect/Locations.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

/// Whether the body may have `op` beside what it computes: scalars that
/// operations read from outside of theirs, and tensors that nothing reads.
static bool isBeside(Operation *op) {
  return isa<tensor::EmptyOp, YieldOp>(op) ||
         (isPure(op) &&
          llvm::none_of(op->getResultTypes(), llvm::IsaPred<ShapedType>));
}

LogicalResult KernelOp::verifyRegions() {
  if (failed(verifyBody(*this)))
    return failure();
  for (Operation &op : getBody().front()) {
    if (isBeside(&op))
      continue;
    if (!codegen::isComputation(&op))
      return emitOpError("(C2) holds '")
             << op.getName() << "', which no kernel computes";
    if (failed(codegen::checkComputation(&op)))
      return failure();
  }
  if (getYielded().empty())
    return emitOpError("(C3) has no result");
  for (Value value : getYielded())
    if (Operation *op = value.getDefiningOp();
        !op || !codegen::isComputation(op))
      return emitOpError("(C3) yields what it does not compute");
  return success();
}

Location KernelOp::getResultLoc(unsigned result) {
  return getYielded()[result].getLoc();
}

Sharing KernelOp::getSharing(codegen::KernelBodies &bodies) {
  Sharing sharing(getNumResults());
  const codegen::KernelBody *body = bodies.find(*this);
  if (!body)
    return sharing; // find has reported it; prepare fails
  for (auto [output, shared] : llvm::zip_equal(body->outputs, sharing))
    for (auto [index, member] : llvm::enumerate(body->cluster.getMembers())) {
      if (member.op->getResult(0) != output)
        continue;
      for (auto [position, input] : llvm::enumerate(body->inputs))
        if (body->schedule.mayShare(body->cluster, index, input))
          shared.push_back(unsigned(position));
    }
  return sharing;
}

double KernelOp::getWork() {
  double work = 0;
  for (Operation &op : getBody().front()) {
    if (!codegen::isComputation(&op))
      continue;
    double iterations = codegen::getWork(&op);
    for (int64_t size : codegen::getLoopSizes(&op))
      iterations *= double(size);
    work += iterations;
  }
  return work;
}

LogicalResult KernelOp::prepare(codegen::CommandBuilder &commands) {
  const codegen::KernelBody *body = commands.getBodies().find(*this);
  if (!body)
    return failure();
  return commands.emitKernel(*this, [&](StringRef name, ArrayRef<bool> shared) {
    return commands.getTarget().emitKernel(*body, name, shared);
  });
}

LogicalResult KernelOp::addCommands(codegen::CommandBuilder &commands) {
  SmallVector<linalg::LinalgOp> ops(
      getBody().front().getOps<linalg::LinalgOp>());
  return commands.addKernel(*this, ops, /*others=*/0);
}
