#include "codegen/steps/StridedLoops.h"

using namespace mlir;

SmallVector<int64_t> meshc::codegen::getStrides(AffineMap map,
                                                ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(map.getNumDims(), 0);
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    strides[map.getDimPosition(unsigned(dim))] = stride;
  return strides;
}
