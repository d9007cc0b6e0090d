#ifndef MESHC_RUNTIME_WEIGHTS_TENSORFILES_H
#define MESHC_RUNTIME_WEIGHTS_TENSORFILES_H

/// The tensors of safetensors files, by name.

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/io/RandomAccessFile.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

struct FileTensor {
  const RandomAccessFile *file;
  SafetensorsEntry entry;
};

class TensorFiles {
public:
  /// Whether a path is a file of this format by its name, an index of such
  /// files, or a folder that has some.
  static bool isAny(const std::string &path);

  /// `path`: a file; an index, which says in which files beside it tensors are
  /// (model.safetensors.index.json, as Hugging Face writes it); or a folder:
  /// the files that its index names, or, where it has none, all together. Reads
  /// headers. Errors: CannotRead; DamagedFile, also where two files have a
  /// tensor of one name; WrongData where an index names a file that is not in
  /// its folder.
  static Result<TensorFiles> open(const std::string &path);

  const std::map<std::string, FileTensor> &getTensors() const {
    return tensors;
  }

private:
  Status add(const std::string &path);

  std::vector<std::unique_ptr<RandomAccessFile>> files;
  std::map<std::string, FileTensor> tensors;
};

/// Elements of a tensor, one run after the other: bytes are read in pieces, and
/// each once where runs come in the order of the file.
class TensorReader {
public:
  explicit TensorReader(const FileTensor &tensor) : tensor(tensor) {}

  /// So many elements from `first` on, as they are stored; at most
  /// maxElements. They stay until the next call. Errors: CannotRead,
  /// DamagedFile, also where a boolean is none.
  Result<std::span<const std::byte>> read(int64_t first, int64_t count);

  static constexpr int64_t maxElements = int64_t(1) << 15;

private:
  const FileTensor &tensor;
  std::vector<std::byte> piece;
  uint64_t begin = 0, end = 0; ///< of the piece, in the file
};

/// Whether each number of one type is one of the other, too.
bool isExact(exec::ElementType from, exec::ElementType to);

/// Writes elements of one type as those of another, `stride` elements from each
/// to the next. Requires: isExact(from, to).
void convert(exec::ElementType from, std::span<const std::byte> elements,
             exec::ElementType to, std::byte *target, int64_t stride);

} // namespace meshc::runtime

#endif
