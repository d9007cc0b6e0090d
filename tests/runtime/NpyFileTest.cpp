/// .npy files in parts, and the files below them.

#include "runtime/data/NpyFile.h"

#include "runtime/data/Npy.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

std::span<const std::byte> asBytes(const std::vector<int32_t> &values) {
  return std::as_bytes(std::span(values));
}

HostArray makeCount(int32_t count) {
  HostArray array{exec::ElementType::i32, {count / 3, 3}, {}};
  for (int32_t i = 0; i < count; ++i) {
    const auto *bytes = reinterpret_cast<const std::byte *>(&i);
    array.data.insert(array.data.end(), bytes, bytes + 4);
  }
  return array;
}

int64_t countFiles(const TemporaryFolder &folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path),
                       std::filesystem::directory_iterator());
}

TEST(NpyFileTest, elements_are_read_from_any_place) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeNpy(folder / "a.npy", makeCount(15)));
  Result<NpyFile> file = NpyFile::open(folder / "a.npy");
  ASSERT_TRUE(file) << file.getError().message;
  EXPECT_EQ(file->getElement(), exec::ElementType::i32);
  EXPECT_EQ(file->getShape(), (std::vector<int64_t>{5, 3}));
  for (int32_t first : {11, 0, 7})
    for (size_t count : {0, 1, 4}) {
      std::vector<int32_t> found(count);
      ASSERT_TRUE(file->read(first, std::as_writable_bytes(std::span(found))));
      for (size_t i = 0; i < count; ++i)
        EXPECT_EQ(found[i], first + int32_t(i));
    }
}

TEST(NpyFileTest, a_pipe_is_read_whole) {
  TemporaryFolder folder;
  const HostArray array = makeCount(15);
  ASSERT_TRUE(writeNpy(folder / "a.npy", array));
  const std::string bytes = readBytes(folder / "a.npy");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  // Gone when the pipe has it.
  std::thread writer([&] {
    EXPECT_EQ(write(ends[1], bytes.data(), bytes.size()), bytes.size());
    close(ends[1]);
  });
  Result<NpyFile> file = NpyFile::open(fmt::format("/dev/fd/{}", ends[0]));
  writer.join();
  close(ends[0]);
  ASSERT_TRUE(file) << file.getError().message;
  std::vector<std::byte> found(12);
  ASSERT_TRUE(file->read(9, found));
  EXPECT_TRUE(std::equal(found.begin(), found.end(), array.data.begin() + 36));
}

TEST(NpyFileTest, files_that_are_none) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeNpy(folder / "a.npy", makeCount(15)));
  const std::string sound = readBytes(folder / "a.npy");
  auto expect = [&](const std::string &bytes, ErrorCode code,
                    const std::string &message) {
    writeBytes(folder / "b.npy", bytes);
    Result<NpyFile> file = NpyFile::open(folder / "b.npy");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.getError().code, code);
    EXPECT_THAT(file.getError().message, HasSubstr(message));
  };
  for (size_t size = 0; size < sound.size(); ++size)
    expect(sound.substr(0, size), ErrorCode::DamagedFile, "b.npy' is damaged");
  expect(sound.substr(0, sound.size() - 1), ErrorCode::DamagedFile,
         "59 bytes of elements, expected 60 for its shape i32[5, 3]");
  expect(sound + "x", ErrorCode::DamagedFile, "61 bytes of elements");
  std::string fortran = sound;
  fortran.replace(fortran.find("False,"), 6, "True, ");
  expect(fortran, ErrorCode::UnsupportedArray, "is in Fortran order");
  std::string objects = sound;
  objects.replace(objects.find("<i4"), 3, "|O8");
  expect(objects, ErrorCode::UnsupportedArray, "elements of type \"|O8\"");
  std::string wide = sound;
  wide.replace(wide.find("(5, 3)"), 6, "(4611686018427387904,3)");
  wide.erase(wide.find("                 "), 17);
  expect(wide, ErrorCode::DamagedFile, "expected more than any file has");
  EXPECT_EQ(NpyFile::open(folder / "c.npy").getError().code,
            ErrorCode::CannotRead);
  EXPECT_EQ(NpyFile::open(folder.path.string()).getError().code,
            ErrorCode::CannotRead);
}

/// Shorter, longer, or with other elements: whatever is read of it then.
TEST(NpyFileTest, a_file_that_changes_is_an_error) {
  TemporaryFolder folder;
  const std::string path = folder / "a.npy";
  for (auto change : std::initializer_list<std::function<void()>>{
           [&] { std::filesystem::resize_file(path, 140); },
           [&] { std::filesystem::resize_file(path, 190); },
           [&] {
             // In the same tick of the clock it would not show.
             usleep(20000);
             std::ofstream(path, std::ios::in | std::ios::out) << "\x93";
           }}) {
    ASSERT_TRUE(writeNpy(path, makeCount(15)));
    Result<NpyFile> file = NpyFile::open(path);
    ASSERT_TRUE(file);
    std::vector<std::byte> found(12);
    EXPECT_TRUE(file->read(2, found));
    change();
    for (int64_t first : {0, 2}) {
      Status read = file->read(first, found);
      ASSERT_FALSE(read);
      EXPECT_EQ(read.getError().code, ErrorCode::CannotRead);
      EXPECT_THAT(read.getError().message,
                  HasSubstr("a.npy': it was changed while it was read"));
    }
  }
}

