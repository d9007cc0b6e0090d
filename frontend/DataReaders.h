#ifndef MESHC_FRONTEND_DATAREADERS_H
#define MESHC_FRONTEND_DATAREADERS_H

#include "frontend/Builder.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::frontend {

/// What reads files for a data block: `image = idx("train", test = "test")`.
struct DataReader {
  std::string_view name;
  /// Of its arguments, behind "train" and "test".
  std::vector<std::string> parameters;
  /// Fills in what was not said and fits the spec to the other dims of its
  /// input; what is wrong with the input, or nothing.
  std::string (*fit)(DataSpec &data, ElementType element,
                     std::span<const Dim> sample);
};

std::span<const DataReader> getDataReaders();
/// Null if there is none of this name.
const DataReader *findDataReader(std::string_view name);

/// fit() of the reader of `data`, which exists.
std::string fitToReader(DataSpec &data, ElementType element,
                        std::span<const Dim> sample);

} // namespace meshc::frontend

#endif
