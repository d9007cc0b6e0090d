// Loops of steps from their IR to numbers.

#include "tests/codegen/StepsProgram.h"

#include "llvm/Support/FormatVariadic.h"

#include "gtest/gtest.h"

using namespace meshc;
using namespace meshc::test;

namespace {

/// h += x[t]; before[t] = the old h, after[t] the new one.
std::string getRunningSum(int64_t iterations, int64_t size, bool isReversed) {
  const std::string slice = getType({size}),
                    whole = getType({iterations, size});
  return addInput("x", {iterations, size}) + addInput("start", {size}) +
         llvm::formatv("%last, %before, %after = exec.loop \"t\" x {0}{1} "
                       "carries(%start) slices(%x) {{\n"
                       "^bb0(%h: {2}, %s: {2}):\n",
                       iterations, isReversed ? " reverse" : "", slice)
             .str() +
         addKernel("n", "h", "s", size) +
         llvm::formatv("exec.yield %n, %h, %n : {0}, {0}, {0}\n"
                       "} : ({0}, {1}) -> ({0}, {1}, {1})\n",
                       slice, whole)
             .str() +
         addOutput("last", "last", {size}) +
         addOutput("before", "before", {iterations, size}) +
         addOutput("after", "after", {iterations, size});
}

TEST(LoopSteps, CarriedSlicedAndStackedValues) {
  // 16 numbers are a cache line; 3 and 7 are not.
  for (int64_t size : {3, 7, 16, 48})
    for (int64_t iterations : {1, 2, 5})
      for (bool isReversed : {false, true}) {
        StepsProgram program(getRunningSum(iterations, size, isReversed));
        const Numbers x = count(iterations * size), start = count(size, 100);
        auto outputs = program.run({{"x", x}, {"start", start}});
        Numbers h = start, before(x.size()), after(x.size());
        for (int64_t i = 0; i < iterations; ++i) {
          const int64_t t = isReversed ? iterations - 1 - i : i;
          for (int64_t k = 0; k < size; ++k) {
            before[size_t(t * size + k)] = h[size_t(k)];
            after[size_t(t * size + k)] = h[size_t(k)] +=
                x[size_t(t * size + k)];
          }
        }
        EXPECT_EQ(outputs["last"], h);
        EXPECT_EQ(outputs["before"], before);
        EXPECT_EQ(outputs["after"], after);
      }
}

/// What is compiled does not depend on the number of iterations.
TEST(LoopSteps, BodiesStandOnce) {
  StepsProgram few(getRunningSum(2, 16, false));
  StepsProgram many(getRunningSum(96, 16, false));
  EXPECT_EQ(few.getProgram().commands.size(),
            many.getProgram().commands.size());
  ASSERT_EQ(many.getProgram().loops.size(), 1U);
  EXPECT_EQ(many.getProgram().loops[0]->iterations, 96);
  EXPECT_EQ(many.getProgram().loops[0]->name, "t");
  // Numbers in the program may take a byte more.
  EXPECT_NEAR(double(few.getObject().size()), double(many.getObject().size()),
              256);
}

/// h' = x[t] + h alone: in its place, while slices of whole lines are read
/// where they lie; only the start is copied, which an input must outlive.
TEST(LoopSteps, NothingIsCopiedThatNeedNot) {
  for (int64_t size : {16, 7}) {
    const std::string slice = getType({size}), whole = getType({5, size});
    StepsProgram program(
        addInput("x", {5, size}) + addInput("start", {size}) +
        llvm::formatv("%last = exec.loop \"t\" x 5 carries(%start) slices(%x) "
                      "{{\n^bb0(%h: {0}, %s: {0}):\n",
                      slice)
            .str() +
        addKernel("n", "h", "s", size) +
        llvm::formatv("exec.yield %n : {0}\n} : ({0}, {1}) -> {0}\n", slice,
                      whole)
            .str() +
        addOutput("last", "last", {size}));
    EXPECT_EQ(program.countCopies(), size == 16 ? 1U : 2U);
    const auto &commands = program.getProgram().commands;
    const exec::CommandT &kernel = *commands.back();
    ASSERT_NE(kernel.action.AsKernel(), nullptr);
    EXPECT_EQ(kernel.operands[0]->buffer, kernel.operands[2]->buffer);
    const std::vector<int64_t> steps = {64};
    EXPECT_EQ(kernel.operands[1]->steps,
              size == 16 ? steps : std::vector<int64_t>());
    const Numbers x = count(5 * size), start = count(size, 3);
    Numbers h = start;
    for (size_t i = 0; i < x.size(); ++i)
      h[i % size_t(size)] += x[i];
    EXPECT_EQ(program.run({{"x", x}, {"start", start}})["last"], h);
  }
}

/// Carried values that take each other's place: (a, b) = (b, a + b), and a
/// third one that turns: (c, d, e) = (d, e, c).
TEST(LoopSteps, CarriedValuesChangePlaces) {
  for (int64_t size : {5, 16}) {
    const std::string type = getType({size});
    std::string text;
    for (const char *name : {"a", "b", "c", "d", "e"})
      text += addInput(name, {size});
    text += llvm::formatv(
        "%r:5 = exec.loop \"t\" x 7 carries(%a, %b, %c, %d, %e) {{\n"
        "^bb0(%h: {0}, %i: {0}, %j: {0}, %k: {0}, %l: {0}):\n",
        type);
    text += addKernel("n", "h", "i", size);
    text += llvm::formatv("exec.yield %i, %n, %k, %l, %j : {0}, {0}, {0}, {0}, "
                          "{0}\n} : ({0}, {0}, {0}, {0}, {0}) -> ({0}, {0}, "
                          "{0}, {0}, {0})\n",
                          type);
    const char *names[] = {"a", "b", "c", "d", "e"};
    std::vector<Numbers> values;
    std::map<std::string, Numbers> inputs;
    for (int i = 0; i < 5; ++i) {
      text += addOutput(std::string("new_") + names[i],
                        "r#" + std::to_string(i), {size});
      values.push_back(inputs[names[i]] = count(size, float(i)));
    }
    auto outputs = StepsProgram(text).run(inputs);
    for (int t = 0; t < 7; ++t) {
      Numbers sum = values[0];
      for (size_t k = 0; k < sum.size(); ++k)
        sum[k] += values[1][k];
      values = {values[1], sum, values[3], values[4], values[2]};
    }
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(outputs[std::string("new_") + names[i]], values[size_t(i)]);
  }
}

/// Slices of slices, a value captured twice, inner results that the outer loop
/// stacks and carries: s += x[i, j] * w in both loops.
TEST(LoopSteps, LoopsInsideOfLoops) {
  for (int64_t size : {16, 3}) {
    const std::string slice = getType({size}), row = getType({5, size}),
                      whole = getType({3, 5, size});
    std::string text = addInput("x", {3, 5, size}) + addInput("w", {size}) +
                       addInput("start", {size});
    text += llvm::formatv("%last, %all, %kept = exec.loop \"i\" x 3 "
                          "carries(%start) slices(%x) captures(%w) {{\n"
                          "^bb0(%h: {0}, %r: {1}, %v: {0}):\n",
                          slice, row);
    text += addKernel("kept", "h", "v", size, "arith.mulf");
    text += llvm::formatv("%sum, %sums = exec.loop \"j\" x 5 reverse "
                          "carries(%h) slices(%r) captures(%v) {{\n"
                          "^bb2(%g: {0}, %s: {0}, %u: {0}):\n",
                          slice);
    text += addKernel("m", "s", "u", size, "arith.mulf");
    text += addKernel("n", "g", "m", size);
    text += llvm::formatv("exec.yield %n, %n : {0}, {0}\n} : ({0}, {1}, {0}) "
                          "-> ({0}, {1})\n",
                          slice, row);
    text += llvm::formatv("exec.yield %sum, %sums, %kept : {0}, {1}, {0}\n} : "
                          "({0}, {2}, {0}) -> ({0}, {2}, {3})\n",
                          slice, row, whole, getType({3, size}));
    text += addOutput("last", "last", {size}) +
            addOutput("all", "all", {3, 5, size}) +
            addOutput("kept", "kept", {3, size});
    const Numbers x = count(15 * size), w = count(size, 2),
                  start = count(size, 4);
    auto outputs =
        StepsProgram(text).run({{"x", x}, {"w", w}, {"start", start}});
    Numbers h = start, all(x.size()), kept;
    for (int64_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < h.size(); ++k)
        kept.push_back(h[k] * w[k]);
      for (int64_t j = 4; j >= 0; --j)
        for (size_t k = 0; k < h.size(); ++k) {
          const size_t at = size_t((i * 5 + j) * size) + k;
          all[at] = h[k] += x[at] * w[k];
        }
    }
    EXPECT_EQ(outputs["last"], h);
    EXPECT_EQ(outputs["all"], all);
    EXPECT_EQ(outputs["kept"], kept);
  }
}

