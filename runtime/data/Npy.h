#ifndef MESHC_RUNTIME_DATA_NPY_H
#define MESHC_RUNTIME_DATA_NPY_H

/// NumPy's array file format: versions 1, 2 and 3; little-endian f4, f8, i4,
/// i8, i2, i1, u1 and b1 in C order.
///
/// Source: numpy/lib/format.py, "Format specification". The header is a literal
/// of a Python dictionary; it is read by a parser of just that form, which
/// never evaluates anything and has no recursion.

#include "runtime/data/Values.h"
#include "runtime/io/File.h"

#include <string>

namespace meshc::runtime {

/// What stands in front of the elements.
struct NpyHeader {
  exec::ElementType element = exec::ElementType::f32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0; ///< of it
};

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
