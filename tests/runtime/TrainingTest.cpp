/// A whole training run of a model written by hand.

#include "runtime/app/Training.h"

#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <regex>
#include <sstream>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

namespace {

std::unique_ptr<Session> makeSession(int64_t devices, int threads = 2) {
  std::vector<uint8_t> program = LinearModel::makeProgram(devices);
  Result<std::unique_ptr<Session>> session = Session::create(
      program, LinearModel::getKernels(), openCpuDevices, threads);
  EXPECT_TRUE(session) << session.getError().message;
  return std::move(*session);
}

double getNumber(const std::string &line, const std::string &key) {
  size_t place = line.find("\"" + key + "\": ");
  EXPECT_NE(place, std::string::npos) << key << " in " << line;
  return std::stod(line.substr(place + key.size() + 4));
}

struct Outcome {
  Status status = Status::success();
  std::string output;
  std::string progress;
  std::vector<std::string> metrics;
  std::vector<std::string> ends; ///< that signals asked for at once
};

Outcome runTraining(Session &session, TrainingRequest request,
                    const TemporaryFolder &folder) {
  request.dataFolder = folder.path.string();
  request.metrics.linesPath = folder / "metrics.jsonl";
  Outcome outcome;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  StopSignals signals(
      "before the first step",
      {[&](const Error &error) { outcome.ends.push_back(error.message); },
       nullptr});
  request.signals = &signals;
  outcome.status = train(session, request);
  // One that comes when the training has been stopped changes nothing.
  if (!outcome.status)
    kill(getpid(), SIGINT);
  outcome.output = testing::internal::GetCapturedStdout();
  outcome.progress = testing::internal::GetCapturedStderr();
  std::istringstream lines(readBytes(request.metrics.linesPath));
  for (std::string line; std::getline(lines, line);)
    outcome.metrics.push_back(line);
  return outcome;
}

TEST(TrainingTest, learns_and_evaluates) {
  TemporaryFolder folder;
  writeLinearData(folder);
  std::unique_ptr<Session> session = makeSession(2);
  Outcome outcome = runTraining(*session, {}, folder);
  ASSERT_TRUE(outcome.status) << outcome.status.getError().message;
  // 100 samples make 8 whole batches of 12 in each of 30 epochs.
  ASSERT_EQ(outcome.metrics.size(), 240u);
  EXPECT_EQ(getNumber(outcome.metrics[0], "step"), 1);
  EXPECT_EQ(getNumber(outcome.metrics[8], "epoch"), 2);
  EXPECT_GT(getNumber(outcome.metrics[0], "loss"), 3);
  // What is left is the rounding of the labels: variance 1/12.
  EXPECT_LT(getNumber(outcome.metrics.back(), "loss"), 0.2);
  EXPECT_GT(getNumber(outcome.metrics.back(), "samples_per_s"), 0);
  EXPECT_THAT(outcome.output,
              HasSubstr("evaluated 31 of 31 test samples, in batches of 12\n"));
  EXPECT_THAT(outcome.output, HasSubstr("test loss 0."));
  EXPECT_TRUE(std::regex_search(outcome.output,
                                std::regex("test accuracy \\d+\\.\\d %\n")))
      << outcome.output;
  EXPECT_TRUE(std::regex_search(
      outcome.progress, std::regex("epoch 30/30  step 8/8  loss 0\\.\\d+  "
                                   "[1-9]\\d* samples/s  0 s left")))
      << outcome.progress;
}

TEST(TrainingTest, every_mesh_trains_on_the_same_batches) {
  TemporaryFolder folder;
  writeLinearData(folder);
  std::vector<std::string> expected;
  for (int64_t devices : {1, 2, 3, 4}) {
    std::unique_ptr<Session> session = makeSession(devices);
    TrainingRequest request;
    request.seed = 7;
    Outcome outcome = runTraining(*session, request, folder);
    ASSERT_TRUE(outcome.status);
    if (devices == 1)
      expected = outcome.metrics;
    ASSERT_EQ(outcome.metrics.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      // Sums of twelve terms in another order, over 240 contracting steps.
      EXPECT_NEAR(getNumber(outcome.metrics[i], "loss"),
                  getNumber(expected[i], "loss"), 1e-4)
          << devices << " devices, step " << i + 1;
    }
  }
}

/// Evaluations while a training runs change nothing of it, and are those that
/// it would give in the end.
TEST(TrainingTest, evaluations_change_no_number) {
  TemporaryFolder folder;
  writeLinearData(folder);
  auto run = [&](int64_t steps, std::optional<int64_t> every) {
    TrainingRequest request;
    request.steps = steps;
    request.evalEvery = every;
    request.evalBatches = 2;
    Outcome outcome = runTraining(*makeSession(3), request, folder);
    EXPECT_TRUE(outcome.status) << outcome.status.getError().message;
    for (std::string &line : outcome.metrics)
      line = std::regex_replace(line, std::regex(", \"samples_per_s.*"), "");
    return outcome;
  };
  const Outcome plain = run(10, std::nullopt), tested = run(10, 4);
  ASSERT_EQ(tested.metrics.size(), 10u);
  for (int64_t step = 1; step <= 10; ++step) {
    const std::string &line = tested.metrics[size_t(step - 1)];
    const bool isTested = step == 4 || step == 8 || step == 10;
    EXPECT_EQ(line.find("\"test/") != std::string::npos, isTested) << line;
    EXPECT_EQ(line.substr(0, line.find(", \"test/")),
              plain.metrics[size_t(step - 1)]);
    if (!isTested)
      continue;
    const std::string output = run(step, std::nullopt).output;
    EXPECT_THAT(output, HasSubstr(fmt::format("test loss {:.4g}\n",
                                              getNumber(line, "test/loss"))));
    EXPECT_THAT(output,
                HasSubstr(fmt::format("test accuracy {:.1f} %\n",
                                      100 * getNumber(line, "test/accuracy"))));
  }
  EXPECT_EQ(tested.output, plain.output);
  EXPECT_THAT(tested.progress, ContainsRegex("step 10/10  loss [0-9.]+  test "
                                             "loss [0-9.]+  [0-9]+ samples/s"));
  // Behind each step, the last one once.
  EXPECT_EQ(run(3, 1).output, run(3, std::nullopt).output);
}

TEST(TrainingTest, seeds_change_the_run_and_repeat_it) {
  TemporaryFolder folder;
  writeLinearData(folder);
  auto run = [&](int64_t seed) {
    TrainingRequest request;
    request.seed = seed;
    request.steps = 9;
    std::vector<double> losses;
    for (const std::string &line :
         runTraining(*makeSession(2), request, folder).metrics)
      losses.push_back(getNumber(line, "loss"));
    return losses;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
  // Parameters from seeds 3 and 13 are the same, the order of samples is not.
  EXPECT_NE(run(3), run(13));
}

TEST(TrainingTest, steps_and_epochs) {
  TemporaryFolder folder;
  writeLinearData(folder);
  TrainingRequest request;
  request.steps = 11;
  EXPECT_EQ(runTraining(*makeSession(1), request, folder).metrics.size(), 11u);
  request.steps.reset();
  request.epochs = 2;
  EXPECT_EQ(runTraining(*makeSession(1), request, folder).metrics.size(), 16u);
  request.epochs = 0;
  Outcome none = runTraining(*makeSession(1), request, folder);
  EXPECT_TRUE(none.status);
  EXPECT_TRUE(none.metrics.empty());
  EXPECT_THAT(none.output, HasSubstr("test loss"));
}

TEST(TrainingTest, steps_are_counted_to_those_asked_for) {
  TemporaryFolder folder;
  writeLinearData(folder);
  TrainingRequest request;
  request.steps = 11;
  EXPECT_THAT(runTraining(*makeSession(1), request, folder).progress,
              ContainsRegex("epoch 1/2  step 8/11  .*\nepoch 2/2  step 11/11 "
                            " loss"));
  request.steps = 3;
  EXPECT_THAT(runTraining(*makeSession(1), request, folder).progress,
              HasSubstr("epoch 1/1  step 3/3  loss"));
}

TEST(TrainingTest, without_evaluation_test_files_are_not_read) {
  TemporaryFolder folder;
  writeLinearData(folder);
  std::filesystem::remove(folder / "test-x");
  TrainingRequest request;
  request.epochs = 1;
  EXPECT_FALSE(runTraining(*makeSession(1), request, folder).status);
  request.evaluates = false;
  Outcome outcome = runTraining(*makeSession(1), request, folder);
  EXPECT_TRUE(outcome.status) << outcome.status.getError().message;
  EXPECT_EQ(outcome.metrics.size(), 8u);
  EXPECT_EQ(outcome.output, "");
}

TEST(TrainingTest, an_interrupt_ends_after_the_step) {
  TemporaryFolder folder;
  writeLinearData(folder);
  std::unique_ptr<Session> session = makeSession(2);
  stepsToInterrupt = 13;
  Outcome outcome = runTraining(*session, {}, folder);
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.getError().code, ErrorCode::Interrupted);
  EXPECT_EQ(outcome.status.getError().message,
            "stopped by SIGINT after epoch 2, step 5 of 8 (step 13 of 240 in "
            "all)");
  EXPECT_EQ(outcome.metrics.size(), 13u);
  EXPECT_EQ(outcome.output, "");
  // A rank may get its signal after the one that decides for all.
  EXPECT_TRUE(outcome.ends.empty());
}

TEST(TrainingTest, an_interrupt_leaves_what_products_keep_below_the_stack) {
  TemporaryFolder folder;
  writeLinearData(folder);
  stepsToInterrupt = 2;
  bytesBelowStackChanged = 1;
  Outcome outcome = runTraining(*makeSession(2, /*threads=*/1), {}, folder);
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.getError().code, ErrorCode::Interrupted);
  EXPECT_EQ(bytesBelowStackChanged, 0u);
}

