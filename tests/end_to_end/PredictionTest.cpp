// `predict` on other numbers of samples than a batch has, against the
// un-partitioned program that has them all in one batch, in f64.

#include "ExecutableTesting.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using meshc::test::Prediction;
using meshc::test::Reference;
using meshc::test::TemporaryFolder;

namespace {

/// Each program is compiled once.
class PredictionTest : public testing::Test {
protected:
  void compare(const Reference &reference, const Prediction &prediction) {
    EXPECT_EQ(reference.comparePrediction(prediction, cache.getPath()), "")
        << "mesh " << prediction.mesh << ", layout '" << prediction.layout
        << "', " << prediction.flags;
  }

  TemporaryFolder cache;
};

const std::string predictions =
    MESHC_SOURCE_DIR "/tests/end_to_end/predictions.mesh";
/// Terms of the longest chain of sums for so many samples.
int64_t getReductionLength(int samples) { return 3 + 2 + 5 + samples + 15; }

/// Fewer than a batch of 4, as many, and more, that it divides and does not.
TEST_F(PredictionTest, any_number_of_samples) {
  for (int samples : {1, 2, 3, 4, 5, 8, 13}) {
    const Reference reference(predictions, {fmt::format("batch={}", samples)},
                              getReductionLength(samples), unsigned(samples));
    for (auto [mesh, layout] : {std::pair{"", ""},
                                {"a=3", "batch=a"},
                                {"a=3", "class=a"},
                                {"a=2,b=2", "batch=a,class=b"},
                                {"a=2,b=2", "batch=b+a"},
                                {"a=3,b=2", "pos=b,batch=a"}})
      compare(reference, {.batchDim = "batch",
                          .batchSize = 4,
                          .mesh = mesh,
                          .layout = layout,
                          .flags = "--batch batch"});
  }
}

TEST_F(PredictionTest, several_processes) {
  for (int samples : {3, 13}) {
    const Reference reference(predictions, {fmt::format("batch={}", samples)},
                              getReductionLength(samples), unsigned(samples));
    for (int processes : {2, 3})
      compare(reference, {.batchDim = "batch",
                          .batchSize = 4,
                          .mesh = "a=3",
                          .layout = "batch=a",
                          .flags = fmt::format("--batch batch --processes {}",
                                               processes)});
  }
}

TEST_F(PredictionTest, emulated_gpus) {
  for (int samples : {3, 4, 13}) {
    const Reference reference(predictions, {fmt::format("batch={}", samples)},
                              getReductionLength(samples), unsigned(samples));
    for (auto [mesh, layout, gpus] :
         {std::tuple{"", "", 1}, {"a=3", "batch=a", 3}})
      compare(reference, {.batchDim = "batch",
                          .batchSize = 4,
                          .mesh = mesh,
                          .layout = layout,
                          .flags = "--batch batch",
                          .gpus = gpus});
  }
}

/// The data block says which dim counts samples.
TEST_F(PredictionTest, a_model_with_data) {
  for (int samples : {2, 7, 20, 21}) {
    const Reference reference(
        MESHC_SOURCE_DIR "/samples/mlp.mesh",
        {"pixel=9", "hidden=7", "class=5", fmt::format("batch={}", samples)},
        9 + 7 + 5 + samples, unsigned(samples));
    compare(reference, {.batchDim = "batch",
                        .batchSize = 10,
                        .mesh = "a=2,b=2",
                        .layout = "batch=a,hidden=b"});
  }
}

} // namespace
