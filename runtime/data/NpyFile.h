#ifndef MESHC_RUNTIME_DATA_NPYFILE_H
#define MESHC_RUNTIME_DATA_NPYFILE_H

/// .npy files that are read and written in parts: of an array of any size no
/// more is in memory than a part.

#include "runtime/data/Npy.h"
#include "runtime/data/Values.h"
#include "runtime/io/PartFile.h"
#include "runtime/io/RandomAccessFile.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// NAME=FILE, as given on the command line.
struct NamedFile {
  std::string name;
  std::string path;
};

class NpyFile {
public:
  /// Reads the header, and holds the size of the file against it; of a pipe of
  /// a shell, all of it. Errors: as readNpy.
  static Result<NpyFile> open(const std::string &path);

  const std::string &getPath() const { return path; }
  exec::ElementType getElement() const { return array.element; }
  const std::vector<int64_t> &getShape() const { return array.shape; }
  /// By which it is told whether the file is another one by now; none of what
  /// was read whole.
  std::optional<FileState> getState() const {
    return file ? std::optional(file->getState()) : std::nullopt;
  }
  /// Whether it was read whole, and may not be there to be opened again.
  bool isInMemory() const { return !file; }

  /// Fills `target` with elements, in C order, from the element `first` on.
  /// Errors: CannotRead; DamagedFile where a boolean is none, or the file is
  /// shorter by now; UnsupportedArray where an integer is larger than any of
  /// i64.
  Status read(int64_t first, std::span<std::byte> target) const;

private:
  explicit NpyFile(std::string path) : path(std::move(path)) {}

  std::string path;
  HostArray array; ///< its data where the file cannot be read from any place
  uint64_t headerBytes = 0;
  NpyStorage storage;
  std::optional<RandomAccessFile> file;
};

class NpyWriter {
public:
  /// Writes the header. Errors: CannotWrite, UnsupportedArray.
  static Result<NpyWriter> create(const std::string &path,
                                  exec::ElementType element,
                                  std::span<const int64_t> shape);

  /// Writes elements, in C order, from the element `first` on. Errors:
  /// CannotWrite.
  Status write(int64_t first, std::span<const std::byte> elements);
  /// Has the file appear, once all elements are written. Errors: CannotWrite.
  Status commit() { return file.commit(); }

private:
  NpyWriter(PartFile file, uint64_t headerBytes, int64_t elementBytes)
      : file(std::move(file)), headerBytes(headerBytes),
        elementBytes(elementBytes) {}

  PartFile file;
  uint64_t headerBytes;
  int64_t elementBytes;
};

} // namespace meshc::runtime

#endif
