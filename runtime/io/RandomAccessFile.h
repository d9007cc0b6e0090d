#ifndef MESHC_RUNTIME_IO_RANDOMACCESSFILE_H
#define MESHC_RUNTIME_IO_RANDOMACCESSFILE_H

#include "runtime/exec/Error.h"
#include "runtime/io/OwnedFile.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace meshc::runtime {

/// A file whose bytes are read from any place, without one that is read last.
/// Nothing of it is mapped: one that is cut off meanwhile is an error, no
/// signal.
class RandomAccessFile {
public:
  /// Errors: as of openToRead; pipes cannot be read so.
  static Result<RandomAccessFile> open(const std::string &path);

  const std::string &getPath() const { return path; }
  /// Bytes of it when it was opened.
  uint64_t getSize() const { return state.bytes; }
  const FileState &getState() const { return state; }

  /// Fills `target` with the bytes from `offset` on. Errors: CannotRead with
  /// the system's reason, or where the file has changed since it was opened;
  /// DamagedFile where it ends before.
  Status read(uint64_t offset, std::span<std::byte> target) const;

private:
  RandomAccessFile(std::string path, OwnedFile file, FileState state)
      : path(std::move(path)), file(std::move(file)), state(state) {}

  std::string path;
  OwnedFile file;
  FileState state; ///< when it was opened
};

} // namespace meshc::runtime

#endif
