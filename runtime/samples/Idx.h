#ifndef MESHC_RUNTIME_DATA_IDX_H
#define MESHC_RUNTIME_DATA_IDX_H

/// The IDX format of the MNIST family of data sets, plain or in gzip.
///
/// Two zero bytes, a type, the number of dimensions, each size as a big-endian
/// 32-bit number, then the elements, big-endian, the first dimension slowest.
/// Source: yann.lecun.com/exdb/mnist, "The IDX file format".

#include "runtime/io/ByteListener.h"
#include "runtime/io/File.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime {

/// Element types, with the numbers of the format.
enum class IdxType : uint8_t {
  U8 = 0x08,
  I8 = 0x09,
  I16 = 0x0b,
  I32 = 0x0c,
  F32 = 0x0d,
  F64 = 0x0e,
};

struct IdxFile {
  std::string path;
  IdxType type = IdxType::U8;
  std::vector<int64_t> sizes;  ///< at least one: items first
  std::vector<std::byte> data; ///< the elements as they are in the file

  int64_t getNumItems() const { return sizes[0]; }
  /// Elements of one item; the most there is where 64 bits cannot count them.
  int64_t getItemSize() const;
  bool isInteger() const;
  /// Element `index`, counted over all items.
  double getElement(int64_t index) const;
};

/// Reads a file. Errors: WrongInput where it cannot be read; Damaged where gzip
/// reports a defect, the mark, type or sizes are none of this format, or the
/// elements are fewer or more than the sizes say. Never allocates more than the
/// sizes say, nor than the file can really hold.
Result<IdxFile> readIdx(const std::string &path, ByteListener listener = {});

/// Reads it from anywhere; `path` is for messages.
Result<IdxFile> parseIdx(std::unique_ptr<ByteReader> bytes,
                         const std::string &path);

} // namespace meshc::runtime

#endif
