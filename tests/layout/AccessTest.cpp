// Accesses by brute force: every position of small loops is tried.

#include "layout/AccessBounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

using namespace meshc::layout;

namespace {

using Kind = Access::Kind;

const std::vector<std::string> names{"x", "y", "z", "r"};

/// Calls `visit` with every position of the loops.
void forEachPosition(
    const std::vector<Range> &loops,
    const std::function<void(std::span<const int64_t>)> &visit) {
  std::vector<int64_t> at;
  for (Range loop : loops) {
    if (loop.count == 0)
      return;
    at.push_back(loop.offset);
  }
  while (true) {
    visit(at);
    size_t d = 0;
    while (d < loops.size() && ++at[d] == loops[d].offset + loops[d].count) {
      at[d] = loops[d].offset;
      ++d;
    }
    if (d == loops.size())
      return;
  }
}

/// What an access means, computed from the formula as written: no canonical
/// form, no shortcut.
struct Formula {
  Kind kind;
  std::vector<int64_t> factors; ///< one per loop
  int64_t offset;
  int64_t divisor;

  std::optional<int64_t> evaluate(std::span<const int64_t> at) const {
    int64_t sum = offset;
    for (size_t d = 0; d < factors.size(); ++d)
      sum += factors[d] * at[d];
    int64_t remainder = ((sum % divisor) + divisor) % divisor;
    if (kind == Kind::Modulo)
      return remainder;
    if (kind == Kind::Exact && remainder != 0)
      return std::nullopt;
    return (sum - remainder) / divisor;
  }
  Access get() const {
    std::vector<AccessTerm> terms;
    for (size_t d = 0; d < factors.size(); ++d)
      terms.push_back({int32_t(d), factors[d]});
    return kind == Kind::Modulo
               ? Access::modulo(terms, offset, divisor)
               : Access::quotient(kind, terms, offset, divisor);
  }
};

/// Quotients and remainders of sums of two loops: strides, dilations, negative
/// factors, all roundings.
std::vector<Formula> getFormulas() {
  std::vector<Formula> formulas;
  for (Kind kind : {Kind::Exact, Kind::Floor, Kind::Modulo})
    for (int64_t a : {-3, -1, 0, 1, 2, 5})
      for (int64_t b : {-2, 0, 1, 3})
        for (int64_t offset : {-3, 0, 1, 4})
          for (int64_t divisor : {1, 2, 3, 5, 7})
            formulas.push_back({kind, {a, b}, offset, divisor});
  return formulas;
}

/// Blocks of dimensions of sizes 2, 3, 5, 7: whole, parts, one, none.
const std::vector<Range> blocks{{0, 2}, {0, 3}, {1, 2}, {2, 3},
                                {0, 5}, {6, 1}, {0, 7}, {3, 0}};

bool contains(Range range, int64_t position) {
  return position >= range.offset && position < range.offset + range.count;
}

/// Of a Modulo: a range that goes on at 0.
bool containsCyclic(Range range, int64_t position, int64_t modulus) {
  return contains(range, position) || contains(range, position + modulus);
}

std::string describe(const Formula &formula, Range x, Range y) {
  return formula.get().toString(names) + " for x from " +
         std::to_string(x.offset) + " of " + std::to_string(x.count) +
         ", y from " + std::to_string(y.offset) + " of " +
         std::to_string(y.count);
}

} // namespace

TEST(Access, EvaluatesAsWritten) {
  for (const Formula &formula : getFormulas()) {
    const Access access = formula.get();
    forEachPosition({{0, 7}, {0, 5}}, [&](std::span<const int64_t> at) {
      ASSERT_EQ(access.evaluate(at), formula.evaluate(at))
          << access.toString(names) << " at " << at[0] << ", " << at[1];
    });
  }
}

