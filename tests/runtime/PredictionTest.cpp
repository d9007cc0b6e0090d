/// Predictions on any number of samples, put together from batches.

#include "runtime/app/Prediction.h"
#include "runtime/app/SampleLoop.h"

#include "runtime/data/Npy.h"
#include "runtime/samples/Idx.h"
#include "tests/runtime/HostArrays.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <span>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

/// Arrays of `numSamples` samples for the linear model, in a folder.
class Arrays {
public:
  explicit Arrays(int64_t numSamples) {
    for (int64_t i = 0; i < numSamples; ++i) {
      for (int64_t j = 0; j < 3; ++j)
        x.push_back(float((i * 5 + j * 3) % 7) / 4);
      y.push_back(int32_t(i * i % 9));
    }
    write();
  }

  void write() {
    EXPECT_TRUE(
        writeNpy(folder / "x.npy", makeArray(exec::ElementType::f32,
                                             {int64_t(x.size()) / 3, 3}, x)));
    EXPECT_TRUE(writeNpy(folder / "y.npy", makeArray(exec::ElementType::i32,
                                                     {int64_t(y.size())}, y)));
    EXPECT_TRUE(
        writeNpy(folder / "w.npy", makeArray(exec::ElementType::f32, {3}, w)));
  }

  PredictionRequest request(std::vector<std::string> outputs) const {
    PredictionRequest request;
    request.inputs = {{"x", folder / "x.npy"}, {"y", folder / "y.npy"}};
    request.parameters.files = {{"w", folder / "w.npy"}};
    for (const std::string &name : outputs)
      request.outputs.push_back({name, folder / (name + ".npy")});
    return request;
  }

  double getResidual(size_t i) const {
    double residual = -y[i];
    for (size_t j = 0; j < 3; ++j)
      residual += double(x[i * 3 + j]) * double(w[j]);
    return residual;
  }

  TemporaryFolder folder;
  std::vector<float> x;
  std::vector<int32_t> y;
  std::vector<float> w = {0.5f, -1.25f, 2};
};

Status predictOn(const PredictionRequest &request, int64_t devices = 2) {
  std::vector<uint8_t> program = LinearModel::makeProgram(devices);
  auto session = std::move(
      *Session::create(program, LinearModel::getKernels(), openCpuDevices, 2));
  return predict(*session, request);
}

std::vector<float> readFloats(const std::string &path) {
  Result<HostArray> array = readNpy(path);
  EXPECT_TRUE(array) << array.getError().message;
  std::vector<float> values(size_t(array->getNumElements()));
  std::memcpy(values.data(), array->data.data(), array->data.size());
  return values;
}

/// Residuals and loss are exact in f32 but for the rounding of the mean.
TEST(PredictionTest, any_number_of_samples_in_their_order) {
  for (int64_t count : {1, 2, 5, 7, 11, 12, 13, 24, 31})
    for (int64_t devices : {1, 2, 3, 4}) {
      const Arrays arrays(count);
      Status done = predictOn(arrays.request({"residual", "loss"}), devices);
      ASSERT_TRUE(done) << done.getError().message;
      const std::vector<float> found =
          readFloats(arrays.folder / "residual.npy");
      ASSERT_EQ(found.size(), size_t(count));
      double loss = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        const double expected = arrays.getResidual(i);
        EXPECT_EQ(found[i], expected) << "sample " << i << " of " << count;
        loss += expected * expected / double(count);
      }
      // Sums of at most twelve squares below 100, three times, as in
      // TestSplitTest.
      EXPECT_NEAR(readFloats(arrays.folder / "loss.npy").at(0), loss,
                  3 * 13 * 100 * 0x1p-24)
          << count << " samples, " << devices << " devices";
    }
}

