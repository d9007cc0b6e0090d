#ifndef MESHC_DIALECT_INTERPRETER_TENSOR_H
#define MESHC_DIALECT_INTERPRETER_TENSOR_H

#include "dialect/interpreter/Scalars.h"

#include "llvm/ADT/SmallVector.h"

#include <map>
#include <string>
#include <vector>

namespace meshc::interpreter {

using Sizes = llvm::SmallVector<int64_t, 4>;

inline int64_t getNumElements(llvm::ArrayRef<int64_t> sizes) {
  int64_t elements = 1;
  for (int64_t size : sizes)
    elements *= size;
  return elements;
}

/// Row-major: the last dimension is contiguous.
inline Sizes getStrides(llvm::ArrayRef<int64_t> sizes) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d])
    strides[d] = stride;
  return strides;
}

/// A dense tensor, whole or one device's block, in row-major order. A scalar
/// has no sizes and one element.
template <class Domain> struct Tensor {
  Sizes sizes;
  std::vector<Scalar<Domain>> elements;

  Tensor() : Tensor(Sizes()) {}
  /// Poison, or `fill`, everywhere.
  explicit Tensor(llvm::ArrayRef<int64_t> sizes, Scalar<Domain> fill = Poison())
      : sizes(sizes), elements(getNumElements(sizes), fill) {}
  Tensor(llvm::ArrayRef<int64_t> sizes, std::vector<Scalar<Domain>> elements)
      : sizes(sizes), elements(std::move(elements)) {}

  bool operator==(const Tensor &) const = default;
};

/// A tensor in a walk through a box of points: the element at a point is
/// base + sum over d of point[d] * strides[d].
struct Walked {
  int64_t base = 0;
  Sizes strides; ///< one per dimension of the box; 0 repeats
};

/// Calls visit(point, offsets) for every point of the box in row-major order;
/// offsets has one element number per walked tensor.
template <class Visit>
void forEachPoint(llvm::ArrayRef<int64_t> box, llvm::ArrayRef<Walked> walked,
                  Visit visit) {
  if (getNumElements(box) == 0)
    return;
  Sizes point(box.size(), 0), offsets;
  for (const Walked &tensor : walked)
    offsets.push_back(tensor.base);
  while (true) {
    visit(llvm::ArrayRef<int64_t>(point), llvm::ArrayRef<int64_t>(offsets));
    size_t d = box.size();
    while (true) {
      if (d == 0)
        return;
      --d;
      ++point[d];
      for (size_t t = 0; t < walked.size(); ++t)
        offsets[t] += walked[t].strides[d];
      if (point[d] < box[d])
        break;
      for (size_t t = 0; t < walked.size(); ++t)
        offsets[t] -= walked[t].strides[d] * box[d];
      point[d] = 0;
    }
  }
}

/// What a program sees of the outside: whole tensors, by name.
template <class Domain> struct ProgramState {
  std::map<std::string, Tensor<Domain>> inputs;
  std::map<std::string, Tensor<Domain>> variables; ///< before, then after
  std::map<std::string, Tensor<Domain>> outputs;   ///< set by the run
};

} // namespace meshc::interpreter

#endif
