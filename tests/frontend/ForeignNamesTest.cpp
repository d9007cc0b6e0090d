// The table of names of other systems: what stands for them is there.

#include "SpecTesting.h"

#include "frontend/syntax/ForeignNames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace meshc::frontend;

namespace {

/// A model with all that is written in the place of names, around `type`,
/// `initializer` and `expression`.
SpecRun compile(const std::string &type, const std::string &initializer,
                const std::string &expression) {
  return SpecRun(
      "dim from = 3\ndim to = 3\ndim class = 2\n"
      "model m(x: f32[from], y: f32[from], a: f32[from], b: f32[from],"
      " low: f32[from], high: f32[from], label: i32[from]) {\n"
      "  param p: " +
      type + "[from] = " + initializer + "\n  output o = " + expression +
      "\n}\n");
}

/// A model with what is written over dims that a call brings along.
SpecRun compileJoint(const std::string &expression) {
  return SpecRun("dim first = 3\ndim second = 2\ndim to = first + second\n"
                 "dim side = 2\ndim d = 5\n"
                 "model m(x: f32[d], a: f32[first], b: f32[second]) {\n"
                 "  output o = " +
                 expression + "\n}\n");
}

bool has(const SpecRun &run, Code code) {
  const std::vector<Diagnostic> &errors = run.diagnostics.getErrors();
  return std::any_of(
      errors.begin(), errors.end(),
      [&](const Diagnostic &error) { return error.code == code; });
}

/// Whether a name exists, of the kind that the row is of.
bool isKnown(ForeignKind kind, const std::string &name) {
  switch (kind) {
  case ForeignKind::Function:
    return !has(compile("f32", "zeros", name + "(x)"), Code::UnknownFunction);
  case ForeignKind::ElementType:
    return !has(compile(name, "zeros", "x"), Code::UnknownElementType);
  case ForeignKind::Initializer:
    // One that needs arguments is told so by the same code, in other words.
    return compile("f32", name, "x").getText().find("there is no") ==
           std::string::npos;
  case ForeignKind::Optimizer:
    return !has(SpecRun("dim d = 3\nmodel m(x: f32[d]) {\n"
                        "  param p: f32[d] = zeros\n"
                        "  output loss = sum(p * x)\n}\n"
                        "train { minimize loss optimizer " +
                        name + "(lr = 0.1) steps 1 }"),
                Code::UnknownOptimizer);
  case ForeignKind::Argument:
    return !has(compile("f32", "zeros", "sum(x, " + name + " = d)"),
                Code::UnknownArgument);
  }
  __builtin_unreachable();
}

} // namespace

TEST(ForeignNames, none_is_a_name_here_and_what_stands_for_it_is) {
  for (const ForeignName &row : getForeignNames()) {
    EXPECT_FALSE(isKnown(row.kind, std::string(row.name))) << row.name;
    if (row.isName())
      EXPECT_TRUE(isKnown(row.kind, std::string(row.here))) << row.name;
    else if (row.here.empty())
      EXPECT_FALSE(row.advice.empty()) << row.name;
    else {
      SpecRun run = compile("f32", "zeros", std::string(row.here));
      EXPECT_TRUE(run.module || compileJoint(std::string(row.here)).module)
          << row.name << "\n"
          << run.getText();
    }
  }
}

TEST(ForeignNames, each_is_there_once) {
  std::set<std::pair<ForeignKind, std::string_view>> seen;
  for (const ForeignName &row : getForeignNames())
    EXPECT_TRUE(seen.insert({row.kind, row.name}).second) << row.name;
  EXPECT_GT(seen.size(), 50u);
}