TEST(PredictionTest, means_are_printed_if_nothing_is_asked_for) {
  const Arrays arrays(31);
  testing::internal::CaptureStdout();
  Status done = predictOn(arrays.request({}));
  const std::string output = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(done) << done.getError().message;
  double loss = 0;
  for (size_t i = 0; i < 31; ++i)
    loss += arrays.getResidual(i) * arrays.getResidual(i) / 31;
  ASSERT_THAT(output, testing::StartsWith("loss "));
  EXPECT_NEAR(std::stod(output.substr(5)), loss, 3 * 13 * 100 * 0x1p-24);
  EXPECT_THAT(output, HasSubstr("\naccuracy "));
  EXPECT_THAT(output, testing::Not(HasSubstr("residual")));
}

TEST(PredictionTest, no_samples_give_no_elements_and_no_mean) {
  const Arrays arrays(0);
  Status done = predictOn(arrays.request({"residual"}));
  ASSERT_TRUE(done) << done.getError().message;
  EXPECT_EQ(readNpy(arrays.folder / "residual.npy")->shape,
            (std::vector<int64_t>{0}));
  for (const std::vector<std::string> &outputs :
       {std::vector<std::string>{"residual", "loss"}, {}}) {
    Status mean = predictOn(arrays.request(outputs));
    ASSERT_FALSE(mean);
    EXPECT_EQ(mean.getError().code, ErrorCode::OneBatchOnly);
    EXPECT_THAT(mean.getError().message,
                HasSubstr("output 'loss' is a mean over samples, of which the "
                          "inputs have none"));
  }
}

/// The test files feed the inputs as arrays with their values would.
TEST(PredictionTest, the_test_files_instead_of_arrays) {
  for (auto [limit, count] : {std::pair<std::optional<int64_t>, size_t>{5, 5},
                              {12, 12},
                              {13, 13},
                              {31, 31},
                              {99, 31},
                              {std::nullopt, 31}}) {
    const Arrays arrays(1);
    writeLinearData(arrays.folder);
    PredictionRequest request = arrays.request({"residual"});
    request.inputs.clear();
    request.dataFolder = arrays.folder.path.string();
    request.maxSamples = limit;
    Status done = predictOn(request);
    ASSERT_TRUE(done) << done.getError().message;
    const IdxFile x = *readIdx(arrays.folder / "test-x");
    const IdxFile y = *readIdx(arrays.folder / "test-y");
    const std::vector<float> found = readFloats(arrays.folder / "residual.npy");
    ASSERT_EQ(found.size(), count);
    for (size_t i = 0; i < count; ++i) {
      double expected = -y.getElement(int64_t(i));
      for (size_t j = 0; j < 3; ++j)
        expected += x.getElement(int64_t(i * 3 + j)) * double(arrays.w[j]);
      // Seven roundings of at most 16.
      EXPECT_NEAR(found[i], expected, 7 * 16 * 0x1p-24) << "sample " << i;
    }
  }
}

TEST(PredictionTest, the_first_samples_of_arrays) {
  const Arrays arrays(31);
  PredictionRequest request = arrays.request({"residual"});
  request.maxSamples = 14;
  ASSERT_TRUE(predictOn(request));
  const std::vector<float> found = readFloats(arrays.folder / "residual.npy");
  ASSERT_EQ(found.size(), size_t(14));
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], arrays.getResidual(i)) << i;
}

TEST(PredictionTest, a_test_file_is_not_written_over) {
  const Arrays arrays(1);
  writeLinearData(arrays.folder);
  const std::string before = readBytes(arrays.folder / "test-x");
  PredictionRequest request = arrays.request({});
  request.inputs.clear();
  request.dataFolder = arrays.folder.path.string();
  request.outputs = {{"residual", arrays.folder / "test-x"}};
  Status done = predictOn(request);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.getError().code, ErrorCode::RepeatedInput);
  EXPECT_EQ(readBytes(arrays.folder / "test-x"), before);
}

