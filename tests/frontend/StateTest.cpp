// State: what declares it, and what the program for training writes.

#include "SpecTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nd = meshc::nd;
using namespace meshc::frontend;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

std::string stateSpec(const std::string &body) {
  return "dim batch = 2\ndim wide = 3\ndim time = 5\ndim layers = 7\n"
         "fn count(x) {\n  state n: i32 = 0\n  n = n + 1\n"
         "  return x * f32(n)\n}\n"
         "model m(x: f32[batch, wide]) {\n" +
         body + "\n}\n";
}

/// The variables that a program writes, with the dims of their values.
std::vector<std::string> getWritten(SpecRun &run, llvm::StringRef program) {
  std::vector<std::string> written;
  run.module->lookupSymbol<nd::ProgramOp>(program).walk([&](nd::WriteOp op) {
    std::string text = op.getVariable().str();
    for (const std::string &dim : getDims(op.getValue()))
      text += " " + dim;
    written.push_back(text);
  });
  return written;
}

TEST(State, TrainingAloneWritesIt) {
  SpecRun run(stateSpec("  state a, b: f32[wide] = 0\n"
                        "  a = 0.5 * a + mean(x, over = batch)\n"
                        "  if training { b = a }\n"
                        "  output o = sum(a * b)"));
  ASSERT_TRUE(run.module) << run.getText();
  for (auto variable : run.module->getOps<nd::VariableOp>())
    EXPECT_EQ(variable.getRole(), nd::VariableRole::ModelState);
  EXPECT_THAT(getParameterNames(run), ElementsAre("a", "b"));
  EXPECT_THAT(getWritten(run, "forward"), IsEmpty());
  EXPECT_THAT(getWritten(run, "training"), ElementsAre("a wide", "b wide"));
}

/// One for each iteration, as parameters are; the outer loop's dim comes first.
TEST(State, InLoops) {
  SpecRun run(stateSpec("  for l in layers {\n"
                        "    x = count(x) as c\n"
                        "    for t in time {\n"
                        "      state s: f32[wide] = 1\n"
                        "      s = s * mean(x, over = batch)\n"
                        "      x = x + s\n    }\n  }\n"
                        "  output o = x"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getWritten(run, "training"),
              ElementsAre("l/c/n layers", "l/t/s layers time wide"));
}

/// In the order of the lines; what the last call leaves is kept.
TEST(State, SharedCallsAreAChain) {
  SpecRun run(stateSpec("  let a = count(x) as one\n"
                        "  let b = count(a) with one as two\n"
                        "  let c = count(b) with two as three\n"
                        "  output o = c"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getWritten(run, "training"), ElementsAre("one/n"));
  auto training = run.module->lookupSymbol<nd::ProgramOp>("training");
  nd::WriteOp write = *training.getOps<nd::WriteOp>().begin();
  int additions = 0;
  mlir::Value value = write.getValue();
  while (auto add = value.getDefiningOp<nd::AddOp>()) {
    value = add->getOperand(0);
    ++additions;
  }
  EXPECT_EQ(additions, 3);
  EXPECT_TRUE(value.getDefiningOp<nd::ReadOp>());
}

/// How many values each loop of the program for training carries.
std::vector<unsigned> getNumCarried(SpecRun &run) {
  std::vector<unsigned> counts;
  run.module->lookupSymbol<nd::ProgramOp>("training").walk([&](nd::LoopOp op) {
    counts.push_back(op.getInitial().size());
  });
  return counts;
}

/// A loop around a call hands on what its iterations leave of the state of a
/// call outside: here beside x and, in the inner loop, the position's own one.
TEST(State, LoopsCarryThatOfCallsOutside) {
  SpecRun run(stateSpec("  x = count(x) as c\n"
                        "  for t in time {\n"
                        "    x = count(x) with c\n"
                        "    for l in layers {\n"
                        "      x = count(x) with c\n"
                        "      x = count(x) as own\n"
                        "    }\n  }\n"
                        "  x = count(x) with c\n"
                        "  output o = x"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getNumCarried(run), ElementsAre(2, 2));
  EXPECT_THAT(getWritten(run, "forward"), IsEmpty());
  EXPECT_THAT(getWritten(run, "training"),
              ElementsAre("c/n", "t/l/own/n time layers"));
}

/// What no iteration sets is not carried: such a loop is one computation.
TEST(State, LoopsCarryNothingThatTheyDoNotSet) {
  SpecRun run(
      stateSpec("  let all = broadcast(x, time)\n"
                "  let y = keep(x, true) as k\n"
                "  for t in time { all[time = t] = keep(x, false) with k }\n"
                "  output o = sum(all) + sum(y)") +
      "fn keep(x, sets) {\n  state n: f32[wide] = 0\n"
      "  if sets { n = n + 1 }\n  return x + n\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getNumCarried(run), ElementsAre(0));
}

/// The second call begins with what the loop of the first one has left, each
/// iteration with its own.
TEST(State, ChainsOfCallsWithLoops) {
  SpecRun run("dim wide = 3\ndim layers = 7\n"
              "fn f(x) {\n  for l in layers {\n    state s: f32[wide] = 1\n"
              "    s = s + x\n    x = 2 * s\n  }\n  return x\n}\n"
              "model m(x: f32[wide]) {\n  let a = f(x) as one\n"
              "  output b = f(a) with one\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getWritten(run, "training"), ElementsAre("one/l/s layers wide"));
  std::vector<nd::LoopOp> loops;
  auto training = run.module->lookupSymbol<nd::ProgramOp>("training");
  training.walk([&](nd::LoopOp op) { loops.push_back(op); });
  ASSERT_EQ(loops.size(), 2u);
  ASSERT_EQ(loops[1].getSliced().size(), 1u);
  EXPECT_EQ(loops[1].getSliced()[0].getDefiningOp(), loops[0]);
}

/// Numbers become tensors of its type; integers and truths can be state.
TEST(State, OfNumbers) {
  SpecRun run(stateSpec("  state a: f32[wide] = 2\n"
                        "  state ran: bool = false\n"
                        "  state at: i64[wide] = 3\n"
                        "  state most: i32[wide] = iota(wide) * 2\n"
                        "  a = 1\n  ran = true\n  at = at + 1\n"
                        "  most = maximum(most, 1)\n"
                        "  output o = x"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getWritten(run, "training"),
              ElementsAre("a wide", "at wide", "most wide", "ran"));
}

/// It lies as the table says, and is stored as it was declared.
TEST(State, OfValuesThatLieOtherwise) {
  SpecRun run("layout { \"averaged\": wide -> () }\n" +
              stateSpec("  state a: f32[wide] = 2\n"
                        "  state b: bool[batch, wide] = false\n"
                        "  let averaged = mean(x, over = batch)\n"
                        "  a = averaged\n"
                        "  b = iota(wide) > iota(batch)\n"
                        "  output o = x"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getWritten(run, "training"),
              ElementsAre("a wide", "b batch wide"));
}

/// It is what a block rebinds, and what a loop outside of it carries.
TEST(State, RebindsInBlocks) {
  SpecRun run(stateSpec("  state a: f32[wide] = 2\n"
                        "  state b: f32 = 0\n"
                        "  for t in time { a = a * 2  b += sum(a) }\n"
                        "  if training { if true { b = b + 1 } }\n"
                        "  output o = x"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getWritten(run, "training"), ElementsAre("a wide", "b"));
}

/// Without training nothing has to set it.
TEST(State, MayStayWithoutATrainBlock) {
  SpecRun run(stateSpec("  state a: f32[wide] = 2\n  output o = x * a"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getWritten(run, "training"), IsEmpty());
}

} // namespace
