/// Images in folders.

#include "runtime/samples/ImageFile.h"
#include "runtime/samples/Readers.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include <png.h>
#include <turbojpeg.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr int rows = 5, columns = 7;

std::vector<uint8_t> makePixels(int channels, int seed) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < rows * columns * channels; ++i)
    pixels.push_back(uint8_t(seed * 37 + i * i * 11 + i));
  return pixels;
}

/// `format` is of libpng's simplified interface, which has its own ways.
void writePng(const std::string &path, uint32_t format,
              const std::vector<uint8_t> &pixels, int width = columns) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = uint32_t(width);
  image.height =
      uint32_t(pixels.size()) / PNG_IMAGE_PIXEL_SIZE(format) / image.width;
  image.format = format;
  ASSERT_TRUE(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0,
                                      nullptr))
      << image.message;
}

std::string encodeJpeg(const std::vector<uint8_t> &pixels, bool isGrey) {
  const tjhandle encoder = tjInitCompress();
  unsigned char *bytes = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, pixels.data(), columns, 0, rows,
                        isGrey ? TJPF_GRAY : TJPF_RGB, &bytes, &size,
                        isGrey ? TJSAMP_GRAY : TJSAMP_444, 95, 0),
            0);
  std::string text(reinterpret_cast<char *>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return text;
}

std::vector<uint8_t> toNumbers(const std::vector<std::byte> &bytes) {
  const auto *first = reinterpret_cast<const uint8_t *>(bytes.data());
  return {first, first + bytes.size()};
}

class ImageFileTest : public testing::Test {
protected:
  void expectError(const Result<std::vector<std::byte>> &image, ErrorCode code,
                   const std::string &message) {
    ASSERT_FALSE(image) << message;
    EXPECT_EQ(image.getError().code, code) << image.getError().message;
    EXPECT_THAT(image.getError().message, HasSubstr(message));
  }
  TemporaryFolder folder;
  const std::string path = folder / "image";
};

TEST_F(ImageFileTest, png_as_it_is) {
  const std::vector<uint8_t> grey = makePixels(1, 1),
                             colours = makePixels(3, 2),
                             covered = makePixels(4, 3);
  writePng(path, PNG_FORMAT_GRAY, grey);
  EXPECT_EQ(toNumbers(*readPng(path, {rows, columns, 1})), grey);
  const std::vector<uint8_t> same =
      toNumbers(*readPng(path, {rows, columns, 3}));
  for (size_t i = 0; i < same.size(); ++i)
    EXPECT_EQ(same[i], grey[i / 3]);
  writePng(path, PNG_FORMAT_RGB, colours);
  EXPECT_EQ(toNumbers(*readPng(path, {rows, columns, 3})), colours);
  writePng(path, PNG_FORMAT_RGBA, covered);
  const std::vector<uint8_t> open =
      toNumbers(*readPng(path, {rows, columns, 3}));
  for (size_t i = 0; i < open.size(); ++i)
    EXPECT_EQ(open[i], covered[i / 3 * 4 + i % 3]);
}

TEST_F(ImageFileTest, jpeg_nearly_as_it_was) {
  // A smooth image loses little.
  std::vector<uint8_t> grey, colours;
  for (int i = 0; i < rows * columns; ++i) {
    grey.push_back(uint8_t(3 * i));
    for (int channel = 0; channel < 3; ++channel)
      colours.push_back(uint8_t(2 * i + 40 * channel));
  }
  auto expectNear = [](const std::vector<uint8_t> &found,
                       const std::vector<uint8_t> &expected, int channels) {
    ASSERT_EQ(found.size(), expected.size() * size_t(channels));
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i / size_t(channels)], 12);
  };
  writeBytes(path, encodeJpeg(grey, true));
  expectNear(toNumbers(*readJpeg(path, {rows, columns, 1})), grey, 1);
  expectNear(toNumbers(*readJpeg(path, {rows, columns, 3})), grey, 3);
  writeBytes(path, encodeJpeg(colours, false));
  expectNear(toNumbers(*readJpeg(path, {rows, columns, 3})), colours, 1);
}

