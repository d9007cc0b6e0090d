// Elements by position: which dims they have, and what needs an "else".

#include "SpecTesting.h"

#include "dialect/ND.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::frontend;
using ::testing::ElementsAre;

namespace {

/// The dims that "y" has in a program of x[n, m] and others.
std::vector<std::string> getDimsOf(const std::string &value, int n,
                                   int stride) {
  SpecRun run("dim n = " + std::to_string(n) +
              "\nlet stride = " + std::to_string(stride) +
              "\ndim m = 7\ndim k = 5\n"
              "model f(x: f32[n, m], i: i32[k], p: i32[n], q: i32[m]) {\n"
              "  output y = " +
              value + "\n}\n");
  EXPECT_TRUE(run.module) << run.getText();
  if (!run.module)
    return {};
  std::vector<std::string> dims;
  run.module->walk([&](nd::OutputOp output) {
    for (nd::DimAttr dim : output.getValue().getType().getDims())
      dims.push_back(dim.getName().str());
  });
  std::sort(dims.begin(), dims.end());
  return dims;
}

/// No size and no factor changes which dims there are.
TEST(Index, DimsOfTheResultAreThoseWritten) {
  for (int n : {1, 2, 7})
    for (int stride : {0, 1}) {
      EXPECT_THAT(getDimsOf("x[n = k % size(n)]", n, stride),
                  ElementsAre("k", "m"));
      EXPECT_THAT(getDimsOf("x[n = n % size(n)]", n, stride),
                  ElementsAre("m", "n"));
      EXPECT_THAT(getDimsOf("x[n = stride * k else 0]", n, stride),
                  ElementsAre("k", "m"));
      EXPECT_THAT(getDimsOf("x[n = k - stride * k else 1]", n, stride),
                  ElementsAre("k", "m"));
      EXPECT_THAT(getDimsOf("x[n = floor(stride * k / 2) else 0]", n, stride),
                  ElementsAre("k", "m"));
      EXPECT_THAT(getDimsOf("x[n = (stride * k) % size(n)]", n, stride),
                  ElementsAre("k", "m"));
      EXPECT_THAT(getDimsOf("x[m = stride * k + p]", n, stride),
                  ElementsAre("k", "n"));
      EXPECT_THAT(getDimsOf("x[n = 0, m = stride * k else 0]", n, stride),
                  ElementsAre("k"));
    }
}

TEST(Index, ByATensorOfTheDimItself) {
  EXPECT_THAT(getDimsOf("x[n = p]", 3, 1), ElementsAre("m", "n"));
  EXPECT_THAT(getDimsOf("gather(x, p, over = n)", 3, 1), ElementsAre("m", "n"));
  EXPECT_THAT(getDimsOf("x[n = p, m = q]", 3, 1), ElementsAre("m", "n"));
  // In turn, where each adds a dim that the other reads.
  EXPECT_THAT(getDimsOf("x[n = q, m = p]", 3, 1), ElementsAre("m", "n"));
  EXPECT_THAT(getDimsOf("x[m = n, n = q]", 3, 1), ElementsAre("m", "n"));
  EXPECT_THAT(getDimsOf("x[m = m + 0 * n, n = p + q]", 3, 1),
              ElementsAre("m", "n"));
}

TEST(Index, BooleansByATensor) {
  EXPECT_THAT(getDimsOf("(x > 0)[n = i]", 3, 1), ElementsAre("k", "m"));
  EXPECT_THAT(getDimsOf("(x > 0)[n = i else 1 > 0]", 3, 1),
              ElementsAre("k", "m"));
}

/// What never misses needs no "else".
TEST(Index, PositionsThatAreAllThereNeedNoElse) {
  for (const char *value : {"x[n = n % 5]", "x[n = n % 8]", "x[n = one / 2]",
                            "x[m = n / size(one)]", "x[m = 2 * m / 2]",
                            "x[m = (4 * one + 6) / 3]"}) {
    SpecRun run("dim n = 4\ndim m = 7\ndim one = 1\n"
                "model f(x: f32[n, m]) {\n  output y = sum(" +
                std::string(value) + ")\n}\n");
    EXPECT_TRUE(run.module) << value << "\n" << run.getText();
  }
}

} // namespace
