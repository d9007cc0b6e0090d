// The evaluator against differences and numbers by hand, and what the generator
// makes against the rules of the language.

#include "tests/fuzz/Evaluate.h"
#include "tests/fuzz/Check.h"
#include "tests/fuzz/Generate.h"
#include "tests/fuzz/Print.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace meshc::fuzz;

namespace {

/// x: f32[n] of 10, 20, .. read at one position.
std::vector<double> read(int64_t size, const Expr &position, int64_t loop,
                         std::optional<double> otherwise) {
  Tree tree;
  tree.dims = {{"n", size, -1}, {"m", loop, -1}};
  tree.inputs = {{"x", {Element::F32, {0}}, 0}};
  Statement output;
  output.kind = StatementKind::Output;
  output.name = "read";
  output.value = make(ExprKind::Index, "", {nameOf("x")});
  output.value.parts = {{{0}, position}};
  output.value.otherwise = otherwise;
  Statement loss;
  loss.kind = StatementKind::Output;
  loss.name = "loss";
  loss.value = make(ExprKind::Reduce, "sum", {nameOf("x")}, {0});
  tree.body = {output, loss};
  const std::string why = check(tree);
  if (!why.empty()) {
    ADD_FAILURE() << why;
    return {};
  }
  Feeds feeds;
  feeds["x"] = {{0}, Element::F32, {}};
  for (int64_t i = 0; i < size; ++i)
    feeds["x"].elements.push_back(double(10 * (i + 1)));
  return evaluate(tree, getLeaves(tree), feeds).outputs.at("read").elements;
}

using Numbers = std::vector<double>;

TEST(Evaluate, PositionsAreThoseOfTheLanguage) {
  const Expr m = positionOf(1);
  EXPECT_EQ(read(3, binary("%", binary("+", m, number(1)), number(3)), 3, {}),
            (Numbers{20, 30, 10}));
  EXPECT_EQ(read(3, binary("%", binary("-", number(0), m), number(2)), 4, {}),
            (Numbers{10, 20, 10, 20}));
  EXPECT_EQ(read(2, binary("/", binary("-", m, number(1)), number(2)), 5, -1),
            (Numbers{-1, 10, -1, 20, -1}));
  EXPECT_EQ(
      read(3,
           call("floor", {binary("/", binary("-", m, number(1)), number(2))}),
           5, 7),
      (Numbers{7, 10, 10, 20, 20}));
  EXPECT_EQ(read(3, binary("-", number(2), m), 3, {}), (Numbers{30, 20, 10}));
}

TEST(Evaluate, GradientsAreThoseOfDifferences) {
  size_t numCompared = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Tree tree = generate(seed, 3 + int(seed % 9), {});
    ASSERT_EQ(check(tree), "") << print(tree);
    if (seed % 2 == 1)
      tree = makeTrainingStep(tree);
    const std::vector<Leaf> leaves = getLeaves(tree);
    const Feeds feeds = drawFeeds(tree, leaves, seed);
    const Evaluation middle = evaluate(tree, leaves, feeds);
    // What stops gradients is no slope.
    if (!middle.problem.empty() ||
        print(tree).find("stop_gradient") != std::string::npos)
      continue;
    constexpr double step = 1e-5;
    double slope = 0, largest = 1;
    Feeds ahead = feeds, behind = feeds;
    std::mt19937_64 random(seed);
    for (const auto &[name, gradient] : middle.gradients)
      for (size_t i = 0; i < gradient.elements.size(); ++i) {
        const double direction = random() % 2 ? 1 : -1;
        slope += direction * gradient.elements[i];
        largest = std::max(largest, std::fabs(gradient.elements[i]));
        ahead[name].elements[i] += step * direction;
        behind[name].elements[i] -= step * direction;
      }
    const Evaluation high = evaluate(tree, leaves, ahead),
                     low = evaluate(tree, leaves, behind);
    if (!high.problem.empty() || !low.problem.empty())
      continue;
    ++numCompared;
    const double difference = (high.outputs.at("loss").elements[0] -
                               low.outputs.at("loss").elements[0]) /
                              (2 * step);
    // Second differences: the third derivative times step^2 / 6.
    EXPECT_NEAR(slope, difference, 1e-4 * largest) << print(tree);
  }
  EXPECT_GE(numCompared, 40);
}

TEST(Generate, IsAFunctionOfItsSeedAndLegal) {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    Tree tree = generate(seed, 8, {});
    EXPECT_EQ(check(tree), "") << print(tree);
    EXPECT_EQ(print(tree), print(generate(seed, 8, {})));
  }
}

/// Every kind that is spelled in a way of its own occurs, and none that is left
/// out.
TEST(Generate, HasEveryKind) {
  const std::pair<const char *, const char *> spelled[] = {
      {"roll", "% size("},
      {"floor", "floor("},
      {"pad-inf", "else -inf"},
      {"dense", "dense("},
      {"conv", "conv("},
      {"grow", "grow("},
      {"pool", "_pool("},
      {"softmax", "softmax("},
      {"layer-norm", "layer_norm("},
      {"einsum", "einsum("},
      {"where", "where("},
      {"carried", "    for "},
      {"reverse", "size("},
      {"function", "fn g"},
      {"own-dim", "  dim h"},
      {"with", " with "},
      {"typed", ": f32[.., "},
      {"branch", "} else {"},
      {"training", "if training"},
      {"state", "  state z"},
      {"batch-norm", "batch_norm("},
      {"initial", "= f32(iota("},
      {"draw", "uniform("}};
  std::string all;
  for (uint64_t seed = 0; seed < 300; ++seed)
    all += print(generate(seed, 8, {}));
  for (const auto &[kind, text] : spelled)
    EXPECT_NE(all.find(text), std::string::npos) << kind;
  for (const char *kind :
       {"dense", "conv", "grow", "einsum", "function", "with", "branch",
        "initial", "state", "batch-norm"}) {
    all.clear();
    for (uint64_t seed = 0; seed < 50; ++seed)
      all += print(generate(seed, 8, {kind}));
    for (const auto &[known, text] : spelled) {
      if (std::string(known) == kind)
        EXPECT_EQ(all.find(text), std::string::npos) << kind;
    }
  }
}

} // namespace
