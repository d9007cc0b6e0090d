#ifndef MESHC_RUNTIME_IO_FILEPATTERN_H
#define MESHC_RUNTIME_IO_FILEPATTERN_H

#include "runtime/exec/Error.h"

#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// Whether a name stands for all that fit it: `*` is any number of characters,
/// `?` is one, neither of them '/'. A first '.' of a name has to be written.
inline bool isPattern(std::string_view name) {
  return name.find_first_of("*?") != std::string_view::npos;
}

/// Where `name` is, below `folder` unless it begins with '/'.
std::string getPathBelow(const std::string &folder, const std::string &name);

/// The paths that a name or a pattern stands for, in ascending order of their
/// bytes; one that is no pattern stands for itself, whether it exists or not.
/// Errors: CannotRead where nothing fits a pattern, or a folder cannot be read.
Result<std::vector<std::string>> findFiles(const std::string &folder,
                                           const std::string &name);

} // namespace meshc::runtime

#endif
