// if: one branch exists, and what it rebinds.

#include "SpecTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nd = meshc::nd;
using namespace meshc::frontend;
using ::testing::ElementsAre;

namespace {

std::string branchSpec(const std::string &functions, const std::string &body) {
  return "dim batch = 2\ndim wide = 3\ndim time = 5\nlet deep = 1 < 2\n" +
         functions + "\nmodel m(x: f32[batch, wide], s: f32[time, batch]) {\n" +
         body + "\n}\n";
}

/// The operations of a program by name, those of loops too.
std::vector<std::string> getOperations(SpecRun &run) {
  std::vector<std::string> names;
  run.module->lookupSymbol<nd::ProgramOp>("forward").walk(
      [&](mlir::Operation *op) {
        names.push_back(op->getName().getStringRef().str());
      });
  return names;
}

/// A program with branches is what their statements are in their place.
void expectSame(const std::string &functions, const std::string &branches,
                const std::string &plain, SpecOptions options = {"test.mesh"}) {
  SpecRun with(branchSpec(functions, branches), options);
  ASSERT_TRUE(with.module) << with.getText();
  SpecRun without(branchSpec(functions, plain));
  ASSERT_TRUE(without.module) << without.getText();
  EXPECT_EQ(getOperations(with), getOperations(without)) << branches;
  EXPECT_EQ(getOwnNames(with), getOwnNames(without)) << branches;
  EXPECT_EQ(getParameterNames(with), getParameterNames(without)) << branches;
}

TEST(Branches, OneExists) {
  for (const char *holds :
       {"true", "deep", "not false", "wide > batch and time == 5", "2 < 3",
        "deep == true", "size(time) >= 5", "wide != batch or 1 > inf"}) {
    expectSame("",
               std::string("  if ") + holds +
                   " { x = exp(x) } else { x = log(x) }\n  output o = x",
               "  x = exp(x)\n  output o = x");
    expectSame("",
               std::string("  if not (") + holds +
                   ") { x = exp(x) } else { x = log(x) }\n  output o = x",
               "  x = log(x)\n  output o = x");
  }
  expectSame("", "  if false { x = exp(x) }\n  output o = x", "  output o = x");
  // What does not exist is not elaborated.
  expectSame("", "  if deep { x = x } else { x = nowhere(x) }\n  output o = x",
             "  output o = x");
  expectSame("",
             "  if wide < 3 { x = abs(x) } else if wide == 3 { x = tanh(x) } "
             "else { x = exp(x) }\n  output o = x",
             "  x = tanh(x)\n  output o = x");
}

TEST(Branches, TruthsOfTheCommandLine) {
  SpecOptions options{"test.mesh"};
  options.defines = {"deep=batch > 2"};
  expectSame("", "  if deep { x = exp(x) }\n  output o = x", "  output o = x",
             options);
}

/// A branch may give a name a value of another type, numbers and dims too.
TEST(Branches, RebindWhatTheyLike) {
  expectSame(
      "",
      "  let n = 2\n  let over = wide\n"
      "  if deep {\n    x = sum(x, over = wide)\n    n = n + 1\n"
      "    over = batch\n  }\n  output o = sum(x, over = over) * n",
      "  x = sum(x, over = wide)\n  output o = sum(x, over = batch) * 3");
}

TEST(Branches, HaveParametersAndNamesOfTheirOwn) {
  const std::string norm = "fn norm(x, biased: truth) {\n"
                           "  param gain: f32[wide] = ones\n"
                           "  x = x * gain\n"
                           "  if biased {\n"
                           "    param bias: f32[wide] = zeros\n"
                           "    let y = x + bias\n    x = y\n  }\n"
                           "  return x\n}\n";
  SpecRun run(branchSpec(norm, "  let a = norm(x, true) as a\n"
                               "  let b = norm(a, false) as b\n"
                               "  output o = b"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run),
              ElementsAre("a/gain", "a/bias", "b/gain"));
}

/// What no branch that exists does is not carried: a map stays one.
TEST(Branches, InLoops) {
  expectSame("",
             "  let all = s\n  let total = 0\n  let h = sum(x, over = wide)\n"
             "  for t in time {\n    let last = wide > 2\n"
             "    if last { all[time = t] = exp(s[time = t]) }\n"
             "    else { h = h + 1 }\n"
             "    if not last { total += h } else if deep { total += 2 * h }\n"
             "  }\n  output a = all\n  output t = total\n  output h = h",
             "  let all = s\n  let total = 0\n  let h = sum(x, over = wide)\n"
             "  for t in time {\n"
             "    all[time = t] = exp(s[time = t])\n    total += 2 * h\n"
             "  }\n  output a = all\n  output t = total\n  output h = h");
  SpecRun map(branchSpec("", "  let h = x\n  let u = s\n  for t in time {\n"
                             "    if not deep { h = h + 1 }\n"
                             "    u[time = t] = exp(s[time = t])\n  }\n"
                             "  output u = u\n  output h = h"));
  ASSERT_TRUE(map.module) << map.getText();
  EXPECT_EQ(getOnly<nd::LoopOp>(map).getInitial().size(), 0u);
  // A sum of a branch that does not exist is none.
  SpecRun none(branchSpec("", "  let n = 0\n  let u = s\n  for t in time {\n"
                              "    if f(1) { n += 1 }\n"
                              "    u[time = t] = s[time = t]\n  }\n"
                              "  output u = u + n\n}\n"
                              "fn f(x) { return x > 1"));
  ASSERT_TRUE(none.module) << none.getText();
  EXPECT_EQ(getOnly<nd::LoopOp>(none).getSummedResults().size(), 0u);
}

/// One mistake, one error.
TEST(Branches, WhatIsNotDecidedIsSilent) {
  SpecRun run(branchSpec("", "  let h = 1\n"
                             "  if sum(x) > 0 { h = 2 x = exp(x) }\n"
                             "  if h > 1 { x = log(x) }\n"
                             "  for t in time { if nil { h = 2 * h } }\n"
                             "  output o = x + h"));
  EXPECT_EQ(run.diagnostics.getErrors().size(), 2u) << run.getText();
  SpecRun refused(branchSpec("fn f(x, n) {\n  if true { assert n > 2 }\n"
                             "  return x + nil\n}\n",
                             "  output o = f(x, 2)"));
  EXPECT_EQ(refused.diagnostics.getErrors().size(), 1u) << refused.getText();
}

} // namespace
