// Input made to break things: each ends in a diagnostic, soon.

#include "SpecTesting.h"

#include "frontend/syntax/Lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::frontend;
using testing::HasSubstr;

static std::string repeat(const std::string &text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i)
    all += text;
  return all;
}

static std::string model(const std::string &expression) {
  return "dim n = 3\nfn f(x) { return x }\n"
         "model m(x: f32[n]) { output o = " +
         expression + " }\n";
}

static void expectCode(const std::string &text, Code code) {
  SpecRun run(text);
  EXPECT_FALSE(run.module);
  ASSERT_TRUE(run.diagnostics.hasErrors());
  EXPECT_EQ(run.diagnostics.getErrors()[0].code, code)
      << run.getText().substr(0, 2000);
  EXPECT_LT(run.getText().size(), 40'000u);
}

TEST(Limits, NestingTenThousandDeep) {
  constexpr int depth = 10'000;
  expectCode(model(repeat("(", depth) + "x" + repeat(")", depth)),
             Code::NestingTooDeep);
  expectCode(model(repeat("f(", depth) + "x" + repeat(")", depth)),
             Code::NestingTooDeep);
  expectCode(model(repeat("-", depth) + "x"), Code::NestingTooDeep);
  expectCode(model(repeat("not ", depth) + "x"), Code::NestingTooDeep);
  expectCode(model(repeat("x ^ -", depth) + "x"), Code::NestingTooDeep);
  expectCode(model(repeat("(x, ", depth) + "x" + repeat(")", depth)),
             Code::NestingTooDeep);
  expectCode(model(repeat("(", depth)), Code::NestingTooDeep);
  expectCode(model("x " + repeat("@ [n -> ", depth)), Code::ExpectedToken);
  expectCode(repeat("model m(x: f32) { ", depth), Code::ExpectedItem);
  expectCode("model m(x: f32) { " + repeat("{ ", depth) + repeat("} ", depth) +
                 "}",
             Code::ExpectedItem);
  expectCode("model m(x: f32) { " + repeat("for i in n { ", depth) +
                 repeat("} ", depth) + "}",
             Code::NotSupported);
  expectCode(repeat("{", depth), Code::ExpectedItem);
  expectCode("fn f(x) " + repeat("{", depth), Code::ExpectedItem);
}

TEST(Limits, NestingThatIsAllowed) {
  std::string deep = repeat("(", 200) + "x" + repeat(")", 200);
  SpecRun run(model("sum(" + deep + ")"));
  EXPECT_TRUE(run.module) << run.getText();
}

TEST(Limits, LongChainsAreNotDeep) {
  SpecRun sum(model("sum(x" + repeat(" + x", 20'000) + ")"));
  EXPECT_TRUE(sum.module) << sum.getText();
  SpecRun power("let a = 1" + repeat(" ^ 1", 100'000) + "\n" + model("x"));
  EXPECT_TRUE(power.module) << power.getText();
}

TEST(Limits, NameOfTenMegabytes) {
  std::string name(10'000'000, 'a');
  expectCode("dim " + name + " = 1\n" + model("x"), Code::NameTooLong);
  expectCode(model(name), Code::NameTooLong);
  expectCode("import \"" + name + "\"\n", Code::NameTooLong);
  SpecRun run("dim " + name + " = 1\n" + model("x"));
  EXPECT_LT(run.getText().size(), 2000u);
  EXPECT_LT(render(run.diagnostics, MessageFormat::Json).size(), 4000u);
}

TEST(Limits, NumberOfTenMegabytes) {
  expectCode("dim a = " + std::string(10'000'000, '7') + "\n" + model("x"),
             Code::InvalidNumber);
}

TEST(Limits, TooManyTokens) {
  expectCode(repeat("+ ", int(Limits::tokens) + 10), Code::TooManyTokens);
}

TEST(Limits, TooManyDims) {
  std::string dims, type;
  for (int i = 0; i < 65; ++i) {
    dims += "dim d" + std::to_string(i) + " = 1\n";
    type += (i ? ", d" : "d") + std::to_string(i);
  }
  expectCode(dims + "model m(x: f32[" + type + "]) { output o = x }",
             Code::TooManyDims);
}

TEST(Limits, CallsThatDouble) {
  // 2^60 operations.
  std::string text = "dim n = 3\nfn f0(x) { return x + 1 }\n";
  for (int i = 1; i <= 60; ++i) {
    std::string call = "f" + std::to_string(i - 1) + "(x)";
    text += "fn f" + std::to_string(i) + "(x) { return " + call + " + " + call +
            " }\n";
  }
  expectCode(text + "model m(x: f32[n]) { output o = f60(x) }",
             Code::ProgramTooLarge);
}

TEST(Limits, NumbersThatDouble) {
  // The values stay 0, so that nothing overflows.
  std::string text = "dim n = 3\nfn f0(x) { return x }\n";
  for (int i = 1; i <= 60; ++i) {
    std::string call = "f" + std::to_string(i - 1) + "(x)";
    text += "fn f" + std::to_string(i) + "(x) { return " + call + " + " + call +
            " }\n";
  }
  expectCode(text + "model m(x: f32[n]) { output o = x * f60(0) }",
             Code::ProgramTooLarge);
}

TEST(Limits, CallsNestedThroughManyFunctions) {
  std::string text = "dim n = 3\nfn f0(x) { return x }\n";
  for (int i = 1; i <= 3000; ++i)
    text += "fn f" + std::to_string(i) + "(x) { return f" +
            std::to_string(i - 1) + "(x) }\n";
  expectCode(text + "model m(x: f32[n]) { output o = f3000(x) }",
             Code::ProgramTooLarge);
}

TEST(Limits, DefinitionsThatLeadFarBack) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += "dim a" + std::to_string(i) + " = a" + std::to_string(i + 1) + "\n";
  expectCode(text + "dim a5000 = 2\n" + model("x"), Code::ProgramTooLarge);
  SpecRun forward("dim b0 = 2\n" + [] {
    std::string dims;
    for (int i = 1; i < 5000; ++i)
      dims +=
          "dim b" + std::to_string(i) + " = b" + std::to_string(i - 1) + "\n";
    return dims;
  }() + model("x"));
  EXPECT_TRUE(forward.module) << forward.getText();
}

TEST(Limits, EmptyAndCommentOnly) {
  expectCode("", Code::MissingModel);
  expectCode("\xEF\xBB\xBF", Code::MissingModel);
  expectCode("// nothing", Code::MissingModel);
}
