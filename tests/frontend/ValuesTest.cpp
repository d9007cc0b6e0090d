// What statements bind: several results.

#include "SpecTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::frontend;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

namespace {

/// A spec of functions and of the statements of a model.
std::string valueSpec(const std::string &functions, const std::string &body) {
  return "dim batch = 2\ndim wide = 3\ndim time = 5\n" + functions +
         "\nmodel m(x: f32[batch, wide], s: f32[time, batch]) {\n" + body +
         "\n}\n";
}

const std::string two = "fn two(x, k = 2) {\n"
                        "  param w: f32[wide] = ones\n"
                        "  let h = exp(x) * w\n"
                        "  return h * k, sum(h)\n}\n";

/// The same program, whether a function gives two values or each is computed.
TEST(Values, SeveralResultsAreThoseOfTheBody) {
  SpecRun run(valueSpec(two, "  let y, total = two(x, k = 5) as ff\n"
                             "  output o = y\n  output t = total"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run), ElementsAre("ff/w"));
  EXPECT_THAT(getOwnNames(run), IsSupersetOf({"ff/y", "ff/total", "ff/h"}));
  auto sum = getOnly<nd::ReduceOp>(run);
  EXPECT_EQ(getValueName(sum.getLoc()), "ff/total");
  std::vector<std::string> outputs;
  run.module->walk([&](nd::OutputOp op) {
    outputs.push_back(getValueName(op.getValue().getLoc()));
  });
  EXPECT_THAT(outputs, ElementsAre("ff/y", "ff/total"));
}

TEST(Values, SeveralResultsAreReboundAndCarried) {
  SpecRun run(valueSpec("fn cell(h, c) { return tanh(h + c), c * h }\n",
                        "  let h = sum(x, over = wide)\n  let c = 2 * h\n"
                        "  h, c = cell(h, c)\n"
                        "  for t in time { h, c = cell(h + s[time = t], c) }\n"
                        "  output h = h\n  output c = c"));
  ASSERT_TRUE(run.module) << run.getText();
  auto loop = getOnly<nd::LoopOp>(run);
  EXPECT_EQ(loop.getCarriedResults().size(), 2u);
  EXPECT_THAT(getOwnNames(run), IsSupersetOf({"h", "c", "t/h", "t/c"}));
}

/// What a function returns may be numbers and dims too, which have no names in
/// the program.
TEST(Values, SeveralResultsOfAnyKind) {
  SpecRun run(
      valueSpec("fn pick(a: dim, b: dim) { return b, a, 2 * size(a), a < b }\n",
                "  let first, second, n, t = pick(batch, wide)\n  assert t\n"
                "  assert n == 4\n  output o = sum(x, over = first) * n\n"
                "  output p = sum(x, over = second)"));
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<std::vector<std::string>> dims;
  run.module->walk(
      [&](nd::OutputOp op) { dims.push_back(getDims(op.getValue())); });
  EXPECT_THAT(dims, ElementsAre(ElementsAre("batch"), ElementsAre("wide")));
}

/// One mistake, one error: the names of a call in error are known.
TEST(Values, NamesOfACallInErrorAreKnown) {
  SpecRun run(
      valueSpec(two, "  let a, b, c = two(x) as f\n  let d, e = two(nil) as g\n"
                     "  output o = a + b + c + d + e"));
  EXPECT_EQ(run.diagnostics.getErrors().size(), 2u) << run.getText();
}

} // namespace