/// Cyan, magenta, yellow and black: 255 is none of it.
TEST_F(ImageFileTest, inks_become_colours) {
  std::vector<uint8_t> inks, colours;
  for (int i = 0; i < rows * columns; ++i) {
    const std::array<int, 4> ink = {7 * i, 255 - 6 * i, 128, 255 - i};
    for (int each : ink)
      inks.push_back(uint8_t(each));
    for (int each = 0; each < 3; ++each)
      colours.push_back(uint8_t(ink[size_t(each)] * ink[3] / 255));
  }
  const tjhandle encoder = tjInitCompress();
  unsigned char *bytes = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(encoder, inks.data(), columns, 0, rows, TJPF_CMYK,
                        &bytes, &size, TJSAMP_444, 98, 0),
            0);
  writeBytes(path, std::string(reinterpret_cast<char *>(bytes), size));
  tjFree(bytes);
  tjDestroy(encoder);
  const std::vector<uint8_t> found =
      toNumbers(*readJpeg(path, {rows, columns, 3}));
  ASSERT_EQ(found.size(), colours.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], colours[i], 12) << i;
  expectError(readJpeg(path, {rows, columns, 1}), ErrorCode::WrongData,
              "has colours, the input takes one channel");
}

TEST_F(ImageFileTest, what_a_file_is_says_how_it_is_read) {
  const std::vector<uint8_t> grey = makePixels(1, 1);
  writePng(folder / "a.jpg", PNG_FORMAT_GRAY, grey);
  EXPECT_EQ(toNumbers(*readImage(folder / "a.jpg", {rows, columns, 1})), grey);
  writeBytes(folder / "a.png", encodeJpeg(grey, true));
  EXPECT_EQ(*readImage(folder / "a.png", {rows, columns, 1}),
            *readJpeg(folder / "a.png", {rows, columns, 1}));
  auto expect = [&](const std::string &bytes, ErrorCode code,
                    const std::string &message) {
    writeBytes(path, bytes);
    expectError(readImage(path, {rows, columns, 1}), code, message);
  };
  using namespace std::string_literals;
  expect("GIF89a" + std::string(30, '\0'), ErrorCode::WrongData,
         "is a GIF image, expected a PNG or a JPEG image");
  expect("RIFF\x24\0\0\0WEBPVP8 "s + std::string(30, '\0'),
         ErrorCode::WrongData, "is a WebP image");
  expect("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
         ErrorCode::WrongData, "is a pointer of Git LFS");
  expect("no image", ErrorCode::DamagedFile,
         "it begins neither as a PNG nor as a JPEG image does");
  expect("", ErrorCode::DamagedFile, "it begins neither as");
}