TEST(TrainingTest, only_the_thread_that_trains_takes_interrupts) {
  TemporaryFolder folder;
  writeLinearData(folder);
  updatesOpenToSignals = 0;
  ASSERT_TRUE(runTraining(*makeSession(4, /*threads=*/3), {}, folder).status);
  EXPECT_EQ(updatesOpenToSignals, 0);
}

/// How often `text` is in `whole`.
int count(const std::string &whole, const std::string &text) {
  int found = 0;
  for (size_t place = 0; (place = whole.find(text, place)) != std::string::npos;
       ++place)
    ++found;
  return found;
}

TEST(TrainingTest, a_loss_that_is_none_is_told_once) {
  TemporaryFolder folder;
  writeLinearData(folder);
  TrainingRequest request;
  request.epochs = 2;
  stepsToNan = 10;
  Outcome outcome = runTraining(*makeSession(2), request, folder);
  EXPECT_TRUE(outcome.status) << outcome.status.getError().message;
  EXPECT_EQ(outcome.metrics.size(), 16u);
  EXPECT_THAT(outcome.metrics[9], Not(HasSubstr("\"loss\": null")));
  EXPECT_THAT(outcome.metrics[10], HasSubstr("\"loss\": null"));
  EXPECT_THAT(outcome.progress,
              HasSubstr("meshc: warning: loss 'loss' is nan in epoch 2, step 3 "
                        "of 8 (step 11 of 16 in all)"));
  EXPECT_EQ(count(outcome.progress, "warning"), 1);
  EXPECT_THAT(outcome.output, HasSubstr("test loss nan"));
}

