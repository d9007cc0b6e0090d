#include "layout/Access.h"
#include "layout/ReshardPlanner.h"
#include "layout/Transfers.h"

#include "Shardings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

using namespace meshc::layout;
using namespace meshc::layout::test;

namespace {

/// Devices' blocks of a matrix, nothing where a block has padding.
using Block = std::vector<std::optional<int64_t>>;
using Blocks = std::vector<Block>;

class WindowedMatrix {
public:
  WindowedMatrix(const Mesh &mesh, std::vector<int64_t> sizes)
      : mesh(mesh), sizes(std::move(sizes)) {}

  /// The blocks of a matrix whose element at (i, j) is 10 * i + j + 1. Of a
  /// partial sum the first term is that less the number of the others, which
  /// are 1.
  Blocks getBlocks(const Sharding &sharding) const {
    Blocks blocks;
    for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
      const std::vector<int64_t> shape = getLocalShape(sizes, sharding);
      Block &block = blocks.emplace_back(shape[0] * shape[1]);
      const std::vector<int64_t> rows = getPositions(sharding, 0, device);
      const std::vector<int64_t> cols = getPositions(sharding, 1, device);
      for (size_t i = 0; i < rows.size(); ++i)
        for (size_t j = 0; j < cols.size(); ++j)
          block.at(i * shape[1] + j) =
              getTerm(sharding, device, rows[i], cols[j]);
    }
    return blocks;
  }

  Blocks move(const Blocks &before, const Sharding &source,
              const Sharding &target) const {
    const auto from = getLocalShape(sizes, source);
    const auto to = getLocalShape(sizes, target);
    Blocks after(before.size(), Block(to[0] * to[1]));
    for (const Transfer &transfer : getTransfers(mesh, sizes, source, target))
      for (int64_t i = 0; i < transfer.shape[0]; ++i)
        for (int64_t j = 0; j < transfer.shape[1]; ++j) {
          int64_t sum = 0;
          for (const TransferEnd &end : transfer.sources)
            sum += before[end.device]
                       .at((end.offset[0] + i) * from[1] + end.offset[1] + j)
                       .value();
          for (const TransferEnd &end : transfer.targets) {
            auto &element = after[end.device].at((end.offset[0] + i) * to[1] +
                                                 end.offset[1] + j);
            EXPECT_FALSE(element.has_value()) << "written twice";
            element = sum;
          }
        }
    return after;
  }

private:
  /// What the elements of a device's block stand for, position by position: of
  /// a window everything between the first and the last position read.
  std::vector<int64_t> getPositions(const Sharding &sharding, size_t dim,
                                    int64_t device) const {
    const Window *window = sharding.getWindow(dim);
    Range owned =
        getOwnedRange(mesh, window ? window->loopSize : sizes[dim],
                      sharding.dims[dim], mesh.getCoordinates(device));
    // Backwards every block has the place of a full one.
    if (window && window->factor < 0 && owned.count > 0)
      owned.count = getLocalSize(window->loopSize, sharding.dims[dim]);
    std::vector<int64_t> read;
    for (int64_t p = owned.offset; p < owned.offset + owned.count; ++p)
      if (window)
        for (int64_t value = window->low; value <= window->high; ++value)
          read.push_back(int64_t(std::floor(double(window->factor * p + value) /
                                            double(window->divisor))));
      else
        read.push_back(p);
    if (!window || read.empty())
      return read;
    auto [first, last] = std::minmax_element(read.begin(), read.end());
    std::vector<int64_t> held;
    for (int64_t p = *first; p <= *last; ++p)
      held.push_back(window->modulus == 0 ? p
                                          : p - divideDown(p, window->modulus) *
                                                    window->modulus);
    return held;
  }

  int64_t getTerm(const Sharding &sharding, int64_t device, int64_t row,
                  int64_t col) const {
    if (row < 0 || row >= sizes[0] || col < 0 || col >= sizes[1])
      return 0;
    const int64_t value = 10 * row + col + 1;
    if (!sharding.isPartial())
      return value;
    int64_t terms = 1, number = 0;
    for (AxisRef part : sharding.partialAxes) {
      terms *= part.size;
      number += mesh.getCoordinate(part, mesh.getCoordinates(device));
    }
    return number == 0 ? value - (terms - 1) : 1;
  }

  const Mesh &mesh;
  const std::vector<int64_t> sizes;
};

