#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"
#include "codegen/exec/KernelBody.h"
#include "codegen/exec/KernelGroup.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

LogicalResult GroupOp::verifyRegions() {
  if (failed(verifyBody(*this)))
    return failure();
  SmallVector<Value> results;
  unsigned count = 0;
  for (Operation &op : getBody().front().without_terminator()) {
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel)
      return emitOpError("(C2) holds '") << op.getName() << "', no kernel";
    for (Value input : kernel.getInputs())
      if (!isa<BlockArgument>(input))
        return emitOpError("(C2) has a kernel that reads what another one "
                           "computes");
    llvm::append_range(results, kernel.getResults());
    ++count;
  }
  if (count < 2)
    return emitOpError("(C2) has fewer than two kernels");
  if (!llvm::equal(results, getYielded()))
    return emitOpError("(C3) does not yield its kernels' results in order");
  return success();
}

Location GroupOp::getResultLoc(unsigned result) {
  return getValueLoc(getYielded()[result]);
}

/// What another kernel reads as well may be read after it is written.
Sharing GroupOp::getSharing(codegen::KernelBodies &bodies) {
  Sharing sharing;
  for (auto kernel : getBody().getOps<KernelOp>())
    for (ArrayRef<unsigned> shared : kernel.getSharing(bodies)) {
      sharing.emplace_back();
      for (unsigned position : shared) {
        auto input = cast<BlockArgument>(kernel.getInputs()[position]);
        if (input.hasOneUse())
          sharing.back().push_back(input.getArgNumber());
      }
    }
  return sharing;
}

double GroupOp::getWork() {
  double work = 0;
  for (auto kernel : getBody().getOps<KernelOp>())
    work += kernel.getWork();
  return work;
}

LogicalResult GroupOp::prepare(codegen::CommandBuilder &commands) {
  for (auto kernel : getBody().getOps<KernelOp>())
    if (!commands.getBodies().find(kernel))
      return failure();
  const codegen::KernelGroup group =
      codegen::KernelGroup::get(*this, commands.getBodies());
  return commands.emitKernel(*this, [&](StringRef name, ArrayRef<bool> shared) {
    return commands.getTarget().emitGroup(group, name, shared);
  });
}

LogicalResult GroupOp::addCommands(codegen::CommandBuilder &commands) {
  SmallVector<linalg::LinalgOp> ops;
  size_t kernels = 0;
  for (auto kernel : getBody().getOps<KernelOp>()) {
    llvm::append_range(ops,
                       kernel.getBody().front().getOps<linalg::LinalgOp>());
    ++kernels;
  }
  return commands.addKernel(*this, ops, kernels - 1);
}