TEST(Access, HasOneForm) {
  using Terms = std::vector<AccessTerm>;
  // Terms of one loop add up, and cancel.
  EXPECT_EQ(Access::linear({{1, 1}, {0, 2}, {1, -1}}, 3),
            Access::linear({{0, 2}}, 3));
  EXPECT_EQ(Access::quotient(Kind::Exact, {{0, 4}, {1, 2}}, 6, 2),
            Access::linear({{0, 2}, {1, 1}}, 3));
  // floor((4 x + 3) / 2) is 2 x + 1; (4 x + 3) / 2 is never whole.
  EXPECT_EQ(Access::quotient(Kind::Floor, {{0, 4}}, 3, 2),
            Access::linear({{0, 2}}, 1));
  EXPECT_EQ(Access::quotient(Kind::Floor, {{0, 4}}, -1, 2),
            Access::linear({{0, 2}}, -1));
  EXPECT_EQ(Access::quotient(Kind::Exact, {{0, 4}}, 3, 2).getDivisor(), 2);
  EXPECT_EQ(Access::modulo({{0, 9}}, -1, 8), Access::modulo({{0, 1}}, 7, 8));
  EXPECT_EQ(Access::modulo({{0, 7}}, 0, 8).getTerms(), (Terms{{0, -1}}));
  EXPECT_EQ(Access::modulo({{0, 8}}, 11, 4), Access::linear({}, 3));
}

TEST(Access, IsALoopOnlyIfItIsNothingElse) {
  EXPECT_EQ(Access::itself(3).getLoop(), 3);
  EXPECT_EQ(Access::quotient(Kind::Floor, {{1, 2}}, 1, 2).getLoop(), 1);
  EXPECT_EQ(Access::linear({{0, 1}}, 1).getLoop(), std::nullopt);
  EXPECT_EQ(Access::linear({{0, 2}}, 0).getLoop(), std::nullopt);
  EXPECT_EQ(Access::linear({{0, 1}, {1, 1}}, 0).getLoop(), std::nullopt);
  EXPECT_EQ(Access::modulo({{0, 1}}, 0, 5).getLoop(), std::nullopt);
  EXPECT_EQ(Access::indexed(0).getLoop(), std::nullopt);
}

TEST(Access, ImagesHoldWhatIsTakenAndBeginAndEndThere) {
  for (const Formula &formula : getFormulas()) {
    const Access access = formula.get();
    for (Range x : blocks)
      for (Range y : blocks) {
        const std::vector<Range> loops{x, y};
        const Range image = access.getImage(loops);
        std::set<int64_t> taken;
        forEachPosition(loops, [&](std::span<const int64_t> at) {
          if (auto position = formula.evaluate(at))
            taken.insert(*position);
        });
        const std::string what = describe(formula, x, y);
        const bool wraps = access.getKind() == Kind::Modulo;
        const int64_t modulus = access.getDivisor();
        for (int64_t position : taken)
          ASSERT_TRUE(wraps ? containsCyclic(image, position, modulus)
                            : contains(image, position))
              << position << " of " << what;
        // An access that lacks a loop does not know that the loop is empty.
        if (x.count == 0 || y.count == 0)
          continue;
        if (wraps) {
          ASSERT_TRUE(image.offset >= 0 && image.offset < modulus &&
                      image.count <= modulus)
              << what;
          if (image.count < modulus) {
            ASSERT_TRUE(taken.count(image.offset)) << what;
            ASSERT_TRUE(taken.count((image.offset + image.count - 1) % modulus))
                << what;
          }
          continue;
        }
        const bool mayBeLarger = access.getKind() == Kind::Exact &&
                                 access.getDivisor() > 1 &&
                                 access.getTerms().size() > 1;
        if (mayBeLarger)
          continue;
        ASSERT_EQ(image.count == 0, taken.empty()) << what;
        if (taken.empty())
          continue;
        ASSERT_EQ(image.offset, *taken.begin()) << what;
        ASSERT_EQ(image.offset + image.count - 1, *taken.rbegin()) << what;
      }
  }
}

/// An odd number over 2 is never whole: that is seen without trying each.
TEST(Access, ImageOfWhatIsNeverWholeIsEmpty) {
  const Access access = Access::quotient(Access::Kind::Exact, {{0, 2}}, 1, 2);
  const std::vector<Range> loops{{5, int64_t(1) << 40}};
  EXPECT_EQ(access.getImage(loops).count, 0);
}