/// From every sharding of a matrix to it with windowed rows.
void checkWindow(const Mesh &mesh, std::vector<int64_t> sizes,
                 const Window &window, const DimSplit &split) {
  const WindowedMatrix matrix(mesh, sizes);
  const Sharding target{{split, {}}, ReduceKind::None, {}, {window, {}}};
  ASSERT_EQ(getViolation(mesh, target, 2), "");
  const Blocks expected = matrix.getBlocks(target);
  const std::vector<std::string> names{"y", "c"};
  for (const Sharding &source :
       getAllShardings(mesh, getWholeAxes(mesh), 2, ReduceKind::Sum)) {
    SCOPED_TRACE(toString(mesh, source, names) + " to " +
                 toString(mesh, target, names));
    const Blocks start = matrix.getBlocks(source);
    ASSERT_EQ(matrix.move(start, source, target), expected);

    const ReshardChoice choice = planReshard(mesh, sizes, 4, source, target);
    std::vector<ReshardPlan> plans{choice.best};
    if (choice.secondBest)
      plans.push_back(*choice.secondBest);
    for (const ReshardPlan &plan : plans) {
      Blocks blocks = start;
      Sharding at = source;
      for (const ReshardStep &step : plan.steps) {
        ASSERT_EQ(step.source, at);
        ASSERT_TRUE(
            isReshardStep(mesh, sizes, step.kind, step.source, step.target));
        blocks = matrix.move(blocks, step.source, step.target);
        if (step.target.hasWindow())
          ASSERT_EQ(countMost(mesh, sizes, step.source, step.target),
                    step.wireElements);
        at = step.target;
      }
      ASSERT_EQ(at, target);
      ASSERT_EQ(blocks, expected);
      ASSERT_GE(plan.costUs, choice.best.costUs);
    }
  }
}

const Mesh four({{"rows", 4}});
const AxisRef rows = four.getWholeAxis(0);

Sharding getWindowed(const Window &window) {
  return {{{rows}, {}}, ReduceKind::None, {}, {window, {}}};
}

const Sharding byRows{{{rows}, {}}, ReduceKind::None, {}};

} // namespace

TEST(Window, HoldsTheImageOfTheBlock) {
  // Rows 0 1 2 | 3 4 5 | 6 of the output, y = 2 * row + dy - 1, dy to 2.
  const Sharding sharding = getWindowed({"row", 7, 2, -1, 1});
  auto getHeld = [&](int64_t device) {
    return getHeldRange(four, 13, sharding, 0, four.getCoordinates(device));
  };
  EXPECT_EQ(getLocalSize(13, sharding, 0), 5);
  EXPECT_EQ(getHeld(0), (Range{-1, 5}));
  EXPECT_EQ(getHeld(1), (Range{3, 5}));
  EXPECT_EQ(getHeld(2), (Range{7, 5}));
  EXPECT_EQ(getHeld(3), (Range{11, 3}));
}

TEST(Window, IsTheImageOfTheAccess) {
  for (int64_t factor : {1, 2, 5})
    for (int64_t dilation : {-2, 1, 3})
      for (Range block : {Range{0, 1}, Range{4, 3}, Range{7, 2}}) {
        const Access access = Access::linear({{0, factor}, {1, dilation}}, -2);
        const Range window = Access::linear({{1, dilation}}, -2)
                                 .getImage(std::vector<Range>{{}, {0, 3}});
        EXPECT_EQ((Window{"row", 9, factor, window.offset,
                          window.offset + window.count - 1}
                       .getImage(block)),
                  access.getImage(std::vector<Range>{block, {0, 3}}));
      }
}

TEST(Window, OfThreeRowsTakesOneFromEachNeighbour) {
  const std::vector<int64_t> sizes{12, 5};
  const ReshardChoice choice =
      planReshard(four, sizes, 4, byRows, getWindowed({"row", 12, 1, -1, 1}));
  ASSERT_EQ(choice.best.steps.size(), 1u);
  const ReshardStep &step = choice.best.steps[0];
  EXPECT_EQ(step.kind, CollectiveKind::Exchange);
  EXPECT_EQ(step.axes, std::vector<AxisRef>{rows});
  EXPECT_EQ(step.groupSize, 4);
  EXPECT_EQ(step.wireElements, 2 * 5);
}

