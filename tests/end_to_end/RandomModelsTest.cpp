// Random models under random layouts. A failing seed is named by the test.

#include "tests/end_to_end/RandomModel.h"

using namespace meshc;
using namespace meshc::test;

namespace {

/// Each test covers a range of seeds, so that ctest runs them side by side.
class RandomModels : public ::testing::TestWithParam<int> {};

constexpr int seedsPerTest = 25;

TEST_P(RandomModels, Agree) {
  for (int i = 0; i < seedsPerTest; ++i) {
    uint64_t seed = uint64_t(GetParam()) * seedsPerTest + i;
    auto context = makeContext();
    Model model = makeRandomModel(*context, seed, 4 + int(seed % 20));
    for (int layout = 0; layout < 3; ++layout) {
      Layout chosen = makeRandomLayout(model, seed * 1000 + layout);
      // Chains of operations amplify rounding; by how much is not bounded by
      // the length of the sums.
      ASSERT_TRUE(matches(model, chosen, seed, /*slack=*/1e3))
          << "seed " << seed << ", layout " << layout;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, ::testing::Range(0, 16));

} // namespace
