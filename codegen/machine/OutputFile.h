#ifndef MESHC_CODEGEN_MACHINE_OUTPUTFILE_H
#define MESHC_CODEGEN_MACHINE_OUTPUTFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorOr.h"

#include <string>

namespace meshc::codegen {

/// The file that writing to a path changes.
struct OutputPlace {
  std::string path; ///< symbolic links followed, also to what is not there yet
  bool isStream;    ///< a character device or a pipe: bytes go in, it stays
};

/// The path that is standard output.
inline constexpr llvm::StringLiteral standardOutput = "-";

/// What messages call a path.
inline llvm::StringRef getOutputName(llvm::StringRef path) {
  return path == standardOutput ? "standard output" : path;
}

/// Why nothing can be made at `path`, as far as that shows before it is tried.
std::error_code checkWritable(llvm::StringRef path);

/// Errors: an empty path, a folder, a block device or socket, links that go in
/// a circle.
llvm::ErrorOr<OutputPlace> findOutputPlace(llvm::StringRef path);

/// Makes `contents` what is at `path`, or leaves what was there: a full disk
/// leaves no half of a file. A file that was there keeps its rights; a device
/// or pipe gets the bytes. Errors: the system's.
std::error_code writeOutput(llvm::StringRef path, llvm::StringRef contents);

/// A file that is gone when the object is, or when a signal ends the process,
/// unless it was moved to where it belongs.
class TemporaryFile {
public:
  /// In the folder for temporary files.
  static llvm::Expected<TemporaryFile> create(llvm::StringRef suffix);
  /// Beside `path`, so that it can be moved there in one step.
  static llvm::Expected<TemporaryFile> createBeside(llvm::StringRef path);
  TemporaryFile(TemporaryFile &&other) noexcept : path(std::move(other.path)) {
    other.path.clear();
  }
  ~TemporaryFile();

  llvm::StringRef getPath() const { return path; }
  llvm::Error write(llvm::StringRef contents) const;
  /// Makes room for `bytes` bytes. Errors: the system's, of a full disk.
  std::error_code reserve(uint64_t bytes) const;
  std::error_code moveTo(llvm::StringRef target);

private:
  TemporaryFile() = default;
  static llvm::Expected<TemporaryFile> createUnique(llvm::StringRef prefix,
                                                    llvm::StringRef suffix);

  llvm::SmallString<128> path;
};

} // namespace meshc::codegen

#endif