TEST(Window, OfLongerReachTakesTheRowsThatItLacks) {
  // d * (K - 1) + 1 - s rows where blocks correspond.
  auto getRows = [](int64_t size, Window window) {
    return getReshardStep(four, std::vector<int64_t>{size, 5},
                          CollectiveKind::Exchange, byRows, getWindowed(window))
               .wireElements /
           5;
  };
  EXPECT_EQ(getRows(24, {"row", 12, 2, -1, 1}), 1); // stride 2
  EXPECT_EQ(getRows(24, {"row", 24, 1, -2, 2}), 4); // dilation 2
  EXPECT_EQ(getRows(24, {"row", 24, 1, -3, 3}), 6); // 7 rows
  EXPECT_EQ(getRows(8, {"row", 8, 1, -3, 3}), 5); // past the neighbour, clipped
  EXPECT_EQ(getRows(24, {"row", 12, 2, 0, 1}), 0); // pooling
}

TEST(Window, OfAWholeDimensionIsASlice) {
  const std::vector<int64_t> sizes{7, 5};
  const Sharding whole{{{}, {}}, ReduceKind::None, {}};
  const ReshardChoice choice =
      planReshard(four, sizes, 4, whole, getWindowed({"row", 7, 1, -1, 1}));
  ASSERT_EQ(choice.best.steps.size(), 1u);
  EXPECT_EQ(choice.best.steps[0].kind, CollectiveKind::Slice);
  EXPECT_EQ(choice.best.steps[0].wireElements, 0);
  EXPECT_FALSE(choice.secondBest);
}

TEST(Window, OfAPartialSumIsScatteredFirst) {
  // Of the terms of 8 devices an exchange would take 8 times the block.
  const Mesh eight({{"rows", 8}});
  const AxisRef all = eight.getWholeAxis(0);
  const Sharding partial{{{}, {}}, ReduceKind::Sum, {all}};
  const Sharding target{
      {{all}, {}}, ReduceKind::None, {}, {Window{"row", 4096, 1, -1, 1}, {}}};
  const ReshardChoice choice =
      planReshard(eight, std::vector<int64_t>{4096, 512}, 4, partial, target);
  ASSERT_EQ(choice.best.steps.size(), 2u);
  EXPECT_EQ(choice.best.steps[0].kind, CollectiveKind::ReduceScatter);
  EXPECT_EQ(choice.best.steps[0].target,
            (Sharding{{{all}, {}}, ReduceKind::None, {}}));
  EXPECT_EQ(choice.best.steps[1].kind, CollectiveKind::Exchange);
  EXPECT_EQ(choice.best.steps[1].wireElements, 2 * 512);
}

TEST(Window, ToItselfIsNoStep) {
  const Sharding sharding = getWindowed({"row", 7, 1, -1, 1});
  const std::vector<int64_t> sizes{7, 5};
  EXPECT_TRUE(
      planReshard(four, sizes, 4, sharding, sharding).best.steps.empty());
}

TEST(Window, IsSpelledWithLoopFactorAndRange) {
  const std::vector<std::string> names{"y", "c"};
  auto spell = [&](const Window &window) {
    return toString(four, getWindowed(window), names);
  };
  EXPECT_EQ(spell({"row", 7, 2, -1, 1}), "<y by 2 row@rows + [-1, 1]>");
  EXPECT_EQ(spell({"row", 7, 1, 0, 6}), "<y by row@rows + [0, 6]>");
  EXPECT_EQ(spell({"up", 8, 1, 0, 1, 2}), "<y by up@rows + [0, 1] / 2>");
  EXPECT_EQ(spell({"n", 8, -1, 7, 7}), "<y by -1 n@rows + [7, 7]>");
  EXPECT_EQ(spell({"n", 8, 1, -1, -1, 1, 8}), "<y by n@rows + [-1, -1] % 8>");
  EXPECT_EQ(
      toString(
          four,
          {{{}, {rows}}, ReduceKind::None, {}, {Window{"", 1, 1, 3, 4}, {}}},
          names),
      "<y + [3, 4], c@rows>");
}

