// Calls with the variables of others.

#include "SpecTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nd = meshc::nd;
using namespace meshc::frontend;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

namespace {

std::string sharingSpec(const std::string &body) {
  return "dim batch = 2\ndim wide = 3\ndim time = 5\ndim layers = 7\n"
         "fn scale(x) {\n  param gain: f32[wide] = ones\n  let y = x * gain\n"
         "  return y\n}\n"
         "fn cell(h, x) {\n  let a = scale(h) as old\n"
         "  let b = scale(x) as new\n  return tanh(a + b)\n}\n"
         "fn deep(x) {\n  for layer in layers {\n    x = scale(x) as inner\n"
         "    x = x + scale(x) with inner as twice\n  }\n  return x\n}\n"
         "fn cut(x) {\n  dim two = 2\n  param w: f32[two] = ones\n"
         "  return x * sum(w)\n}\n"
         "model m(x: f32[batch, wide], s: f32[time, batch, wide]) {\n" +
         body + "\n}\n";
}

size_t countReads(SpecRun &run) {
  size_t count = 0;
  run.module->walk([&](nd::ReadOp) { ++count; });
  return count;
}

TEST(Sharing, TwinsHaveOneSetOfParametersAndNamesOfTheirOwn) {
  SpecRun run(sharingSpec("  let a = cell(x, x) as left\n"
                          "  let b = cell(a, x) with left as right\n"
                          "  let c = cell(b, x) with right\n"
                          "  output o = c"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run),
              ElementsAre("left/old/gain", "left/new/gain"));
  EXPECT_EQ(countReads(run), 2u);
  EXPECT_THAT(getOwnNames(run),
              IsSupersetOf({"left/a", "right/b", "left/old/y", "right/old/y",
                            "right/new/y", "cell/new/y"}));
}

/// A recurrent cell begins outside of its loop, with one set for all
/// iterations; layers have theirs, with two calls of one set in each.
TEST(Sharing, InLoops) {
  SpecRun run(
      sharingSpec("  let h = cell(x, s[time = 0]) as cell\n"
                  "  for t in time { h = cell(h, s[time = t]) with cell }\n"
                  "  output o = h"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run),
              ElementsAre("cell/old/gain", "cell/new/gain"));
  auto loop = getOnly<nd::LoopOp>(run);
  EXPECT_EQ(loop.getSliced().size(), 1u) << "s alone is sliced";

  SpecRun layers(
      sharingSpec("  let a = deep(x) as a\n"
                  "  for t in time {\n    let u = deep(a) with a as u\n"
                  "    a = deep(u) with a as v\n  }\n"
                  "  output o = a"));
  ASSERT_TRUE(layers.module) << layers.getText();
  EXPECT_THAT(getParameterNames(layers), ElementsAre("a/layer/inner/gain"));
  EXPECT_EQ(countReads(layers), 1u);
  layers.module->walk([&](nd::LoopOp loop) {
    if (loop.getDim().getName() == "layers") {
      ASSERT_EQ(loop.getSliced().size(), 1u);
      EXPECT_THAT(getDims(loop.getSlices()[0]), ElementsAre("wide"));
      EXPECT_THAT(getDims(loop.getSliced()[0]), ElementsAre("layers", "wide"));
    }
  });
}

/// Dims of a call are those of the call whose variables it has.
TEST(Sharing, OwnDims) {
  SpecRun run(sharingSpec("  let a = cut(x) as a\n  let b = cut(a) with a\n"
                          "  output o = b"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run), ElementsAre("a/w"));
  size_t numOwn = 0;
  run.module->walk([&](nd::DimOp op) { numOwn += op.getName().contains('/'); });
  EXPECT_EQ(numOwn, 1u);
}

/// Draws are called like the call that they are in: that one is drawn, in loops
/// that the parameter is not stacked over, and for the training step too.
TEST(Sharing, InitialValuesThatAreDrawn) {
  SpecRun run(
      "dim wide = 3\ndim time = 5\ndim layers = 7\n"
      "fn f(x) {\n  param w: f32[wide] = 0.5 * normal() + tanh(normal())\n"
      "  if training { x = 2 * x }\n  return x * w\n}\n"
      "model m(x: f32[wide]) {\n"
      "  let a = f(x) as a\n  let b = f(a) with a as b\n"
      "  for t in time { b = f(b) with a }\n"
      "  for layer in layers {\n    let c = f(b) as c\n"
      "    for t in time { b = f(c) with c }\n  }\n"
      "  output loss = sum(a + b)\n}\ntrain { minimize loss }");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run), ElementsAre("a/w", "layer/c/w"));
  // What was compared is not computed as well.
  auto init = run.module->lookupSymbol<nd::ProgramOp>("init");
  size_t numDraws = 0, numWrites = 0;
  init.walk([&](nd::RandomOp) { ++numDraws; });
  init.walk([&](nd::WriteOp) { ++numWrites; });
  EXPECT_EQ(numWrites, 2u);
  EXPECT_EQ(numDraws, 2 * numWrites);
  for (mlir::Operation &op : init.getBody().front())
    EXPECT_TRUE(mlir::isa<nd::WriteOp>(op) || !op.use_empty());
}

/// "with" is a name elsewhere, at the begin of a statement too.
TEST(Sharing, WithIsAName) {
  SpecRun run(sharingSpec("  let with = scale(x)\n  with = with + 1\n"
                          "  let as_with = scale(with)\n    with scale as b\n"
                          "  output with = with + as_with"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run), ElementsAre("scale/gain"));
}

} // namespace
