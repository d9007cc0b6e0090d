#ifndef MESHC_RUNTIME_WEIGHTS_WEIGHTEXPORT_H
#define MESHC_RUNTIME_WEIGHTS_WEIGHTEXPORT_H

#include "runtime/data/ParameterSource.h"
#include "runtime/weights/StoredPart.h"

#include <functional>
#include <span>
#include <string>

namespace meshc::runtime {

/// Writes parameters into a safetensors file, under the names and in the shapes
/// of a map; null: their own. Of the values, one tensor at a time is in memory.
/// The file appears when all is written. `progress` is told how many of all
/// bytes there are. Returns the number of tensors.
/// Requires: the source has them, as the model has.
/// Errors: WrongParameters where the map has no rule for a parameter, or its
/// rules do not give each element of a tensor, or give one twice; CannotWrite;
/// those of the source.
Result<size_t>
exportWeights(const ParameterSource &source,
              std::span<const exec::VariableT *const> parameters,
              const NameMap *map, const std::string &path,
              const std::function<void(uint64_t, uint64_t)> &progress);

} // namespace meshc::runtime

#endif
