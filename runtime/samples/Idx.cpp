#include "runtime/samples/Idx.h"

#include "runtime/io/FileErrors.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/Gzip.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

using namespace meshc;
using namespace meshc::runtime;

static int64_t getTypeBytes(IdxType type) {
  switch (type) {
  case IdxType::U8:
  case IdxType::I8:
    return 1;
  case IdxType::I16:
    return 2;
  case IdxType::I32:
  case IdxType::F32:
    return 4;
  case IdxType::F64:
    return 8;
  }
  return 0; // no type of this format
}

int64_t IdxFile::getItemSize() const {
  int64_t size = 1;
  // Sizes of no items at all may be anything.
  for (size_t i = 1; i < sizes.size(); ++i)
    if (__builtin_mul_overflow(size, sizes[i], &size))
      return std::numeric_limits<int64_t>::max();
  return size;
}

bool IdxFile::isInteger() const {
  return type != IdxType::F32 && type != IdxType::F64;
}

double IdxFile::getElement(int64_t index) const {
  const int64_t bytes = getTypeBytes(type);
  uint64_t bits = 0;
  for (int64_t i = 0; i < bytes; ++i)
    bits = bits << 8 | uint64_t(data[size_t(index * bytes + i)]);
  switch (type) {
  case IdxType::U8:
    return double(bits);
  case IdxType::I8:
    return double(int8_t(bits));
  case IdxType::I16:
    return double(int16_t(bits));
  case IdxType::I32:
    return double(int32_t(bits));
  case IdxType::F32:
    return double(std::bit_cast<float>(uint32_t(bits)));
  case IdxType::F64:
    return std::bit_cast<double>(bits);
  }
  __builtin_unreachable(); // readIdx refuses other types
}

/// Bytes of all elements of these sizes; none where no file can have so many.
static std::optional<uint64_t>
countIdxBytes(IdxType type, const std::vector<int64_t> &sizes) {
  // Zero sizes first: they make any other size harmless.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
    return 0;
  uint64_t bytes = uint64_t(getTypeBytes(type));
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(bytes, uint64_t(size), &bytes))
      return std::nullopt;
  return bytes;
}

Result<IdxFile> runtime::parseIdx(std::unique_ptr<ByteReader> bytes,
                                  const std::string &path) {
  Result<std::unique_ptr<ByteReader>> reader = unpack(std::move(bytes), path);
  if (!reader)
    return reader.getError();
  std::array<std::byte, 4> mark{};
  Result<size_t> begun = (*reader)->read(mark);
  if (!begun)
    return begun.getError();
  if (*begun < mark.size() || mark[0] != std::byte(0) ||
      mark[1] != std::byte(0))
    return getUnmarked(std::span(mark).first(*begun), **reader, path,
                       "an IDX file");
  IdxFile file;
  file.path = path;
  file.type = IdxType(mark[2]);
  if (getTypeBytes(file.type) == 0)
    return getDamage(path, fmt::format("element type {:#04x}, expected 0x08, "
                                       "0x09 or 0x0b to 0x0e",
                                       unsigned(mark[2])));
  if (mark[3] == std::byte(0))
    return getDamage(path, "it has no dimensions, expected at least one");
  std::vector<std::byte> sizes(4 * size_t(mark[3]));
  Result<size_t> found = (*reader)->read(sizes);
  if (!found)
    return found.getError();
  if (*found < sizes.size())
    return getDamage(path, fmt::format("{} bytes, its header alone needs {}",
                                       mark.size() + *found,
                                       mark.size() + sizes.size()));
  for (size_t i = 0; i < sizes.size(); i += 4) {
    uint32_t size = 0;
    for (size_t j = 0; j < 4; ++j)
      size = size << 8 | uint32_t(sizes[i + j]);
    file.sizes.push_back(size);
  }
  Result<std::vector<std::byte>> elements =
      readElements(**reader, countIdxBytes(file.type, file.sizes),
                   fmt::format("sizes {}", fmt::join(file.sizes, " x ")), path);
  if (!elements)
    return elements.getError();
  file.data = std::move(*elements);
  return file;
}

Result<IdxFile> runtime::readIdx(const std::string &path,
                                 ByteListener listener) {
  Result<std::unique_ptr<FileReader>> file =
      FileReader::open(path, std::move(listener));
  if (!file)
    return file.getError();
  return parseIdx(std::move(*file), path);
}
