#include "runtime/plans/OneDnnPlan.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace meshc::runtime;

bool meshc::runtime::isNested(std::span<const int64_t> sizes,
                              std::span<const int64_t> strides) {
  std::vector<std::pair<int64_t, int64_t>> dims; // stride, size
  for (size_t i = 0; i < sizes.size(); ++i)
    if (strides[i] != 0)
      dims.emplace_back(strides[i], sizes[i]);
  std::sort(dims.begin(), dims.end());
  int64_t inside = 1;
  for (const auto &[stride, size] : dims) {
    if (stride < inside)
      return false;
    inside = stride * size;
  }
  return true;
}

std::array<bool, 3> meshc::runtime::findRefused(const MatmulShape &given) {
  const MatmulShape shape = mergeDims(given);
  const size_t first =
      shape.batch.size() - std::min(maxOneDnnBatch, shape.batch.size());
  auto isRefused = [&](const MatmulDim &rows, const MatmulDim &columns,
                       int64_t MatmulDim::*stride) {
    std::vector<int64_t> sizes, strides;
    auto add = [&](const MatmulDim &dim) {
      if (dim.size > 1) {
        sizes.push_back(dim.size);
        strides.push_back(dim.*stride);
      }
    };
    std::for_each(shape.batch.begin() + ptrdiff_t(first), shape.batch.end(),
                  add);
    add(rows);
    add(columns);
    const bool isStrided = rows.size > 1 && columns.size > 1 &&
                           rows.*stride != 1 && columns.*stride != 1;
    return isStrided || !isNested(sizes, strides);
  };
  return {isRefused(shape.m, shape.k, &MatmulDim::a),
          isRefused(shape.k, shape.n, &MatmulDim::b),
          isRefused(shape.m, shape.n, &MatmulDim::c)};
}
