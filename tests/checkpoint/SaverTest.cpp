/// Saving beside a training: what is copied when, how much memory it takes, and
/// what becomes of it where the disk does not take it.

#include "runtime/checkpoint/Saver.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "tests/checkpoint/StateProgram.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/RankThreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <sys/resource.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

namespace {

class SaverTest : public testing::Test {
protected:
  std::unique_ptr<Saver> create(Session &session,
                                SaveRequest request = SaveRequest()) {
    request.folder = path;
    Result<std::unique_ptr<Saver>> saver =
        Saver::create(session.getDevices(), nullptr, request, position,
                      /*resumesFromFolder=*/false);
    EXPECT_TRUE(saver) << saver.getError().message;
    return std::move(*saver);
  }
  std::vector<int64_t> list() { return *listSteps(path); }

  TemporaryFolder outside;
  const std::string path = outside / "saved";
  TrainingPosition position;
};

TEST_F(SaverTest, saves_the_state_of_the_call) {
  std::unique_ptr<Session> session = makeStateSession({3});
  std::unique_ptr<Saver> saver = create(*session);
  const State state = makeState(session->getExecutable(), 1);
  setState(*session, state);
  ASSERT_TRUE(saver->save(1));
  // What changes now is of the next one.
  setState(*session, makeState(session->getExecutable(), 2));
  ASSERT_TRUE(saver->save(2));
  ASSERT_TRUE(saver->save(2)); // is there
  ASSERT_TRUE(saver->finish());
  EXPECT_THAT(list(), ElementsAre(1, 2));
  Result<Checkpoint> checkpoint = Checkpoint::open(path + "/step-00000001");
  ASSERT_TRUE(checkpoint);
  ASSERT_TRUE(checkpoint->load(session->getDevices()));
  EXPECT_EQ(getState(*session), state);
}

TEST_F(SaverTest, is_due_every_so_many_steps_or_seconds) {
  std::unique_ptr<Session> session = makeStateSession({});
  {
    std::unique_ptr<Saver> saver = create(*session);
    EXPECT_FALSE(saver->isDue(1000));
  }
  {
    SaveRequest request;
    request.everySteps = 5;
    std::unique_ptr<Saver> saver = create(*session, request);
    EXPECT_FALSE(saver->isDue(4));
    EXPECT_TRUE(saver->isDue(5));
    EXPECT_FALSE(saver->isDue(6));
  }
  SaveRequest request;
  request.everySeconds = 0.05;
  std::unique_ptr<Saver> saver = create(*session, request);
  EXPECT_FALSE(saver->isDue(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_TRUE(saver->isDue(2));
  ASSERT_TRUE(saver->save(2));
  EXPECT_FALSE(saver->isDue(3));
}

TEST_F(SaverTest, keeps_the_last_ones) {
  std::unique_ptr<Session> session = makeStateSession({});
  SaveRequest request;
  request.keep = 2;
  std::unique_ptr<Saver> saver = create(*session, request);
  for (int64_t step = 1; step <= 5; ++step)
    ASSERT_TRUE(saver->save(step));
  ASSERT_TRUE(saver->finish());
  EXPECT_THAT(list(), ElementsAre(4, 5));
}

TEST_F(SaverTest, does_not_replace_what_others_have_saved) {
  std::unique_ptr<Session> session = makeStateSession({});
  ASSERT_TRUE(create(*session)->save(7));
  auto expect = [&](int64_t step, bool resumes, const std::string &words) {
    position.step = step;
    SaveRequest request;
    request.folder = path;
    Result<std::unique_ptr<Saver>> saver = Saver::create(
        session->getDevices(), nullptr, request, position, resumes);
    EXPECT_EQ(bool(saver), words.empty());
    if (!saver) {
      EXPECT_EQ(saver.getError().code, ErrorCode::HasCheckpoints);
      EXPECT_THAT(saver.getError().message, HasSubstr(words));
    }
  };
  expect(0, false, "has checkpoints, the last one of step 7");
  expect(9, false, "has checkpoints, the last one of step 7");
  expect(5, true, "training is to go on from step 5");
  expect(7, true, "");
}

/// Of 3 x 5 x 2 MiB elements, which no buffer of 8 MiB holds.
TEST_F(SaverTest, a_state_that_no_buffer_holds_is_written_through_it) {
  std::unique_ptr<Session> session =
      makeStateSession({3}, nullptr, /*bigRows=*/int64_t(3) << 20);
  const State state = makeState(session->getExecutable(), 3);
  setState(*session, state);
  SaveRequest request;
  request.bufferBytes = uint64_t(8) << 20;
  std::unique_ptr<Saver> saver = create(*session, request);
  std::vector<uint64_t> told; // as it goes on
  uint64_t most = 0;
  auto listen = [&](uint64_t bytes, uint64_t allBytes) {
    told.push_back(bytes);
    most = allBytes;
  };
  saver->listen(listen);
  ASSERT_TRUE(saver->save(1));
  // The last pieces wait for those before: 8 MiB are on their way at most.
  ASSERT_FALSE(told.empty());
  EXPECT_GE(told.back() + request.bufferBytes + pieceBytes, most);
  ASSERT_TRUE(saver->finish());
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_LE(told.back(), most);
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint);
  EXPECT_GT(checkpoint->getManifest().getBytes(), uint64_t(100) << 20);
  EXPECT_GE(most, checkpoint->getManifest().getBytes());
  told.clear();
  ASSERT_TRUE(checkpoint->verify(listen));
  EXPECT_EQ(told.size(),
            (checkpoint->getManifest().files[0].bytes - 1) / pieceBytes + 1);
  EXPECT_EQ(told.back(), most);
  told.clear();
  std::unique_ptr<Session> other =
      makeStateSession({2, 2}, nullptr, int64_t(3) << 20);
  ASSERT_TRUE(checkpoint->load(other->getDevices(), listen));
  EXPECT_EQ(getState(*other), state);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), most);
}

