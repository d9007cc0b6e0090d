// Which numbers of a spec can be set when a training starts, and what updates
// compute with then.

#include "SpecTesting.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

using namespace meshc;
using namespace meshc::frontend;
using testing::HasSubstr;
using testing::Not;

/// The module of a model with one parameter.
static std::string compile(const std::string &numbers,
                           const std::string &optimizer,
                           const std::string &factor = "1",
                           const std::string &more = "") {
  SpecRun compiled("dim batch = 3\n" + numbers + more +
                   "model m(x: f32[batch]) {\n  param w: f32 = 1\n"
                   "  output loss = sum((w * x) ^ 2) * " +
                   factor + "\n}\ntrain {\n  minimize loss\n  optimizer " +
                   optimizer + "\n}\n");
  EXPECT_EQ(compiled.getText(), "");
  return compiled.printModule();
}

TEST(Settings, UpdatesReadThem) {
  const std::string module =
      compile("let lr = 0.5\nlet half = lr / 2\n", "sgd(lr = 1 - 3 * -half)");
  EXPECT_THAT(module, HasSubstr("nd.setting \"lr\" = \"0.5\"\n"));
  EXPECT_THAT(module, HasSubstr("nd.setting \"half\" = \"lr 2 /\"\n"));
  EXPECT_THAT(module,
              HasSubstr("nd.input \"setting 1 3 half ~ * -\" : !scalar"));
}

TEST(Settings, WhatTheModelReadsIsFixed) {
  std::string module = compile("let a = 0.5\nlet b = a * 2\nlet c = 3\n",
                               "sgd(lr = a + b + c)", "b");
  EXPECT_THAT(module, HasSubstr("nd.setting \"a\" = \"0.5\" fixed"));
  EXPECT_THAT(module, HasSubstr("nd.setting \"b\" = \"a 2 *\" fixed"));
  EXPECT_THAT(module, HasSubstr("nd.setting \"c\" = \"3\"\n"));
  EXPECT_THAT(module, HasSubstr("\"setting a b + c +\""));
  module = compile("let a = 0.5\n", "sgd(lr = a)", "a");
  EXPECT_THAT(module, Not(HasSubstr("\"setting")));
}

TEST(Settings, ChainsOfDefinitionsAreShort) {
  // Each of them hangs on all before it: in time and memory of their number.
  std::string numbers = "let n0 = 0.5\n";
  for (int i = 1; i < 10'000; ++i)
    numbers += fmt::format("let n{} = n{} + 1\n", i, i - 1);
  const std::string module = compile(numbers, "sgd(lr = n9999)", "n5000");
  EXPECT_THAT(module, HasSubstr("nd.setting \"n5000\" = \"n4999 1 +\" fixed"));
  EXPECT_THAT(module, HasSubstr("nd.setting \"n0\" = \"0.5\" fixed"));
  EXPECT_THAT(module, HasSubstr("nd.setting \"n5001\" = \"n5000 1 +\"\n"));
  EXPECT_THAT(module, HasSubstr("nd.input \"setting n9999\""));
}

TEST(Settings, SizesAndExponentsAreFixed) {
  const std::string module =
      compile("let n = 3\ndim some = n * 2\nlet p = 2\nlet q = 3\n",
              "own(lr = n, power = p, count = q)", "1",
              "fn own(w, g, lr, power, count) {\n  dim own = count\n"
              "  return w - lr * (g + 0 * sum(f32(iota(own)))) ^ power\n}\n");
  for (const char *name : {"n\" = \"3", "p\" = \"2", "q\" = \"3"})
    EXPECT_THAT(module,
                HasSubstr(std::string("nd.setting \"") + name + "\" fixed"));
}

TEST(Settings, ComparisonsAreRequired) {
  const std::string module =
      compile("let lr = 0.5\nlet beta = 0.25\n",
              "momentum(lr = maximum(lr, beta), beta = beta)");
  // As asserted by the library.
  for (const char *holds : {"beta 0 >=", "beta 1 <", "lr 0 >=", "lr beta >="})
    EXPECT_THAT(module,
                HasSubstr(std::string("nd.requirement \"") + holds + "\"\n"));
  EXPECT_THAT(module, Not(HasSubstr("fixed")));
}

TEST(Settings, WhatComesBehindFixesToo) {
  // Only the second optimizer has a branch that hangs on the size of p.
  SpecRun compiled(
      "dim batch = 3\nlet p = 2\n"
      "fn own(w, g, lr) {\n  dim of = lr\n"
      "  return w - g * sum(f32(iota(of)))\n}\n"
      "model m(x: f32[batch]) {\n  param v: f32 = 1\n  param w: f32 = 1\n"
      "  output loss = sum((v * w * x) ^ 2)\n}\ntrain {\n  minimize loss\n"
      "  optimizer sgd(lr = p) for \"v\"\n  optimizer own(lr = p)\n}\n");
  EXPECT_EQ(compiled.getText(), "");
  const std::string module = compiled.printModule();
  EXPECT_THAT(module, HasSubstr("nd.setting \"p\" = \"2\" fixed"));
  EXPECT_THAT(module, Not(HasSubstr("\"setting")));
}

TEST(Settings, WithoutTrainingThereAreNone) {
  SpecRun compiled("dim batch = 3\nlet a = 2\nmodel m(x: f32[batch]) {\n"
                   "  output y = a * x\n}\n");
  EXPECT_EQ(compiled.getText(), "");
  EXPECT_THAT(compiled.printModule(), Not(HasSubstr("nd.setting")));
}

TEST(Settings, RatesAreToldAtSomeSteps) {
  const std::string module =
      compile("let lr = 0.5\n", "adam(lr = lr * linear(0, 100))\n  steps 40");
  EXPECT_THAT(module, HasSubstr("#nd.rate<\"adam/lr\" at [1, 10, 40] = "
                                "[4.950000e-01, 4.500000e-01, 3.000000e-01]>"));
}
