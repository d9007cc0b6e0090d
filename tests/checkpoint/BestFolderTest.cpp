/// The best checkpoint of a training, beside the last ones.

#include "runtime/checkpoint/BestFolder.h"

#include "runtime/app/CheckpointCommands.h"
#include "runtime/app/Training.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/samples/Idx.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/RankThreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

namespace {

class BestFolderTest : public testing::Test {
protected:
  void SetUp() override {
    writeLinearData(folder);
    writeTestLabels();
  }
  /// Test labels that the training passes on its way to those it learns: the
  /// test loss falls, and then it rises.
  void writeTestLabels() {
    const IdxFile labels = *readIdx(folder / "test-y");
    std::string lower;
    for (int64_t i = 0; i < labels.getNumItems(); ++i)
      lower += char(std::lround(0.8 * labels.getElement(i)));
    writeBytes(folder / "test-y", makeIdx({labels.getNumItems()}, lower));
  }

  TrainingRequest makeRequest(int64_t steps, const std::string &output = "") {
    TrainingRequest request;
    request.dataFolder = folder.path.string();
    request.seed = 5;
    request.steps = steps;
    request.evalEvery = 2;
    request.metrics.linesPath = folder / "metrics.jsonl";
    request.save.folder = saved;
    request.save.everySteps = 7;
    request.save.best.emplace().output = output;
    return request;
  }
  Status run(const TrainingRequest &request, int64_t devices = 2,
             Ranks *ranks = nullptr) {
    std::vector<uint8_t> program = LinearModel::makeProgram(devices);
    Result<std::unique_ptr<Session>> session =
        Session::create(program, LinearModel::getKernels(), openCpuDevices,
                        /*threads=*/1, {}, ranks);
    EXPECT_TRUE(session) << session.getError().message;
    return train(**session, request);
  }
  void expectError(const TrainingRequest &request, ErrorCode code,
                   const std::string &words) {
    Status status = run(request);
    ASSERT_FALSE(status) << words;
    EXPECT_EQ(status.getError().code, code) << status.getError().message;
    EXPECT_THAT(status.getError().message, HasSubstr(words));
  }
  std::vector<int64_t> listBest() { return *listSteps(getBestPath(saved)); }
  Evaluation readBest() {
    Result<Checkpoint> best = Checkpoint::open(getBestPath(saved));
    EXPECT_TRUE(best) << best.getError().message;
    EXPECT_TRUE(best->verify());
    EXPECT_TRUE(best->getManifest().evaluation);
    return best->getManifest().evaluation.value_or(Evaluation());
  }
  /// Of each step that was evaluated what it gave, as the metrics say.
  std::map<int64_t, double> readValues(const std::string &output = "loss") {
    std::map<int64_t, double> values;
    const std::regex field("\"step\": (\\d+).*\"test/" + output +
                           "\": ([^,]+)");
    std::istringstream lines(readBytes(folder / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (std::smatch found; std::regex_search(line, found, field))
        values[std::stoll(found[1])] = std::stod(found[2]);
    return values;
  }
  /// The first step with the lowest value up to one.
  static int64_t findLowest(const std::map<int64_t, double> &values,
                            int64_t last) {
    int64_t lowest = values.begin()->first;
    for (const auto &[step, value] : values)
      if (step <= last && value < values.at(lowest))
        lowest = step;
    return lowest;
  }

  TemporaryFolder folder;
  const std::string saved = folder / "saved";
};

TEST_F(BestFolderTest, has_the_lowest_test_loss) {
  ASSERT_TRUE(run(makeRequest(40)));
  const std::map<int64_t, double> values = readValues();
  ASSERT_EQ(values.size(), 20u);
  const int64_t lowest = findLowest(values, 40);
  EXPECT_LT(lowest, 40); // else the test would show little
  EXPECT_THAT(listBest(), ElementsAre(lowest));
  EXPECT_THAT(*listSteps(saved), ElementsAre(28, 35, 40));
  const Evaluation best = readBest();
  EXPECT_EQ(best.criterion.output, "loss");
  EXPECT_EQ(best.criterion.samples, 31);
  EXPECT_NEAR(best.value, values.at(lowest), 1e-6);
  // It is what the training had at that step.
  TrainingRequest request = makeRequest(lowest);
  request.save.folder = folder / "short";
  request.save.best.reset();
  ASSERT_TRUE(run(request));
  EXPECT_TRUE(compareCheckpoints(getBestPath(saved), folder / "short"));
}

TEST_F(BestFolderTest, of_another_output) {
  TrainingRequest request = makeRequest(40, "accuracy");
  request.save.best->isHighest = true;
  ASSERT_TRUE(run(request));
  std::map<int64_t, double> values = readValues("accuracy");
  for (auto &[step, value] : values)
    value = -value;
  EXPECT_THAT(listBest(), ElementsAre(findLowest(values, 40)));
  request.resumePath = saved;
  request.save.best->isHighest = false;
  expectError(request, ErrorCode::OtherTraining,
              "has the highest 'accuracy', not the lowest 'accuracy'");
  request.save.best->output = "w";
  expectError(request, ErrorCode::UnknownName,
              "--keep-best: 'w' is no output without dims");
}

/// A training that goes on knows the best so far, and ends with that of one
/// that nobody interrupted: also where it was killed behind the best one, and
/// in front of any checkpoint.
TEST_F(BestFolderTest, is_known_to_trainings_that_go_on) {
  ASSERT_TRUE(run(makeRequest(40)));
  const std::map<int64_t, double> values = readValues();
  const Evaluation expected = readBest();
  for (int64_t stop : {6, 22}) {
    fs::remove_all(saved);
    ASSERT_TRUE(run(makeRequest(stop)));
    EXPECT_THAT(listBest(), ElementsAre(findLowest(values, stop)));
    // As if it had been killed before it had saved these: the first one begins
    // anew, the second one goes on in front of the best one.
    for (int64_t step : {6, 14, 21, 22})
      fs::remove_all(saved + "/" + getStepName(step));
    TrainingRequest request = makeRequest(40);
    request.continues = true;
    ASSERT_TRUE(run(request));
    EXPECT_THAT(listBest(), ElementsAre(findLowest(values, 40)));
    EXPECT_EQ(readBest().value, expected.value);
  }
}

TEST_F(BestFolderTest, processes_keep_one) {
  ASSERT_TRUE(run(makeRequest(20), 4));
  const std::vector<int64_t> expected = listBest();
  for (int64_t ranks : {2, 3}) {
    fs::remove_all(saved);
    runRanks(ranks, [&](Ranks &self) {
      Status status = run(makeRequest(20), 4, &self);
      EXPECT_TRUE(status) << status.getError().message;
    });
    EXPECT_EQ(listBest(), expected);
    readBest();
  }
}

/// What a training leaves that was killed while it wrote another best one.
TEST_F(BestFolderTest, a_training_that_was_killed_between_two) {
  ASSERT_TRUE(run(makeRequest(2)));
  const std::string best = getBestPath(saved);
  fs::rename(best, folder / "first");
  TrainingRequest request = makeRequest(8);
  request.resumePath = saved;
  ASSERT_TRUE(run(request));
  ASSERT_NE(listBest().front(), 2);
  fs::rename(folder / "first/step-00000002", best + "/step-00000002");
  fs::create_directory(getPartPath(best, 12));
  writeBytes(getPartPath(best, 12) + "/manifest.json", "{");
  request.steps = 9;
  request.evalEvery = 100;
  ASSERT_TRUE(run(request));
  EXPECT_THAT(listBest(), ElementsAre(findLowest(readValues(), 9)));
  EXPECT_FALSE(fs::exists(getPartPath(best, 12)));
}

/// On another mesh a step may be the best one again, a little better.
TEST_F(BestFolderTest, takes_the_place_of_one_of_the_same_step) {
  fs::create_directories(saved);
  Result<SaveFolder> locked = SaveFolder::lock(getBestPath(saved));
  ASSERT_TRUE(locked);
  const SaveFolder &best = *locked;
  for (const char *text : {"first", "second"}) {
    Result<std::string> part = best.begin(12);
    ASSERT_TRUE(part);
    writeBytes(*part + "/shard-00000-of-00001.safetensors", text);
    ASSERT_TRUE(best.commit(12, text));
    EXPECT_THAT(listBest(), ElementsAre(12));
    EXPECT_EQ(readBytes(best.getPath() + "/step-00000012/manifest.json"), text);
    EXPECT_FALSE(fs::exists(getPartPath(best.getPath(), 12)));
  }
}

TEST_F(BestFolderTest, of_other_trainings) {
  ASSERT_TRUE(run(makeRequest(8)));
  const std::string best = getBestPath(saved);
  fs::rename(best, folder / "best");
  // Of a training that has begun anew, which does not go on with it.
  fs::remove_all(saved);
  fs::create_directory(saved);
  fs::rename(folder / "best", best);
  expectError(makeRequest(8), ErrorCode::HasCheckpoints,
              "has the best checkpoint of a training");
  TrainingRequest request = makeRequest(12);
  request.continues = true;
  request.seed = 6;
  expectError(request, ErrorCode::OtherTraining, "another seed, batch or data");
  request.seed = 5;
  request.evalBatches = 1;
  expectError(request, ErrorCode::OtherTraining, "on other test samples");
  request.evalBatches.reset();
  writeBytes(folder / "test-y", makeIdx({31}, std::string(31, '\1')));
  expectError(request, ErrorCode::OtherTraining, "on other test samples");
  writeLinearData(folder);
  writeTestLabels();
  // One of `--save`, which says nothing of an evaluation.
  TrainingRequest plain = makeRequest(4);
  plain.save.best.reset();
  plain.save.folder = folder / "plain";
  ASSERT_TRUE(run(plain));
  const std::string step = best + "/" + getStepName(listBest().front());
  fs::rename(step, folder / "kept");
  fs::rename(folder / "plain/step-00000004", best + "/step-00000004");
  expectError(request, ErrorCode::OtherTraining, "does not say");
  fs::rename(best + "/step-00000004", folder / "gone");
  fs::rename(folder / "kept", step);
  ASSERT_TRUE(run(request));
  // One that is damaged.
  fs::resize_file(
      best + "/" + getStepName(listBest().front()) + "/manifest.json", 100);
  request.steps = 16;
  expectError(request, ErrorCode::DamagedFile, "manifest.json");
}

TEST_F(BestFolderTest, is_listed_and_verified) {
  ASSERT_TRUE(run(makeRequest(8)));
  const std::string name =
      getBestPath(saved) + "/" + getStepName(listBest().front());
  testing::internal::CaptureStdout();
  EXPECT_TRUE(listCheckpoints(saved));
  EXPECT_TRUE(verifyCheckpoints(saved));
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_THAT(output, HasSubstr("lowest 'loss' of the test samples: "));
  EXPECT_THAT(output, HasSubstr(name + "  sound: "));
}

} // namespace
