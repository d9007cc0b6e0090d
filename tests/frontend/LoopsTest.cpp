// Loops from their text to nd.loop.

#include "SpecTesting.h"

#include "dialect/Locations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::frontend;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

std::string loopSpec(const std::string &body) {
  return "dim batch = 2\ndim wide = 3\ndim time = 5\ndim layers = 7\n"
         "model m(x: f32[batch, wide], s: f32[time, batch]) {\n" +
         body + "\n}\n";
}

TEST(Loops, CarryStackSumAndSlice) {
  SpecRun run(loopSpec(R"(
  let all = s
  let total = 0
  let h = sum(x, over = wide)
  for t in time {
    h = tanh(h + s[time = t])
    total += h * 2
    total += 1
    all[time = t] = h
  }
  output h = h
  output all = all
  output total = total)"));
  ASSERT_TRUE(run.module) << run.getText();
  auto loop = getOnly<nd::LoopOp>(run);
  EXPECT_EQ(loop.getDim().getName(), "time");
  EXPECT_EQ(getValueName(loop.getLoc()), "t");
  EXPECT_EQ(loop.getInitial().size(), 1u);
  EXPECT_EQ(loop.getSliced().size(), 1u);
  EXPECT_THAT(getDims(loop.getSlices()[0]), ElementsAre("batch"));
  EXPECT_EQ(loop.getCarriedResults().size(), 1u);
  ASSERT_EQ(loop.getStackedResults().size(), 1u);
  EXPECT_THAT(getDims(loop.getStackedResults()[0]),
              ElementsAre("time", "batch"));
  EXPECT_EQ(loop.getSummedResults().size(), 1u);
  EXPECT_THAT(getOwnNames(run), Contains("t/h"));
}

TEST(Loops, ASumThatIsReadIsCarried) {
  SpecRun run(loopSpec(R"(
  let h = x
  for t in time {
    h += 1
    h += h * 2
  }
  output h = h)"));
  ASSERT_TRUE(run.module) << run.getText();
  auto loop = getOnly<nd::LoopOp>(run);
  EXPECT_EQ(loop.getCarriedResults().size(), 1u);
  EXPECT_EQ(loop.getSummedResults().size(), 0u);
}

TEST(Loops, ParametersAreStackedOverAllLoopsAround) {
  SpecRun run(loopSpec(R"(
  for layer in layers {
    param gain: f32[wide] = ones
    for t in time {
      param shift: f32[wide] = zeros
      x = x * gain + shift
    }
    x = dense(x, wide, wide)
  }
  output x = x)" + std::string("\n}\nfn dense(x, from, to) {\n"
                               "  param w: f32[from] = ones\n"
                               "  return x * w")));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run),
              ElementsAre("layer/gain", "layer/t/shift", "layer/dense/w"));
  std::vector<std::vector<std::string>> dims;
  run.module->walk([&](nd::ReadOp op) {
    EXPECT_TRUE(llvm::isa<nd::ProgramOp>(op->getParentOp()));
    dims.push_back(getDims(op.getResult()));
  });
  using Names = std::vector<std::string>;
  EXPECT_THAT(dims, ElementsAre(Names{"layers", "wide"},
                                Names{"layers", "time", "wide"},
                                Names{"layers", "wide"}));
}

TEST(Loops, NamesOfTheBlockEndWithIt) {
  SpecRun run(loopSpec(R"(
  for t in time {
    let inner = x + 1
    x = inner
  }
  for t in time {
    let inner = 2 * x
    x = inner
  }
  output x = x)"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getOwnNames(run), Contains("t/inner"));
  EXPECT_THAT(getOwnNames(run), Contains("t_2/inner"));
  SpecRun outside(loopSpec("  for t in time { let inner = x + 1\n x = inner }\n"
                           "  output o = sum(inner)"));
  EXPECT_THAT(outside.getText(), HasSubstr("\"inner\" is not defined"));
}

/// Dimensions in another order of storage are the same type.
TEST(Loops, CarriedInTheOrderOfTheFirst) {
  SpecRun run(loopSpec(R"(
  param w: f32[wide] = ones
  let h = sum(s, over = time) * w
  for t in time {
    h = einsum(h, w -> wide, batch)
  }
  output h = h)"));
  ASSERT_TRUE(run.module) << run.getText();
  auto loop = getOnly<nd::LoopOp>(run);
  EXPECT_EQ(loop.getResult(0).getType(), loop.getInitial()[0].getType());
}

/// What an earlier loop summed has no name when the slice gets one.
TEST(Loops, ASliceOfWhatHasNoNameGetsOne) {
  SpecRun run(loopSpec(R"(
  let total = 0 * x
  let u = x
  for t in time { total += x }
  for j in wide { u[wide = j] = total[wide = j] }
  let v = f(x + u)
  output u = u
  output v = v)" + std::string("\n}\nfn f(x) {\n"
                               "  let y = 0 * x\n"
                               "  for j in wide { y[wide = j] = x[wide = j] }\n"
                               "  return y")));
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<std::string> names;
  run.module->walk([&](nd::LoopOp loop) {
    for (mlir::BlockArgument slice : loop.getSlices())
      names.push_back(getValueName(slice.getLoc()));
  });
  EXPECT_THAT(names, ElementsAre("j/u", "f/j/y"));
}

