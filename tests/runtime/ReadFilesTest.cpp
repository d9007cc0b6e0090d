/// What is opened to be read, and what a file is by how it begins.

#include "runtime/io/File.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/RandomAccessFile.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;
using namespace std::string_literals;

namespace {

/// Nothing writes to the pipe, the device has no end: none is waited for.
TEST(ReadFilesTest, what_is_no_plain_file_is_refused) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((folder / "folder").c_str(), 0700), 0);
  ASSERT_EQ(symlink("pipe", (folder / "link").c_str()), 0);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = folder / "socket";
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, name.c_str());
  ASSERT_EQ(
      bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)),
      0);
  for (const auto &[path, kind] : {std::pair(folder / "pipe", "a pipe"),
                                   {folder / "link", "a pipe"},
                                   {folder / "folder", "a folder"},
                                   {name, "a socket"},
                                   {std::string("/dev/zero"), "a device"},
                                   {std::string("/dev/null"), "a device"}}) {
    const std::string expected =
        fmt::format("cannot read '{}': it is {}, expected a file", path, kind);
    for (const Error &error : {RandomAccessFile::open(path).getError(),
                               FileReader::open(path).getError()}) {
      EXPECT_EQ(error.code, ErrorCode::CannotRead);
      EXPECT_EQ(error.message, expected);
    }
  }
  close(listener);
  EXPECT_THAT(FileReader::open(folder / "none").getError().message,
              HasSubstr("No such file or directory"));
}

/// A pipe that a shell has made is read once, from the first byte to the last.
TEST(ReadFilesTest, pipes_without_a_name) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string path = fmt::format("/dev/fd/{}", ends[0]);
  EXPECT_THAT(RandomAccessFile::open(path).getError().message,
              HasSubstr("it is a pipe"));
  Result<std::unique_ptr<FileReader>> reader = FileReader::open(path);
  ASSERT_TRUE(reader);
  EXPECT_FALSE((*reader)->getMost());
  // What is not there yet is waited for.
  std::thread writer([&] {
    for (const char *part : {"abc", "def"}) {
      usleep(20000);
      EXPECT_EQ(write(ends[1], part, 3), 3);
    }
    close(ends[1]);
  });
  Result<std::vector<std::byte>> bytes = readAll(**reader, path);
  writer.join();
  close(ends[0]);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(
      std::string(reinterpret_cast<const char *>(bytes->data()), bytes->size()),
      "abcdef");
}

std::string_view findKind(const std::string &bytes) {
  return findFileKind(
      std::as_bytes(std::span(bytes)).first(std::min(kindBytes, bytes.size())),
      bytes.size());
}

/// As the formats' own writers make them.
TEST(FileKindTest, kinds_by_their_marks) {
  const std::string rest(600, '\1');
  const std::string idx = "\0\0\x0b\2\0\0\0\2\0\0\0\3"s + std::string(12, '\7');
  const std::string tar = "a.txt" + std::string(252, '\0') + "ustar\0"s + rest;
  const std::string json = "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],"
                           "\"data_offsets\":[0,0]}}";
  for (const auto &[bytes, kind] :
       {std::pair("\x93NUMPY\1\0"s + rest, "a NumPy array (.npy)"),
        {"PK\3\4\x14\0"s + rest, "a zip archive, as .npz files and PyTorch's"},
        {compress(rest), "packed with gzip"},
        {"\xff\xd8\xff\xe0\0\x10JFIF\0"s + rest, "a JPEG image"},
        {"\x89PNG\r\n\x1a\n" + rest, "a PNG image"},
        {"PAR1\x15\4\x15" + rest, "a Parquet table"},
        {"ARROW1\0\0"s + rest, "an Arrow table"},
        {"\xff\xff\xff\xff\x80\0\0\0\x10\0\0\0"s + rest, "an Arrow table"},
        {"\x28\0\0\0\0\0\0\0{\"__metadata__\":{}"s + rest, "a safetensors"},
        {std::string(1, char(json.size())) + std::string(7, '\0') + json,
         "a safetensors"},
        {idx, "an IDX file"},
        {tar, "a tar archive"},
        {"BZh91AY&SY" + rest, "packed with bzip2"},
        {"\x89HDF\r\n\x1a\n" + rest, "an HDF5 file"}})
    EXPECT_THAT(std::string(findKind(bytes)), testing::StartsWith(kind));
}

/// Ids, numbers and texts have none of the marks.
TEST(FileKindTest, numbers_have_no_kind) {
  std::mt19937 random(1);
  auto find = [](const auto &numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    return findNumbersKind(bytes.first(std::min(kindBytes, bytes.size())),
                           bytes.size());
  };
  for (int most : {10, 256, 50257, 65536})
    for (int round = 0; round < 2000; ++round) {
      std::vector<uint16_t> ids(300);
      for (uint16_t &id : ids)
        id = uint16_t(random() % unsigned(most));
      EXPECT_EQ(find(ids), "");
      EXPECT_EQ(find(std::vector<int32_t>(ids.begin(), ids.end())), "");
    }
  // The same id over and over, as padding is, and the marks of GPT-2's ends.
  for (int id = 0; id < 65536; ++id)
    EXPECT_EQ(find(std::vector<uint16_t>(300, uint16_t(id))), "");
  // Gzip's mark alone is that of an id.
  EXPECT_EQ(find(std::vector<uint16_t>{0x8b1f, 8, 0x100, 77, 1, 2, 3, 4, 5}),
            "");
  EXPECT_EQ(find("12 7 50256 11\n3 8 1 1 4 5 6 7 8 9\n"s), "text");
  EXPECT_EQ(findKind("12 7 50256 11\n3 8 1 1 4 5 6 7 8 9\n"), "");
  EXPECT_EQ(find(""s), "");
}

} // namespace
