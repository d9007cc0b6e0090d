#include "runtime/cpu/LibraryPrimitives.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

Result<Matmul *> LibraryPrimitives::get(const MatmulShape &shape) {
  auto [entry, isAbsent] = products.try_emplace(shape);
  if (isAbsent) {
    Result<std::unique_ptr<Matmul>> created =
        Matmul::create(shape, pieces, workers);
    if (!created)
      return created.getError();
    entry->second = std::move(*created);
    scratchBytes = std::max(scratchBytes, entry->second->getScratchBytes());
  }
  return entry->second.get();
}

Result<Convolution *> LibraryPrimitives::get(const exec::ConvolutionT &shape,
                                             ConvolutionElements elements) {
  std::vector<int64_t> key = {int64_t(elements.factor),
                              int64_t(elements.result),
                              int64_t(shape.result),
                              shape.batch,
                              shape.groups,
                              shape.inputs,
                              shape.outputs,
                              int64_t(shape.source.size())};
  for (const auto *numbers :
       {&shape.source, &shape.weights, &shape.destination, &shape.stride,
        &shape.dilation, &shape.pad, &shape.source_strides,
        &shape.weights_strides, &shape.destination_strides})
    key.insert(key.end(), numbers->begin(), numbers->end());
  auto [entry, isAbsent] = convolutions.try_emplace(std::move(key));
  if (isAbsent) {
    Result<std::unique_ptr<Convolution>> created =
        Convolution::create(shape, elements, pieces, workers);
    if (!created)
      return created.getError();
    entry->second = std::move(*created);
    scratchBytes = std::max(scratchBytes, entry->second->getScratchBytes());
  }
  return entry->second.get();
}
