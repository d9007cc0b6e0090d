#ifndef MESHC_RUNTIME_DATA_NPY_H
#define MESHC_RUNTIME_DATA_NPY_H

/// NumPy's array file format: versions 1, 2 and 3; f2, f4, f8, i1, i2, i4, i8,
/// u1, u2, u4, u8 and b1 in C order and either order of bytes.
///
/// Numbers of a type that meshc has not are read as the smallest one that has
/// them all: f2 as f32, u2 as i32, u4 as i64, and u8 as i64, where what is 2^63
/// and more is an error.
///
/// Source: numpy/lib/format.py, "Format specification". The header is a literal
/// of a Python dictionary; it is read by a parser of just that form, which
/// never evaluates anything and has no recursion.

#include "runtime/data/Values.h"
#include "runtime/io/File.h"

#include <string>

namespace meshc::runtime {

/// How a file stores elements.
struct NpyStorage {
  enum class Kind : uint8_t { Same, Half, U16, U32, U64 };
  Kind kind = Kind::Same;
  uint8_t bytes = 4; ///< of an element
  bool isSwapped = false;

  bool isPlain() const { return kind == Kind::Same && !isSwapped; }
};

/// What stands in front of the elements.
struct NpyHeader {
  exec::ElementType element = exec::ElementType::f32; ///< as they are read
  NpyStorage storage;
  std::vector<int64_t> shape;
  uint64_t bytes = 0; ///< of it
};

/// Elements as they are read, from those of a file, which may be changed.
/// Errors: UnsupportedArray where an integer is larger than any of i64.
Status decode(const NpyStorage &storage, std::span<std::byte> stored,
              std::span<std::byte> target, const std::string &path);

/// Reads a header alone. Errors: as readNpy.
Result<NpyHeader> parseNpyHeader(ByteReader &reader, const std::string &path);

/// The header of a version 1 file; elements begin behind it, at a multiple of
/// 64. Errors: UnsupportedArray where NumPy has no such elements.
Result<std::string> makeNpyHeader(exec::ElementType element,
                                  std::span<const int64_t> shape,
                                  const std::string &path);

/// An error where a boolean is neither 0 nor 1.
Status checkBooleans(exec::ElementType element,
                     std::span<const std::byte> elements,
                     const std::string &path);

/// Reads a file. Errors: WrongInput where it cannot be opened or holds a type
/// or order that is not supported; Damaged where it is not an array file, its
/// header is not well-formed or its length is not what the header says. Never
/// allocates more than the header says, nor than the file has.
Result<HostArray> readNpy(const std::string &path);

/// Reads it from anywhere; `path` is for messages.
Result<HostArray> parseNpy(ByteReader &reader, const std::string &path);

/// Writes a version 1 file. Errors: WrongInput where it cannot be written.
Status writeNpy(const std::string &path, const HostArray &array);

} // namespace meshc::runtime

#endif
