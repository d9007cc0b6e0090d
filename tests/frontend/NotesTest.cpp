// What is said of specs that compile: results whose dims no operand has all of.

#include "SpecTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

using namespace meshc::frontend;
using testing::HasSubstr;

namespace {

std::string getSpec(const std::string &body,
                    const std::string &functions = "") {
  return "dim batch = 7\ndim d = 5\ndim e = 5\ndim f = 3\n" + functions +
         "model m(x: f32[batch, d], y: f32[batch, e], z: f32[batch, f], "
         "time: f32[batch], n: i32[d], k: i32[e]) {\n"
         "  param bias: f32[e] = zeros\n"
         "  param rows: f32[d, f] = zeros\n"
         "  param columns: f32[e, f] = zeros\n" +
         body + "\n  output all = sum(v)\n}\n";
}

/// The notices of a spec that compiles.
std::vector<Diagnostic> getNotices(const SpecRun &run) {
  EXPECT_TRUE(run.module) << run.getText();
  return run.diagnostics.getNotices();
}

} // namespace

TEST(Notes, AllPairs) {
  const std::pair<const char *, const char *> cases[] = {
      {"x + y", "x + y"},
      {"x * y", "x * y"},
      {"1 + (x - z)", "x - z"},
      {"x / exp(y)", "x / exp(y)"},
      {"exp(x) ^ y", "exp(x) ^ y"},
      {"x + bias", "x + bias"},
      {"maximum(x, y)", "maximum(x, y)"},
      {"where(time > 0, x, y)", "where(time > 0, x, y)"},
      {"einsum(x, rows, over = d) * y + 1", "einsum(x, rows, over = d) * y"},
  };
  for (auto [expression, marked] : cases) {
    SpecRun run(getSpec(std::string("  let v = ") + expression));
    std::vector<Diagnostic> notices = getNotices(run);
    ASSERT_EQ(notices.size(), 1u) << expression;
    EXPECT_EQ(notices[0].code, Code::OuterResult);
    EXPECT_EQ(notices[0].level, Level::Note);
    EXPECT_EQ(run.sources.getText(notices[0].primary), marked);
  }
}

TEST(Notes, AllPairsSaysWhatToWrite) {
  SpecRun one(getSpec("  let v = x + y"));
  Diagnostic note = getNotices(one).at(0);
  EXPECT_EQ(note.message, "\"+\" of f32[batch, d] and f32[batch, e] is "
                          "f32[batch, d, e]: all pairs of positions");
  ASSERT_EQ(note.helps.size(), 2u);
  EXPECT_THAT(note.helps[0], HasSubstr("rename(..., e -> d)"));
  EXPECT_THAT(note.helps[1], HasSubstr("broadcast(..., e)"));
  // What it says to write is silent.
  for (const char *expression : {"x + rename(y, e -> d)", "broadcast(x, e) + y",
                                 "einsum(x, y -> batch, d, e)"}) {
    SpecRun run(getSpec(std::string("  let v = ") + expression));
    EXPECT_TRUE(getNotices(run).empty()) << expression;
  }
  // Dims of two sizes are not one.
  SpecRun two(getSpec("  let v = x + z"));
  EXPECT_EQ(getNotices(two).at(0).helps.size(), 1u);
}

TEST(Notes, WhatIsMeantIsSilent) {
  for (const char *expression :
       {// biases, gains, tables of positions
        "x + time", "y + bias", "y * bias + 1",
        // a layer of one feature
        "time * bias", "time * bias + bias", "x * columns + bias",
        "x - mean(x, over = d)", "x * 2 + 1",
        // masks and one-hot rows
        "f32(iota(d) >= iota(e))", "where(iota(d) >= iota(e), x, -inf)",
        "f32(n == k)", "f32(x > y)", "where(x > y, x, 0)",
        // positions, and tables of them and of parameters
        "time * f32(iota(d))", "f32(iota(d)) * exp(f32(iota(f)))", "n * k",
        "n + k * 5", "rows + columns", "einsum(rows, rows -> d) + bias"}) {
    SpecRun run(getSpec(std::string("  let v = ") + expression));
    EXPECT_TRUE(getNotices(run).empty())
        << expression << "\n"
        << renderNotices(run.diagnostics, MessageFormat::Text);
  }
}

/// In loops too, where what a parameter is sliced from is a parameter.
TEST(Notes, Loops) {
  auto getLoop = [](const std::string &term) {
    return getSpec("  param a, b: f32[f, d] = zeros\n"
                   "  let v = time\n"
                   "  for t in f { v += sum(" +
                   term + ", over = (d, d')) }");
  };
  SpecRun silent(getLoop("a[f = t] + rename(b[f = t], d -> d')"));
  EXPECT_TRUE(getNotices(silent).empty())
      << renderNotices(silent.diagnostics, MessageFormat::Text);
  SpecRun outer(getLoop("x + rename(b[f = t], d -> d')"));
  EXPECT_EQ(getNotices(outer).size(), 1u);
}

/// Once for a function, at the user's line for the library.
TEST(Notes, Calls) {
  SpecRun run(getSpec("  let v = g(x) as one + g(x) as two",
                      "fn g(x) {\n  param w: f32[e] = ones\n"
                      "  return x + w\n}\n"));
  std::vector<Diagnostic> notices = getNotices(run);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(run.sources.getText(notices[0].primary), "x + w");
  ASSERT_EQ(notices[0].labels.size(), 1u);
  EXPECT_EQ(run.sources.getText(notices[0].labels[0].span), "g(x) as one");
}

/// The note would be noise if it spoke of programs that are meant.
TEST(Notes, SamplesAreSilent) {
  size_t numSpecs = 0;
  for (const char *folder : {SAMPLES_DIRECTORY, SAMPLES_DIRECTORY "/../bench",
                             SAMPLES_DIRECTORY "/../tests/end_to_end"})
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".mesh")
        continue;
      ++numSpecs;
      SpecRun run(SpecOptions{entry.path().string()});
      EXPECT_TRUE(getNotices(run).empty())
          << renderNotices(run.diagnostics, MessageFormat::Text);
    }
  EXPECT_GE(numSpecs, 14u);
}
