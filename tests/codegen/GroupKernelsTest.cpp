// Which kernels become one launch, and that it computes what they would.

#include "codegen/steps/GroupKernels.h"
#include "tests/codegen/KernelRunner.h"

#include "gtest/gtest.h"

using namespace meshc;
using namespace meshc::codegen;
using namespace meshc::test;

namespace {

const std::string sgd = "%c = arith.constant 0.125 : f32\n"
                        "%s = arith.mulf %a1, %c : f32\n"
                        "%r = arith.subf %a0, %s : f32";

std::vector<steps::KernelOp> getKernels(steps::GroupOp group) {
  auto kernels = group.getBody().getOps<steps::KernelOp>();
  return {kernels.begin(), kernels.end()};
}

/// Which operands of the group its kernel `member` reads.
std::vector<unsigned> getInputs(steps::GroupOp group, size_t member) {
  std::vector<unsigned> inputs;
  for (mlir::Value input : getKernels(group)[member].getInputs())
    inputs.push_back(mlir::cast<mlir::BlockArgument>(input).getArgNumber());
  return inputs;
}

/// Numbers of the members of each kernel on a GPU, 1 for one by itself.
std::vector<size_t> getMembers(const ProgramText &text) {
  auto runner = KernelRunner::createGpu(text.str());
  std::vector<size_t> members;
  if (!runner)
    return members;
  for (steps::StepOpInterface step : runner->getSteps()) {
    if (auto group = mlir::dyn_cast<steps::GroupOp>(step.getOperation()))
      members.push_back(getKernels(group).size());
    else if (mlir::isa<steps::KernelOp>(step.getOperation()))
      members.push_back(1);
  }
  return members;
}

using Counts = std::vector<size_t>;

/// An update of the parameter w of `dims` by the gradient g.
void addUpdate(ProgramText &text, const std::string &number,
               const std::string &dims, const std::string &body = sgd) {
  text.input("w" + number, dims);
  text.input("g" + number, dims);
  text.pointwise("u" + number, dims, {"w" + number, "g" + number}, body);
  text.output("u" + number);
}

ProgramText makeDims() {
  ProgramText text;
  text.dim("one", 1);
  text.dim("unit", 1);
  text.dim("a", 3);
  text.dim("b", 5);
  text.dim("c", 7);
  text.dim("block", 2048);
  text.dim("d", 2047);
  text.dim("e", 4101);
  return text;
}

TEST(GroupKernels, UpdatesOfEveryShapeAreOneLaunch) {
  ProgramText text = makeDims();
  size_t count = 0;
  for (const char *dims : {"a b", "c", "one", "", "block", "d", "e", "b block",
                           "a b c", "one d unit", "a one b"})
    addUpdate(text, std::to_string(count++), dims);
  EXPECT_EQ(getMembers(text), Counts{count});
  expectAgreement(text);
}

/// Several results each, and numbers that all members read.
TEST(GroupKernels, AdamIsOneLaunch) {
  ProgramText text = makeDims();
  text.input("rate", "");
  text.input("step", "");
  size_t count = 0;
  for (const char *dims : {"e", "a c", "block"}) {
    const std::string n = std::to_string(count++);
    for (const char *name : {"w", "g", "m", "v"})
      text.input(name + n, dims);
    text.pointwise("mean" + n, dims, {"m" + n, "g" + n},
                   "%c = arith.constant 0.75 : f32\n"
                   "%o = arith.mulf %a0, %c : f32\n"
                   "%r = arith.addf %o, %a1 : f32");
    text.pointwise("square" + n, dims, {"v" + n, "g" + n},
                   "%o = arith.mulf %a1, %a1 : f32\n"
                   "%p = math.absf %a0 : f32\n"
                   "%r = arith.addf %p, %o : f32");
    text.pointwise("next" + n, dims,
                   {"w" + n, "mean" + n, "square" + n, "rate", "step"},
                   "%q = math.sqrt %a2 : f32\n"
                   "%c = arith.constant 1.0 : f32\n"
                   "%d = arith.addf %q, %c : f32\n"
                   "%t = arith.mulf %a1, %a3 : f32\n"
                   "%s = arith.divf %t, %d : f32\n"
                   "%e = arith.mulf %s, %a4 : f32\n"
                   "%r = arith.subf %a0, %e : f32");
    for (const char *name : {"mean", "square", "next"})
      text.output(name + n);
  }
  EXPECT_EQ(getMembers(text), Counts{3});
  expectAgreement(text);
}

TEST(GroupKernels, OnlyEqualBodiesAndTypesGoTogether) {
  ProgramText text = makeDims();
  addUpdate(text, "0", "a b");
  addUpdate(text, "1", "c");
  addUpdate(text, "2", "b",
            "%c = arith.constant 0.25 : f32\n"
            "%s = arith.mulf %a1, %c : f32\n"
            "%r = arith.subf %a0, %s : f32");
  addUpdate(text, "3", "a",
            "%c = arith.constant 0.125 : f32\n"
            "%s = arith.mulf %a0, %c : f32\n"
            "%r = arith.subf %a1, %s : f32");
  for (const char *name : {"4", "5"}) {
    text.input(std::string("w") + name, "c");
    text.input(std::string("h") + name, "c", "bf16");
    text.pointwise(std::string("u") + name, "c",
                   {std::string("w") + name, std::string("h") + name},
                   "%c = arith.constant 0.125 : f32\n"
                   "%g = arith.extf %a1 : bf16 to f32\n"
                   "%s = arith.mulf %g, %c : f32\n"
                   "%r = arith.subf %a0, %s : f32");
    text.output(std::string("u") + name);
  }
  Counts counts = getMembers(text);
  llvm::sort(counts);
  EXPECT_EQ(counts, (Counts{1, 1, 2, 2}));
  expectAgreement(text);
}

TEST(GroupKernels, WhatDependsOnPlaceOrOnAnotherStaysAlone) {
  ProgramText text = makeDims();
  addUpdate(text, "0", "a");
  addUpdate(text, "1", "c");
  // A chain, a broadcast, a transpose, positions.
  text.contraction("p", "", "u0", "g0");
  text.input("w2", "b");
  text.pointwise("u2", "b", {"w2", "p"}, sgd);
  text.output("u2");
  text.input("w3", "a b");
  text.input("g3", "b");
  text.pointwise("u3", "a b", {"w3", "g3"}, sgd);
  text.output("u3");
  text.input("w4", "a b");
  text.input("g4", "b a");
  text.pointwise("u4", "a b", {"w4", "g4"}, sgd);
  text.output("u4");
  for (const char *name : {"u5", "u6"}) {
    text.pointwise(name, name[1] == '5' ? "b" : "c", {},
                   std::string("%i = arith.index_cast $") +
                       (name[1] == '5' ? "b" : "c") +
                       " : index to i32\n"
                       "%r = arith.sitofp %i : i32 to f32");
    text.output(name);
  }
  for (size_t count : getMembers(text))
    EXPECT_EQ(count, 1u);
  expectAgreement(text);
}

/// What a later step reads cannot wait for the others.
TEST(GroupKernels, CastsOfParametersRunAtTheStart) {
  ProgramText text = makeDims();
  for (const auto &[x, w, h, dims, result] :
       {std::tuple("x0", "w0", "h0", "a b", "a c"),
        std::tuple("x1", "w1", "h1", "d b", "d c")}) {
    text.input(x, dims, "bf16");
    text.input(w, std::string(w) == "w0" ? "b c" : "c b");
    text.pointwise(h, std::string(w) == "w0" ? "b c" : "c b", {w},
                   "%r = arith.truncf %a0 : f32 to bf16", "bf16");
    text.reduce(std::string("y") + h, result, {x, h}, "arith.addf", "0.0",
                "%l = arith.extf %a0 : bf16 to f32\n"
                "%m = arith.extf %a1 : bf16 to f32\n"
                "%r = arith.mulf %l, %m : f32");
    text.output(std::string("y") + h);
  }
  auto runner = KernelRunner::createGpu(text.str());
  ASSERT_TRUE(runner);
  ASSERT_EQ(runner->getSteps().size(), 3u);
  EXPECT_EQ(getKernels(runner->getStep<steps::GroupOp>(0)).size(), 2u);
  expectAgreement(text);
}

/// Gradients that die give their memory to results, each to its own member's.
TEST(GroupKernels, ResultsTakeTheMemoryOfTheirOwnOperands) {
  ProgramText text = makeDims();
  text.input("x", "a b");
  text.input("y", "a c");
  text.input("z", "a d");
  text.contraction("g0", "b c", "x", "y");
  text.contraction("g1", "b d", "x", "z");
  for (const char *name : {"0", "1"}) {
    const std::string n = name, dims = n == "0" ? "b c" : "b d";
    text.input("w" + n, dims);
    text.pointwise("u" + n, dims, {"w" + n, "g" + n}, sgd);
    text.output("u" + n);
  }
  auto runner = KernelRunner::createGpu(text.str());
  ASSERT_TRUE(runner);
  auto group = runner->getStep<steps::GroupOp>(runner->getSteps().size() - 1);
  ASSERT_EQ(getKernels(group).size(), 2u);
  const steps::Sharing sharing = runner->getSharing(runner->getSteps().back());
  for (size_t output : {0, 1}) {
    ASSERT_EQ(sharing[output].size(), 2u);
    for (unsigned input : sharing[output])
      EXPECT_TRUE(llvm::is_contained(getInputs(group, output), input));
  }
  expectAgreement(text);
}

/// What two members read neither may overwrite.
TEST(GroupKernels, SharedOperandsAreNotOverwritten) {
  ProgramText text = makeDims();
  text.input("x", "a b");
  text.input("y", "a c");
  text.input("z", "c d");
  text.input("w", "b c");
  text.contraction("g", "b c", "x", "y");
  text.contraction("far", "b d", "g", "z");
  text.contraction("v", "b c", "far", "z");
  text.pointwise("u0", "b c", {"w", "g"}, sgd);
  text.pointwise("u1", "b c", {"v", "g"}, sgd);
  text.output("u0");
  text.output("u1");
  auto runner = KernelRunner::createGpu(text.str());
  ASSERT_TRUE(runner);
  auto group = runner->getStep<steps::GroupOp>(runner->getSteps().size() - 1);
  ASSERT_EQ(getKernels(group).size(), 2u);
  const steps::Sharing sharing = runner->getSharing(runner->getSteps().back());
  auto areShared = [&](size_t output) {
    std::vector<bool> found;
    for (unsigned input : sharing[output])
      found.push_back(llvm::is_contained(getInputs(group, 0), input) &&
                      llvm::is_contained(getInputs(group, 1), input));
    return found;
  };
  EXPECT_EQ(areShared(0), std::vector{false});
  EXPECT_EQ(areShared(1), std::vector{false});
  expectAgreement(text);
}

/// 200 updates with three operands each: 4800 bytes of parameters.
TEST(GroupKernels, ParametersOfALaunchAreLimited) {
  ProgramText text = makeDims();
  for (int i = 0; i < 200; ++i)
    addUpdate(text, std::to_string(i), i % 2 == 0 ? "b" : "c");
  EXPECT_EQ(getMembers(text), (Counts{170, 30}));
  expectAgreement(text);
}

} // namespace
