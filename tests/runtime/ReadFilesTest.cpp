/// What is opened to be read.

#include "runtime/io/File.h"
#include "runtime/io/RandomAccessFile.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

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

} // namespace
