#include "runtime/samples/ImageFile.h"

#include "runtime/io/File.h"
#include "runtime/io/FileErrors.h"
#include "runtime/io/FileKind.h"

#include <fmt/format.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <memory>

#include <png.h>
#include <turbojpeg.h>

using namespace meshc;
using namespace meshc::runtime;

/// An error where an image is not what was asked for.
static Status checkSize(const std::string &path, const ImageSize &size,
                        int64_t rows, int64_t columns, bool isGrey) {
  if (rows != size.rows || columns != size.columns)
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has {} x {} pixels, the input takes {} x {}",
                             path, rows, columns, size.rows, size.columns),
                 "rows first"};
  if (!isGrey && size.channels == 1)
    return Error{
        ErrorCode::WrongData,
        fmt::format("'{}' has colours, the input takes one channel", path), ""};
  return Status::success();
}

namespace {

/// A file in memory that libpng reads, and why it stopped.
struct PngInput {
  std::span<const std::byte> rest;
  std::string failure;
};

/// Frees what libpng has.
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

} // namespace

static void fail(png_structp png, png_const_charp message) {
  static_cast<PngInput *>(png_get_error_ptr(png))->failure = message;
  png_longjmp(png, 1);
}

static void ignore(png_structp, png_const_charp) {}

static void readBytes(png_structp png, png_bytep target, size_t count) {
  auto *input = static_cast<PngInput *>(png_get_io_ptr(png));
  if (count > input->rest.size())
    png_error(png, "it ends too early");
  std::memcpy(target, input->rest.data(), count);
  input->rest = input->rest.subspan(count);
}

/// Reads up to the pixels; false where libpng has stopped. No object with a
/// destructor lives here, as libpng jumps over it.
static bool readHead(PngReader &reader) {
  if (setjmp(png_jmpbuf(reader.png)))
    return false;
  png_read_info(reader.png, reader.info);
  return true;
}

static bool readPixels(PngReader &reader, bool needsColours, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)))
    return false;
  png_set_expand(reader.png); // palettes, fewer than 8 bits
  png_set_strip_alpha(reader.png);
  if (needsColours)
    png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

static Result<std::vector<std::byte>> decodePng(const std::string &path,
                                                std::span<const std::byte> file,
                                                const ImageSize &size) {
  PngInput input{file, ""};
  PngReader reader;
  reader.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, fail, ignore);
  if (reader.png)
    reader.info = png_create_info_struct(reader.png);
  if (!reader.info)
    return Error{ErrorCode::Internal, "libpng does not start", ""};
  png_set_read_fn(reader.png, &input, readBytes);
  if (!readHead(reader))
    return getDamage(path, input.failure);
  const int kind = png_get_color_type(reader.png, reader.info);
  if (png_get_bit_depth(reader.png, reader.info) > 8)
    return Error{
        ErrorCode::WrongData,
        fmt::format("'{}' has 16 bits a channel, expected at most 8", path),
        ""};
  Status fits =
      checkSize(path, size, png_get_image_height(reader.png, reader.info),
                png_get_image_width(reader.png, reader.info),
                !(kind & PNG_COLOR_MASK_COLOR));
  if (!fits)
    return fits.getError();
  const auto rowBytes = size_t(size.columns * size.channels);
  std::vector<std::byte> pixels(size_t(size.rows) * rowBytes);
  std::vector<png_bytep> rows;
  for (int64_t row = 0; row < size.rows; ++row)
    rows.push_back(
        reinterpret_cast<png_bytep>(pixels.data() + size_t(row) * rowBytes));
  if (!readPixels(reader, size.channels == 3, rows.data()))
    return getDamage(path, input.failure);
  return pixels;
}

/// Red, green and blue of cyan, magenta, yellow and black, which Adobe's files
/// and all that read them have the other way round: 255 is none of it.
static std::vector<std::byte> fromCmyk(std::span<const std::byte> pixels) {
  std::vector<std::byte> colours;
  colours.reserve(pixels.size() / 4 * 3);
  for (size_t i = 0; i < pixels.size(); i += 4)
    for (size_t ink = 0; ink < 3; ++ink)
      colours.push_back(std::byte(
          (unsigned(pixels[i + ink]) * unsigned(pixels[i + 3]) + 127) / 255));
  return colours;
}

static Result<std::vector<std::byte>>
decodeJpeg(const std::string &path, std::span<const std::byte> file,
           const ImageSize &size) {
  const std::unique_ptr<void, int (*)(void *)> decoder(tjInitDecompress(),
                                                       tjDestroy);
  if (!decoder)
    return Error{ErrorCode::Internal, "libjpeg-turbo does not start", ""};
  const auto *bytes = reinterpret_cast<const unsigned char *>(file.data());
  int columns = 0, rows = 0, sampling = 0, space = 0;
  if (tjDecompressHeader3(decoder.get(), bytes, file.size(), &columns, &rows,
                          &sampling, &space) != 0)
    return getDamage(path, tjGetErrorStr2(decoder.get()));
  // Tables alone are a JPEG file, too.
  if (rows == 0)
    return getDamage(path, "it has no image");
  Status fits = checkSize(path, size, rows, columns, space == TJCS_GRAY);
  if (!fits)
    return fits.getError();
  // Of inks nothing else is made.
  const bool hasInks = space == TJCS_CMYK || space == TJCS_YCCK;
  std::vector<std::byte> pixels(
      size_t(size.rows * size.columns * (hasInks ? 4 : size.channels)));
  if (tjDecompress2(decoder.get(), bytes, file.size(),
                    reinterpret_cast<unsigned char *>(pixels.data()), columns,
                    0, rows,
                    hasInks              ? TJPF_CMYK
                    : size.channels == 1 ? TJPF_GRAY
                                         : TJPF_RGB,
                    TJFLAG_STOPONWARNING | TJFLAG_ACCURATEDCT) != 0)
    return getDamage(path, tjGetErrorStr2(decoder.get()));
  return hasInks ? fromCmyk(pixels) : std::move(pixels);
}

Result<std::vector<std::byte>> runtime::readPng(const std::string &path,
                                                const ImageSize &size) {
  Result<std::vector<std::byte>> file = readFile(path);
  return file ? decodePng(path, *file, size) : file;
}

Result<std::vector<std::byte>> runtime::readJpeg(const std::string &path,
                                                 const ImageSize &size) {
  Result<std::vector<std::byte>> file = readFile(path);
  return file ? decodeJpeg(path, *file, size) : file;
}

Result<std::vector<std::byte>> runtime::readImage(const std::string &path,
                                                  const ImageSize &size) {
  Result<std::vector<std::byte>> file = readFile(path);
  if (!file)
    return file;
  const auto start = std::span(*file).first(std::min(file->size(), kindBytes));
  const std::string_view kind = findFileKind(start, file->size());
  if (kind == pngKind)
    return decodePng(path, *file, size);
  static constexpr std::byte mark[] = {std::byte(0xff), std::byte(0xd8)};
  if (kind == jpegKind ||
      (start.size() >= 2 && std::ranges::equal(start.first(2), mark)))
    return decodeJpeg(path, *file, size);
  if (kind.empty())
    return getDamage(path, "it begins neither as a PNG nor as a JPEG image "
                           "does");
  return getWrongKind(path, kind, "a PNG or a JPEG image");
}
