#include "runtime/io/File.h"

#include "runtime/io/FileErrors.h"
#include "runtime/io/OwnedFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// Read and handed on at a time.
static constexpr size_t chunkBytes = size_t(1) << 20;

Result<std::unique_ptr<FileReader>> FileReader::open(const std::string &path,
                                                     ByteListener listener) {
  auto reader = std::make_unique<FileReader>();
  reader->path = path;
  reader->listener = std::move(listener);
  Result<OwnedFile> file = openToRead(path, /*takesStreams=*/true);
  if (!file)
    return file.getError();
  reader->file.reset(fdopen(file->get(), "rb"));
  if (!reader->file)
    return getReadError(path);
  file->release();
  reader->state = getFileState(fileno(reader->file.get()));
  return reader;
}

Result<size_t> FileReader::read(std::span<std::byte> target) {
  const size_t count = std::fread(target.data(), 1, target.size(), file.get());
  if (std::ferror(file.get()))
    return getReadError(path);
  position += count;
  // What the system makes up while it is read has no length.
  if (state && count < target.size() &&
      (getFileState(fileno(file.get())) != state ||
       (state->bytes > 0 && position != state->bytes)))
    return getChanged(path);
  if (state && listener)
    listener(position, state->bytes);
  return count;
}

std::optional<uint64_t> FileReader::getMost() const {
  if (!state)
    return std::nullopt;
  return state->bytes - std::min(state->bytes, position);
}

Result<size_t> MemoryReader::read(std::span<std::byte> target) {
  const size_t count = std::min(target.size(), bytes.size());
  std::copy_n(bytes.begin(), count, target.begin());
  bytes = bytes.subspan(count);
  return count;
}

/// Makes room for `count` bytes more, and for as many that may follow that
/// bytes are moved seldom.
static Status grow(std::vector<std::byte> &bytes, size_t count,
                   const std::string &path) {
  const size_t needed = bytes.size() + count;
  if (needed <= bytes.capacity())
    return Status::success();
  const size_t capacity = std::max(needed, bytes.capacity() * 3 / 2);
  // What is there is moved, and there twice.
  Status fits = checkMemory(uint64_t(capacity) + bytes.size(), path);
  if (fits)
    bytes.reserve(capacity);
  return fits;
}

/// Appends up to `count` bytes, and returns how many there were.
static Result<uint64_t> append(ByteReader &reader, uint64_t count,
                               std::vector<std::byte> &bytes,
                               const std::string &path) {
  uint64_t appended = 0;
  while (appended < count) {
    const size_t step =
        size_t(std::min<uint64_t>(chunkBytes, count - appended));
    const size_t start = bytes.size();
    if (Status fits = grow(bytes, step, path); !fits)
      return fits.getError();
    bytes.resize(start + step);
    Result<size_t> read = reader.read(std::span(bytes).subspan(start));
    if (!read)
      return read.getError();
    bytes.resize(start + *read);
    appended += *read;
    if (*read < step)
      break;
  }
  return appended;
}

Result<std::vector<std::byte>> runtime::readAll(ByteReader &reader,
                                                const std::string &path) {
  return takeMemory(path, [&]() -> Result<std::vector<std::byte>> {
    std::vector<std::byte> bytes;
    // The end shows behind the last.
    if (reader.isMostExact())
      if (Status fits =
              grow(bytes, size_t(*reader.getMost()) + chunkBytes, path);
          !fits)
        return fits.getError();
    Result<uint64_t> read = append(reader, UINT64_MAX, bytes, path);
    if (!read)
      return read.getError();
    return bytes;
  });
}

