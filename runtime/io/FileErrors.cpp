#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include <unistd.h>

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

Error runtime::getChanged(const std::string &path) {
  return {
      ErrorCode::CannotRead,
      fmt::format("cannot read '{}': it was changed while it was read", path),
      ""};
}

Error runtime::getTooLarge(const std::string &path, std::string note) {
  return {ErrorCode::DoesNotFit,
          fmt::format("'{}' does not fit into memory", path), std::move(note)};
}

Status runtime::checkMemory(uint64_t bytes, const std::string &path) {
  const uint64_t memory =
      uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  if (bytes <= memory)
    return Status::success();
  auto toMebibytes = [](uint64_t bytes) { return double(bytes) / (1 << 20); };
  return getTooLarge(
      path, fmt::format("it takes {:.1f} MiB, this machine has {:.1f} MiB in "
                        "all",
                        toMebibytes(bytes), toMebibytes(memory)));
}

Error runtime::getCaughtError() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return {ErrorCode::DoesNotFit, "out of memory", ""};
  } catch (const std::exception &error) {
    return {ErrorCode::Internal,
            fmt::format("internal error: {}", error.what()), ""};
  }
}
