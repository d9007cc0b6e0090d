// The position of an extreme, against a search written out by hand.

#include "GradientCheck.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The first position of the extreme of five numbers, NaN being one.
int64_t search(const double *x, bool isMax) {
  int64_t best = 0;
  for (int64_t i = 0; i < 5; ++i) {
    if (std::isnan(x[i]))
      return i;
    if (isMax ? x[i] > x[best] : x[i] < x[best])
      best = i;
  }
  return best;
}

TEST(Decompose, PositionOfAnExtreme) {
  const double rows[][5] = {
      {3, 1, 4, 1, 5},
      {7, 7, 2, 2, 7},
      {0, nan, 9, nan, -9},
      {-infinity, -infinity, -infinity, -infinity, -infinity},
      {infinity, 0, infinity, 0, 0},
      {nan, nan, nan, nan, nan}};
  for (std::string kind : {"max", "min"}) {
    auto context = makeContext();
    auto module = parse(*context, getAliases() +
                                      R"(module { nd.program @p {
        %x = nd.input "x" : !ca
        %y = nd.arg_reduce )" + kind +
                                      R"( %x over "c" : (!ca) -> !ia
        nd.output "y", %y : !ia } })");
    ASSERT_TRUE(module);
    mlir::PassManager passes(context.get());
    passes.addPass(createDecompose());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    auto program = module->lookupSymbol<nd::ProgramOp>("p");
    EXPECT_TRUE(program.getBody().getOps<nd::ArgReduceOp>().empty());
    for (size_t row = 0; row + 1 < std::size(rows); ++row) {
      F64State state;
      F64Tensor x({5, 2});
      for (int i = 0; i < 5; ++i)
        for (int column = 0; column < 2; ++column)
          x.elements[2 * i + column] = rows[row + column][i];
      state.inputs["x"] = x;
      ASSERT_TRUE(succeeded(runProgram(program, state)));
      EXPECT_EQ(state.outputs["y"],
                ints({2}, {search(rows[row], kind == "max"),
                           search(rows[row + 1], kind == "max")}))
          << kind << " " << row;
    }
  }
}

} // namespace
