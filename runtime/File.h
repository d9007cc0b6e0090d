#ifndef MESHC_RUNTIME_FILE_H
#define MESHC_RUNTIME_FILE_H

#include "runtime/Error.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// All bytes of a file. Errors: WrongInput with the system's reason.
Result<std::vector<std::byte>> readFile(const std::string &path);

/// Writes a whole file. Errors: WrongInput with the system's reason.
Status writeFile(const std::string &path, std::string_view text);

} // namespace meshc::runtime

#endif
