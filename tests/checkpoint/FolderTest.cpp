/// The folder that is saved into: who has it, what appears and what goes.

#include "runtime/checkpoint/Folder.h"

#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

namespace {

class FolderTest : public testing::Test {
protected:
  SaveFolder lock() {
    Result<SaveFolder> locked = SaveFolder::lock(path);
    EXPECT_TRUE(locked) << locked.getError().message;
    return std::move(*locked);
  }
  std::vector<int64_t> list() {
    Result<std::vector<int64_t>> steps = listSteps(path);
    EXPECT_TRUE(steps);
    return *steps;
  }
  /// A checkpoint with a shard.
  void save(const SaveFolder &folder, int64_t step) {
    Result<std::string> part = folder.begin(step);
    ASSERT_TRUE(part) << part.getError().message;
    writeBytes(*part + "/shard-00000-of-00001.safetensors", "x");
    EXPECT_THAT(list(), testing::Not(testing::Contains(step)));
    ASSERT_TRUE(folder.commit(step, "manifest"));
  }

  TemporaryFolder outside;
  const std::string path = outside / "saved";
};

TEST_F(FolderTest, a_checkpoint_appears_as_a_whole) {
  SaveFolder folder = lock();
  EXPECT_THAT(list(), IsEmpty());
  save(folder, 5);
  EXPECT_THAT(list(), ElementsAre(5));
  EXPECT_EQ(readBytes(path + "/step-00000005/manifest.json"), "manifest");
  EXPECT_FALSE(fs::exists(getPartPath(path, 5)));
  save(folder, 123456789);
  EXPECT_THAT(list(), ElementsAre(5, 123456789));
}

TEST_F(FolderTest, the_last_ones_are_kept) {
  SaveFolder folder = lock();
  for (int64_t step : {9, 10, 100, 1000})
    save(folder, step);
  ASSERT_TRUE(folder.keepLast(5));
  EXPECT_THAT(list(), ElementsAre(9, 10, 100, 1000));
  ASSERT_TRUE(folder.keepLast(2));
  EXPECT_THAT(list(), ElementsAre(100, 1000));
  EXPECT_FALSE(fs::exists(path + "/.step-00000009.old"));
}

TEST_F(FolderTest, what_was_half_written_goes_and_nothing_else) {
  {
    SaveFolder folder = lock();
    save(folder, 1);
    ASSERT_TRUE(folder.begin(2));
    ASSERT_TRUE(folder.begin(3));
    writeBytes(getPartPath(path, 3) + "/shard-00000-of-00001.safetensors", "x");
    ASSERT_TRUE(folder.begin(4));
    writeBytes(getPartPath(path, 4) + "/notes.txt", "mine");
  }
  fs::create_directory(path + "/.step-00000000.old");
  fs::create_directory(path + "/.step-0.part");
  fs::create_directory(path + "/step-7");
  writeBytes(path + "/.part", "mine");
  SaveFolder folder = lock();
  EXPECT_FALSE(fs::exists(getPartPath(path, 2)));
  EXPECT_FALSE(fs::exists(getPartPath(path, 3)));
  EXPECT_FALSE(fs::exists(path + "/.step-00000000.old"));
  EXPECT_EQ(readBytes(getPartPath(path, 4) + "/notes.txt"), "mine");
  EXPECT_TRUE(fs::exists(path + "/.step-0.part"));
  EXPECT_EQ(readBytes(path + "/.part"), "mine");
  EXPECT_THAT(list(), ElementsAre(1));
}

TEST_F(FolderTest, has_one_who_saves_into_it) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    Result<SaveFolder> locked = SaveFolder::lock(path);
    [[maybe_unused]] ssize_t written = write(ready[1], locked ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  Result<SaveFolder> second = SaveFolder::lock(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.getError().code, ErrorCode::FolderInUse);
  EXPECT_THAT(second.getError().message, HasSubstr(path));
  EXPECT_THAT(second.getError().note,
              HasSubstr("process " + std::to_string(child)));
  // Whatever ends a process gives its lock back.
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  lock();
}

TEST_F(FolderTest, what_is_no_folder) {
  auto expect = [](const std::string &where, ErrorCode code,
                   const std::string &words) {
    Result<SaveFolder> locked = SaveFolder::lock(where);
    ASSERT_FALSE(locked) << where;
    EXPECT_EQ(locked.getError().code, code);
    EXPECT_THAT(locked.getError().message, HasSubstr(words));
  };
  writeBytes(outside / "file", "mine");
  expect(outside / "file", ErrorCode::CannotWrite, "Not a directory");
  expect(outside / "missing/deeper", ErrorCode::CannotWrite,
         "No such file or directory");
  expect("/proc/saved", ErrorCode::CannotWrite, "cannot write '/proc/saved'");
  // A lock that leads elsewhere is not followed.
  fs::create_directory(path);
  fs::create_symlink(outside / "file", path + "/lock");
  expect(path, ErrorCode::CannotWrite, "symbolic links");
  EXPECT_EQ(readBytes(outside / "file"), "mine");
}

TEST_F(FolderTest, stored_files_are_plain_files) {
  uint64_t bytes = 0;
  writeBytes(outside / "file", "12345");
  Result<OwnedFile> file = openStored(outside / "file", bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(bytes, 5u);
  std::vector<std::byte> target(4);
  EXPECT_TRUE(readFully(*file, 1, target, "file"));
  EXPECT_EQ(char(target[0]), '2');
  Status past = readFully(*file, 2, target, "file");
  ASSERT_FALSE(past);
  EXPECT_EQ(past.getError().code, ErrorCode::DamagedFile);
  EXPECT_THAT(past.getError().message, HasSubstr("it ends at byte 5"));

  auto expect = [&](const std::string &name, ErrorCode code) {
    Result<OwnedFile> opened = openStored(outside / name, bytes);
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.getError().code, code) << name;
  };
  expect("missing", ErrorCode::CannotRead);
  fs::create_symlink(outside / "file", outside / "link");
  expect("link", ErrorCode::DamagedFile);
  fs::create_directory(outside / "folder");
  expect("folder", ErrorCode::DamagedFile);
  ASSERT_EQ(mkfifo((outside / "pipe").c_str(), 0600), 0);
  expect("pipe", ErrorCode::DamagedFile);
}

} // namespace
