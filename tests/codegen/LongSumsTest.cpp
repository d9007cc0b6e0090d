// Sums of many terms: in blocks, on CPUs and GPUs.

#include "codegen/kernels/BlockedSums.h"
#include "tests/codegen/KernelFamilies.h"
#include "tests/codegen/KernelRunner.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::test;
using codegen::SumLoop;
using codegen::SumLoops;

namespace {

/// Error of a sum of `terms` positive ones, relative to the sum: 64 units on
/// each level (runtime/exec/SumBlock.h), and what lanes, segments of a row,
/// threads and parts add, each fewer than 16.
double getBound(int64_t terms) {
  return double(64 * runtime::countSumLevels(terms) + 64) * 0x1p-24;
}

/// Sums of equal numbers, whose roundings have one direction: one accumulator
/// of n of them is off by about n / 3 units; and of positive random numbers.
void expectSums(const ProgramText &text, const std::vector<int64_t> &sizes,
                int64_t terms) {
  F64State state;
  F64Tensor equal(sizes);
  llvm::fill(equal.elements, double(1.1f));
  state.inputs["x"] = equal;
  {
    SCOPED_TRACE("equal");
    expectAgreement(text, state, getBound(terms));
  }
  expectAgreement(text, {}, getBound(terms));
}

void addMagnitudes(ProgramText &text, const std::string &dims) {
  text.input("x", dims);
  text.pointwise("m", dims, {"x"}, "%r = math.absf %a0 : f32");
}

MATCHER_P3(IsLoop, dim, step, startsFresh, "") {
  return arg.dim == unsigned(dim) && arg.step == step &&
         arg.startsFresh == startsFresh;
}

TEST(SumLoops, ShortSumsAreOneBlock) {
  using ::testing::ElementsAre;
  EXPECT_THAT(SumLoops::get(64).loops, ElementsAre(IsLoop(0, 1, false)));
  EXPECT_THAT(SumLoops::get({4, 16}).loops,
              ElementsAre(IsLoop(0, 1, false), IsLoop(1, 1, false)));
  EXPECT_THAT(SumLoops::get({1}).loops, ElementsAre());
  EXPECT_EQ(SumLoops::get({4, 16}).terms, 64);
  EXPECT_EQ(SumLoops::get(16, /*terms=*/4).countLevels(), 0);
}

TEST(SumLoops, LongSumsAreCut) {
  using ::testing::ElementsAre;
  EXPECT_THAT(SumLoops::get(65).loops,
              ElementsAre(IsLoop(0, 64, true), IsLoop(0, 1, false)));
  EXPECT_THAT(SumLoops::get(10000).loops,
              ElementsAre(IsLoop(0, 4096, true), IsLoop(0, 64, true),
                          IsLoop(0, 1, false)));
  // Inside out: rows of 40 terms are blocks.
  EXPECT_THAT(SumLoops::get({9, 40}).loops,
              ElementsAre(IsLoop(0, 1, true), IsLoop(1, 1, false)));
  // Several rows of 7 terms are one.
  EXPECT_THAT(SumLoops::get({100, 7}).loops,
              ElementsAre(IsLoop(0, 9, true), IsLoop(0, 1, false),
                          IsLoop(1, 1, false)));
  EXPECT_THAT(SumLoops::get(100, /*terms=*/8).loops,
              ElementsAre(IsLoop(0, 8, true), IsLoop(0, 1, false)));
  EXPECT_THAT(SumLoops::getPlain({100, 7}).loops,
              ElementsAre(IsLoop(0, 1, false), IsLoop(1, 1, false)));
}

/// No accumulator takes more than a block, and every position is there once.
TEST(SumLoops, NoAccumulatorTakesMoreThanABlock) {
  struct Run {
    llvm::ArrayRef<int64_t> sizes;
    llvm::ArrayRef<SumLoop> loops;
    int64_t visited = 0;
    /// Terms that the accumulator in use has taken.
    void go(size_t index, std::vector<int64_t> &first,
            std::vector<int64_t> &last, int64_t terms, int64_t &taken) {
      if (index == loops.size()) {
        ++visited;
        taken += terms;
        EXPECT_LE(taken, codegen::sumBlock);
        return;
      }
      const SumLoop &loop = loops[index];
      const int64_t begin = first[loop.dim], end = last[loop.dim];
      for (int64_t i = begin; i < end; i += loop.step) {
        first[loop.dim] = i;
        last[loop.dim] = std::min(i + loop.step, end);
        if (loop.startsFresh) {
          int64_t own = 0;
          go(index + 1, first, last, terms, own);
          ++taken;
          EXPECT_LE(taken, codegen::sumBlock);
        } else {
          go(index + 1, first, last, terms, taken);
        }
      }
      first[loop.dim] = begin;
      last[loop.dim] = end;
    }
  };
  const std::vector<std::vector<int64_t>> shapes = {
      {2},      {63},       {64},      {65},         {4095},      {4097},
      {300007}, {7, 11},    {64, 64},  {65, 3},      {3, 65},     {1000, 33},
      {33, 2},  {100, 100}, {5, 7, 9}, {70, 70, 70}, {3, 1000, 2}};
  for (const std::vector<int64_t> &sizes : shapes)
    for (int64_t terms : {1, 2, 3, 4, 8, 33, 64}) {
      const SumLoops loops = SumLoops::get(sizes, terms);
      std::vector<int64_t> first(sizes.size(), 0), last = sizes;
      Run run{sizes, loops.loops};
      int64_t taken = 0, positions = 1;
      run.go(0, first, last, terms, taken);
      for (int64_t size : sizes)
        positions *= size;
      EXPECT_EQ(run.visited, positions);
      EXPECT_LE(taken, loops.terms);
    }
}

class LongRows : public ::testing::TestWithParam<int64_t> {};

// One block of 16 and of 32 lanes; two levels; three, with every kind of rest.
INSTANTIATE_TEST_SUITE_P(Sizes, LongRows,
                         ::testing::Values(1024, 2049, 70000, 300007));

TEST_P(LongRows, Sums) {
  ProgramText text;
  text.dim("b", 2);
  text.dim("d", GetParam());
  addMagnitudes(text, "b d");
  text.reduce("s", "b", {"m"}, "arith.addf", "0.0");
  text.reduce("most", "b", {"m"}, "arith.maximumf", "0.0");
  text.output("s");
  text.output("most");
  expectSums(text, {2, GetParam()}, GetParam());
}

/// What has columns waits for the sum, so that GPUs do not cut the row.
TEST_P(LongRows, Shares) {
  ProgramText text;
  text.dim("b", 1);
  text.dim("d", GetParam());
  addMagnitudes(text, "b d");
  text.reduce("s", "b", {"m"}, "arith.addf", "0.0");
  text.pointwise("y", "b d", {"m", "s"}, "%r = arith.divf %a0, %a1 : f32");
  text.output("y");
  expectSums(text, {1, GetParam()}, GetParam());
}

TEST(LongSums, OfSeveralColumnDimensions) {
  for (auto [outer, inner] :
       {std::pair(30011, 3), std::pair(257, 301), std::pair(3, 30011)}) {
    SCOPED_TRACE(outer);
    ProgramText text;
    text.dim("b", 2);
    text.dim("c", outer);
    text.dim("d", inner);
    addMagnitudes(text, "b c d");
    text.input("w", "d");
    text.pointwise("z", "b c d", {"m", "w"},
                   "%p = math.absf %a1 : f32\n"
                   "%r = arith.mulf %a0, %p : f32");
    text.reduce("s", "b", {"z"}, "arith.addf", "0.0");
    text.output("s");
    expectSums(text, {2, outer, inner}, outer * inner);
  }
}

TEST(LongSums, AcrossRows) {
  for (auto [rows, columns] : {std::pair(100003, 3), std::pair(8209, 17),
                               std::pair(4111, 40), std::pair(130, 2051)}) {
    SCOPED_TRACE(rows);
    ProgramText text;
    text.dim("b", rows);
    text.dim("d", columns);
    addMagnitudes(text, "b d");
    text.reduce("s", "d", {"m"}, "arith.addf", "0.5");
    text.reduce("most", "d", {"m"}, "arith.maximumf", "0.0");
    text.reduce("all", "", {"m"}, "arith.addf", "0.0");
    text.output("s");
    text.output("most");
    text.output("all");
    expectSums(text, {rows, columns}, rows * columns);
  }
}

TEST(LongSums, AcrossSeveralSummedDimensions) {
  ProgramText text;
  text.dim("a", 3);
  text.dim("b", 71);
  text.dim("h", 131);
  text.dim("d", 5);
  addMagnitudes(text, "b a h d");
  text.input("w", "h");
  text.pointwise("z", "b a h d", {"m", "w"},
                 "%p = math.absf %a1 : f32\n"
                 "%r = arith.mulf %a0, %p : f32");
  text.reduce("s", "a d", {"z"}, "arith.addf", "0.25");
  text.output("z");
  text.output("s");
  expectSums(text, {71, 3, 131, 5}, 71 * 131);
}

/// Rows that are reduced and whose columns are summed across them.
TEST(LongSums, OfNormalisations) {
  expectAgreement(getNormGradient(5003, 33), {}, 1e-5);
  expectAgreement(getLayerNorm(3, 70001), {}, 1e-5);
}

TEST(LongSums, OfOtherTypes) {
  for (const char *type : {"bf16", "f16"}) {
    ProgramText text;
    text.dim("b", 20011);
    text.dim("d", 3);
    text.input("x", "b d", type);
    const std::string widen = std::string("%w = arith.extf %a0 : ") + type +
                              " to f32\n%r = math.absf %w : f32";
    text.reduce("s", "d", {"x"}, "arith.addf", "0.0", widen);
    text.output("s");
    expectAgreement(text, {}, getBound(20011));
  }
  for (const char *type : {"i32", "f64"}) {
    ProgramText text;
    text.dim("b", 20011);
    text.dim("d", 3);
    text.input("x", "b d", type);
    text.reduce("s", "d", {"x"}, type[0] == 'i' ? "arith.addi" : "arith.addf",
                type[0] == 'i' ? "3" : "0.0", "", type);
    text.output("s");
    expectAgreement(text, {}, 1e-12);
  }
}

// Rows too long for levels on the stack: parts of one block each, more than a
// block of them, without any thread that wants them.
TEST(LongSums, LongRowsAreCutIntoPartsOfABlock) {
  ProgramText text;
  text.dim("b", 8209);
  text.dim("d", 17);
  addMagnitudes(text, "b d");
  text.reduce("s", "d", {"m"}, "arith.addf", "0.5");
  text.output("s");
  const codegen::PartLimits limits{.maxLevelBytes = 0};
  auto runner = KernelRunner::create(text.str(), "native", limits);
  ASSERT_TRUE(runner);
  ASSERT_TRUE(runner->hasParts());
  EXPECT_EQ(runner->getKernel(0).sum->parts, (8209 + 63) / 64);
  F64State state;
  F64Tensor equal({8209, 17});
  llvm::fill(equal.elements, double(1.1f));
  state.inputs["x"] = equal;
  runner->run(state);
  const double expected = 8209 * double(1.1f) + 0.5;
  for (const auto &sum : state.outputs.at("s").elements)
    EXPECT_NEAR(std::get<double>(sum) / expected, 1, getBound(8209));
  // With the usual limits there is no need.
  EXPECT_FALSE(KernelRunner::create(text.str())->hasParts());
}

} // namespace
