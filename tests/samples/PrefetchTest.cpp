/// Batches that are read ahead.

#include "runtime/samples/Prefetch.h"
#include "runtime/app/Session.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <new>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

class PrefetchTest : public testing::Test {
protected:
  PrefetchTest() {
    writeLinearData(folder);
    Result<std::unique_ptr<Session>> created =
        Session::create(LinearModel::makeProgram(3), LinearModel::getKernels(),
                        openCpuDevices, 1);
    EXPECT_TRUE(created);
    session = std::move(*created);
    Result<Dataset> loaded = Dataset::load(
        session->getExecutable(), *session->getExecutable().findProgram("step"),
        Dataset::Split::Train, folder.path.string());
    EXPECT_TRUE(loaded);
    dataset.emplace(std::move(*loaded));
  }

  std::vector<std::byte> read(const std::string &input) {
    const exec::ProgramT &step = *session->getExecutable().findProgram("step");
    return session->read(*findPort(step.inputs, input))->data;
  }

  static void order(int64_t batch, std::span<int64_t> samples) {
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i] = (batch * 31 + int64_t(i) * 7) % 100;
  }

  TemporaryFolder folder;
  std::unique_ptr<Session> session;
  std::optional<Dataset> dataset;
};

TEST_F(PrefetchTest, feeds_what_the_order_says) {
  Prefetch prefetch(*dataset, session->getDevices(), 3, 9, order);
  for (int64_t batch = 3; batch < 9; ++batch) {
    ASSERT_TRUE(prefetch.feed());
    const std::vector<std::byte> x = read("x"), y = read("y");
    std::vector<int64_t> samples(size_t(dataset->getBatchSize()));
    order(batch, samples);
    ASSERT_TRUE(dataset->feed(session->getDevices(), samples));
    EXPECT_EQ(x, read("x")) << batch;
    EXPECT_EQ(y, read("y")) << batch;
  }
}

TEST_F(PrefetchTest, reads_one_batch_ahead_and_no_more) {
  std::atomic<int64_t> last = -1;
  Prefetch prefetch(*dataset, session->getDevices(), 0, 3,
                    [&](int64_t batch, std::span<int64_t> samples) {
                      last = batch;
                      order(batch, samples);
                    });
  for (int64_t batch = 0; batch < 3; ++batch) {
    ASSERT_TRUE(prefetch.feed());
    // Within a minute, on whatever machine, the next one is read.
    const int64_t expected = std::min<int64_t>(batch + 1, 2);
    for (int i = 0; i < 60000 && last < expected; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(last, expected);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(last, expected);
  }
}

TEST_F(PrefetchTest, tells_how_long_a_step_has_waited) {
  std::atomic<bool> isSlow = true;
  Prefetch prefetch(*dataset, session->getDevices(), 0, 2,
                    [&](int64_t batch, std::span<int64_t> samples) {
                      if (isSlow.exchange(false))
                        std::this_thread::sleep_for(
                            std::chrono::milliseconds(20));
                      order(batch, samples);
                    });
  ASSERT_TRUE(prefetch.feed());
  EXPECT_GT(prefetch.getSecondsWaited(), 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ASSERT_TRUE(prefetch.feed());
  EXPECT_EQ(prefetch.getSecondsWaited(), 0);
}

TEST_F(PrefetchTest, may_end_before_all_is_fed) {
  for (int64_t fed = 0; fed < 3; ++fed) {
    Prefetch prefetch(*dataset, session->getDevices(), 0, 1000, order);
    for (int64_t batch = 0; batch < fed; ++batch)
      ASSERT_TRUE(prefetch.feed());
  }
  Prefetch none(*dataset, session->getDevices(), 5, 5, order);
}

/// Files that are too long to be looked at are checked when they are read: here
/// one that is cut off meanwhile.
TEST_F(PrefetchTest, hands_an_error_to_the_step_that_needs_the_batch) {
  const std::string header =
      "\x93NUMPY\x01" + std::string(1, '\0') + "\x76" + std::string(1, '\0');
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': "
                     "(100, 3), }";
  text.resize(117, ' ');
  writeBytes(folder / "train-x",
             header + text + "\n" + std::string(100 * 3 * 4, '\0'));
  exec::ExecutableT &data =
      const_cast<exec::ExecutableT &>(session->getExecutable().data);
  data.data[0]->reader = exec::DataReader::npy;
  Result<Dataset> loaded = Dataset::load(
      session->getExecutable(), *session->getExecutable().findProgram("step"),
      Dataset::Split::Train, folder.path.string());
  ASSERT_TRUE(loaded) << loaded.getError().message;
  // Samples 0 to 11, 12 to 23, 24 to 35, and then one that is gone.
  Prefetch prefetch(
      *loaded, session->getDevices(), 0, 9,
      [&](int64_t batch, std::span<int64_t> samples) {
        if (batch == 3)
          std::filesystem::resize_file(folder / "train-x", 128 + 40 * 3 * 4);
        for (size_t i = 0; i < samples.size(); ++i)
          samples[i] = batch * int64_t(samples.size()) + int64_t(i);
      });
  for (int64_t batch = 0; batch < 3; ++batch)
    EXPECT_TRUE(prefetch.feed());
  Status fed = prefetch.feed();
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.getError().code, ErrorCode::CannotRead);
  EXPECT_THAT(fed.getError().message,
              HasSubstr("train-x': it was changed while it was read"));
}

/// What ends the thread that reads ahead would end the process.
TEST_F(PrefetchTest, hands_on_that_there_is_no_memory) {
  Prefetch prefetch(*dataset, session->getDevices(), 0, 9,
                    [](int64_t batch, std::span<int64_t> samples) {
                      if (batch == 1)
                        throw std::bad_alloc();
                      order(batch, samples);
                    });
  EXPECT_TRUE(prefetch.feed());
  Status fed = prefetch.feed();
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.getError().code, ErrorCode::DoesNotFit);
}

} // namespace