/// The sharding of each reshard, by the value that it is of.
std::vector<std::string> getPlaced(SpecRun &run) {
  std::vector<std::string> types;
  run.module->walk([&](nd::ReshardOp op) {
    types.push_back(nd::toString(
        mlir::cast<nd::NamedTensorType>(op.getType()).getSharding()));
  });
  return types;
}

/// With rules for values by their names, in loops or not.
std::string placedSpec(const std::string &rules, const std::string &body) {
  return "mesh a = 2, b = 3\nlayout { " + rules + " }\n" + loopSpec(body);
}

const std::string wideRule = R"( "*wide_*": wide -> b )";
const std::string batchRule = R"( "*batch_*": batch -> a )";

TEST(Loops, WhatIsCarriedKeepsItsSharding) {
  SpecRun before(placedSpec(wideRule, R"(
  let wide_h = x
  let h = wide_h
  for t in time { h = tanh(h) }
  output h = h)"));
  ASSERT_TRUE(before.module) << before.getText();
  EXPECT_THAT(getPlaced(before),
              ElementsAre("sharding<\"wide\"@b>", "sharding<\"wide\"@b>"));
  SpecRun inside(placedSpec(batchRule, R"(
  let h = x
  for t in time { let batch_h = tanh(h)  h = batch_h }
  output h = h)"));
  ASSERT_TRUE(inside.module) << inside.getText();
  EXPECT_THAT(getPlaced(inside),
              ElementsAre("sharding<\"batch\"@a>", "sharding<\"batch\"@a>"));
  // The block's own, then what it is carried with; and two loops.
  SpecRun both(placedSpec(wideRule + batchRule, R"(
  let wide_h = x
  let h = wide_h
  for l in layers {
    for t in time { let batch_h = tanh(h)  h = batch_h }
  }
  output h = h)"));
  ASSERT_TRUE(both.module) << both.getText();
  EXPECT_THAT(getPlaced(both),
              ElementsAre("sharding<\"wide\"@b>", "sharding<\"batch\"@a>",
                          "sharding<\"wide\"@b>"));
  SpecRun nested(placedSpec(batchRule, R"(
  let h = x
  for l in layers {
    for t in time { let batch_h = tanh(h)  h = batch_h }
  }
  output h = h)"));
  ASSERT_TRUE(nested.module) << nested.getText();
}

TEST(Loops, RulesOfValuesReachWhatLoopsInsideCarry) {
  SpecRun behind(placedSpec(batchRule, R"(
  let h = x
  for l in layers {
    for t in time { h = tanh(h) }
    for t in time { h = h * 0.5 }
    let batch_h = h
    h = batch_h
  }
  output h = h)"));
  ASSERT_TRUE(behind.module) << behind.getText();
  // Before the loops, in each of those inside, and the block's own.
  EXPECT_THAT(getPlaced(behind),
              ElementsAre("sharding<\"batch\"@a>", "sharding<\"batch\"@a>",
                          "sharding<\"batch\"@a>", "sharding<\"batch\"@a>"));
  // An inner loop yields what the outer one carries; two of them change places.
  for (const char *inside :
       {"let u = x\n for t in time { u = h }",
        "let u = h\n let v = x\n for t in time { let q = u\n u = tanh(v)\n v = "
        "q }",
        "let u = h\n let r = x\n for t in time { let w = r\n"
        "for i in layers { w = u }\n r = w\n u = tanh(u) }"}) {
    SpecRun run(placedSpec(
        batchRule, "let h = x\n for l in layers {\n" + std::string(inside) +
                       "\n let batch_h = h + u\n h = batch_h\n }\n"
                       "output h = h"));
    EXPECT_TRUE(run.module) << inside << "\n" << run.getText();
  }
  // What takes the place of another value takes its sharding.
  SpecRun turned(placedSpec(batchRule, R"(
  let h = x
  let g = x
  let f = x
  for t in time {
    let old = h
    let batch_h = exp(f)
    h = batch_h
    f = g
    g = old
  }
  output h = h + g + f)"));
  ASSERT_TRUE(turned.module) << turned.getText();
}

TEST(Loops, TermsAndElementsMayHaveRules) {
  SpecRun run(placedSpec(wideRule + batchRule, R"(
  let total = x
  let all = s
  for t in time {
    let wide_term = x * f32(t)
    total += wide_term
    let batch_element = exp(s[time = t])
    all[time = t] = batch_element
  }
  output total = total
  output all = all)"));
  ASSERT_TRUE(run.module) << run.getText();
  auto loop = getOnly<nd::LoopOp>(run);
  for (mlir::Value result : loop.getResults())
    EXPECT_FALSE(
        mlir::cast<nd::NamedTensorType>(result.getType()).getSharding());
}

} // namespace
