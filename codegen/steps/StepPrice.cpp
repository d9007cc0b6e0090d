#include "codegen/steps/StepPrice.h"

#include "codegen/ExecTypes.h"
#include "codegen/steps/CollectiveForm.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Of each term a product and a sum: as a plan counts, and unlike a step's work
/// without the widening of 16-bit factors, which costs a library nothing.
static double getFlops(steps::MatmulOp matmul) {
  double flops = 2;
  for (int64_t size : matmul.getLoopSizes())
    flops *= double(size);
  return flops;
}
static double getFlops(steps::ConvOp convolution) {
  return 2 * convolution.getForm().countTerms();
}

static std::optional<layout::Machine::Price>
findLibraryPrice(steps::StepOpInterface step, double bytes,
                 const layout::Machine &machine) {
  Operation *op = step;
  if (!isa<steps::MatmulOp, steps::ConvOp>(op))
    return std::nullopt;
  const std::optional<layout::MatmulType> type =
      nd::findMatmulType(getElementTypeOrSelf(op->getOperand(0)));
  if (!type)
    return std::nullopt;
  if (auto convolution = dyn_cast<steps::ConvOp>(op))
    return machine.findConvolutionPrice(*type, getFlops(convolution), bytes);
  return machine.findMatmulPrice(*type, getFlops(cast<steps::MatmulOp>(op)),
                                 bytes);
}

double meshc::codegen::getComputationUs(steps::StepOpInterface step,
                                        const layout::Machine &machine) {
  if (step.communicates() || isa<steps::SliceOp, steps::StackOp>(step))
    return 0;
  llvm::SmallSetVector<Value, 16> tensors;
  tensors.insert_range(step->getOperands());
  tensors.insert_range(step->getResults());
  double bytes = 0;
  for (Value tensor : tensors)
    bytes += double(getBytes(cast<RankedTensorType>(tensor.getType())));
  if (auto price = findLibraryPrice(step, bytes, machine))
    return price->us;
  return machine.getKernelPrice(step.getWork(), bytes).us;
}

double meshc::codegen::getTransferUs(steps::StepOpInterface step,
                                     const layout::Mesh &mesh,
                                     const layout::Machine &machine) {
  if (!step.communicates())
    return 0;
  std::optional<CollectiveForm> all;
  step->walk([&](spmd::CollectiveOpInterface member) {
    CollectiveForm form = getCollectiveForm(member, mesh);
    if (!all) {
      all = std::move(form);
      return;
    }
    all->payloadBytes += form.payloadBytes;
    all->wireBytes += form.wireBytes;
  });
  return all ? machine.getCollectiveUs(all->kind,
                                       machine.getReach(mesh, all->axes),
                                       all->payloadBytes, all->wireBytes)
             : 0;
}
