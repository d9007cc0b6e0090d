// Elements by position: which dims they have, and what needs an "else".

#include "SpecTesting.h"

#include "dialect/ND.h"
#include "dialect/interpreter/NDInterpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

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

/// What `read` is for x[n], of which element i is i + 1, along dims h and w:
/// none is there where `expected` gives none.
using Expected = std::function<std::optional<int64_t>(int64_t h, int64_t w)>;
void compareRead(const std::string &read, int64_t n, int64_t h, int64_t w,
                 const Expected &expected) {
  SCOPED_TRACE(read);
  SpecRun run("dim n = " + std::to_string(n) + "\ndim h = " +
              std::to_string(h) + "\ndim w = " + std::to_string(w) +
              "\nlet two = 2\nfn at(a, b) { return minimum(a, b) }\n"
              "fn from(t, over: dim) { return t - size(over) }\n"
              "model f(x: f32[n], t: i32[h]) {\n  output y = "
              "broadcast(f32(0), h, w) + " +
              read + "\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  using interpreter::F64;
  interpreter::ProgramState<F64> state;
  interpreter::Tensor<F64> x({n}), t({h});
  for (int64_t i = 0; i < n; ++i)
    x.elements[size_t(i)] = double(i + 1);
  for (int64_t i = 0; i < h; ++i)
    t.elements[size_t(i)] = int64_t(3 * i % n);
  state.inputs["x"] = x;
  state.inputs["t"] = t;
  ASSERT_TRUE(succeeded(interpreter::runProgram<F64>(
      run.module->lookupSymbol<nd::ProgramOp>("forward"), state)));
  const interpreter::Tensor<F64> &y = state.outputs["y"];
  for (int64_t i = 0; i < h; ++i)
    for (int64_t j = 0; j < w; ++j) {
      const std::optional<int64_t> place = expected(i, j);
      const double right =
          place && 0 <= *place && *place < n ? double(*place + 1) : 0;
      EXPECT_EQ(std::get<double>(y.elements[size_t(i * w + j)]), right)
          << "at " << i << ", " << j;
    }
}

/// Quotients and remainders of what are digits, and of sums of those.
TEST(Index, SumsOfQuotientsAndRemainders) {
  for (int64_t h : {1, 2, 7, 12, 13}) {
    compareRead("x[n = floor(h / 2) % 3]", 3, h, 2,
                [](int64_t h, int64_t) { return h / 2 % 3; });
    compareRead("x[n = h % 2 + 2 * floor(h / 2)]", h, h, 2,
                [](int64_t h, int64_t) { return h; });
    compareRead("x[n = floor(h / 6) + 3 * (h % 2) + 7 * (floor(h / 2) % 3)]",
                20, h, 2, [](int64_t h, int64_t) {
                  return h / 6 + 3 * (h % 2) + 7 * (h / 2 % 3);
                });
    compareRead(
        "x[n = floor((h - 3) / 4) + 3 - (h - 3) % 4 else 0]", 5, h, 3,
        [](int64_t h, int64_t) { return (h + 1) / 4 - (h + 1) % 4 + 2; });
    compareRead("x[n = floor((h % 6) / 4) + 2 * floor(floor(h / 2) / 3)]", 8, h,
                2, [](int64_t h, int64_t) { return h % 6 / 4 + 2 * (h / 6); });
    compareRead("x[n = (4 * h + w) % 6]", 6, h, 4,
                [](int64_t h, int64_t w) { return (4 * h + w) % 6; });
    compareRead("x[n = floor((4 * h + w) / 2) % 3 + (4 * h + w) % 2 * 3]", 6, h,
                4, [](int64_t h, int64_t w) {
                  return (4 * h + w) / 2 % 3 + (4 * h + w) % 2 * 3;
                });
    compareRead("x[n = (h % 2 + w % 2) / 2 else 0]", 2, h, 3,
                [](int64_t h, int64_t w) -> std::optional<int64_t> {
                  return (h % 2 + w % 2) % 2 == 0
                             ? std::optional(h % 2 + w % 2 > 1)
                             : std::nullopt;
                });
    compareRead("x[n = 7 - ceil(h / 2) - w % 2 else 0]", 8, h, 3,
                [](int64_t h, int64_t w) { return 7 - (h + 1) / 2 - w % 2; });
  }
}

/// A dim in a call is its positions: of builtins, and of functions that take
/// anything; a parameter that asks for a dim gets it.
TEST(Index, ADimInACallIsItsPositions) {
  const int64_t h = 7;
  compareRead("x[n = abs(t - h) else 0]", 9, h, 2,
              [](int64_t h, int64_t) { return std::abs(3 * h % 9 - h); });
  compareRead("x[n = minimum(h + 1, size(h) - two)]", 9, h, 2,
              [](int64_t h, int64_t) { return std::min<int64_t>(h + 1, 5); });
  compareRead("x[n = where(h == w, 2, h)]", 9, h, 3,
              [](int64_t h, int64_t w) { return h == w ? 2 : h; });
  compareRead("x[n = h ^ 2 else 0]", 9, h, 2,
              [](int64_t h, int64_t) { return h * h; });
  compareRead("x[n = i32(f32(h) / 2) + floor(h / 4)]", 9, h, 2,
              [](int64_t h, int64_t) { return h / 2 + h / 4; });
  compareRead(
      "x[n = at(floor((h - 3) / 2) + 2, (h - 3) % 4)]", 9, h, 2,
      [](int64_t h, int64_t) { return std::min((h + 1) / 2, (h + 1) % 4); });
  compareRead("x[n = from(h, over = w) else 0]", 9, h, 2,
              [](int64_t h, int64_t) { return h - 2; });
}

} // namespace
