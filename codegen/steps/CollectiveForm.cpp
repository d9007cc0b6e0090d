#include "codegen/steps/CollectiveForm.h"

#include "codegen/ExecTypes.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// The axes whose use differs between two shardings.
static std::vector<layout::AxisRef>
getChangedAxes(const layout::Sharding &source, const layout::Sharding &target) {
  std::vector<layout::AxisRef> changed;
  auto addDifference = [&](const std::vector<layout::AxisRef> &from,
                           const std::vector<layout::AxisRef> &without) {
    for (layout::AxisRef axis : from)
      if (!llvm::is_contained(without, axis) &&
          !llvm::is_contained(changed, axis))
        changed.push_back(axis);
  };
  addDifference(source.partialAxes, target.partialAxes);
  for (auto [before, after] : llvm::zip_equal(source.dims, target.dims)) {
    // Axes after the first difference hold other blocks than before.
    auto [first, second] =
        std::mismatch(before.begin(), before.end(), after.begin(), after.end());
    addDifference({first, before.end()}, {});
    addDifference({second, after.end()}, {});
  }
  llvm::sort(changed);
  return changed;
}

CollectiveForm meshc::codegen::getCollectiveForm(spmd::CollectiveOpInterface op,
                                                 const layout::Mesh &mesh) {
  layout::Sharding before = nd::getSharding(op.getSourceType(), mesh);
  layout::Sharding after = nd::getSharding(op.getTargetType(), mesh);
  CollectiveForm form;
  form.kind = op.getKind();
  form.axes = getChangedAxes(before, after);
  form.reduce = before.partialKind != layout::ReduceKind::None
                    ? before.partialKind
                    : after.partialKind;
  if (form.kind == layout::CollectiveKind::Slice)
    return form;
  for (layout::AxisRef axis : form.axes)
    form.groupSize *= axis.size;
  form.payloadElements = op.getInput().getType().getNumElements();
  form.payloadBytes = getBytes(op.getInput().getType());
  form.wireBytes =
      layout::getWireBytes(form.kind, form.payloadBytes, form.groupSize);
  return form;
}