TEST(TrainingTest, a_loss_that_is_none_can_end_it) {
  TemporaryFolder folder;
  writeLinearData(folder);
  TrainingRequest request;
  request.epochs = 2;
  request.failsOnNan = true;
  EXPECT_TRUE(runTraining(*makeSession(2), request, folder).status);
  // At the end, only the evaluation sees it.
  for (auto [steps, where] :
       {std::pair{10, "in epoch 2, step 3 of 8 (step 11 of 16 in all)"},
        std::pair{16, "on the test split"}}) {
    stepsToNan = steps;
    Outcome outcome = runTraining(*makeSession(2), request, folder);
    ASSERT_FALSE(outcome.status);
    EXPECT_EQ(outcome.status.getError().code, ErrorCode::LossNotFinite);
    EXPECT_EQ(outcome.status.getError().message,
              std::string("loss 'loss' is nan ") + where);
    // What led there is kept.
    EXPECT_EQ(outcome.metrics.size(), size_t(std::min(steps + 1, 16)));
    EXPECT_EQ(count(outcome.progress, "warning"), 0);
  }
}

TEST(TrainingTest, too_few_samples_for_a_batch) {
  TemporaryFolder folder;
  writeLinearData(folder, 11);
  Outcome outcome = runTraining(*makeSession(1), {}, folder);
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.getError().code, ErrorCode::WrongData);
  EXPECT_THAT(outcome.status.getError().message,
              HasSubstr("has 11 samples, one batch needs 12"));
}

TEST(TrainingTest, metrics_that_cannot_be_written) {
  TemporaryFolder folder;
  writeLinearData(folder);
  TrainingRequest request;
  request.dataFolder = folder.path.string();
  request.metrics.linesPath = folder / "missing/metrics.jsonl";
  Status status = train(*makeSession(1), request);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.getError().code, ErrorCode::CannotWrite);
  EXPECT_THAT(status.getError().message, HasSubstr("cannot write"));
}

} // namespace
