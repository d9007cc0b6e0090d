/// What signals do before, within and behind the steps of a training.

#include "runtime/io/StopSignals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

namespace {

class StopSignalsTest : public testing::Test {
protected:
  StopSignals::Actions getActions() {
    return {[this](const Error &error) {
              std::lock_guard<std::mutex> lock(mutex);
              ends.push_back(error);
              changed.notify_all();
            },
            [this](int signal) { forwarded.push_back(signal); }};
  }
  /// The messages of the ends so far, once there are as many.
  std::vector<std::string> waitForEnds(size_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(10),
                     [&] { return ends.size() >= count; });
    std::vector<std::string> messages;
    for (const Error &error : ends)
      messages.push_back(error.message);
    return messages;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Error> ends;
  std::vector<int> forwarded;
};

TEST_F(StopSignalsTest, outside_of_steps_they_end_at_once) {
  StopSignals signals("before the first step", getActions());
  kill(getpid(), SIGINT);
  EXPECT_EQ(waitForEnds(1), std::vector<std::string>{
                                "stopped by SIGINT before the first step"});
  signals.setWhen("later");
  kill(getpid(), SIGTERM);
  EXPECT_EQ(waitForEnds(2)[1], "stopped by SIGTERM later");
  signals.setWhen("");
  kill(getpid(), SIGHUP);
  EXPECT_EQ(waitForEnds(3)[2], "stopped by SIGHUP");
  EXPECT_EQ(ends[0].code, ErrorCode::Interrupted);
  EXPECT_EQ(ends[1].code, ErrorCode::Terminated);
  EXPECT_EQ(ends[2].code, ErrorCode::HungUp);
  EXPECT_TRUE(forwarded.empty());
}

TEST_F(StopSignalsTest, within_steps_they_wait) {
  StopSignals signals("before", getActions());
  signals.beginSteps();
  EXPECT_EQ(signals.getRequested(), 0);
  kill(getpid(), SIGTERM);
  // It has come before kill() returned.
  EXPECT_EQ(signals.getRequested(), SIGTERM);
  // Of the same moment: a launcher passes on what the terminal has sent too.
  kill(getpid(), SIGINT);
  EXPECT_EQ(signals.getRequested(), SIGTERM);
  EXPECT_EQ(forwarded, std::vector<int>{SIGTERM});
  const Error error = signals.stop(SIGTERM, "after step 3");
  EXPECT_EQ(error.message, "stopped by SIGTERM after step 3");
  EXPECT_EQ(error.note, "");
  kill(getpid(), SIGINT);
  signals.endSteps("behind");
  EXPECT_TRUE(waitForEnds(0).empty());
}

TEST_F(StopSignalsTest, a_second_one_does_not_wait) {
  StopSignals signals("before", getActions());
  signals.beginSteps();
  kill(getpid(), SIGINT);
  EXPECT_EQ(signals.getRequested(), SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  kill(getpid(), SIGINT);
  EXPECT_EQ(waitForEnds(1), std::vector<std::string>{
                                "stopped by SIGINT for the second time, within "
                                "a step"});
}

TEST_F(StopSignalsTest, one_that_no_step_has_asked_for_ends_behind_them) {
  StopSignals signals("before", getActions());
  signals.beginSteps();
  kill(getpid(), SIGINT);
  EXPECT_EQ(signals.getRequested(), SIGINT);
  signals.endSteps("during the evaluation");
  EXPECT_EQ(waitForEnds(1), std::vector<std::string>{
                                "stopped by SIGINT during the evaluation"});
}

TEST_F(StopSignalsTest, other_ranks_are_heard) {
  StopSignals signals("before", getActions());
  signals.beginSteps();
  signals.request(2, SIGINT);
  EXPECT_EQ(signals.getRequested(), SIGINT);
  // Neither is another one's a second signal, nor the first of one's own.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  signals.request(1, SIGINT);
  kill(getpid(), SIGINT);
  EXPECT_EQ(signals.getRequested(), SIGINT);
  EXPECT_TRUE(waitForEnds(0).empty());
  EXPECT_EQ(signals.stop(SIGINT, "after step 3").note, "rank 2 got the signal");
  EXPECT_TRUE(forwarded.empty());
}

TEST_F(StopSignalsTest, other_ranks_are_heard_outside_of_steps) {
  StopSignals signals("before the first step", getActions());
  signals.request(3, SIGTERM);
  EXPECT_EQ(waitForEnds(1), std::vector<std::string>{
                                "stopped by SIGTERM before the first step"});
  EXPECT_EQ(ends[0].note, "rank 3 got the signal");
}

TEST_F(StopSignalsTest, what_came_before_is_taken) {
  StopSignals::block();
  kill(getpid(), SIGINT);
  StopSignals signals("before the first step", getActions());
  EXPECT_EQ(waitForEnds(1).size(), 1u);
}

TEST_F(StopSignalsTest, nohup_is_respected) {
  struct sigaction ignore {
  }, previous{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &previous);
  // Blocked, it would wait for one who takes it.
  sigset_t hangUp;
  sigemptyset(&hangUp);
  sigaddset(&hangUp, SIGHUP);
  pthread_sigmask(SIG_UNBLOCK, &hangUp, nullptr);
  {
    StopSignals signals("before", getActions());
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGINT);
    EXPECT_EQ(waitForEnds(1),
              std::vector<std::string>{"stopped by SIGINT before"});
  }
  sigaction(SIGHUP, &previous, nullptr);
}

} // namespace
