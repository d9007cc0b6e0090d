#ifndef MESHC_RUNTIME_IO_OWNEDFILE_H
#define MESHC_RUNTIME_IO_OWNEDFILE_H

#include "runtime/exec/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace meshc::runtime {

/// A descriptor that is closed with its owner.
class OwnedFile {
public:
  OwnedFile() = default;
  explicit OwnedFile(int descriptor) : descriptor(descriptor) {}
  ~OwnedFile();
  OwnedFile(OwnedFile &&other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)) {}
  OwnedFile &operator=(OwnedFile &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }

  int get() const { return descriptor; }
  /// Leaves it to the caller to close it.
  int release() { return std::exchange(descriptor, -1); }

private:
  int descriptor = -1;
};

/// By which it is told whether a plain file has changed.
struct FileState {
  uint64_t bytes = 0, number = 0;       ///< of the file in its file system
  int64_t seconds = 0, nanoseconds = 0; ///< when it was written to last

  bool operator==(const FileState &) const = default;
};

/// Nothing of what is no plain file.
std::optional<FileState> getFileState(int descriptor);

/// Opens a plain file to read it, and never waits. What would be waited for, or
/// has no end, is refused: pipes with a name, devices, sockets; so are folders.
/// With `takesStreams`, pipes without a name are opened too: they come from a
/// shell, as standard input or for `<(COMMAND)`, and somebody writes to them.
/// Errors: CannotRead with what it is or the system's reason.
Result<OwnedFile> openToRead(const std::string &path, bool takesStreams);

} // namespace meshc::runtime

#endif