TEST(Window, ThatIsNoneIsAViolation) {
  auto getText = [](Sharding sharding) {
    return getViolation(four, sharding, 2);
  };
  const Window good{"row", 7, 1, -1, 1};
  EXPECT_EQ(getText(getWindowed(good)), "");
  EXPECT_EQ(getText({{{}, {}}, ReduceKind::None, {}, {good, {}}}),
            "the window of loop 'row' has no axis that splits the loop");
  EXPECT_EQ(getText({{{rows}, {}}, ReduceKind::None, {}, {good}}),
            "1 windows for 2 dimensions");
  EXPECT_EQ(getText(getWindowed({"row", 7, -1, 6, 6})), "");
  EXPECT_EQ(getText(getWindowed({"row", 7, 0, 6, 6})),
            "the window of loop 'row' has size 7, factor 0, range [6, 6], "
            "divisor 1 and modulus 0");
  EXPECT_EQ(getText(getWindowed({"row", 0, 1, -1, 1})),
            "the window of loop 'row' has size 0, factor 1, range [-1, 1], "
            "divisor 1 and modulus 0");
  EXPECT_EQ(getText(getWindowed({"row", 7, 1, 1, 0})),
            "the window of loop 'row' has size 7, factor 1, range [1, 0], "
            "divisor 1 and modulus 0");
  EXPECT_EQ(getText(getWindowed({"row", 7, 1, 0, 1, 0})),
            "the window of loop 'row' has size 7, factor 1, range [0, 1], "
            "divisor 0 and modulus 0");
  EXPECT_EQ(getText(getWindowed({"row", 8, 2, 0, 1, 2, 8})),
            "the window of loop 'row' has size 8, factor 2, range [0, 1], "
            "divisor 2 and modulus 8");
  EXPECT_EQ(getText(getWindowed({"row", 7, 1, -3, 3, 1, 7})),
            "the window of loop 'row' has blocks with a position of 7 twice");
  EXPECT_EQ(getText(getWindowed({"", 1, 1, 3, 3})),
            "the window of loop '' has no axis that splits the loop");
  EXPECT_EQ(
      getText({{{}, {}}, ReduceKind::None, {}, {Window{"", 1, 1, 3, 3}, {}}}),
      "");
  EXPECT_EQ(getText(getWindowed({"row", 12, 1, 0, 1, 2})),
            "the window of loop 'row' has blocks that begin between two "
            "positions of factor 1 and divisor 2");
  const Mesh two({{"a", 2}, {"b", 2}});
  EXPECT_EQ(getViolation(two,
                         {{{two.getWholeAxis(0)}, {}},
                          ReduceKind::Max,
                          {two.getWholeAxis(1)},
                          {good, {}}},
                         2),
            "a window of a partial max, whose identity is not 0");
}

TEST(Window, ListOfNoWindowIsDropped) {
  EXPECT_EQ(getCanonical(four, {{{rows}, {}}, ReduceKind::None, {}, {{}, {}}}),
            byRows);
}

TEST(Window, OfEveryShardingHoldsWhatTheLoopReads) {
  for (const Mesh &mesh : {Mesh({{"x", 2}}), Mesh({{"x", 3}}), Mesh({{"x", 4}}),
                           Mesh({{"x", 7}}), Mesh({{"x", 2}, {"y", 3}})})
    for (int64_t size : {1, 5, 7, 12})
      for (int64_t loopSize : {2, 5, 7})
        for (int64_t factor : {1, 2, 3, 5})
          for (Range reach : {Range{0, 1}, Range{-1, 3}, Range{-3, 7},
                              Range{2, 2}, Range{-9, 3}}) {
            const Window window{"row", loopSize, factor, reach.offset,
                                reach.offset + reach.count - 1};
            std::vector<DimSplit> splits{{mesh.getWholeAxis(0)}};
            if (mesh.getNumAxes() == 2) {
              splits.push_back({mesh.getWholeAxis(1)});
              splits.push_back({mesh.getWholeAxis(1), mesh.getWholeAxis(0)});
            }
            for (const DimSplit &split : splits) {
              checkWindow(mesh, {size, 2}, window, split);
              if (HasFatalFailure())
                return;
            }
          }
}

TEST(Window, OfQuotientsHoldsWhatTheLoopReads) {
  int64_t windows = 0;
  for (const Mesh &mesh :
       {Mesh({{"x", 2}}), Mesh({{"x", 3}}), Mesh({{"x", 2}, {"y", 3}})}) {
    std::vector<DimSplit> splits{{mesh.getWholeAxis(0)}};
    if (mesh.getNumAxes() == 2)
      splits.push_back({mesh.getWholeAxis(1), mesh.getWholeAxis(0)});
    for (int64_t size : {3, 7})
      for (int64_t loopSize : {7, 10, 12, 18})
        for (int64_t factor : {1, 2, 3})
          for (int64_t divisor : {2, 3})
            for (Range reach : {Range{0, 1}, Range{0, 2}, Range{-2, 5}})
              for (const DimSplit &split : splits) {
                const Window window{"up",
                                    loopSize,
                                    factor,
                                    reach.offset,
                                    reach.offset + reach.count - 1,
                                    divisor};
                if (!window.fits(split))
                  continue;
                ++windows;
                checkWindow(mesh, {size, 2}, window, split);
                if (HasFatalFailure())
                  return;
              }
  }
  EXPECT_GT(windows, 100);
}

