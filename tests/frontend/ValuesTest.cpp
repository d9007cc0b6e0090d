// What statements bind: several results, values of a type, dims of functions.

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

//===-- Types -------------------------------------------------------------===//

/// A number of a type is a tensor of that, wherever it goes.
TEST(Values, ATypeMakesATensorOfANumber) {
  SpecRun run(
      valueSpec("fn f(over: dims, n) {\n  let h: f32[over] = n\n"
                "  return h\n}\n",
                "  let h: f32[batch, wide] = 0\n"
                "  let n: i32[time] = wide\n  let m: bool[time] = 1 < 2\n"
                "  let one: f32 = 1\n"
                "  for t in time { h = x + h }\n"
                "  output h = h\n  output n = n\n  output m = m\n"
                "  output one = one\n  output f = f((wide, time), -inf)"));
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<std::string> types;
  run.module->walk([&](nd::OutputOp op) {
    std::string text;
    llvm::raw_string_ostream(text) << op.getValue().getType();
    types.push_back(text);
  });
  EXPECT_THAT(types,
              ElementsAre("!nd.tensor<[\"batch\"=2, \"wide\"=3], f32>",
                          "!nd.tensor<[\"time\"=5], i32>",
                          "!nd.tensor<[\"time\"=5], i1>", "!nd.tensor<[], f32>",
                          "!nd.tensor<[\"wide\"=3, \"time\"=5], f32>"));
  EXPECT_THAT(getOwnNames(run), IsSupersetOf({"h", "n", "m", "one", "f/h"}));
}

/// A type that fits adds nothing to the program.
TEST(Values, TypesThatFit) {
  const std::string body = " = x * 2\n  output o = h";
  SpecRun plain(valueSpec("", "  let h" + body));
  ASSERT_TRUE(plain.module) << plain.getText();
  for (const char *type : {"f32[batch, wide]", "[wide, batch]", "f32[..]",
                           "[.., batch]", "[..]", "f32[.., wide]"}) {
    SpecRun run(valueSpec("", std::string("  let h: ") + type + body));
    ASSERT_TRUE(run.module) << type << "\n" << run.getText();
    std::string text = run.printModule();
    EXPECT_EQ(text, plain.printModule()) << type;
  }
}

//===-- Dims of functions -------------------------------------------------===//

const std::string halves = "fn halves(x, over: dim) {\n"
                           "  dim half = over / 2\n"
                           "  dim two = 2\n"
                           "  param w: f32[half] = ones\n"
                           "  let parts = x[over = 2 * half + two] * w\n"
                           "  return sum(parts, over = (half, two))\n}\n";

/// Each call has its own, called like its values.
TEST(Values, DimsOfFunctionsAreThoseOfACall) {
  SpecRun both("dim four = 4\ndim ten = 10\n" +
               valueSpec(halves,
                         "  let a = halves(f32(iota(four)), four) as a\n"
                         "  let b = halves(f32(iota(ten)), ten) as b\n"
                         "  output o = a + b\n"));
  ASSERT_TRUE(both.module) << both.getText();
  std::vector<std::string> dims;
  both.module->walk([&](nd::DimOp op) {
    dims.push_back(op.getName().str() + " " + std::to_string(op.getSize()));
  });
  EXPECT_THAT(dims,
              IsSupersetOf({"a/half 2", "a/two 2", "b/half 5", "b/two 2"}));
  EXPECT_THAT(getParameterNames(both), ElementsAre("a/w", "b/w"));
}

/// They hide those of the top level, go into other functions, and may be those
/// of a loop.
TEST(Values, DimsOfFunctionsAreDims) {
  SpecRun run(
      valueSpec("fn inner(x, over: dim) { return sum(x, over = over) }\n"
                "fn f(x) {\n  dim time = 7\n"
                "  dim more = time + 1\n"
                "  let z: f32[more'] = 0\n"
                "  for t in time { z = z + inner(f32(iota(more)), more) }\n"
                "  return x + sum(z)\n}\n",
                "  output o = f(x)\n  output s = s"));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_EQ(getOnly<nd::LoopOp>(run).getDim().getName(), "f/time");
  EXPECT_THAT(getDims(getOnly<nd::LoopOp>(run).getInitial()[0]),
              ElementsAre("f/more'"));
}

} // namespace
