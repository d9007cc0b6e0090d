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
  SpecRun run(stateSpec("  state a: f32[wide] = 2\n"
                        "  state b: bool[batch, wide] = false\n"
                        "  a = mean(x, over = batch) @ [wide -> ()]\n"
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
