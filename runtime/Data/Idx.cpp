#include "runtime/Data/Idx.h"

#include "runtime/File.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

static Error getDamage(const std::string &path, const std::string &what) {
  return {ErrorCode::DamagedFile,
          fmt::format("'{}' is damaged: {}", path, what), ""};
}

Result<std::vector<std::byte>>
runtime::decompress(std::span<const std::byte> bytes, const std::string &path) {
  constexpr std::byte gzipMark[] = {std::byte(0x1f), std::byte(0x8b)};
  if (bytes.size() < 2 || bytes[0] != gzipMark[0] || bytes[1] != gzipMark[1])
    return std::vector<std::byte>(bytes.begin(), bytes.end());

  z_stream stream{};
  // 16: gzip with its checksum, rather than zlib's own format.
  if (inflateInit2(&stream, 15 + 16) != Z_OK)
    return Error{ErrorCode::DoesNotFit, "out of memory", ""};
  std::vector<std::byte> result;
  std::vector<std::byte> chunk(size_t(1) << 20);
  size_t consumed = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    // zlib counts in 32 bits.
    const size_t given = std::min(bytes.size() - consumed, size_t(1) << 30);
    stream.next_in = reinterpret_cast<Bytef *>(
        const_cast<std::byte *>(bytes.data() + consumed));
    stream.avail_in = uInt(given);
    stream.next_out = reinterpret_cast<Bytef *>(chunk.data());
    stream.avail_out = uInt(chunk.size());
    status = inflate(&stream, Z_NO_FLUSH);
    consumed += given - stream.avail_in;
    result.insert(result.end(), chunk.begin(),
                  chunk.end() - ptrdiff_t(stream.avail_out));
  }
  const std::string reason = stream.msg ? stream.msg : "";
  inflateEnd(&stream);
  if (status == Z_BUF_ERROR)
    return getDamage(
        path, fmt::format("gzip: it is cut off after {} bytes", bytes.size()));
  if (status == Z_MEM_ERROR)
    return Error{ErrorCode::DoesNotFit, "out of memory", ""};
  if (status != Z_STREAM_END)
    return getDamage(path, "gzip: " + reason);
  if (consumed != bytes.size())
    return getDamage(path, fmt::format("{} bytes follow the end of its gzip "
                                       "data",
                                       bytes.size() - consumed));
  return result;
}

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
  for (size_t i = 1; i < sizes.size(); ++i)
    size *= sizes[i];
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

Result<IdxFile> runtime::readIdx(const std::string &path) {
  Result<std::vector<std::byte>> bytes = readFile(path);
  if (!bytes)
    return bytes.getError();
  Result<std::vector<std::byte>> content = decompress(*bytes, path);
  if (!content)
    return content.getError();
  const size_t available = content->size();
  auto getByte = [&](size_t i) { return uint32_t((*content)[i]); };
  constexpr size_t markBytes = 4;
  if (available < markBytes || getByte(0) != 0 || getByte(1) != 0)
    return getDamage(path, "it does not begin as an IDX file does");
  IdxFile file;
  file.path = path;
  file.type = IdxType(getByte(2));
  if (getTypeBytes(file.type) == 0)
    return getDamage(path, fmt::format("element type {:#04x}, expected 0x08, "
                                       "0x09 or 0x0b to 0x0e",
                                       getByte(2)));
  const size_t rank = getByte(3);
  if (rank == 0)
    return getDamage(path, "it has no dimensions, expected at least one");
  const size_t headerBytes = markBytes + 4 * rank;
  if (available < headerBytes)
    return getDamage(path, fmt::format("{} bytes, its header alone needs {}",
                                       available, headerBytes));
  const size_t elementBytes = available - headerBytes;
  for (size_t i = 0; i < rank; ++i) {
    uint32_t size = 0;
    for (size_t j = 0; j < 4; ++j)
      size = size << 8 | getByte(markBytes + 4 * i + j);
    file.sizes.push_back(size);
  }
  // Zero sizes first: they make any other size harmless.
  const bool isEmpty =
      std::find(file.sizes.begin(), file.sizes.end(), 0) != file.sizes.end();
  uint64_t needed = isEmpty ? 0 : uint64_t(getTypeBytes(file.type));
  for (size_t i = 0; i < rank && !isEmpty; ++i)
    if (__builtin_mul_overflow(needed, uint64_t(file.sizes[i]), &needed) ||
        needed > elementBytes)
      return getDamage(path,
                       fmt::format("{} bytes of elements, its sizes {} "
                                   "need more",
                                   elementBytes, fmt::join(file.sizes, " x ")));
  if (needed != elementBytes)
    return getDamage(
        path, fmt::format("{} bytes of elements, its sizes {} need {}",
                          elementBytes, fmt::join(file.sizes, " x "), needed));
  content->erase(content->begin(), content->begin() + ptrdiff_t(headerBytes));
  file.data = std::move(*content);
  return file;
}