/// Files end at a limit, as they would on a full disk.
class FileLimit {
public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &previous);
    const rlimit limit = {bytes, previous.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &previous); }

private:
  rlimit previous{};
};

TEST_F(SaverTest, a_full_disk_leaves_what_was_saved_before) {
  std::unique_ptr<Session> session =
      makeStateSession({2}, nullptr, /*bigRows=*/100000);
  const State state = makeState(session->getExecutable(), 1);
  setState(*session, state);
  for (rlim_t bytes : {rlim_t(100), rlim_t(1) << 20}) {
    fs::remove_all(path);
    std::unique_ptr<Saver> saver = create(*session);
    ASSERT_TRUE(saver->save(1));
    ASSERT_TRUE(saver->finish());
    FileLimit limit(bytes);
    Status saved = saver->save(2);
    if (saved)
      saved = saver->finish();
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.getError().code, ErrorCode::CannotWrite);
    EXPECT_EQ(int(getExitCode(saved.getError().code)), 1);
    EXPECT_THAT(saved.getError().message, HasSubstr(".step-00000002.part"));
    // Training hears of it at its next step.
    EXPECT_FALSE(saver->check());
    EXPECT_FALSE(saver->save(3));
    EXPECT_THAT(list(), ElementsAre(1));
    EXPECT_FALSE(fs::exists(getPartPath(path, 2)));
    Result<Checkpoint> checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint);
    EXPECT_TRUE(checkpoint->verify());
  }
}

TEST_F(SaverTest, the_folder_may_go_while_training_goes_on) {
  std::unique_ptr<Session> session = makeStateSession({2});
  std::unique_ptr<Saver> saver = create(*session);
  fs::remove_all(path);
  Status finished = saver->save(1); // may have failed already
  if (finished)
    finished = saver->finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.getError().code, ErrorCode::CannotWrite);
  EXPECT_THAT(finished.getError().message, HasSubstr(path));
}

TEST_F(SaverTest, processes_have_one_folder) {
  TemporaryFolder another;
  runRanks(2, [&](Ranks &ranks) {
    std::unique_ptr<Session> session = makeStateSession({2}, &ranks);
    SaveRequest request;
    request.folder = ranks.isFirst() ? path : another.path.string();
    Result<std::unique_ptr<Saver>> saver =
        Saver::create(session->getDevices(), &ranks, request, position, false);
    ASSERT_FALSE(saver);
    EXPECT_EQ(saver.getError().code, ErrorCode::RanksDiffer);
    EXPECT_THAT(saver.getError().note, HasSubstr(another / "lock"));
  });
}

} // namespace
