// The model for the training step and for evaluation.

#include "SpecTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nd = meshc::nd;
using namespace meshc::frontend;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

namespace {

std::string trainingSpec(const std::string &body) {
  return "dim batch = 2\ndim wide = 3\ndim class = 5\n"
         "fn noisy(x) {\n  let y = x\n  param w: f32[wide] = ones\n"
         "  if training { y = exp(x) * w } else { y = tanh(x) * w }\n"
         "  return y\n}\n"
         "model m(x: f32[batch, wide], i: i32[batch]) {\n" +
         body +
         "\n}\ntrain {\n  minimize loss\n  optimizer adam\n  steps 2\n}\n";
}

std::vector<std::string> getOperations(SpecRun &run, llvm::StringRef program) {
  std::vector<std::string> names;
  run.module->lookupSymbol<nd::ProgramOp>(program).walk(
      [&](mlir::Operation *op) {
        names.push_back(op->getName().getStringRef().str());
      });
  return names;
}

TEST(Training, EachProgramIsElaborated) {
  SpecRun run(trainingSpec("  let h = noisy(x) as a\n  output h = h\n"
                           "  output loss = mean(h)"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run), ElementsAre("a/w"));
  EXPECT_THAT(getOperations(run, "forward"), Contains("nd.tanh"));
  EXPECT_THAT(getOperations(run, "forward"), Not(Contains("nd.exp")));
  EXPECT_THAT(getOperations(run, "training"), Contains("nd.exp"));
  EXPECT_THAT(getOperations(run, "training"), Not(Contains("nd.tanh")));
  // Names are those of the program, not numbered in the other.
  std::vector<std::string> names;
  run.module->lookupSymbol<nd::ProgramOp>("training")
      .walk([&](mlir::Operation *op) {
        if (op->getNumResults() && !meshc::isInside(op->getLoc()))
          names.push_back(meshc::getValueName(op->getLoc()));
      });
  EXPECT_THAT(names, ElementsAre("x", "i", "a/w", "a/y", "loss"));
}

/// What does not read it has one program, as before.
TEST(Training, WithoutItThereIsOneProgram) {
  SpecRun run(
      trainingSpec("  param w: f32[wide] = ones\n  let training = true\n"
                   "  if training { x = x * w }\n"
                   "  output loss = mean(x)"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_FALSE(run.module->lookupSymbol("training"));
}

/// Notes are given once, and what one of the programs checks of an input holds
/// for that program.
TEST(Training, NotesAndBoundsAreThoseOfAProgram) {
  SpecRun run(trainingSpec(
      "  param w: f32[wide] = ones\n  param v: f32[class] = ones\n"
      "  let u = v[class = i]\n  if training { u = u * w[wide = i] }\n"
      "  let all = x * u + sum(x, over = batch) * u\n"
      "  output loss = mean(all)"));
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<int64_t> bounds;
  run.module->walk([&](nd::InputOp op) {
    if (op.getName() == "i")
      bounds.push_back(int64_t(op.getIndexBound()));
  });
  EXPECT_THAT(bounds, ElementsAre(5, 3));
  EXPECT_EQ(run.diagnostics.getNotices().size(), 1u);
}

/// A dim that the training step alone has is one that rules may name.
TEST(Training, RulesHoldForBoth) {
  SpecRun run("mesh a = 2\nlayout { class -> a }\n" +
              trainingSpec("  param w: f32[wide] = ones\n"
                           "  if training { x = x + mean(f32(iota(class))) }\n"
                           "  output loss = mean(x * w)"));
  EXPECT_TRUE(run.module) << run.getText();
}

/// Of a part are the draws of samples, in loops over them too, and not what a
/// variable begins as.
TEST(Training, VariablesBeginAsOfNoPart) {
  auto draws = [](const std::string &microbatches) {
    SpecRun run(
        "dim batch = 6\nmodel m(x: f32[batch]) {\n"
        "  param w: f32[batch] = tanh(uniform(1, 2))\n  let s = 0\n"
        "  for i in batch { s += normal(0, 1, dims = ()) * x[batch = i] }\n"
        "  for i in batch' { s += normal(0, 1, dims = ()) }\n"
        "  output loss = s * sum(w * uniform(0, 1, dims = batch))\n}\n"
        "data over batch { x = npy(\"x.npy\") }\n"
        "train { minimize loss optimizer sgd(lr = 1) steps 1 " +
        microbatches + "}\n");
    EXPECT_TRUE(run.module) << run.getText();
    std::vector<std::string> programs;
    if (run.module)
      run.module->walk([&](nd::InputOp input) {
        if (input.isPart())
          programs.push_back(
              input->getParentOfType<nd::ProgramOp>().getSymName().str());
      });
    return programs;
  };
  EXPECT_THAT(draws(""), ElementsAre());
  EXPECT_THAT(draws("microbatches 2 "), ElementsAre("forward"));
}

} // namespace
