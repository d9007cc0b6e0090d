// Kernels of views against loops over the positions that they read.

#include "tests/codegen/KernelRunner.h"
#include "tests/codegen/NamedPrograms.h"

#include "gtest/gtest.h"

#include <cmath>
#include <functional>

using namespace meshc;
using namespace meshc::test;

namespace {

using Element = interpreter::Scalar<interpreter::F64>;

Element getZero(const std::string &type) {
  return type[0] == 'i' ? Element(int64_t(0)) : Element(0.0);
}

constexpr int64_t rows = 37, columns = 5; ///< of what is read

/// One dimension "v" of x[v, c] read along "r" and "k".
struct Case {
  const char *name;
  const char *access;
  /// The position; anything outside where there is none.
  std::function<int64_t(int64_t r, int64_t k)> position;
};

constexpr int64_t nowhere = -1;

const Case cases[] = {
    {"window", R"("v" = "r" + "k" - 1)",
     [](int64_t r, int64_t k) { return r + k - 1; }},
    {"strided_and_dilated", R"("v" = 2 "r" + 3 "k" - 4)",
     [](int64_t r, int64_t k) { return 2 * r + 3 * k - 4; }},
    {"reversed", R"("v" = -"r" + "k" + 18)",
     [](int64_t r, int64_t k) { return 18 - r + k; }},
    {"transposed", R"("v" = ("r" - "k") / 2)",
     [](int64_t r, int64_t k) {
       return r >= k && (r - k) % 2 == 0 ? (r - k) / 2 : nowhere;
     }},
    {"rounded", R"("v" = floor(("r" + 2 "k" - 3) / 4))",
     [](int64_t r, int64_t k) {
       return int64_t(std::floor(double(r + 2 * k - 3) / 4));
     }},
    {"rolled", R"("v" = ("r" - 5 "k") mod 37)",
     [](int64_t r, int64_t k) { return ((r - 5 * k) % 37 + 37) % 37; }},
    {"modulus_beyond_the_size", R"("v" = (7 "r" + "k") mod 41)",
     [](int64_t r, int64_t k) { return (7 * r + k) % 41; }},
};

class Views : public ::testing::TestWithParam<const char *> {};

INSTANTIATE_TEST_SUITE_P(Types, Views,
                         ::testing::Values("f32", "f64", "bf16", "f16", "i32",
                                           "i64", "i1"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

std::string getType(int64_t r, int64_t k, const std::string &rest) {
  return "[\"r\"=" + std::to_string(r) + ", \"k\"=" + std::to_string(k) +
         ", \"c\"=5], " + rest;
}

F64Tensor getExpected(const Case &view, const F64Tensor &x, int64_t firstRow,
                      int64_t r, int64_t k, Element zero) {
  F64Tensor expected({r, k, columns}, zero);
  for (int64_t i = 0; i < r; ++i)
    for (int64_t j = 0; j < k; ++j)
      if (const int64_t v = view.position(firstRow + i, j); v >= 0 && v < rows)
        for (int64_t c = 0; c < columns; ++c)
          expected.elements[size_t((i * k + j) * columns + c)] =
              x.elements[size_t(v * columns + c)];
  return expected;
}

std::unique_ptr<KernelRunner> createCpu(const std::string &text) {
  return KernelRunner::create(text);
}

void expectOutput(KernelRunner &runner, F64State state,
                  const F64Tensor &expected, int64_t owned,
                  std::vector<int64_t> coordinates) {
  runner.run(state, std::move(coordinates));
  const F64Tensor &found = state.outputs.at("y");
  ASSERT_EQ(found.sizes, expected.sizes);
  // What follows is padding and means nothing.
  for (size_t i = 0; i < size_t(owned); ++i)
    ASSERT_EQ(found.elements[i], expected.elements[i]) << "at " << i;
}

/// On one device, on CPUs and GPUs; vectors end within rows.
TEST_P(Views, OnOneDevice) {
  const std::string type = GetParam();
  for (const Case &view : cases)
    for (auto [r, k] : {std::pair<int64_t, int64_t>{19, 3}, {64, 2}, {3, 7}}) {
      SCOPED_TRACE(std::string(view.name) + " of " + std::to_string(r) +
                   " by " + std::to_string(k));
      const std::string text =
          getViewProgram(R"(["v"=37, "c"=5], )" + type + ", <>", view.access,
                         getType(r, k, type + ", <>"));
      F64State state;
      const F64Tensor x = state.inputs["x"] =
          getWhole({rows, columns}, type, 5);
      const F64Tensor expected = getExpected(view, x, 0, r, k, getZero(type));
      auto runner = KernelRunner::createGpu(text);
      ASSERT_TRUE(runner);
      expectOutput(*runner, state, expected, r * k * columns, {0});
      expectAgreement(text, state, 0);
    }
}

/// Neighbours in memory follow one another along "r", so that a vector of them
/// is loaded at once, but for what lies outside.
TEST_P(Views, AlongWhatIsContiguous) {
  const std::string type = GetParam();
  constexpr int64_t r = 50, k = 2;
  for (const Case &view : cases) {
    SCOPED_TRACE(view.name);
    const std::string text =
        getViewProgram(R"(["c"=5, "v"=37], )" + type + ", <>", view.access,
                       R"(["c"=5, "k"=2, "r"=50], )" + type + ", <>");
    F64State state;
    const F64Tensor x = state.inputs["x"] = getWhole({columns, rows}, type, 5);
    F64Tensor expected({columns, k, r}, getZero(type));
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < k; ++j)
        if (const int64_t v = view.position(i, j); v >= 0 && v < rows)
          for (int64_t c = 0; c < columns; ++c)
            expected.elements[size_t((c * k + j) * r + i)] =
                x.elements[size_t(c * rows + v)];
    for (auto create : {&KernelRunner::createGpu, &createCpu}) {
      auto runner = create(text);
      ASSERT_TRUE(runner);
      expectOutput(*runner, state, expected, columns * k * r, {0});
    }
  }
}

/// Rows split unevenly over three devices: each computes its own of what all
/// have.
TEST_P(Views, OnThreeDevices) {
  const std::string type = GetParam();
  constexpr int64_t r = 19, k = 3, block = 7;
  for (const Case &view : cases) {
    SCOPED_TRACE(view.name);
    const std::string text =
        getViewProgram(R"(["v"=37, "c"=5], )" + type + ", <>", view.access,
                       getType(r, k, type + R"(, <"r"@x>)"), R"("x"=3)");
    F64State state;
    const F64Tensor x = state.inputs["x"] = getWhole({rows, columns}, type, 5);
    auto gpu = KernelRunner::createGpu(text);
    auto cpu = KernelRunner::create(text);
    ASSERT_TRUE(gpu && cpu);
    for (int64_t device = 0; device < 3; ++device) {
      SCOPED_TRACE(device);
      const F64Tensor expected =
          getExpected(view, x, device * block, block, k, getZero(type));
      const int64_t owned = std::min(block, r - device * block) * k * columns;
      expectOutput(*gpu, state, expected, owned, {device});
      expectOutput(*cpu, state, expected, owned, {device});
    }
  }
}

} // namespace
