#ifndef MESHC_RUNTIME_IO_RANDOMACCESSFILE_H
#define MESHC_RUNTIME_IO_RANDOMACCESSFILE_H

#include "runtime/exec/Error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace meshc::runtime {

/// A file whose bytes are read from any place, without one that is read last.
/// Nothing of it is mapped: one that is cut off meanwhile is an error, no
/// signal.
class RandomAccessFile {
public:
  /// Errors: CannotRead with the system's reason.
  static Result<RandomAccessFile> open(const std::string &path);
  RandomAccessFile(RandomAccessFile &&other) noexcept;
  RandomAccessFile &operator=(RandomAccessFile &&other) noexcept;
  ~RandomAccessFile();

  const std::string &getPath() const { return path; }
  /// Bytes of it when it was opened; 0 of a pipe or a device, which cannot be
  /// read so.
  uint64_t getSize() const { return size; }

  /// Fills `target` with the bytes from `offset` on. Errors: CannotRead with
  /// the system's reason, DamagedFile where the file ends before.
  Status read(uint64_t offset, std::span<std::byte> target) const;

private:
  RandomAccessFile(std::string path, int descriptor);

  std::string path;
  int descriptor = -1;
  uint64_t size = 0;
};

} // namespace meshc::runtime

#endif