Result<std::vector<std::byte>>
runtime::readElements(ByteReader &reader, std::optional<uint64_t> declared,
                      const std::string &sizes, const std::string &path) {
  auto getDamage = [&](const std::string &found) {
    return Error{ErrorCode::DamagedFile,
                 fmt::format("'{}' is damaged: {} bytes of elements, expected "
                             "{} for its {}",
                             path, found,
                             declared ? std::to_string(*declared)
                                      : "more than any file has",
                             sizes),
                 ""};
  };
  const std::optional<uint64_t> most = reader.getMost();
  if (!declared || (most && *most < *declared))
    return getDamage(most ? fmt::format("at most {}", *most) : "fewer");
  return takeMemory(path, [&]() -> Result<std::vector<std::byte>> {
    std::vector<std::byte> elements;
    if (most)
      if (Status fits = grow(elements, size_t(*declared), path); !fits)
        return fits.getError();
    Result<uint64_t> found = append(reader, *declared, elements, path);
    if (!found)
      return found.getError();
    if (*found < *declared)
      return getDamage(std::to_string(*found));
    // Also where the reader sees that the end is sound.
    std::vector<std::byte> more;
    Result<uint64_t> extra = append(reader, 4096, more, path);
    if (!extra)
      return extra.getError();
    if (*extra == 4096)
      return getDamage(fmt::format("more than {}", *declared));
    if (*extra > 0)
      return getDamage(std::to_string(*declared + *extra));
    return elements;
  });
}

Result<std::vector<std::byte>> runtime::readFile(const std::string &path) {
  Result<std::unique_ptr<FileReader>> file = FileReader::open(path);
  if (!file)
    return file.getError();
  return readAll(**file, path);
}

/// Writes to a file that is open; closes it.
static bool writeAll(std::FILE *stream, std::string_view text) {
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file(stream);
  // What a full disk refuses may show only when the buffer is emptied.
  return std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
         std::fflush(file.get()) == 0;
}

static Status writeInPlace(const std::string &path, std::string_view text) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  return file && writeAll(file, text) ? Status::success()
                                      : Status(getWriteError(path));
}

Result<FreshFile> runtime::openFresh(const std::string &path) {
  // Devices and pipes take what comes; links of both kinds, and the owner, stay
  // with the file that is there.
  struct stat status {};
  const bool isThere = lstat(path.c_str(), &status) == 0;
  if (isThere && (!S_ISREG(status.st_mode) || status.st_nlink > 1 ||
                  status.st_uid != geteuid()))
    return FreshFile();
  FreshFile fresh;
  fresh.path = fmt::format("{}.{:08x}.part", path, std::random_device()());
  fresh.descriptor =
      open(fresh.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  // In a folder that takes no new files, one that is there may be written. Not
  // on a full disk: what was there would be gone.
  if (fresh.descriptor < 0 && errno != EACCES && errno != EPERM &&
      errno != ENAMETOOLONG)
    return getWriteError(path);
  if (isThere)
    fresh.mode = status.st_mode & 07777;
  return fresh;
}

Status runtime::writeFile(const std::string &path, std::string_view text) {
  Result<FreshFile> fresh = openFresh(path);
  if (!fresh)
    return fresh.getError();
  if (fresh->descriptor < 0)
    return writeInPlace(path, text);
  if (fresh->mode)
    fchmod(fresh->descriptor, *fresh->mode);
  if (writeAll(fdopen(fresh->descriptor, "wb"), text) &&
      rename(fresh->path.c_str(), path.c_str()) == 0)
    return Status::success();
  const Error error = getWriteError(path);
  unlink(fresh->path.c_str());
  return error;
}

Status runtime::checkWritable(const std::string &path) {
  Result<FreshFile> fresh = openFresh(path);
  if (!fresh)
    return fresh.getError();
  if (fresh->descriptor >= 0) {
    close(fresh->descriptor);
    unlink(fresh->path.c_str());
    return Status::success();
  }
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    const int made =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (made < 0)
      return getWriteError(path);
    close(made);
    unlink(path.c_str());
    return Status::success();
  }
  if (S_ISDIR(status.st_mode))
    errno = EISDIR;
  // It is not opened: a pipe would wait for who reads it.
  if (S_ISDIR(status.st_mode) || access(path.c_str(), W_OK) != 0)
    return getWriteError(path);
  return Status::success();
}
