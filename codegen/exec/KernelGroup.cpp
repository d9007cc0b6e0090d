#include "codegen/exec/KernelGroup.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

KernelGroup KernelGroup::get(steps::GroupOp op, KernelBodies &bodies) {
  KernelGroup group;
  group.numInputs = op.getNumOperands();
  group.numOutputs = op.getNumResults();
  auto output = unsigned(group.numInputs);
  for (auto kernel : op.getBody().getOps<steps::KernelOp>()) {
    Member member{&bodies.get(kernel), {}};
    for (Value input : kernel.getInputs())
      member.operands.push_back(cast<BlockArgument>(input).getArgNumber());
    for (unsigned count = 0; count < kernel.getNumResults(); ++count)
      member.operands.push_back(output++);
    group.members.push_back(std::move(member));
  }
  return group;
}
