#include "runtime/io/PartFile.h"

#include "runtime/io/File.h"
#include "runtime/io/FileErrors.h"

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// A file without a name; -1 and errno where there can be none.
static int openTemporary() {
  std::error_code failed;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path(failed);
  if (failed) {
    errno = failed.value();
    return -1;
  }
  std::string name = (folder / "meshc-XXXXXX").string();
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor >= 0)
    unlink(name.c_str());
  return descriptor;
}

PartFile::PartFile(PartFile &&other) noexcept
    : path(std::move(other.path)), freshPath(std::move(other.freshPath)),
      descriptor(std::exchange(other.descriptor, -1)) {}

PartFile &PartFile::operator=(PartFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(freshPath, other.freshPath);
  std::swap(descriptor, other.descriptor);
  return *this;
}

PartFile::~PartFile() {
  if (descriptor < 0)
    return;
  close(descriptor);
  if (!freshPath.empty())
    unlink(freshPath.c_str());
}

Result<PartFile> PartFile::create(const std::string &path, uint64_t bytes) {
  Status isWritable = checkWritable(path);
  if (!isWritable)
    return isWritable.getError();
  Result<FreshFile> fresh = openFresh(path);
  if (!fresh)
    return fresh.getError();
  PartFile file;
  file.path = path;
  file.descriptor = fresh->descriptor;
  if (file.descriptor >= 0)
    file.freshPath = fresh->path;
  else
    file.descriptor = openTemporary();
  if (file.descriptor < 0)
    return getWriteError(path);
  if (fresh->mode)
    fchmod(file.descriptor, *fresh->mode);
  // Not every file system can, and none of them nothing.
  if (bytes > 0 && fallocate(file.descriptor, 0, 0, off_t(bytes)) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
    return getWriteError(path);
  return file;
}

/// Writes all of it, at `offset` or, where that is negative, behind the last.
static bool writeAll(int descriptor, off_t offset,
                     std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        offset < 0 ? write(descriptor, bytes.data(), bytes.size())
                   : pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    if (offset >= 0)
      offset += count;
    bytes = bytes.subspan(size_t(count));
  }
  return true;
}

Status PartFile::write(uint64_t offset, std::span<const std::byte> part) {
  return writeAll(descriptor, off_t(offset), part)
             ? Status::success()
             : Status(getWriteError(path));
}

Status PartFile::copyInPlace() {
  const int target =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (target < 0)
    return getWriteError(path);
  std::vector<std::byte> chunk(size_t(1) << 20);
  bool isWhole = true;
  for (off_t offset = 0; isWhole;) {
    const ssize_t count = pread(descriptor, chunk.data(), chunk.size(), offset);
    if (count <= 0) {
      isWhole = count == 0;
      break;
    }
    isWhole = writeAll(target, -1, std::span(chunk).first(size_t(count)));
    offset += count;
  }
  Status copied = isWhole ? Status::success() : Status(getWriteError(path));
  if (close(target) != 0 && isWhole)
    return getWriteError(path);
  return copied;
}

Status PartFile::commit() {
  Status committed = freshPath.empty() ? copyInPlace()
                     : rename(freshPath.c_str(), path.c_str()) == 0
                         ? Status::success()
                         : Status(getWriteError(path));
  if (committed)
    freshPath.clear();
  const bool isClosed = close(std::exchange(descriptor, -1)) == 0;
  if (!committed && !freshPath.empty())
    unlink(freshPath.c_str());
  return committed && !isClosed ? Status(getWriteError(path)) : committed;
}
