/// IDX files, sound and damaged.

#include "runtime/samples/Idx.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <sys/resource.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

class IdxTest : public testing::Test {
protected:
  Result<IdxFile> read(const std::string &bytes) {
    writeBytes(folder / "file", bytes);
    return readIdx(folder / "file");
  }
  void expectDamage(const std::string &bytes, const std::string &message) {
    Result<IdxFile> file = read(bytes);
    ASSERT_FALSE(file) << message;
    EXPECT_EQ(file.getError().code, ErrorCode::DamagedFile);
    EXPECT_THAT(file.getError().message, HasSubstr(message));
    EXPECT_THAT(file.getError().message, HasSubstr(folder / "file"));
  }

  TemporaryFolder folder;
};

TEST_F(IdxTest, reads_plain_and_compressed) {
  const std::string bytes = makeIdx({2, 3}, "abcdef");
  for (const std::string &content : {bytes, compress(bytes)}) {
    Result<IdxFile> file = read(content);
    ASSERT_TRUE(file) << file.getError().message;
    EXPECT_EQ(file->sizes, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(file->getItemSize(), 3);
    EXPECT_EQ(file->getElement(4), 'e');
  }
}

TEST_F(IdxTest, reads_every_element_type) {
  auto readOne = [&](char type, const std::string &element) {
    std::string bytes = makeIdx({1}, element);
    bytes[2] = type;
    Result<IdxFile> file = read(bytes);
    EXPECT_TRUE(file) << file.getError().message;
    return file ? file->getElement(0) : -1;
  };
  EXPECT_EQ(readOne(0x08, "\xff"), 255);
  EXPECT_EQ(readOne(0x09, "\xff"), -1);
  EXPECT_EQ(readOne(0x0b, std::string("\x80\x01", 2)), -32767);
  EXPECT_EQ(readOne(0x0c, std::string("\xff\xff\xff\xfe", 4)), -2);
  EXPECT_EQ(readOne(0x0d, std::string("\xbf\xc0\x00\x00", 4)), -1.5);
  EXPECT_EQ(readOne(0x0e, std::string("\x3f\xf8\0\0\0\0\0\0", 8)), 1.5);
}

TEST_F(IdxTest, a_missing_file) {
  Result<IdxFile> file = readIdx(folder / "nothing");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.getError().code, ErrorCode::CannotRead);
  EXPECT_THAT(file.getError().message,
              HasSubstr("nothing': No such file or directory"));
}

TEST_F(IdxTest, a_folder_is_no_file) {
  Result<IdxFile> file = readIdx(folder.path.string());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.getError().code, ErrorCode::CannotRead);
}

TEST_F(IdxTest, damaged_files) {
  const std::string sound = makeIdx({2, 3}, "abcdef");
  expectDamage("", "does not begin as an IDX file");
  expectDamage("no data at all", "does not begin as an IDX file");
  EXPECT_THAT(read("PK\3\4 something").getError().message,
              HasSubstr("is a zip archive, as .npz files and PyTorch's are, "
                        "expected an IDX file"));
  std::string wrongType = sound;
  wrongType[2] = 0x0a;
  expectDamage(wrongType, "element type 0x0a");
  std::string noDims = sound;
  noDims[3] = 0;
  expectDamage(noDims, "no dimensions");
  expectDamage(sound + "g",
               "7 bytes of elements, expected 6 for its sizes 2 x 3");
  expectDamage(makeIdx({1 << 30, 1 << 30, 1 << 30, 1 << 30}, "abc"),
               "3 bytes of elements, expected more than any file has for its "
               "sizes 1073741824 x 1073741824");
  expectDamage(makeIdx({0xffffffff}, "abc"),
               "3 bytes of elements, expected 4294967295 for its sizes");
  // Every way of cutting it off.
  for (size_t size = 0; size < sound.size(); ++size) {
    Result<IdxFile> file = read(sound.substr(0, size));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.getError().code, ErrorCode::DamagedFile);
  }
}

