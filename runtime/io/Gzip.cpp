#include "runtime/io/Gzip.h"

#include "runtime/io/FileErrors.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

static Error getGzipDamage(const std::string &path, const std::string &what) {
  return getDamage(path, "gzip: " + what);
}

namespace {

/// Packed bytes from a file, some at a time.
class PackedBytes {
public:
  explicit PackedBytes(std::unique_ptr<ByteReader> file)
      : file(std::move(file)), chunk(size_t(1) << 16) {}

  /// Reads the next ones where all are used.
  Status fill() {
    if (!rest.empty())
      return Status::success();
    Result<size_t> count = file->read(chunk);
    if (!count)
      return count.getError();
    rest = std::span(chunk).first(*count);
    return Status::success();
  }
  std::optional<uint64_t> getMost() const {
    const std::optional<uint64_t> most = file->getMost();
    return most ? std::optional(*most + rest.size()) : std::nullopt;
  }

  std::unique_ptr<ByteReader> file;
  std::vector<std::byte> chunk;
  std::span<std::byte> rest; ///< of the chunk; after fill() empty at the end
};

/// Bytes as they are, of which some have been looked at.
class PlainReader : public ByteReader {
public:
  explicit PlainReader(PackedBytes bytes) : bytes(std::move(bytes)) {}

  Result<size_t> read(std::span<std::byte> target) override {
    const size_t count = std::min(target.size(), bytes.rest.size());
    std::copy_n(bytes.rest.begin(), count, target.begin());
    bytes.rest = bytes.rest.subspan(count);
    if (count == target.size())
      return count;
    Result<size_t> read = bytes.file->read(target.subspan(count));
    return read ? Result<size_t>(count + *read) : read;
  }
  std::optional<uint64_t> getMost() const override { return bytes.getMost(); }
  bool isMostExact() const override { return bytes.file->isMostExact(); }

private:
  PackedBytes bytes;
};

class GzipReader : public ByteReader {
public:
  GzipReader(PackedBytes bytes, std::string path)
      : packed(std::move(bytes)), path(std::move(path)) {}
  ~GzipReader() override { inflateEnd(&stream); }

  Status start() {
    // 16: gzip with its checksum, rather than zlib's own format.
    if (inflateInit2(&stream, 15 + 16) != Z_OK)
      return Error{ErrorCode::DoesNotFit, "out of memory", ""};
    return Status::success();
  }

  Result<size_t> read(std::span<std::byte> target) override {
    size_t count = 0;
    while (count < target.size() && !isAtEnd) {
      Status unpacked = unpackSome(target.subspan(count), count);
      if (!unpacked)
        return unpacked.getError();
    }
    return count;
  }

  /// Source: zlib's technical details, "Maximum Compression Factor": 1032, of a
  /// pair of length and distance in two bits.
  std::optional<uint64_t> getMost() const override {
    constexpr uint64_t maxFactor = 1032;
    const std::optional<uint64_t> most = packed.getMost();
    uint64_t unpacked;
    if (!most || __builtin_mul_overflow(*most, maxFactor, &unpacked))
      return std::nullopt;
    // What zlib has taken in and not yet given: a window.
    return unpacked + (uint64_t(1) << 16);
  }
  bool isMostExact() const override { return false; }

private:
  Status unpackSome(std::span<std::byte> target, size_t &count) {
    Status filled = packed.fill();
    if (!filled)
      return filled;
    // zlib counts in 32 bits.
    const size_t room = std::min(target.size(), size_t(1) << 30);
    stream.next_in = reinterpret_cast<Bytef *>(packed.rest.data());
    stream.avail_in = uInt(packed.rest.size());
    stream.next_out = reinterpret_cast<Bytef *>(target.data());
    stream.avail_out = uInt(room);
    const int status = inflate(&stream, Z_NO_FLUSH);
    packed.rest = packed.rest.last(stream.avail_in);
    count += room - stream.avail_out;
    switch (status) {
    case Z_OK:
      return Status::success();
    case Z_STREAM_END:
      return finish();
    case Z_BUF_ERROR:
      return getGzipDamage(
          path, fmt::format("it is cut off after {} bytes", stream.total_in));
    case Z_MEM_ERROR:
      return Error{ErrorCode::DoesNotFit, "out of memory", ""};
    default:
      return getGzipDamage(path,
                           stream.msg ? stream.msg : "it is not well-formed");
    }
  }

  Status finish() {
    isAtEnd = true;
    Status filled = packed.fill();
    if (!filled || packed.rest.empty())
      return filled;
    return getGzipDamage(path,
                         fmt::format("bytes follow its end, which is after "
                                     "{} bytes",
                                     stream.total_in));
  }

  PackedBytes packed;
  std::string path;
  z_stream stream{};
  bool isAtEnd = false;
};

} // namespace

Result<std::unique_ptr<ByteReader>>
runtime::unpack(std::unique_ptr<ByteReader> file, const std::string &path) {
  PackedBytes bytes(std::move(file));
  Status filled = bytes.fill();
  if (!filled)
    return filled.getError();
  constexpr std::byte gzipMark[] = {std::byte(0x1f), std::byte(0x8b)};
  if (bytes.rest.size() < 2 || bytes.rest[0] != gzipMark[0] ||
      bytes.rest[1] != gzipMark[1])
    return std::unique_ptr<ByteReader>(
        std::make_unique<PlainReader>(std::move(bytes)));
  auto reader = std::make_unique<GzipReader>(std::move(bytes), path);
  Status started = reader->start();
  if (!started)
    return started.getError();
  return std::unique_ptr<ByteReader>(std::move(reader));
}