/// A library call reads all of the carried value: it cannot write in its place.
TEST(LoopSteps, ProductsOfTheCarriedValue) {
  const std::string maps =
      "{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, "
      "affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]}";
  StepsProgram program(
      addInput("h0", {2, 3}) + addInput("w", {4, 3, 3}) +
      "%last, %all = exec.loop \"t\" x 4 carries(%h0) slices(%w) {\n"
      "^bb0(%h: tensor<2x3xf32>, %s: tensor<3x3xf32>):\n"
      "%n = exec.matmul %h, %s " +
      maps +
      " : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>\n"
      "exec.yield %n, %n : tensor<2x3xf32>, tensor<2x3xf32>\n"
      "} : (tensor<2x3xf32>, tensor<4x3x3xf32>) -> (tensor<2x3xf32>, "
      "tensor<4x2x3xf32>)\n" +
      addOutput("last", "last", {2, 3}) + addOutput("all", "all", {4, 2, 3}));
  Numbers w;
  for (int i = 0; i < 36; ++i)
    w.push_back(float(i * 7 % 4 - 1));
  Numbers h = count(6), all;
  auto outputs = program.run({{"h0", h}, {"w", w}});
  for (size_t t = 0; t < 4; ++t) {
    Numbers next(6);
    for (size_t m = 0; m < 2; ++m)
      for (size_t n = 0; n < 3; ++n)
        for (size_t k = 0; k < 3; ++k)
          next[m * 3 + n] += h[m * 3 + k] * w[t * 9 + k * 3 + n];
    h = next;
    all.insert(all.end(), h.begin(), h.end());
  }
  EXPECT_EQ(outputs["last"], h);
  EXPECT_EQ(outputs["all"], all);
}

/// What leaves the loop as a variable's new value is copied there, as the old
/// one is what the loop begins with.
TEST(LoopSteps, VariablesAreCarried) {
  StepsProgram program(
      "%v = spmd.read @v : tensor<7xf32>\n" + addInput("x", {7}) +
          "%last = exec.loop \"t\" x 3 carries(%v) captures(%x) {\n"
          "^bb0(%h: tensor<7xf32>, %s: tensor<7xf32>):\n" +
          addKernel("n", "h", "s", 7) +
          "exec.yield %n : tensor<7xf32>\n"
          "} : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>\n" +
          "spmd.write @v, %last : tensor<7xf32>\n" +
          addOutput("last", "last", {7}),
      "nd.variable parameter @v : !nd.tensor<[\"a\"=7], f32, <>> = "
      "#nd.fill<1.0>\n");
  const Numbers x = count(7);
  Numbers last = program.run({{"x", x}})["last"];
  // The variable begins with what the arena has, which is zeros.
  Numbers expected;
  for (float number : x)
    expected.push_back(2 * 3 * number);
  EXPECT_EQ(last, expected);
}

} // namespace
