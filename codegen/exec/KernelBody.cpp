#include "codegen/exec/KernelBody.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

std::unique_ptr<KernelBody> KernelBody::build(steps::KernelOp kernel,
                                              SumPlace place) {
  Block &block = kernel.getBody().front();
  std::vector<Operation *> ops;
  for (Operation &op : block)
    if (isComputation(&op))
      ops.push_back(&op);
  auto outputs = llvm::to_vector_of<Value>(kernel.getYielded());
  std::optional<Cluster> cluster = Cluster::build(ops, outputs);
  std::optional<Schedule> schedule;
  if (cluster)
    schedule = Schedule::build(*cluster, place);
  if (!schedule) {
    kernel.emitError("the operations of a kernel do not fit one loop nest");
    return nullptr;
  }
  return std::make_unique<KernelBody>(KernelBody{
      kernel, std::move(ops), llvm::to_vector_of<Value>(block.getArguments()),
      std::move(outputs), std::move(*cluster), std::move(*schedule)});
}

SmallVector<Value> KernelBody::getOperands() const {
  SmallVector<Value> operands = inputs;
  operands.append(outputs);
  return operands;
}

const KernelBody *KernelBodies::find(steps::KernelOp kernel) {
  auto [known, isFirst] = bodies.try_emplace(kernel);
  if (isFirst)
    known->second = KernelBody::build(kernel, place);
  return known->second.get();
}
