/// Evaluation on test files of any number of samples.

#include "runtime/app/TestSplit.h"

#include "runtime/samples/Idx.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;
using testing::MatchesRegex;

namespace {

struct Means {
  double loss = 0, accuracy = 0;
};

/// A test file of `numSamples`, and the linear model on so many devices.
class Evaluated {
public:
  Evaluated(int64_t numSamples, int64_t devices, std::vector<float> w)
      : w(std::move(w)) {
    writeLinearData(folder, LinearModel::batch, numSamples);
    std::vector<uint8_t> program = LinearModel::makeProgram(devices);
    session = std::move(*Session::create(program, LinearModel::getKernels(),
                                         openCpuDevices, 2));
    EXPECT_TRUE(session->initialise(0));
    const exec::VariableT &parameter = **session->getParameter("w");
    EXPECT_TRUE(scatter(session->getDevices(), *parameter.layout,
                        parameter.buffer, std::as_bytes(std::span(this->w))));
  }

  Means evaluate(std::optional<int64_t> maxBatches = std::nullopt) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Result<TestSplit> split = TestSplit::load(*session, folder.path.string());
    EXPECT_TRUE(split) << split.getError().message;
    Result<std::vector<NamedValue>> means =
        split->evaluate(*session, maxBatches);
    if (means)
      split->print(*means, maxBatches);
    output = testing::internal::GetCapturedStdout();
    progress = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(means) << means.getError().message;
    EXPECT_EQ((*means)[0].name, "loss");
    EXPECT_EQ((*means)[1].name, "accuracy");
    return {(*means)[0].value, (*means)[1].value};
  }

  /// From the first samples, in f64.
  Means expect(int64_t numSamples) const {
    const IdxFile x = *readIdx(folder / "test-x");
    const IdxFile y = *readIdx(folder / "test-y");
    Means means;
    for (int64_t i = 0; i < numSamples; ++i) {
      double residual = -y.getElement(i);
      for (int64_t j = 0; j < 3; ++j)
        residual += x.getElement(i * 3 + j) * double(w[j]);
      means.loss += residual * residual / double(numSamples);
      means.accuracy += (std::abs(residual) < 0.5) / double(numSamples);
    }
    return means;
  }

  TemporaryFolder folder;
  std::unique_ptr<Session> session;
  std::string output, progress;

private:
  std::vector<float> w;
};

/// What rounding in f32 makes of a mean of squared residuals. A residual has
/// eight roundings of at most 16, its square and the sum of twelve of them
/// twelve more; the last samples' part counts up to twice, and takes a second
/// run away.
double getRounding(double loss) {
  return 3 * 0x1p-24 * (2 * std::sqrt(loss) * 8 * 16 + 13 * loss);
}

TEST(TestSplitTest, every_sample_counts_once) {
  // Fewer than a batch of 12, which some numbers divide, as many, and more.
  for (int64_t count : {1, 2, 5, 7, 11, 12, 13, 18, 24, 31, 35})
    for (int64_t devices : {1, 3}) {
      Evaluated evaluated(count, devices, {1.75f, 3.5f, 2.25f});
      const Means found = evaluated.evaluate();
      const Means expected = evaluated.expect(count);
      EXPECT_NEAR(found.loss, expected.loss, getRounding(expected.loss))
          << count << " samples, " << devices << " devices";
      EXPECT_NEAR(found.accuracy, expected.accuracy, 3 * 13 * 0x1p-24)
          << count << " samples, " << devices << " devices";
      EXPECT_THAT(evaluated.output,
                  HasSubstr("evaluated " + std::to_string(count) + " of " +
                            std::to_string(count) +
                            " test samples, in "
                            "batches of 12\n"));
    }
}

TEST(TestSplitTest, some_batches_of_it) {
  Evaluated evaluated(31, 2, {1.75f, 3.5f, 2.25f});
  for (auto [batches, samples] :
       {std::pair{1, 12}, std::pair{2, 24}, std::pair{3, 31}, {9, 31}}) {
    const double loss = evaluated.evaluate(batches).loss;
    const double expected = evaluated.expect(samples).loss;
    EXPECT_NEAR(loss, expected, getRounding(expected)) << batches;
    EXPECT_THAT(evaluated.output,
                HasSubstr("evaluated " + std::to_string(samples) +
                          " of 31 test samples"));
  }
}

TEST(TestSplitTest, progress_is_told) {
  Evaluated evaluated(31, 2, {2, 4, 2});
  evaluated.evaluate();
  EXPECT_THAT(evaluated.progress,
              MatchesRegex("evaluation  batch 3/3  [1-9][0-9]* samples/s  0 s "
                           "left\n"));
}

TEST(TestSplitTest, infinite_losses_stay_infinite) {
  for (int64_t count : {7, 31}) {
    Evaluated large(count, 1, {3e38f, 3e38f, 3e38f});
    const Means means = large.evaluate();
    EXPECT_EQ(means.loss, INFINITY) << count;
    EXPECT_EQ(means.accuracy, 0) << count;
    EXPECT_TRUE(std::isnan(Evaluated(count, 1, {NAN, 0, 0}).evaluate().loss));
  }
}

TEST(TestSplitTest, a_file_without_samples) {
  Evaluated evaluated(1, 1, {2, 4, 2});
  writeBytes(evaluated.folder / "test-x", makeIdx({0, 3}, ""));
  writeBytes(evaluated.folder / "test-y", makeIdx({0}, ""));
  Result<TestSplit> split =
      TestSplit::load(*evaluated.session, evaluated.folder.path.string());
  ASSERT_FALSE(split);
  EXPECT_EQ(split.getError().code, ErrorCode::WrongData);
  EXPECT_THAT(split.getError().message, HasSubstr("test-x' has no samples"));
}

} // namespace