TEST(Access, MayMissWhatIsOutsideOrNotWhole) {
  size_t misses = 0, inside = 0;
  for (const Formula &formula : getFormulas()) {
    const Access access = formula.get();
    for (Range x : blocks)
      for (Range y : blocks)
        for (int64_t size : {1, 2, 3, 5, 7}) {
          const std::vector<Range> loops{x, y};
          bool isMissed = false;
          forEachPosition(loops, [&](std::span<const int64_t> at) {
            const auto position = formula.evaluate(at);
            isMissed |= !position || *position < 0 || *position >= size;
          });
          const bool found = mayMiss(access, loops, size);
          const std::string what =
              describe(formula, x, y) + ", size " + std::to_string(size);
          // An access that lacks a loop does not know that the loop is empty.
          if (x.count == 0 || y.count == 0)
            continue;
          ASSERT_TRUE(found || !isMissed) << what;
          const bool isOfMultiples = access.getKind() == Kind::Modulo &&
                                     (std::abs(access.getFactor(0)) > 1 ||
                                      std::abs(access.getFactor(1)) > 1);
          if (isOfMultiples)
            continue;
          ASSERT_EQ(found, isMissed) << what;
          ++(found ? misses : inside);
        }
  }
  EXPECT_GT(misses, 1000u);
  EXPECT_GT(inside, 1000u);
}

TEST(Access, ImageOfABlockIsItsHalo) {
  // Rows 4 to 7 of a convolution of stride 2 with 3 rows of weights, 1 of
  // padding.
  const Access strided = Access::linear({{0, 2}, {1, 1}}, -1);
  EXPECT_EQ(strided.getImage(std::vector<Range>{{4, 4}, {0, 3}}),
            (Range{7, 9}));
  // The first block reads what lies outside.
  EXPECT_EQ(strided.getImage(std::vector<Range>{{0, 4}, {0, 3}}),
            (Range{-1, 9}));
  // A roll of 8 by 1: the last block reads its own end and the beginning.
  const Access roll = Access::modulo({{0, 1}}, 1, 8);
  EXPECT_EQ(roll.getImage(std::vector<Range>{{4, 4}}), (Range{5, 4}));
  EXPECT_EQ(roll.getImage(std::vector<Range>{{0, 8}}), (Range{1, 8}));
  EXPECT_EQ(Access::indexed(0).getImage(std::vector<Range>{{2, 3}}),
            (Range{2, 3}));
}

TEST(Access, PreimagesHoldWhereSomethingWantedIsTaken) {
  const std::vector<Range> wantedRanges{
      {-2, 3}, {0, 1}, {1, 2}, {2, 5}, {3, 0}};
  for (const Formula &formula : getFormulas()) {
    const Access access = formula.get();
    for (Range x : blocks)
      for (Range y : blocks)
        for (Range wanted : wantedRanges) {
          const bool wraps = access.getKind() == Kind::Modulo;
          const int64_t modulus = access.getDivisor();
          if (wraps && (wanted.offset < 0 || wanted.offset >= modulus ||
                        wanted.count > modulus))
            continue;
          const std::vector<Range> loops{x, y};
          std::set<int64_t> found;
          forEachPosition(loops, [&](std::span<const int64_t> at) {
            auto position = formula.evaluate(at);
            if (position && (wraps ? containsCyclic(wanted, *position, modulus)
                                   : contains(wanted, *position)))
              found.insert(at[0]);
          });
          const Range preimage = access.getPreimage(0, loops, wanted);
          const std::string what = describe(formula, x, y) + ", wanted " +
                                   std::to_string(wanted.offset) + " of " +
                                   std::to_string(wanted.count);
          for (int64_t position : found)
            ASSERT_TRUE(contains(preimage, position))
                << position << " of " << what;
          if (preimage.count != 0) {
            ASSERT_TRUE(contains(x, preimage.offset)) << what;
            ASSERT_TRUE(contains(x, preimage.offset + preimage.count - 1))
                << what;
          }
          const bool isWhole =
              access.getKind() != Kind::Exact || access.getDivisor() == 1;
          if (!isWhole || access.getFactor(0) == 0 ||
              access.getTerms().size() != 1 || y.count == 0)
            continue;
          ASSERT_EQ(preimage.count == 0, found.empty()) << what;
          if (found.empty())
            continue;
          ASSERT_EQ(preimage.offset, *found.begin()) << what;
          ASSERT_EQ(preimage.offset + preimage.count - 1, *found.rbegin())
              << what;
        }
  }
}