TEST(Window, BackwardsAndAroundARingHoldWhatTheLoopReads) {
  int64_t rings = 0, backwards = 0;
  for (const Mesh &mesh : {Mesh({{"x", 4}}), Mesh({{"x", 2}, {"y", 3}})}) {
    std::vector<DimSplit> splits{{mesh.getWholeAxis(0)}};
    if (mesh.getNumAxes() == 2)
      splits.push_back({mesh.getWholeAxis(1), mesh.getWholeAxis(0)});
    for (const DimSplit &split : splits)
      for (int64_t size : {3, 12})
        for (int64_t loopSize : {7, 12})
          for (int64_t factor : {-2, -1, 1, 2})
            for (int64_t modulus : {0, 5, 12})
              for (Range reach : {Range{-1, 1}, Range{-1, 3}, Range{6, 1},
                                  Range{-9, 1}, Range{11, 2}}) {
                const Window window{"n",
                                    loopSize,
                                    factor,
                                    reach.offset,
                                    reach.offset + reach.count - 1,
                                    1,
                                    modulus};
                const Sharding target{
                    {split, {}}, ReduceKind::None, {}, {window, {}}};
                if (!getViolation(mesh, target, 2).empty())
                  continue;
                ++(modulus == 0 ? backwards : rings);
                checkWindow(mesh, {size, 2}, window, split);
                if (HasFatalFailure())
                  return;
              }
  }
  EXPECT_GT(rings, 50);
  EXPECT_GT(backwards, 50);
}

TEST(Window, AroundARingTakesOneRowFromEachNeighbour) {
  auto getRows = [](int64_t size, Window window) {
    return getReshardStep(four, std::vector<int64_t>{size, 5},
                          CollectiveKind::Exchange, byRows, getWindowed(window))
               .wireElements /
           5;
  };
  EXPECT_EQ(getRows(24, {"n", 24, 1, -1, 1, 1, 24}), 2);
  EXPECT_EQ(getRows(24, {"n", 24, 1, 13, 13, 1, 24}), 6); // two blocks away
  EXPECT_EQ(getRows(24, {"n", 24, -1, 23, 23}), 6);       // the mirrored block
  EXPECT_EQ(getRows(23, {"n", 23, -1, 22, 22}), 6); // 5 of it are one more
}

TEST(Window, WithoutALoopComesFromItsOwner) {
  // Three others take the position from the one that has it.
  EXPECT_EQ(getReshardStep(
                four, std::vector<int64_t>{8, 5}, CollectiveKind::Exchange,
                byRows,
                {{{}, {}}, ReduceKind::None, {}, {Window{"", 1, 1, 3, 3}, {}}})
                .wireElements,
            3 * 5);
  for (Range read : {Range{3, 1}, Range{-1, 3}, Range{2, 4}}) {
    const Window window{"", 1, 1, read.offset, read.offset + read.count - 1};
    checkWindow(four, {7, 2}, window, {});
    checkWindow(Mesh({{"x", 2}, {"y", 3}}), {7, 2}, window, {});
  }
}

TEST(Window, TwoDimensionsHaveCorners) {
  const Mesh mesh({{"x", 2}, {"y", 3}});
  const std::vector<int64_t> sizes{5, 7};
  const WindowedMatrix matrix(mesh, sizes);
  const Sharding target{
      {{mesh.getWholeAxis(0)}, {mesh.getWholeAxis(1)}},
      ReduceKind::None,
      {},
      {Window{"row", 5, 1, -1, 1}, Window{"col", 4, 2, -1, 1}}};
  for (const Sharding &source :
       getAllShardings(mesh, getWholeAxes(mesh), 2, ReduceKind::Sum))
    ASSERT_EQ(matrix.move(matrix.getBlocks(source), source, target),
              matrix.getBlocks(target));
}
