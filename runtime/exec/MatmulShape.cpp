#include "runtime/exec/MatmulShape.h"

#include <algorithm>
#include <tuple>

using namespace meshc;
using namespace meshc::runtime;

MatmulShape runtime::getMatmulShape(const exec::MatmulT &matmul,
                                    exec::ElementType element,
                                    exec::ElementType result) {
  MatmulShape shape;
  size_t rank = matmul.batch.size();
  for (size_t i = 0; i < rank; ++i)
    shape.batch.push_back({matmul.batch[i], matmul.a_strides[i],
                           matmul.b_strides[i], matmul.c_strides[i]});
  shape.m = {matmul.m, matmul.a_strides[rank], 0, matmul.c_strides[rank]};
  shape.n = {matmul.n, 0, matmul.b_strides[rank + 1],
             matmul.c_strides[rank + 1]};
  shape.k = {matmul.k, matmul.a_strides[rank + 1], matmul.b_strides[rank], 0};
  shape.element = element;
  shape.result = result;
  shape.accumulate = matmul.accumulate;
  shape.hasBias = matmul.has_bias;
  shape.activation = matmul.activation;
  return shape;
}

/// Makes `from` and `into` one dimension if stepping over all of one is one
/// step of the other in every operand.
static bool mergeInto(const MatmulDim &from, MatmulDim &into) {
  auto isOutside = [](const MatmulDim &outer, const MatmulDim &inner) {
    return outer.a == inner.size * inner.a && outer.b == inner.size * inner.b &&
           outer.c == inner.size * inner.c;
  };
  if (!isOutside(from, into)) {
    if (!isOutside(into, from))
      return false;
    std::tie(into.a, into.b, into.c) = std::tie(from.a, from.b, from.c);
  }
  into.size *= from.size;
  return true;
}

MatmulShape runtime::mergeDims(MatmulShape shape) {
  // A dimension of one element has no stride worth keeping.
  for (MatmulDim *dim : {&shape.m, &shape.n, &shape.k})
    if (dim->size == 1)
      *dim = MatmulDim();
  std::vector<MatmulDim> &batch = shape.batch;
  std::erase_if(batch, [](const MatmulDim &dim) { return dim.size == 1; });
  // Merging into m, n or k of one element replaces it: any batch dimension that
  // the other operand does not have will do.
  auto mergeIntoMatrix = [&](const MatmulDim &dim) {
    if (dim.b == 0 && shape.m.size == 1) {
      shape.m = dim;
      return true;
    }
    if (dim.a == 0 && shape.n.size == 1 && !shape.hasBias) {
      shape.n = dim;
      return true;
    }
    return (dim.b == 0 && mergeInto(dim, shape.m)) ||
           (dim.a == 0 && !shape.hasBias && mergeInto(dim, shape.n));
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < batch.size() && !changed; ++i) {
      changed = mergeIntoMatrix(batch[i]);
      for (size_t j = 0; j < batch.size() && !changed; ++j)
        changed = i != j && mergeInto(batch[i], batch[j]);
      if (changed)
        batch.erase(batch.begin() + ptrdiff_t(i));
    }
  }
  // The largest steps become the outer loops.
  std::sort(batch.begin(), batch.end(),
            [](const MatmulDim &x, const MatmulDim &y) {
              return std::tie(x.c, x) > std::tie(y.c, y);
            });
  return shape;
}
