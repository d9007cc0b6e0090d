#include "runtime/io/FileKind.h"

#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;
using namespace std::string_view_literals;

namespace {

/// Bytes that stand at a place of every file of a kind.
struct Mark {
  size_t place;
  std::string_view bytes, kind;
};

} // namespace

/// Sources: the formats' own descriptions, and file(1)'s table of them.
static constexpr Mark marks[] = {
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)"},
    {0, "PK\x03\x04"sv, "a zip archive, as .npz files and PyTorch's are"},
    {0, "PK\x05\x06"sv, "a zip archive, which is empty"},
    // PyTorch's own mark of files before its version 1.6, as a pickle has it.
    {0, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19"sv, "a file of PyTorch"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {0, "PAR1\x15"sv, "a Parquet table"},
    {0, "ARROW1\0\0"sv, "an Arrow table"},
    {0, "GGUF\x02\0\0\0"sv, "a GGUF file"},
    {0, "GGUF\x03\0\0\0"sv, "a GGUF file"},
    {0, "SQLite format 3\0"sv, "an SQLite database"},
    {0, "MMIDIDX\0\0"sv, "an index of Megatron's data (.idx)"},
    {0, "\xfd\x37zXZ\0"sv, "packed with xz"},
    {0, "\x28\xb5\x2f\xfd"sv, "packed with zstd"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive"},
    {0, "\x89PNG\r\n\x1a\n"sv, pngKind},
    {0, "GIF87a"sv, "a GIF image"},
    {0, "GIF89a"sv, "a GIF image"},
    {0, "II*\0"sv, "a TIFF image"},
    {0, "MM\0*"sv, "a TIFF image"},
    {8, "WEBPVP8"sv, "a WebP image"},
    {0, "version https://git-lfs.github.com/"sv,
     "a pointer of Git LFS to a file that was not fetched (git lfs pull)"},
    {0, "%PDF-1."sv, "a PDF document"},
    {0, "\x7f\x45LF\x02\x01\x01"sv, "a program"},
    {4, "1AY&SY"sv, "packed with bzip2"},
    {257, "ustar"sv, "a tar archive"},
};

/// The number that stands at a place, little-endian.
template <typename T>
static T getNumber(std::span<const std::byte> start, size_t place) {
  T number = 0;
  if (place + sizeof(T) <= start.size())
    std::memcpy(&number, start.data() + place, sizeof(T));
  return number;
}

/// RFC 1952, section 2.3: a mark of 16 bits, one method, flags and systems of
/// which few are defined.
static bool isGzip(std::span<const std::byte> start) {
  if (start.size() < 18 || start[0] != std::byte(0x1f) ||
      start[1] != std::byte(0x8b) || start[2] != std::byte(8))
    return false;
  const unsigned flags = unsigned(start[3]), extra = unsigned(start[8]),
                 system = unsigned(start[9]);
  return flags < 32 && (extra == 0 || extra == 2 || extra == 4) &&
         (system < 14 || system == 255);
}

/// A JPEG's first segment follows its mark at once.
static bool isJpeg(std::span<const std::byte> start) {
  if (start.size() < 11 || start[0] != std::byte(0xff) ||
      start[1] != std::byte(0xd8) || start[2] != std::byte(0xff))
    return false;
  const auto segment = unsigned(start[3]);
  const std::string_view name(reinterpret_cast<const char *>(&start[6]), 4);
  return segment == 0xdb || name == "JFIF" || name == "Exif" || name == "Adob";
}

/// Safetensors have no mark, but the length of a text in braces.
static bool isSafetensors(std::span<const std::byte> start,
                          uint64_t fileBytes) {
  const auto length = getNumber<uint64_t>(start, 0);
  return start.size() > 10 && length >= 2 && length <= fileBytes - 8 &&
         start[8] == std::byte('{') &&
         (start[9] == std::byte('"') || start[9] == std::byte('}'));
}

/// A stream of Arrow, as data sets of Hugging Face are: -1 and the length of a
/// FlatBuffer, whose first table lies in it.
static bool isArrowStream(std::span<const std::byte> start,
                          uint64_t fileBytes) {
  if (start.size() < 16 || getNumber<int32_t>(start, 0) != -1)
    return false;
  const auto length = getNumber<uint32_t>(start, 4);
  return length > 8 && length % 8 == 0 && length <= fileBytes - 8 &&
         getNumber<uint32_t>(start, 8) < length;
}

/// An IDX file is as long as its header says (Idx.h).
static bool isIdx(std::span<const std::byte> start, uint64_t fileBytes) {
  if (start.size() < 8 || start[0] != std::byte(0) || start[1] != std::byte(0))
    return false;
  static constexpr uint64_t widths[] = {1, 1, 0, 2, 4, 4, 8};
  const auto type = unsigned(start[2]) - 8, rank = unsigned(start[3]);
  if (type >= std::size(widths) || rank == 0 || start.size() < 4 + 4 * rank)
    return false;
  uint64_t bytes = widths[type];
  for (size_t i = 0; i < rank; ++i)
    if (__builtin_mul_overflow(
            bytes, __builtin_bswap32(getNumber<uint32_t>(start, 4 + 4 * i)),
            &bytes))
      return false;
  return bytes > 0 && bytes == fileBytes - 4 - 4 * uint64_t(rank);
}

std::string_view runtime::findFileKind(std::span<const std::byte> start,
                                       uint64_t fileBytes) {
  const std::string_view text(reinterpret_cast<const char *>(start.data()),
                              start.size());
  for (const Mark &mark : marks)
    if (text.size() > mark.place &&
        text.substr(mark.place).starts_with(mark.bytes))
      return mark.kind;
  if (isGzip(start))
    return "packed with gzip";
  if (isJpeg(start))
    return jpegKind;
  if (isSafetensors(start, fileBytes))
    return safetensorsKind;
  if (isArrowStream(start, fileBytes))
    return "an Arrow table";
  if (isIdx(start, fileBytes))
    return "an IDX file";
  return {};
}

std::string_view runtime::findNumbersKind(std::span<const std::byte> start,
                                          uint64_t fileBytes) {
  const std::string_view kind = findFileKind(start, fileBytes);
  if (!kind.empty())
    return kind;
  // Of random numbers a third of the bytes are ASCII; the same number over and
  // over is no text.
  constexpr size_t leastBytes = 32, leastLetters = 5;
  std::bitset<256> letters;
  for (std::byte byte : start) {
    const auto letter = unsigned(byte);
    if ((letter < ' ' || letter > '~') && letter != '\n' && letter != '\r' &&
        letter != '\t')
      return {};
    letters.set(letter);
  }
  return start.size() >= leastBytes && letters.count() >= leastLetters
             ? "text"
             : std::string_view();
}

Error runtime::getWrongKind(const std::string &path, std::string_view kind,
                            std::string_view expected, std::string note) {
  return {ErrorCode::WrongData,
          fmt::format("'{}' is {}, expected {}", path, kind, expected),
          std::move(note)};
}

Error runtime::getUnmarked(std::span<const std::byte> start, ByteReader &rest,
                           const std::string &path, std::string_view expected) {
  std::vector<std::byte> bytes(std::max(kindBytes, start.size()));
  std::ranges::copy(start, bytes.begin());
  Result<size_t> more = rest.read(std::span(bytes).subspan(start.size()));
  if (!more)
    return more.getError();
  bytes.resize(start.size() + *more);
  const std::string_view kind =
      findFileKind(bytes, bytes.size() + rest.getMost().value_or(0));
  return kind.empty()
             ? getDamage(path,
                         fmt::format("it does not begin as {} does", expected))
             : getWrongKind(path, kind, expected);
}