TEST(PredictionTest, gradients_are_of_one_batch) {
  for (int64_t count : {0, 11, 12, 24}) {
    const Arrays arrays(count);
    PredictionRequest request = arrays.request({"residual"});
    request.gradients = {{"w", arrays.folder / "g.npy"}};
    Status done = predictOn(request);
    EXPECT_EQ(bool(done), count == 12);
    if (count == 12)
      continue;
    EXPECT_EQ(done.getError().code, ErrorCode::OneBatchOnly);
    EXPECT_THAT(done.getError().message,
                HasSubstr("one batch, which has 12 samples along 'batch': "
                          "found " +
                          std::to_string(count)));
    EXPECT_THAT(done.getError().note,
                HasSubstr("-D batch=" + std::to_string(count)));
    EXPECT_FALSE(std::filesystem::exists(arrays.folder / "residual.npy"));
  }
}

TEST(PredictionTest, inputs_have_equally_many_samples) {
  Arrays arrays(31);
  arrays.y.resize(30);
  arrays.write();
  Status done = predictOn(arrays.request({"residual"}));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.getError().code, ErrorCode::WrongArray);
  EXPECT_THAT(done.getError().message,
              testing::MatchesRegex("input 'y' has 30 samples along 'batch' in "
                                    "'.*y.npy', 'x' has 31 in '.*x.npy'"));
}

/// In a batch behind the first one: where it is in the file, and what was there
/// before stays.
TEST(PredictionTest, a_failure_leaves_files_as_they_were) {
  Arrays arrays(31);
  arrays.y[25] = 9;
  arrays.write();
  writeBytes(arrays.folder / "residual.npy", "before");
  Status done = predictOn(arrays.request({"residual", "loss"}));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.getError().code, ErrorCode::ValueOutOfRange);
  EXPECT_THAT(done.getError().message,
              HasSubstr("input 'y': element 25 is 9 in "));
  EXPECT_EQ(readBytes(arrays.folder / "residual.npy"), "before");
  EXPECT_EQ(
      std::distance(std::filesystem::directory_iterator(arrays.folder.path),
                    std::filesystem::directory_iterator()),
      4); // three inputs and this
}

TEST(PredictionTest, the_dim_that_counts_samples) {
  const Arrays arrays(31);
  PredictionRequest request = arrays.request({"residual"});
  request.batchDim = "batch";
  EXPECT_TRUE(predictOn(request));
  request.batchDim = "feature"; // w has it too
  Status done = predictOn(request);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.getError().code, ErrorCode::UnknownName);
  EXPECT_THAT(done.getError().message, HasSubstr("'feature' is no dim of an "
                                                 "input that may count"));
  EXPECT_EQ(done.getError().note, "expected 'batch'");
}

/// Nothing is shown of a loop that is over in its quiet time.
TEST(SampleLoopTest, progress_of_what_takes_long) {
  std::vector<uint8_t> program = LinearModel::makeProgram(2);
  auto session = std::move(
      *Session::create(program, LinearModel::getKernels(), openCpuDevices, 1));
  ASSERT_TRUE(session->initialise(0));
  for (auto [quiet, expected] :
       {std::pair{std::chrono::milliseconds(200),
                  "prediction  batch 3/3  [1-9][0-9]* samples/s  0 s left\n"},
        {std::chrono::milliseconds(600000), ""}}) {
    const SampleLoop loop{.program = **session->getProgram("eval"),
                          .batchSize = 12,
                          .numSamples = 31,
                          .feed =
                              [](std::span<const int64_t>) {
                                std::this_thread::sleep_for(
                                    std::chrono::milliseconds(80));
                                return Status::success();
                              },
                          .needsMeans = false,
                          .name = "prediction",
                          .quietTime = quiet};
    testing::internal::CaptureStderr();
    Result<std::vector<NamedValue>> means = loop.run(*session);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::MatchesRegex(expected));
    ASSERT_TRUE(means);
    EXPECT_TRUE(means->empty());
  }
}

} // namespace