TEST(Access, SolvedForALoopHasTheSamePairs) {
  constexpr int32_t x = 0, position = 2, remainder = 3;
  const Range xs{0, 5}, ys{0, 3};
  size_t solvedFormulas = 0;
  for (const Formula &formula : getFormulas()) {
    const Access access = formula.get();
    const std::optional<Access> solved = access.solve(x, position, remainder);
    const int64_t factor = access.getFactor(x);
    const bool isSolvable = factor != 0 && (access.getKind() != Kind::Modulo ||
                                            factor == 1 || factor == -1);
    ASSERT_EQ(solved.has_value(), isSolvable) << access.toString(names);
    if (!solved ||
        (access.getKind() == Kind::Modulo && access.getDivisor() < xs.count))
      continue;
    ++solvedFormulas;
    const int64_t remainders =
        access.getKind() == Kind::Floor ? access.getDivisor() : 1;
    forEachPosition({xs, ys}, [&](std::span<const int64_t> at) {
      const auto taken = formula.evaluate(at);
      for (int64_t p = -20; p <= 40; ++p) {
        if (access.getKind() == Kind::Modulo &&
            (p < 0 || p >= access.getDivisor()))
          continue;
        int64_t times = 0;
        for (int64_t r = 0; r < remainders; ++r)
          times +=
              solved->evaluate(std::vector<int64_t>{-1, at[1], p, r}) == at[0];
        ASSERT_EQ(times, taken == p)
            << access.toString(names) << " solved as "
            << solved->toString(std::vector<std::string>{"x", "y", "at", "r"})
            << ": x " << at[0] << ", y " << at[1] << ", position " << p;
      }
    });
  }
  EXPECT_GT(solvedFormulas, 500u);
}

TEST(Access, GradientOfAGradientIsTheAccess) {
  for (const Formula &formula : getFormulas()) {
    const Access access = formula.get();
    if (access.getKind() == Kind::Floor)
      continue; // leaves a remainder, which is a loop more
    const auto solved = access.solve(0, 2, 3);
    if (!solved)
      continue;
    EXPECT_EQ(solved->solve(2, 0, 3), access) << access.toString(names);
  }
}

TEST(Access, CompositionTakesWhatBothTake) {
  // Loop x of the outer access is the inner access of z and y.
  size_t composedPairs = 0;
  const std::vector<Formula> formulas = getFormulas();
  for (size_t i = 0; i < formulas.size(); i += 7)
    for (size_t j = 0; j < formulas.size(); j += 5) {
      const Formula &outer = formulas[i];
      Formula inner = formulas[j];
      inner.factors = {0, inner.factors[1], inner.factors[0]};
      const auto composed = outer.get().compose(0, inner.get());
      if (!composed)
        continue;
      ++composedPairs;
      forEachPosition({{0, 1}, {0, 5}, {0, 7}},
                      [&](std::span<const int64_t> at) {
                        const auto between = inner.evaluate(at);
                        std::optional<int64_t> expected;
                        if (between || outer.get().getFactor(0) == 0)
                          expected = outer.evaluate(
                              std::vector<int64_t>{between.value_or(0), at[1]});
                        ASSERT_EQ(composed->evaluate(at), expected)
                            << outer.get().toString(names)
                            << " with x = " << inner.get().toString(names)
                            << " as " << composed->toString(names);
                      });
    }
  EXPECT_GT(composedPairs, 5000u);
}

TEST(Access, CompositionsThatWindowsNeedExist) {
  auto compose = [](const Access &outer, const Access &inner) {
    const auto composed = outer.compose(0, inner);
    return composed ? composed->toString(names) : "none";
  };
  const Access twice = Access::linear({{0, 2}, {1, 1}}, -1);
  EXPECT_EQ(compose(twice, Access::itself(2)), "y + 2 z - 1");
  EXPECT_EQ(compose(twice, Access::linear({{2, 1}}, 4)), "y + 2 z + 7");
  EXPECT_EQ(compose(Access::itself(0), Access::indexed(2)), "tensor over z");
  const Access half = Access::quotient(Kind::Exact, {{2, 1}}, 0, 2);
  const Access below = Access::quotient(Kind::Floor, {{2, 1}}, 0, 2);
  // 2 (z / 2) + y - 1 is z + y - 1 for even z alone.
  EXPECT_EQ(compose(twice, half), "none");
  EXPECT_EQ(compose(Access::linear({{0, 3}}, 1), half), "(3 z + 2) / 2");
  EXPECT_EQ(compose(Access::linear({{0, 1}}, 1), below), "floor((z + 2) / 2)");
  EXPECT_EQ(compose(Access::linear({{0, 2}}, 0), below), "none");
  const Access roll = Access::modulo({{2, 1}}, 1, 6);
  EXPECT_EQ(compose(Access::modulo({{0, 1}}, 1, 6), roll), "(z + 2) % 6");
  EXPECT_EQ(compose(Access::modulo({{0, 1}}, 1, 4), roll), "none");
}

