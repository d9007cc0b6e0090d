#include "runtime/File.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <sys/stat.h>

using namespace meshc;
using namespace meshc::runtime;

namespace {
struct CloseFile {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
} // namespace

static Error getReadError(const std::string &path) {
  return {ErrorCode::CannotRead,
          fmt::format("cannot read '{}': {}", path, std::strerror(errno)), ""};
}

static Error getWriteError(const std::string &path) {
  return {ErrorCode::CannotWrite,
          fmt::format("cannot write '{}': {}", path, std::strerror(errno)), ""};
}

Result<std::vector<std::byte>> runtime::readFile(const std::string &path) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file)
    return getReadError(path);
  std::vector<std::byte> bytes;
  // The size is a hint: pipes have none.
  struct stat status;
  if (fstat(fileno(file.get()), &status) == 0 && S_ISREG(status.st_mode))
    bytes.reserve(size_t(status.st_size) + 1);
  std::vector<std::byte> chunk(size_t(1) << 20);
  while (size_t count = std::fread(chunk.data(), 1, chunk.size(), file.get()))
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + ptrdiff_t(count));
  if (std::ferror(file.get()))
    return getReadError(path);
  return bytes;
}

Status runtime::writeFile(const std::string &path, std::string_view text) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  if (!file)
    return getWriteError(path);
  // What a full disk refuses may show only when the buffer is emptied.
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      std::fflush(file.get()) != 0)
    return getWriteError(path);
  return Status::success();
}
