#include "codegen/steps/CollectiveForm.h"

#include "codegen/ExecTypes.h"
#include "layout/ReshardStep.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

CollectiveForm meshc::codegen::getCollectiveForm(spmd::CollectiveOpInterface op,
                                                 const layout::Mesh &mesh) {
  layout::Sharding before = nd::getSharding(op.getSourceType(), mesh);
  layout::Sharding after = nd::getSharding(op.getTargetType(), mesh);
  llvm::SmallVector<int64_t> sizes;
  for (nd::DimAttr dim : op.getTargetType().getDims())
    sizes.push_back(dim.getSize());
  layout::ReshardStep step =
      layout::getReshardStep(mesh, sizes, op.getKind(), before, after);
  const int64_t bytes =
      getBytes(RankedTensorType::get({}, op.getTargetType().getElementType()));
  CollectiveForm form;
  form.kind = step.kind;
  form.axes = std::move(step.axes);
  form.groupSize = step.groupSize;
  form.reduce = before.partialKind != layout::ReduceKind::None
                    ? before.partialKind
                    : after.partialKind;
  form.payloadElements = step.payloadElements;
  form.payloadBytes = step.payloadElements * bytes;
  form.wireBytes =
      layout::getSending(step, bytes, nd::getMachine(op)).wireBytes;
  form.hasContiguousBlocks = step.hasContiguousBlocks;
  return form;
}
