// Rows that are summed several at a time, with their sums in registers, on
// CPUs.

#include "codegen/kernels/BlockedSums.h"
#include "tests/codegen/KernelRunner.h"

#include "gmock/gmock.h"

#include <random>

using namespace meshc;
using namespace meshc::test;
using codegen::SumLoop;
using codegen::SumLoops;
using ::testing::ElementsAre;

namespace {

MATCHER_P3(IsLoop, dim, step, startsFresh, "") {
  return arg.dim == unsigned(dim) && arg.step == step &&
         arg.startsFresh == startsFresh;
}

TEST(SumLoops, InnermostOnesAreCut) {
  // All of a window.
  SumLoops window = SumLoops::get({3, 5});
  EXPECT_EQ(window.cutInnermost({3, 5}, 16), 2u);
  EXPECT_THAT(window.loops,
              ElementsAre(IsLoop(0, 1, false), IsLoop(1, 1, false)));
  // As many rows of three as fit.
  SumLoops rows = SumLoops::get({11, 3});
  EXPECT_EQ(rows.cutInnermost({11, 3}, 16), 2u);
  EXPECT_THAT(rows.loops, ElementsAre(IsLoop(0, 5, false), IsLoop(0, 1, false),
                                      IsLoop(1, 1, false)));
  // Nine fit no second time.
  SumLoops wide = SumLoops::get({4, 9});
  EXPECT_EQ(wide.cutInnermost({4, 9}, 16), 1u);
  EXPECT_THAT(wide.loops,
              ElementsAre(IsLoop(0, 1, false), IsLoop(1, 1, false)));
  SumLoops none = SumLoops::get({1});
  EXPECT_EQ(none.cutInnermost({1}, 16), 0u);
  // A block of 64 in four pieces.
  SumLoops blocks = SumLoops::get(10000);
  EXPECT_EQ(blocks.cutInnermost({10000}, 16), 1u);
  EXPECT_THAT(blocks.loops,
              ElementsAre(IsLoop(0, 4096, true), IsLoop(0, 64, true),
                          IsLoop(0, 16, false), IsLoop(0, 1, false)));
  // A block of nine rows of seven has no pieces of two.
  SumLoops nine = SumLoops::get({100, 7});
  EXPECT_EQ(nine.cutInnermost({100, 7}, 16), 1u);
  EXPECT_THAT(nine.loops, ElementsAre(IsLoop(0, 9, true), IsLoop(0, 1, false),
                                      IsLoop(1, 1, false)));
  // One of 21 rows of three has pieces of three, not of five.
  SumLoops threes = SumLoops::get({67, 3});
  EXPECT_EQ(threes.cutInnermost({67, 3}, 16), 2u);
  EXPECT_THAT(threes.loops,
              ElementsAre(IsLoop(0, 21, true), IsLoop(0, 3, false),
                          IsLoop(0, 1, false), IsLoop(1, 1, false)));
  // Not beyond what starts fresh.
  SumLoops pairs = SumLoops::get({9, 40});
  EXPECT_EQ(pairs.cutInnermost({9, 40}, 512), 1u);
  EXPECT_THAT(pairs.loops,
              ElementsAre(IsLoop(0, 1, true), IsLoop(1, 1, false)));
}

struct Window {
  int64_t p, q;
};
// One row, a few, all that fit and one more, several blocks with a rest.
constexpr Window windows[] = {{1, 2}, {3, 3},  {4, 4},  {1, 17},
                              {5, 5}, {13, 3}, {67, 3}, {2, 1031}};

/// Products (mulf) or sums (addf) whose own sums over p and q are wanted, and,
/// for as many `accumulators`, their maximum and minimum.
ProgramText makeWindows(const Window &window, int64_t columns, int accumulators,
                        const std::string &combined) {
  ProgramText text;
  text.dim("b", 3);
  text.dim("p", window.p);
  text.dim("q", window.q);
  text.dim("d", columns);
  text.input("x", "b p q d");
  text.input("w", "q d"); // or p and q would be one dimension
  text.pointwise("z", "b p q d", {"x", "w"},
                 "%r = arith." + combined + " %a0, %a1 : f32");
  text.reduce("s", "b d", {"z"}, "arith.addf", "0.25");
  text.output("s");
  if (accumulators > 1) {
    text.reduce("most", "b d", {"z"}, "arith.maximumf", "-0.5");
    text.output("most");
  }
  if (accumulators > 2) {
    text.reduce("least", "b d", {"z"}, "arith.minimumf", "0.5");
    text.output("least");
  }
  return text;
}

TEST(KernelRows, SumWindows) {
  for (const Window &window : windows)
    for (int64_t columns : {3, 16, 37, 100, 120})
      for (int accumulators : {1, 2}) {
        SCOPED_TRACE(::testing::Message()
                     << window.p << " x " << window.q << " of " << columns
                     << " columns, " << accumulators << " sums");
        expectAgreement(makeWindows(window, columns, accumulators, "mulf"), {},
                        1e-5);
      }
}

/// Rows that are cut into blocks of columns, of which the last is shorter; on
/// eight devices, so that they are not cut into parts.
TEST(KernelRows, SumBlocksOfColumns) {
  for (const Window &window : {Window{3, 5}, Window{5, 13}, Window{67, 3}}) {
    SCOPED_TRACE(::testing::Message() << window.p << " x " << window.q);
    ProgramText text = makeWindows(window, 2051, 2, "mulf");
    text.header = "  nd.mesh [\"a\"=8]\n";
    auto runner = KernelRunner::create(text.str());
    ASSERT_TRUE(runner);
    ASSERT_FALSE(runner->hasParts());
    expectAgreement(text, {}, 1e-5);
  }
}

/// Three sums are made one row after the other, which no bit of them shows. (Of
/// products a sum that is alone rounds less.)
TEST(KernelRows, HaveTheBitsOfOneRowAfterAnother) {
  for (const Window &window : windows) {
    SCOPED_TRACE(::testing::Message() << window.p << " x " << window.q);
    // In blocks of columns where rows are many.
    const int64_t columns = window.p * window.q > 16 ? 2051 : 53;
    std::vector<F64State> states;
    for (int accumulators : {1, 2, 3}) {
      ProgramText text = makeWindows(window, columns, accumulators, "addf");
      text.header = "  nd.mesh [\"a\"=8]\n";
      auto runner = KernelRunner::create(text.str());
      ASSERT_TRUE(runner);
      ASSERT_EQ(runner->getSteps().size(), 1u);
      ASSERT_FALSE(runner->hasParts());
      F64State &state = states.emplace_back();
      for (const auto &[name, sizes] :
           {std::pair<std::string, std::vector<int64_t>>{
                "x", {3, window.p, window.q, columns}},
            {"w", {window.q, columns}}}) {
        F64Tensor tensor(sizes);
        std::minstd_rand random(unsigned(name.front()));
        std::normal_distribution<float> normal;
        for (auto &element : tensor.elements)
          element = double(normal(random));
        state.inputs[name] = tensor;
      }
      runner->run(state);
      EXPECT_EQ(state.outputs.at("s").elements,
                states.front().outputs.at("s").elements);
    }
  }
}

} // namespace
