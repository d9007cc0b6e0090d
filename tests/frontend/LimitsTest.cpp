// Input made to break things: each ends in a diagnostic, soon.

#include "SpecTesting.h"

#include "frontend/syntax/Lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

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
  expectCode(model("x" + repeat("[n = 0]", depth)), Code::NestingTooDeep);
  expectCode(model(repeat("x[n = ", depth) + "0" + repeat("]", depth)),
             Code::NestingTooDeep);
  expectCode(repeat("model m(x: f32) { ", depth), Code::ExpectedItem);
  expectCode("model m(x: f32) { " + repeat("{ ", depth) + repeat("} ", depth) +
                 "}",
             Code::ExpectedItem);
  expectCode("model m(x: f32) { " + repeat("for i in n { ", depth) +
                 repeat("} ", depth) + "}",
             Code::NestingTooDeep);
  expectCode("model m(x: f32) { " + repeat("if x { ", depth) +
                 repeat("} ", depth) + "}",
             Code::NestingTooDeep);
  expectCode("model m(x: f32) { if x { } " + repeat("else if x { } ", depth) +
                 "}",
             Code::NestingTooDeep);
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

/// Of the top level and of functions, with as many primes as a name holds.
TEST(Limits, ManyDims) {
  std::string dims, body, sizes;
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "d" + std::to_string(i);
    dims += "dim " + name + " = 2\n";
    body += "  dim own" + name + " = size(" + name + ")\n";
  }
  const std::string primes =
      "own" + std::string("d9999") + std::string(247, '\'');
  SpecRun run(dims + "fn f(x) {\n" + body + "  return x + sum(f32(iota(" +
              primes + ")))\n}\nmodel m(x: f32[d0]) { output o = f(x) }\n");
  EXPECT_TRUE(run.module) << run.getText().substr(0, 2000);
  expectCode("fn f(x) {\n" + body, Code::ExpectedToken);
  expectCode("fn f(x) {\n  dim a = 1\n  return iota(a" +
                 std::string(256, '\'') + ")\n}\n" + model("f(x)"),
             Code::NameTooLong);
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

/// Functions call0 to call<n>, each of which calls the one before it in `body`,
/// and a model that applies the last to `argument`.
static std::string callChain(int length, const std::string &first,
                             const std::string &body,
                             const std::string &argument) {
  std::string text = "dim n = 3\nfn call0(x) { return " + first + " }\n";
  for (int i = 1; i <= length; ++i) {
    std::string step = body;
    for (size_t at; (at = step.find("before")) != std::string::npos;)
      step.replace(at, 6, "call" + std::to_string(i - 1));
    text += "fn call" + std::to_string(i) + "(x) { return " + step + " }\n";
  }
  return text + "model m(x: f32[n]) { output o = x * call" +
         std::to_string(length) + "(" + argument + ") }";
}

/// That a limit is what ends it, long before anybody would interrupt it. The
/// bound holds on a busy machine under a sanitizer too.
static void expectSoonTooLarge(const std::string &text) {
  auto begin = std::chrono::steady_clock::now();
  expectCode(text, Code::ProgramTooLarge);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Limits, CallsThatDouble) {
  // 2^60 operations.
  expectSoonTooLarge(callChain(60, "x + 1", "before(x) + before(x)", "x"));
}

TEST(Limits, NumbersThatDouble) {
  // The values stay 0, so that nothing overflows.
  expectSoonTooLarge(callChain(60, "x", "before(x) + before(x)", "0"));
}

TEST(Limits, CallsNestedThroughManyFunctions) {
  expectSoonTooLarge(callChain(3000, "x", "before(x)", "x"));
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
