// Digits by brute force: what a device reads is its block, position by
// position.

#include "layout/Digits.h"

#include "layout/AxisParts.h"

#include <gtest/gtest.h>

#include <functional>

using namespace meshc::layout;

namespace {

/// A dimension read at an access of loops of these sizes, and how the loops are
/// split.
struct Digits {
  Access access;
  std::vector<int64_t> sizes;
  std::vector<DimSplit> splits;
  int64_t size;

  std::optional<DigitBlocks> find() const {
    return findDigitBlocks(access, sizes, splits, size);
  }
};

/// Calls `visit` with all positions of ranges that begin at 0.
void forEachPosition(const std::vector<int64_t> &counts,
                     const std::function<void(std::vector<int64_t>)> &visit) {
  int64_t all = 1;
  for (int64_t count : counts)
    all *= count;
  for (int64_t number = 0; number < all; ++number) {
    std::vector<int64_t> at(counts.size());
    int64_t rest = number;
    for (size_t i = counts.size(); i-- > 0; rest /= counts[i])
      at[i] = rest % counts[i];
    visit(at);
  }
}

/// On every device each position of its blocks of the loops reads what is at
/// the local position of its block of the dimension.
void expectBlocks(const Mesh &mesh, const Digits &digits) {
  const auto blocks = digits.find();
  ASSERT_TRUE(blocks);
  EXPECT_EQ(blocks->split, joinParts(blocks->split));
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const std::vector<int64_t> at = mesh.getCoordinates(device);
    const Range held = getOwnedRange(mesh, digits.size, blocks->split, at);
    EXPECT_EQ(held.count, getLocalSize(digits.size, blocks->split));
    std::vector<int64_t> begins, counts;
    for (size_t i = 0; i < digits.sizes.size(); ++i) {
      const Range own =
          getOwnedRange(mesh, digits.sizes[i], digits.splits[i], at);
      begins.push_back(own.offset);
      counts.push_back(own.count);
    }
    forEachPosition(counts, [&](std::vector<int64_t> local) {
      std::vector<int64_t> global = local;
      for (size_t i = 0; i < local.size(); ++i)
        global[i] += begins[i];
      EXPECT_EQ(digits.access.evaluate(global),
                held.offset + blocks->local.evaluate(local).value());
    });
  }
}

const Mesh mesh({{"a", 3}, {"c", 2}, {"m", 4}});
const AxisRef a = mesh.getWholeAxis(0), c = mesh.getWholeAxis(1),
              m = mesh.getWholeAxis(2);
const AxisRef major{2, 1, 2}, minor{2, 2, 2}; // halves of m

Access quotient(int64_t low) {
  return Access::quotient(Access::Kind::Floor, {{0, 1}}, 0, low);
}
Access remainder(int64_t low) { return Access::modulo({{0, 1}}, 0, low); }

} // namespace

TEST(Digits, OfOneLoop) {
  for (int64_t low : {2, 4, 10}) {
    expectBlocks(mesh, {quotient(low), {3 * low}, {{a, c}}, 3});
    expectBlocks(mesh, {remainder(low), {3 * low}, {{a, c}}, low});
  }
  const Digits high{quotient(4), {12}, {{a, c}}, 3};
  EXPECT_EQ(high.find()->split, DimSplit{a});
  const Digits low{remainder(4), {12}, {{a, c}}, 4};
  EXPECT_EQ(low.find()->split, DimSplit{c});
}

TEST(Digits, CutAnAxis) {
  const Digits high{quotient(6), {12}, {{m}}, 2};
  EXPECT_EQ(high.find()->split, DimSplit{major});
  expectBlocks(mesh, high);
  const Digits low{remainder(6), {12}, {{m}}, 6};
  EXPECT_EQ(low.find()->split, DimSplit{minor});
  expectBlocks(mesh, low);
  expectBlocks(mesh, {remainder(24), {144}, {{a, m, c}}, 24});
  expectBlocks(mesh, {quotient(24), {144}, {{a, m, c}}, 6});
}

TEST(Digits, OfSeveralLoops) {
  const Access number = Access::linear({{0, 4}, {1, 1}}, 0);
  const Digits heads{number, {3, 4}, {{a}, {c}}, 12};
  EXPECT_EQ(heads.find()->split, (DimSplit{a, c}));
  expectBlocks(mesh, heads);
  // The first loop is the minor digit.
  expectBlocks(mesh,
               {Access::linear({{0, 1}, {1, 4}}, 0), {4, 3}, {{c}, {a}}, 12});
  const Access three = Access::linear({{0, 30}, {1, 10}, {2, 1}}, 0);
  expectBlocks(mesh, {three, {2, 3, 10}, {{c}, {a}, {}}, 60});
  expectBlocks(mesh, {three, {2, 3, 10}, {{c}, {a}, {major}}, 60});
  const Digits halves{
      Access::linear({{0, 6}, {1, 1}}, 0), {2, 6}, {{major}, {minor}}, 12};
  EXPECT_EQ(halves.find()->split, DimSplit{m});
  expectBlocks(mesh, halves);
}

TEST(Digits, OfANumberOfSeveralLoops) {
  const Access rest =
      Access::quotient(Access::Kind::Floor, {{0, 10}, {1, 1}}, 0, 5);
  const Digits quotient{rest, {3, 10}, {{a}, {c}}, 6};
  EXPECT_EQ(quotient.find()->split, (DimSplit{a, c}));
  expectBlocks(mesh, quotient);
  // The axis of the last loop is cut.
  expectBlocks(mesh,
               {Access::quotient(Access::Kind::Floor, {{0, 12}, {1, 1}}, 0, 6),
                {3, 12},
                {{a}, {m}},
                6});
  expectBlocks(
      mesh, {Access::modulo({{0, 12}, {1, 1}}, 0, 6), {3, 12}, {{a}, {m}}, 6});
}

TEST(Digits, HaveNoBlocks) {
  // One digit alone is split, or none: that is a window, or nothing.
  EXPECT_FALSE((Digits{quotient(4), {12}, {{a}}, 3}.find()));
  EXPECT_FALSE((Digits{remainder(4), {12}, {{a}}, 4}.find()));
  EXPECT_FALSE((Digits{quotient(4), {12}, {{}}, 3}.find()));
  const Access number = Access::linear({{0, 4}, {1, 1}}, 0);
  EXPECT_FALSE((Digits{number, {3, 4}, {{a}, {}}, 12}.find()));
  // A device would have parts of several heads.
  EXPECT_FALSE((Digits{number, {3, 4}, {{}, {c}}, 12}.find()));
  EXPECT_FALSE((Digits{number, {6, 4}, {{a}, {c}}, 24}.find()));
  EXPECT_FALSE((Digits{quotient(4), {24}, {{m, a}}, 6}.find()));
  // A block would be no multiple.
  EXPECT_FALSE((Digits{quotient(3), {9}, {{a, c}}, 3}.find()));
  EXPECT_FALSE((Digits{number, {5, 4}, {{a}, {c}}, 20}.find()));
  // Not all of the dimension, or not from its beginning.
  EXPECT_FALSE((Digits{number, {3, 4}, {{a}, {c}}, 13}.find()));
  EXPECT_FALSE(
      (Digits{Access::linear({{0, 4}, {1, 1}}, 1), {3, 4}, {{a}, {c}}, 13}
           .find()));
  EXPECT_FALSE(
      (Digits{Access::linear({{0, 2}, {1, 1}}, 0), {3, 4}, {{a}, {c}}, 8}
           .find()));
}
