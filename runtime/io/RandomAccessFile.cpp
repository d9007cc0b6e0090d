#include "runtime/io/RandomAccessFile.h"

#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <cerrno>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

Result<RandomAccessFile> RandomAccessFile::open(const std::string &path) {
  Result<OwnedFile> file = openToRead(path, /*takesStreams=*/false);
  if (!file)
    return file.getError();
  const std::optional<FileState> state = getFileState(file->get());
  if (!state)
    return getReadError(path);
  return RandomAccessFile(path, std::move(*file), *state);
}

Status RandomAccessFile::read(uint64_t offset,
                              std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t count =
        pread(file.get(), target.data(), target.size(), off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return getReadError(path);
    if (count == 0 && getFileState(file.get()) == state)
      return getDamage(
          path, fmt::format("it ends before byte {}", offset + target.size()));
    if (count == 0)
      break;
    offset += uint64_t(count);
    target = target.subspan(size_t(count));
  }
  // Looked at afterwards: what was read is what the file had before.
  return getFileState(file.get()) == state ? Status::success()
                                           : Status(getChanged(path));
}