TEST_F(IdxTest, damaged_gzip) {
  std::string elements;
  for (int i = 0; i < 6000; ++i)
    elements += char(i * 7919 >> 3);
  const std::string sound = compress(makeIdx({2, 3000}, elements));
  ASSERT_TRUE(read(sound));
  expectDamage(
      sound + "x",
      fmt::format("gzip: bytes follow its end, which is after {} bytes",
                  sound.size()));
  // Cut off anywhere, or changed anywhere that matters.
  for (size_t size = 2; size < sound.size(); size += 13)
    expectDamage(sound.substr(0, size), "gzip");
  int refused = 0;
  for (size_t i = 0; i < sound.size(); i += 17) {
    std::string damaged = sound;
    damaged[i] = char(damaged[i] ^ 0x20);
    Result<IdxFile> file = read(damaged);
    // Flags, time and system of the header do not change what is read.
    if (file) {
      EXPECT_LT(i, 10u);
      EXPECT_EQ(file->data.size(), elements.size());
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, int(sound.size() / 17) - 3);
}

/// The process's highest use of memory so far, in KiB.
int64_t getPeakKiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// A mebibyte that unpacks to a gibibyte is refused where it goes beyond its
/// sizes, without its memory or time.
TEST_F(IdxTest, gzip_unpacks_to_what_is_declared) {
  constexpr int64_t unpacked = int64_t(1) << 30;
  auto pack = [&](const std::string &header) {
    gzFile file = gzopen((folder / "file").c_str(), "wb1");
    const std::string zeros(size_t(1) << 24, '\0');
    gzwrite(file, header.data(), unsigned(header.size()));
    for (int64_t i = 0; i < unpacked; i += int64_t(zeros.size()))
      gzwrite(file, zeros.data(), unsigned(zeros.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
  };
  pack(makeIdx({2, 3}, ""));
  const int64_t before = getPeakKiB();
  Result<IdxFile> file = readIdx(folder / "file");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.getError().code, ErrorCode::DamagedFile);
  EXPECT_EQ(file.getError().message,
            fmt::format("'{}' is damaged: more than 6 bytes of elements, "
                        "expected 6 for its sizes 2 x 3",
                        folder / "file"));
  EXPECT_LT(getPeakKiB() - before, 64 << 10);
}

/// Sizes that no file of this length can have, packed as it may be.
TEST_F(IdxTest, no_memory_for_what_cannot_be_there) {
  const std::string bytes = makeIdx({1 << 15, 1 << 15}, std::string(1000, 'a'));
  const int64_t before = getPeakKiB();
  expectDamage(bytes, "at most 1000 bytes of elements, expected 1073741824");
  expectDamage(compress(bytes), "bytes of elements, expected 1073741824");
  EXPECT_LT(getPeakKiB() - before, 64 << 10);
}

TEST_F(IdxTest, a_pipe_has_no_size) {
  const std::string bytes = makeIdx({2, 3}, "abcdef");
  for (const std::string &content :
       {bytes, compress(bytes), bytes + "g", bytes.substr(0, 14)}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], content.data(), content.size()),
              ssize_t(content.size()));
    close(ends[1]);
    Result<IdxFile> file = readIdx(fmt::format("/dev/fd/{}", ends[0]));
    close(ends[0]);
    if (content.size() > bytes.size() && content[0] == 0)
      EXPECT_THAT(file.getError().message, HasSubstr(": 7 bytes of elements"));
    else if (content.size() < bytes.size())
      EXPECT_THAT(file.getError().message, HasSubstr(": 2 bytes of elements"));
    else
      EXPECT_TRUE(file) << file.getError().message;
  }
}

TEST_F(IdxTest, an_empty_set_of_samples_is_sound) {
  Result<IdxFile> file = read(makeIdx({0, 0xffffffff, 0xffffffff}, ""));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->getNumItems(), 0);
  Result<IdxFile> huge = read(makeIdx({0, 0xffffffff, 0xffffffff, 7}, ""));
  ASSERT_TRUE(huge);
  EXPECT_EQ(huge->getItemSize(), INT64_MAX);
}

} // namespace
