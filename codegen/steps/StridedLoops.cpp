#include "codegen/steps/StridedLoops.h"

#include "codegen/exec/Exec.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace meshc;

codegen::StridedTensor codegen::getStridedTensor(Value tensor) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(tensor.getType()).getShape();
  StridedTensor result{SmallVector<int64_t>(shape), computeStrides(shape)};
  if (auto slice = tensor.getDefiningOp<steps::SliceOp>())
    result.strides = slice.getResultStrides();
  else if (auto view = tensor.getDefiningOp<spmd::ViewOp>())
    if (auto place = view.findSlice())
      result.strides = place->strides;
  return result;
}

bool codegen::isStridedSlice(Value tensor) {
  auto view = tensor.getDefiningOp<spmd::ViewOp>();
  auto slice = view ? view.findSlice() : std::nullopt;
  return slice && !slice->isDense(view.getType().getShape());
}

SmallVector<int64_t> codegen::getStrides(AffineMap map,
                                         ArrayRef<int64_t> strides) {
  SmallVector<int64_t> byLoop(map.getNumDims(), 0);
  for (auto [dim, stride] : llvm::enumerate(strides))
    byLoop[map.getDimPosition(unsigned(dim))] = stride;
  return byLoop;
}