TEST_F(ImageFileTest, what_is_refused) {
  writePng(path, PNG_FORMAT_RGB, makePixels(3, 2));
  const std::string png = readBytes(path);
  expectError(readPng(path, {rows, columns, 1}), ErrorCode::WrongData,
              "has colours, the input takes one channel");
  expectError(readPng(path, {columns, rows, 3}), ErrorCode::WrongData,
              "has 5 x 7 pixels, the input takes 7 x 5");
  for (size_t size = 0; size + 12 < png.size(); size += 5) {
    writeBytes(path, png.substr(0, size));
    expectError(readPng(path, {rows, columns, 3}), ErrorCode::DamagedFile,
                "is damaged: ");
  }
  std::string wrong = png;
  wrong[png.size() / 2] = char(wrong[png.size() / 2] ^ 4);
  writeBytes(path, wrong);
  expectError(readPng(path, {rows, columns, 3}), ErrorCode::DamagedFile,
              "is damaged: ");
  writePng(path, PNG_FORMAT_LINEAR_Y,
           std::vector<uint8_t>(2 * rows * columns, 7));
  expectError(readPng(path, {rows, columns, 1}), ErrorCode::WrongData,
              "has 16 bits a channel");
  const std::string jpeg = encodeJpeg(makePixels(3, 4), false);
  writeBytes(path, jpeg);
  expectError(readJpeg(path, {rows, columns, 1}), ErrorCode::WrongData,
              "has colours, the input takes one channel");
  expectError(readJpeg(path, {rows, 8, 3}), ErrorCode::WrongData,
              "has 5 x 7 pixels, the input takes 5 x 8");
  for (size_t size = 0; size + 2 < jpeg.size(); size += 17) {
    writeBytes(path, jpeg.substr(0, size));
    expectError(readJpeg(path, {rows, columns, 3}), ErrorCode::DamagedFile,
                "is damaged: ");
  }
  writeBytes(path, png);
  expectError(readJpeg(path, {rows, columns, 3}), ErrorCode::DamagedFile,
              "is damaged: ");
  expectError(readPng(folder / "none", {rows, columns, 3}),
              ErrorCode::CannotRead, "No such file");
}

class ImageFoldersTest : public testing::Test {
protected:
  ImageFoldersTest() {
    source.input = "x";
    for (const char *place :
         {"train/cat", "train/dog", "train/owl", "test/dog", "test/owl"})
      std::filesystem::create_directories(folder / place);
    writePng(folder / "train/dog/a.png", PNG_FORMAT_RGB, makePixels(3, 1));
    writePng(folder / "train/cat/b.PNG", PNG_FORMAT_RGB, makePixels(3, 2));
    writePng(folder / "train/cat/a.png", PNG_FORMAT_GRAY, makePixels(1, 3));
    writeBytes(folder / "train/owl/a.jpeg",
               encodeJpeg(makePixels(3, 4), false));
    writeBytes(folder / "train/owl/.hidden", "");
    writePng(folder / "test/owl/z.png", PNG_FORMAT_RGB, makePixels(3, 5));
    writePng(folder / "test/dog/z.png", PNG_FORMAT_RGB, makePixels(3, 6));
  }
  Result<Samples> open(exec::DataReader reader, const std::string &split) {
    source.reader = reader;
    source.train = "train";
    const bool hasPixels = reader == exec::DataReader::images;
    return openSamples(
        {source, folder / split, folder.path.string(),
         hasPixels ? std::vector<int64_t>{rows, columns, 3}
                   : std::vector<int64_t>{},
         hasPixels ? exec::ElementType::u8 : exec::ElementType::i32});
  }
  std::vector<int64_t> readClasses(const std::string &split) {
    Result<Samples> opened = open(exec::DataReader::classes, split);
    EXPECT_TRUE(opened) << opened.getError().message;
    std::vector<int64_t> classes;
    for (int64_t i = 0; opened && i < (*opened)->getShape().numSamples; ++i)
      EXPECT_TRUE((*opened)->readInteger(i, classes.emplace_back()));
    return classes;
  }

  TemporaryFolder folder;
  exec::DataSourceT source;
};

TEST_F(ImageFoldersTest, images_and_classes_in_one_order) {
  EXPECT_THAT(readClasses("train"), ElementsAre(0, 0, 1, 2));
  // The numbers are those of the folders for training.
  EXPECT_THAT(readClasses("test"), ElementsAre(1, 2));
  Result<Samples> images = open(exec::DataReader::images, "train");
  ASSERT_TRUE(images) << images.getError().message;
  EXPECT_EQ((*images)->getShape().numSamples, 4);
  std::vector<std::byte> pixels(2 * rows * columns * 3);
  // The second and the third image at once.
  ASSERT_TRUE((*images)->read(rows * columns * 3, pixels));
  std::vector<uint8_t> expected = makePixels(3, 2), third = makePixels(3, 1);
  expected.insert(expected.end(), third.begin(), third.end());
  EXPECT_EQ(toNumbers(pixels), expected);
  // A part of one.
  std::vector<std::byte> part(10);
  ASSERT_TRUE((*images)->read(2 * rows * columns * 3 + 4, part));
  EXPECT_EQ(toNumbers(part),
            std::vector<uint8_t>(third.begin() + 4, third.begin() + 14));
}

