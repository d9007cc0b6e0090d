/// Trainings that are saved and go on.

#include "runtime/app/Resume.h"
#include "runtime/app/Training.h"

#include "tests/runtime/LinearModel.h"
#include "tests/runtime/RankThreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

namespace {

class ResumeTest : public testing::Test {
protected:
  void SetUp() override { writeLinearData(folder); }

  Status run(TrainingRequest request, int64_t devices, Ranks *ranks = nullptr) {
    std::vector<uint8_t> program = LinearModel::makeProgram(devices, suffix);
    Result<std::unique_ptr<Session>> session =
        Session::create(program, LinearModel::getKernels(), openCpuDevices,
                        /*threads=*/1, {}, ranks);
    EXPECT_TRUE(session) << session.getError().message;
    request.dataFolder = folder.path.string();
    request.evaluates = request.evalEvery.has_value();
    return train(**session, request);
  }
  /// Of each step all but the speed.
  std::vector<std::string> readMetrics(const std::string &path) {
    std::vector<std::string> steps;
    std::istringstream lines(readBytes(path));
    for (std::string line; std::getline(lines, line);)
      steps.push_back(
          std::regex_replace(line, std::regex(", \"samples_per_s.*"), ""));
    return steps;
  }
  /// What an uninterrupted training of so many steps gives.
  std::vector<std::string> trainThrough(int64_t steps, int64_t devices) {
    TrainingRequest request;
    request.seed = 5;
    request.steps = steps;
    request.metrics.linesPath = folder / "through.jsonl";
    EXPECT_TRUE(run(request, devices));
    return readMetrics(request.metrics.linesPath);
  }
  TrainingRequest makeRequest(int64_t steps) {
    TrainingRequest request;
    request.seed = 5;
    request.steps = steps;
    request.metrics.linesPath = folder / "metrics.jsonl";
    request.save.folder = saved;
    request.save.everySteps = 4;
    return request;
  }
  void expectError(TrainingRequest request, ErrorCode code,
                   const std::string &words, int64_t devices = 2) {
    Status status = run(request, devices);
    ASSERT_FALSE(status) << words;
    EXPECT_EQ(status.getError().code, code) << status.getError().message;
    EXPECT_THAT(status.getError().message, HasSubstr(words));
  }

