#ifndef MESHC_RUNTIME_IO_PARTFILE_H
#define MESHC_RUNTIME_IO_PARTFILE_H

#include "runtime/exec/Error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace meshc::runtime {

/// A file that is written in parts, in any order, and appears as a whole; until
/// then what was there stays. Where writeFile() would write in place, to pipes,
/// devices and links, the parts go to the folder for temporary files first.
class PartFile {
public:
  /// Takes the space for `bytes` now where the file system can, so that a full
  /// disk shows before anything is computed. Errors: CannotWrite with the
  /// system's reason.
  static Result<PartFile> create(const std::string &path, uint64_t bytes);
  PartFile(PartFile &&other) noexcept;
  PartFile &operator=(PartFile &&other) noexcept;
  /// What was not committed is removed.
  ~PartFile();

  const std::string &getPath() const { return path; }

  /// Errors: CannotWrite with the system's reason.
  Status write(uint64_t offset, std::span<const std::byte> part);
  /// Has the file appear; nothing is written afterwards. Errors: as write().
  Status commit();

private:
  PartFile() = default;

  /// Copies what is in the temporary file to its place.
  Status copyInPlace();

  std::string path;
  std::string freshPath; ///< of the parts, to be renamed; empty: in no folder
  int descriptor = -1;
};

} // namespace meshc::runtime

#endif