TEST(NpyFileTest, booleans_are_0_or_1) {
  TemporaryFolder folder;
  HostArray array{exec::ElementType::boolean, {3}, {}};
  array.data = {std::byte(1), std::byte(0), std::byte(2)};
  ASSERT_TRUE(writeNpy(folder / "a.npy", array));
  Result<NpyFile> file = NpyFile::open(folder / "a.npy");
  ASSERT_TRUE(file);
  std::vector<std::byte> found(2);
  EXPECT_TRUE(file->read(0, found));
  Status read = file->read(1, found);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.getError().code, ErrorCode::DamagedFile);
  EXPECT_THAT(read.getError().message, HasSubstr("a boolean is 2"));
}

TEST(NpyWriterTest, parts_in_any_order_appear_as_a_whole) {
  TemporaryFolder folder;
  const std::string path = folder / "a.npy";
  writeBytes(path, "before");
  {
    auto writer =
        NpyWriter::create(path, exec::ElementType::i32, std::vector{5L, 3L});
    ASSERT_TRUE(writer) << writer.getError().message;
    ASSERT_TRUE(writer->write(9, asBytes({9, 10, 11, 12, 13, 14})));
    ASSERT_TRUE(writer->write(0, asBytes({0, 1})));
    ASSERT_TRUE(writer->write(2, asBytes({2, 3, 4, 5, 6, 7, 8})));
    EXPECT_EQ(readBytes(path), "before");
    ASSERT_TRUE(writer->commit());
  }
  ASSERT_TRUE(writeNpy(folder / "b.npy", makeCount(15)));
  EXPECT_EQ(readBytes(path), readBytes(folder / "b.npy"));
  EXPECT_EQ(countFiles(folder), 2);
}

TEST(NpyWriterTest, what_is_not_committed_is_gone) {
  TemporaryFolder folder;
  {
    auto writer = NpyWriter::create(folder / "a.npy", exec::ElementType::i32,
                                    std::vector{2L});
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(0, asBytes({1, 2})));
  }
  EXPECT_EQ(countFiles(folder), 0);
}

TEST(NpyWriterTest, pipes_devices_and_links_are_written_in_place) {
  TemporaryFolder folder;
  auto write = [](const std::string &path) {
    auto writer =
        NpyWriter::create(path, exec::ElementType::i32, std::vector{5L, 3L});
    if (!writer)
      return Status(writer.getError());
    const HostArray array = makeCount(15);
    Status written = writer->write(0, array.data);
    return written ? writer->commit() : written;
  };
  ASSERT_TRUE(writeNpy(folder / "b.npy", makeCount(15)));
  const std::string expected = readBytes(folder / "b.npy");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string found;
  std::thread reader([&] { found = readBytes(folder / "pipe"); });
  EXPECT_TRUE(write(folder / "pipe"));
  reader.join();
  EXPECT_EQ(found, expected);

  // Longer than what is written.
  writeBytes(folder / "a.npy", std::string(1000, 'x'));
  ASSERT_EQ(link((folder / "a.npy").c_str(), (folder / "link").c_str()), 0);
  EXPECT_TRUE(write(folder / "link"));
  EXPECT_EQ(readBytes(folder / "a.npy"), expected);
  EXPECT_EQ(countFiles(folder), 4);
  EXPECT_FALSE(write("/dev/full"));
  EXPECT_TRUE(write("/dev/null"));
  Status written = write(folder / "no/a.npy");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.getError().code, ErrorCode::CannotWrite);
}

/// As on a full disk.
TEST(NpyWriterTest, the_space_is_taken_first) {
  TemporaryFolder folder;
  rlimit unlimited{};
  getrlimit(RLIMIT_FSIZE, &unlimited);
  const rlimit limited{100000, unlimited.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  auto writer = NpyWriter::create(folder / "a.npy", exec::ElementType::f64,
                                  std::vector{100L, 1000L});
  auto small = NpyWriter::create(folder / "a.npy", exec::ElementType::f64,
                                 std::vector{100L, 100L});
  setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.getError().code, ErrorCode::CannotWrite);
  EXPECT_THAT(writer.getError().message, HasSubstr("File too large"));
  EXPECT_TRUE(small);
  EXPECT_EQ(countFiles(folder), 1);
}

TEST(NpyWriterTest, sizes_that_no_file_has) {
  TemporaryFolder folder;
  for (const std::vector<int64_t> &shape :
       {std::vector<int64_t>{int64_t(1) << 40, int64_t(1) << 40},
        {int64_t(1) << 60}}) {
    auto writer =
        NpyWriter::create(folder / "a.npy", exec::ElementType::f64, shape);
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.getError().code, ErrorCode::CannotWrite);
    EXPECT_THAT(writer.getError().message, HasSubstr("no file can have"));
  }
  auto empty = NpyWriter::create(folder / "a.npy", exec::ElementType::f64,
                                 std::vector{0L, int64_t(1) << 60});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->commit());
  EXPECT_EQ(readNpy(folder / "a.npy")->data.size(), 0u);
}

} // namespace
