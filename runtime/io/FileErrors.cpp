#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

Error runtime::getReadError(const std::string &path) {
  return {ErrorCode::CannotRead,
          fmt::format("cannot read '{}': {}", path, std::strerror(errno)), ""};
}

Error runtime::getWriteError(const std::string &path) {
  return {ErrorCode::CannotWrite,
          fmt::format("cannot write '{}': {}", path, std::strerror(errno)), ""};
}

Error runtime::getDamage(const std::string &path, std::string_view what) {
  return {ErrorCode::DamagedFile,
          fmt::format("'{}' is damaged: {}", path, what), ""};
}