  TemporaryFolder folder;
  const std::string saved = folder / "saved";
  std::string suffix; ///< of the names of data files
};

TEST_F(ResumeTest, the_same_mesh_goes_on_bit_for_bit) {
  for (int64_t devices : {1, 2, 3, 4}) {
    const std::vector<std::string> expected = trainThrough(30, devices);
    ASSERT_EQ(expected.size(), 30u);
    // Behind an epoch, within one, and behind the last step.
    for (int64_t stop : {8, 13, 30}) {
      fs::remove_all(saved);
      fs::remove(folder / "metrics.jsonl");
      Status first = run(makeRequest(stop), devices);
      ASSERT_TRUE(first) << first.getError().message;
      TrainingRequest request = makeRequest(30);
      request.seed.reset();
      request.resumePath = saved;
      Status second = run(request, devices);
      ASSERT_TRUE(second) << second.getError().message;
      EXPECT_EQ(readMetrics(request.metrics.linesPath), expected)
          << devices << " devices, " << stop << " steps first";
      EXPECT_EQ(listSteps(saved)->back(), 30);
    }
  }
}

TEST_F(ResumeTest, other_numbers_of_processes_go_on_bit_for_bit) {
  const std::vector<std::string> expected = trainThrough(20, 4);
  int64_t stop = 0;
  for (int64_t ranks : {1, 3, 2, 4, 1}) {
    stop += 4;
    TrainingRequest request = makeRequest(stop);
    if (stop > 4)
      request.resumePath = saved;
    if (ranks == 1) {
      Status status = run(request, 4);
      ASSERT_TRUE(status) << status.getError().message;
    } else {
      runRanks(ranks, [&](Ranks &self) {
        Status status = run(request, 4, &self);
        EXPECT_TRUE(status) << status.getError().message;
      });
    }
  }
  EXPECT_EQ(readMetrics(folder / "metrics.jsonl"), expected);
}

/// Several files of a pattern give the same training, which goes on with the
/// same samples alone, whatever their files are called.
TEST_F(ResumeTest, files_of_a_pattern) {
  const std::vector<std::string> expected = trainThrough(12, 2);
  splitLinearData(folder, {30, 70});
  suffix = "*";
  ASSERT_TRUE(run(makeRequest(7), 2));
  TrainingRequest request = makeRequest(12);
  request.resumePath = saved;
  fs::rename(folder / "train-x1", folder / "train-x5");
  ASSERT_TRUE(run(request, 2));
  EXPECT_EQ(readMetrics(request.metrics.linesPath), expected);
  request.steps = 15;
  // As many in all, in other files; others in front.
  writeLinearData(folder);
  fs::remove(folder / "train-x5");
  splitLinearData(folder, {70, 30});
  expectError(request, ErrorCode::OtherTraining, "on other data for input 'x'");
  fs::remove(folder / "train-x1");
  fs::remove(folder / "train-y1");
  expectError(request, ErrorCode::OtherTraining, "on other data for input 'x'");
}

TEST_F(ResumeTest, lines_behind_the_checkpoint_go) {
  const std::vector<std::string> expected = trainThrough(12, 2);
  ASSERT_TRUE(run(makeRequest(8), 2));
  const std::string path = folder / "metrics.jsonl";
  // As a training that was killed behind its last checkpoint leaves them.
  writeBytes(path,
             readBytes(path) + "{\"step\": 9, \"lost\": 1}\n{\"step\": 1");
  TrainingRequest request = makeRequest(12);
  request.resumePath = saved;
  ASSERT_TRUE(run(request, 2));
  EXPECT_EQ(readMetrics(path), expected);
}

TEST_F(ResumeTest, is_asked_for) {
  ASSERT_TRUE(run(makeRequest(8), 2));
  const std::string before = readBytes(folder / "metrics.jsonl");
  expectError(makeRequest(12), ErrorCode::HasCheckpoints, "has checkpoints");
  EXPECT_EQ(readBytes(folder / "metrics.jsonl"), before);
  EXPECT_THAT(*listSteps(saved), ElementsAre(4, 8));
  // Into another folder from this one, and from an older one of it.
  TrainingRequest request = makeRequest(12);
  request.resumePath = saved + "/step-00000004";
  expectError(request, ErrorCode::HasCheckpoints, "go on from step 4");
  request.save.folder = folder / "other";
  ASSERT_TRUE(run(request, 2));
  EXPECT_THAT(*listSteps(folder / "other"), ElementsAre(8, 12));
}

TEST_F(ResumeTest, other_trainings_are_told) {
  ASSERT_TRUE(run(makeRequest(8), 2));
  TrainingRequest request = makeRequest(12);
  request.resumePath = saved;
  request.seed = 6;
  expectError(request, ErrorCode::OtherTraining, "--seed 5, not 6");
  request.seed = 5;
  request.resumePath = folder / "missing";
  expectError(request, ErrorCode::NoCheckpoint, "missing");
  request.resumePath = saved;
  // Of the same samples in another order, and of others.
  std::string y = makeIdx({100}, std::string(100, '\1'));
  writeBytes(folder / "train-y", y);
  expectError(request, ErrorCode::OtherTraining,
              "was trained on other data for input 'y'");
  writeLinearData(folder, 200);
  expectError(request, ErrorCode::OtherTraining,
              "was trained on other data for input 'x'");
  // None of it has changed what is there.
  writeLinearData(folder);
  ASSERT_TRUE(run(request, 2));
}

TEST_F(ResumeTest, damage_is_told_with_what_is_left) {
  ASSERT_TRUE(run(makeRequest(8), 2));
  const std::string shard =
      saved + "/step-00000008/shard-00000-of-00001.safetensors";
  std::string bytes = readBytes(shard);
  bytes.back() = char(bytes.back() ^ 1);
  writeBytes(shard, bytes);
  TrainingRequest request = makeRequest(12);
  for (const std::string &path : {saved, saved + "/step-00000008"}) {
    request.resumePath = path;
    Status status = run(request, 2);
    ASSERT_FALSE(status);
    EXPECT_EQ(int(getExitCode(status.getError().code)), 4);
    EXPECT_THAT(status.getError().message, HasSubstr(shard));
    EXPECT_THAT(
        status.getError().note,
        HasSubstr("the checkpoint before it is '" + saved + "/step-00000004'"));
  }
  request.resumePath = saved + "/step-00000004";
  request.save.folder = folder / "other";
  EXPECT_TRUE(run(request, 2));
}

TEST_F(ResumeTest, a_loss_that_is_nan_is_not_saved) {
  stepsToNan = 5;
  TrainingRequest request = makeRequest(20);
  request.failsOnNan = true;
  expectError(request, ErrorCode::LossNotFinite, "nan", 1);
  stepsToNan = 0;
  EXPECT_THAT(*listSteps(saved), ElementsAre(4));
}

} // namespace
