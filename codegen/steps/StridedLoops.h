#ifndef MESHC_CODEGEN_STEPS_STRIDEDLOOPS_H
#define MESHC_CODEGEN_STEPS_STRIDEDLOOPS_H

/// Loops of library calls, by how they step through the memory of tensors.

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Value.h"

#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace meshc::codegen {

/// A tensor as it lies in memory: sizes, and strides in elements.
struct StridedTensor {
  llvm::SmallVector<int64_t> shape, strides;
};

/// How `tensor` lies in memory as an operand of a library call: as in its
/// whole where it is a slice (a view that findSlice() tells the place of, or
/// exec.slice), else dense and row-major.
StridedTensor getStridedTensor(mlir::Value tensor);
/// Whether `tensor` is a slice in several pieces.
bool isStridedSlice(mlir::Value tensor);

/// The stride of each loop, in elements, in a tensor that is indexed by `map`;
/// 0 where the tensor does not depend on it.
/// Requires: `map` is a projected permutation.
llvm::SmallVector<int64_t> getStrides(mlir::AffineMap map,
                                      llvm::ArrayRef<int64_t> strides);

/// Merges loops that step through every tensor as one and drops those of one
/// position. A loop has a size and getStrides(), one per tensor. What remains
/// is in order of the sums of strides, the furthest first.
template <class Loop> void mergeLoops(std::vector<Loop> &loops) {
  llvm::erase_if(loops, [](const Loop &loop) { return loop.size == 1; });
  auto getKey = [](const Loop &loop) {
    const std::array<int64_t, 3> strides = loop.getStrides();
    return std::pair(
        std::accumulate(strides.begin(), strides.end(), int64_t(0)), loop.size);
  };
  // A loop can only be inside one that strides further.
  llvm::sort(loops, [&](const Loop &x, const Loop &y) {
    return getKey(x) > getKey(y);
  });
  // Whether `outer` steps over whole runs of `inner` in every tensor.
  auto isMergeable = [](const Loop &outer, const Loop &inner) {
    std::array<int64_t, 3> run = inner.getStrides();
    for (int64_t &stride : run)
      stride *= inner.size;
    return outer.getStrides() == run;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t outer = 0; outer < loops.size() && !changed; ++outer)
      for (size_t inner = 0; inner < loops.size() && !changed; ++inner) {
        if (outer == inner || !isMergeable(loops[outer], loops[inner]))
          continue;
        loops[inner].size *= loops[outer].size;
        loops.erase(loops.begin() + ptrdiff_t(outer));
        changed = true;
      }
  }
}

} // namespace meshc::codegen

#endif