/// Of several folders for training the classes of all have numbers, by their
/// names.
TEST_F(ImageFoldersTest, classes_of_several_folders) {
  for (const char *name : {"train2/bee", "train2/owl"})
    std::filesystem::create_directories(folder / name);
  writePng(folder / "train2/bee/a.png", PNG_FORMAT_RGB, makePixels(3, 7));
  writePng(folder / "train2/owl/a.png", PNG_FORMAT_RGB, makePixels(3, 8));
  source.train = "train*";
  source.reader = exec::DataReader::classes;
  auto read = [&](const std::string &split) {
    Result<Samples> opened = openSamples({source,
                                          folder / split,
                                          folder.path.string(),
                                          {},
                                          exec::ElementType::i32});
    EXPECT_TRUE(opened) << opened.getError().message;
    std::vector<int64_t> classes;
    for (int64_t i = 0; opened && i < (*opened)->getShape().numSamples; ++i)
      EXPECT_TRUE((*opened)->readInteger(i, classes.emplace_back()));
    return classes;
  };
  EXPECT_THAT(read("train"), ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(read("train2"), ElementsAre(0, 3));
  EXPECT_THAT(read("test"), ElementsAre(2, 3));
}

TEST_F(ImageFoldersTest, digests_differ_where_files_do) {
  const std::string first =
      *(*open(exec::DataReader::images, "train"))->getDigest(false);
  EXPECT_EQ(first,
            *(*open(exec::DataReader::images, "train"))->getDigest(false));
  std::filesystem::rename(folder / "train/dog/a.png",
                          folder / "train/dog/b.png");
  EXPECT_NE(first,
            *(*open(exec::DataReader::images, "train"))->getDigest(false));
}

TEST_F(ImageFoldersTest, what_is_refused) {
  auto expectError = [&](exec::DataReader reader, const std::string &split,
                         ErrorCode code, const std::string &message) {
    Result<Samples> opened = open(reader, split);
    ASSERT_FALSE(opened) << message;
    EXPECT_EQ(opened.getError().code, code);
    EXPECT_THAT(opened.getError().message, HasSubstr(message));
  };
  expectError(exec::DataReader::images, "none", ErrorCode::CannotRead,
              "none': No such file or directory");
  std::filesystem::create_directories(folder / "test/bee");
  writePng(folder / "test/bee/a.png", PNG_FORMAT_RGB, makePixels(3, 1));
  expectError(exec::DataReader::classes, "test", ErrorCode::WrongData,
              "bee/a.png' is in a class that");
  writeBytes(folder / "test/owl/a.webp", "");
  expectError(exec::DataReader::images, "test", ErrorCode::WrongData,
              "owl/a.webp' is no image, by its name");
  writeBytes(folder / "train/notes.txt", "");
  expectError(exec::DataReader::images, "train", ErrorCode::WrongData,
              "train/notes.txt' is no folder");
  std::filesystem::remove(folder / "train/notes.txt");
  // One of another size shows when it is read.
  writePng(folder / "train/owl/b.png", PNG_FORMAT_RGB, makePixels(3, 1), 5);
  Result<Samples> images = open(exec::DataReader::images, "train");
  ASSERT_TRUE(images);
  std::vector<std::byte> pixels(rows * columns * 3);
  EXPECT_TRUE((*images)->read(3 * rows * columns * 3, pixels));
  Status read = (*images)->read(4 * rows * columns * 3, pixels);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.getError().message,
              HasSubstr("owl/b.png' has 7 x 5 pixels, the input takes 5 x 7"));
}

} // namespace
