#ifndef MESHC_RUNTIME_WEIGHTS_WEIGHTEXPORT_H
#define MESHC_RUNTIME_WEIGHTS_WEIGHTEXPORT_H

#include "runtime/data/ParameterSource.h"
#include "runtime/weights/StoredPart.h"

#include <functional>
#include <optional>
#include <span>
#include <string>

namespace meshc::runtime {

/// What of the parameters is written, and how.
struct ExportChoice {
  /// Whether a parameter is; null: each.
  std::function<bool(const exec::VariableT &)> takes;
  /// The type of floats that floats are rounded to, to nearest, ties to even.
  std::optional<exec::ElementType> floats;
};

/// Writes parameters into a safetensors file, under the names and in the shapes
/// of a map; null: their own. Of the values, one tensor at a time is in memory.
/// `parameters` are all of the model, of which `choice` takes some. The file
/// appears when all is written. `progress` is told how many of all bytes there
/// are. Returns the number of tensors.
/// Requires: the source has what is taken, as the model has.
/// Errors: WrongParameters where the map has no rule for a parameter, or its
/// rules do not give each element of a tensor, or give one twice, or where a
/// tensor has parameters that are not taken, too; ValueOutOfRange where a
/// number is too large for the type; CannotWrite; those of the source.
Result<size_t>
exportWeights(const ParameterSource &source,
              std::span<const exec::VariableT *const> parameters,
              const NameMap *map, const std::string &path,
              const ExportChoice &choice,
              const std::function<void(uint64_t, uint64_t)> &progress);

} // namespace meshc::runtime

#endif
