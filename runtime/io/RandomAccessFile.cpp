#include "runtime/io/RandomAccessFile.h"

#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

RandomAccessFile::RandomAccessFile(std::string path, int descriptor)
    : path(std::move(path)), descriptor(descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
    size = uint64_t(status.st_size);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile &&other) noexcept
    : path(std::move(other.path)),
      descriptor(std::exchange(other.descriptor, -1)), size(other.size) {}

RandomAccessFile &
RandomAccessFile::operator=(RandomAccessFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(descriptor, other.descriptor);
  std::swap(size, other.size);
  return *this;
}

RandomAccessFile::~RandomAccessFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Result<RandomAccessFile> RandomAccessFile::open(const std::string &path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return getReadError(path);
  return RandomAccessFile(path, descriptor);
}

Status RandomAccessFile::read(uint64_t offset,
                              std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t count =
        pread(descriptor, target.data(), target.size(), off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return getReadError(path);
    if (count == 0)
      return Error{ErrorCode::DamagedFile,
                   fmt::format("'{}' is damaged: it ends before byte {}", path,
                               offset + target.size()),
                   "it was changed while it was read"};
    offset += uint64_t(count);
    target = target.subspan(size_t(count));
  }
  return Status::success();
}