TEST(Access, IsSpelledAsInTheLanguage) {
  EXPECT_EQ(Access::itself(0).toString(names), "x");
  EXPECT_EQ(Access::linear({{0, 2}, {1, 1}}, -1).toString(names),
            "2 x + y - 1");
  EXPECT_EQ(Access::linear({{0, -1}}, 6).toString(names), "-x + 6");
  EXPECT_EQ(Access::linear({}, 0).toString(names), "0");
  EXPECT_EQ(
      Access::quotient(Kind::Exact, {{1, 1}, {0, -1}}, 1, 2).toString(names),
      "(-x + y + 1) / 2");
  EXPECT_EQ(Access::quotient(Kind::Floor, {{0, 1}}, 0, 2).toString(names),
            "floor(x / 2)");
  EXPECT_EQ(Access::quotient(Kind::Floor, {{0, 3}}, 0, 2).toString(names),
            "floor((3 x) / 2)");
  EXPECT_EQ(Access::modulo({{0, 1}}, 1, 8).toString(names), "(x + 1) % 8");
  EXPECT_EQ(Access::modulo({{0, -1}}, 0, 8).toString(names), "(-x) % 8");
}

/// Around a ring every position read is in the image of the block, as many
/// turns away for all of them.
static void checkRing(const Access &access, const Window &window,
                      std::span<const Range> loops) {
  EXPECT_EQ(window.modulus, access.getDivisor());
  EXPECT_LE(2 * std::abs(window.low), window.modulus);
  const Range image = window.getImage({2, 3});
  std::set<int64_t> held, read;
  for (int64_t p = image.offset; p < image.offset + image.count; ++p)
    held.insert(p - divideDown(p, window.modulus) * window.modulus);
  for (int64_t x = 2; x < 5; ++x)
    for (int64_t y = 0; y < loops[1].count; ++y)
      read.insert(*access.evaluate(std::vector<int64_t>{x, y}));
  EXPECT_TRUE(
      std::includes(held.begin(), held.end(), read.begin(), read.end()));
}

/// A window is what blocks of its loop read: of every block the image of it is
/// the access's.
TEST(Access, WindowsAreImagesOfBlocks) {
  const std::vector<Range> loops{{0, 7}, {0, 5}};
  int64_t windows = 0, quotients = 0;
  for (const Formula &formula : getFormulas()) {
    const Access access = formula.get();
    const std::optional<Window> window = access.getWindow(0, loops);
    const bool isRounded =
        access.getKind() == Kind::Exact || access.getKind() == Kind::Floor;
    const bool isPlain =
        access.getKind() == Kind::Exact && access.getDivisor() == 1;
    if (access.getFactor(0) == 0)
      ASSERT_FALSE(window.has_value()) << access.toString(names);
    else if (isPlain || access.getKind() == Kind::Modulo)
      ASSERT_TRUE(window.has_value()) << access.toString(names);
    if (!window)
      continue;
    if (!isRounded) {
      checkRing(access, *window, loops);
      continue;
    }
    ++(isPlain ? windows : quotients);
    EXPECT_EQ(window->loopSize, 7);
    for (Range block : {Range{0, 7}, Range{0, 3}, Range{3, 3}, Range{6, 1},
                        Range{4, 2}, Range{2, 5}}) {
      if (window->factor * block.offset % window->divisor != 0)
        continue;
      const std::vector<Range> part{block, loops[1]};
      const Range image = access.getImage(part);
      const Range held = window->getImage(block);
      // Backwards blocks begin with a quotient that need not be whole.
      const bool isExact =
          access.getKind() == Kind::Floor || access.getDivisor() == 1 ||
          (access.getTerms().size() > 1 && access.getFactor(0) > 0);
      if (isExact) {
        EXPECT_EQ(held, image) << access.toString(names) << " for "
                               << block.count << " from " << block.offset;
      } else if (image.count > 0) {
        // Quotients of one term may be whole at some distance only.
        EXPECT_LE(held.offset, image.offset) << access.toString(names);
        EXPECT_GE(held.offset + held.count, image.offset + image.count)
            << access.toString(names);
      }
    }
  }
  EXPECT_GT(windows, 100);
  EXPECT_GT(quotients, 100);
}
