/// Boxes and the bytes of one that are in another, against loops over elements.

#include "runtime/checkpoint/Box.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace meshc;
using namespace meshc::runtime;

namespace {

TEST(BoxTest, is_spelled_as_a_slice) {
  EXPECT_EQ(toString(Box{{0, 784}, {512, 512}}), "[0:784, 512:1024]");
  EXPECT_EQ(toString(Box{}), "[]");
}

TEST(BoxTest, boxes_tile_where_each_element_is_in_one) {
  const std::vector<int64_t> sizes = {3, 5};
  EXPECT_TRUE(tiles(sizes, std::vector<Box>{{{0, 3}, {0, 5}}}));
  EXPECT_TRUE(
      tiles(sizes, std::vector<Box>{{{0, 3}, {0, 2}}, {{0, 3}, {2, 3}}}));
  // Around a hole in the middle, or with it.
  const std::vector<int64_t> square = {3, 3};
  std::vector<Box> wheel = {
      {{0, 1}, {0, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 2}, {0, 1}}};
  EXPECT_FALSE(tiles(square, wheel));
  wheel.push_back({{1, 1}, {1, 1}});
  EXPECT_TRUE(tiles(square, wheel));
  wheel.push_back({{1, 1}, {1, 1}});
  EXPECT_FALSE(tiles(square, wheel));
  EXPECT_FALSE(tiles(sizes, std::vector<Box>{{{0, 3}, {0, 4}}}));
  EXPECT_FALSE(tiles(sizes, std::vector<Box>{{{0, 3}, {0, 6}}}));
  EXPECT_FALSE(tiles(sizes, std::vector<Box>{}));
  EXPECT_TRUE(tiles(std::vector<int64_t>{}, std::vector<Box>{{}}));
  EXPECT_FALSE(tiles(std::vector<int64_t>{}, std::vector<Box>{{}, {}}));
}

TEST(BoxTest, too_many_cells_are_no_tiling) {
  // Each box makes a cut in each of three dimensions.
  std::vector<Box> boxes;
  for (int64_t i = 0; i < 1000; ++i)
    boxes.push_back({{i, 1}, {i, 1}, {i, 1}});
  EXPECT_FALSE(tiles(std::vector<int64_t>{1000, 1000, 1000}, boxes));
}

/// The bytes of a box that are in a block, one by one.
std::map<int64_t, int64_t> listBytes(const Box &part, const Box &stored,
                                     const std::vector<int64_t> &origin,
                                     const std::vector<int64_t> &shape,
                                     int64_t width) {
  std::map<int64_t, int64_t> bytes;
  std::vector<int64_t> index(part.size(), 0);
  for (int64_t number = 0; number < getVolume(part); ++number) {
    int64_t rest = number;
    for (size_t i = part.size(); i-- > 0; rest /= part[i].count)
      index[i] = part[i].offset + rest % part[i].count;
    int64_t from = 0, to = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      from = from * stored[i].count + index[i] - stored[i].offset;
      to = to * shape[i] + index[i] - origin[i];
    }
    for (int64_t byte = 0; byte < width; ++byte)
      bytes[from * width + byte] = to * width + byte;
  }
  return bytes;
}

TEST(BoxRunsTest, are_the_bytes_of_the_part) {
  std::mt19937 random(1);
  auto draw = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  for (int round = 0; round < 3000; ++round) {
    const auto rank = size_t(draw(0, 4));
    const int64_t width = int64_t(1) << draw(0, 3);
    Box part, stored;
    std::vector<int64_t> origin, shape;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t begin = draw(0, 3), count = draw(1, 4);
      part.push_back({begin, count});
      const int64_t before = draw(0, std::min<int64_t>(begin, 1));
      stored.push_back({begin - before, count + before + draw(0, 1)});
      origin.push_back(begin - draw(0, begin));
      shape.push_back(begin + count - origin[i] + draw(0, 2));
    }
    const BoxRuns runs(part, stored, origin, shape, width);
    const std::map<int64_t, int64_t> expected =
        listBytes(part, stored, origin, shape, width);
    EXPECT_EQ(runs.getBegin(), expected.begin()->first);
    EXPECT_EQ(runs.getEnd(), expected.rbegin()->first + 1);
    // Cut at random places, each byte is visited once, in order.
    const int64_t end = getVolume(stored) * width;
    std::map<int64_t, int64_t> found;
    for (int64_t begin = 0; begin < end;) {
      const int64_t next = std::min(end, begin + draw(1, 40));
      const layout::Range local = runs.getLocalBytes(begin, next);
      int64_t low = INT64_MAX, high = 0;
      runs.visit(begin, next, [&](const RunRow &row) {
        ASSERT_GT(row.bytes, 0);
        ASSERT_GT(row.count, 0);
        for (int64_t i = 0; i < row.count; ++i) {
          const int64_t from = row.stored + i * row.storedStep;
          const int64_t to = row.local + i * row.localStep;
          ASSERT_GE(from, begin);
          ASSERT_LE(from + row.bytes, next);
          low = std::min(low, to);
          high = std::max(high, to + row.bytes);
          for (int64_t byte = 0; byte < row.bytes; ++byte)
            EXPECT_TRUE(found.emplace(from + byte, to + byte).second);
        }
      });
      EXPECT_EQ(local.count, low == INT64_MAX ? 0 : high - low);
      if (local.count > 0) {
        EXPECT_EQ(local.offset, low);
      }
      begin = next;
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(CopyRunsTest, moves_each_run_and_nothing_between) {
  for (int64_t bytes = 1; bytes <= 20; ++bytes)
    for (int64_t count : {0, 1, 2, 7}) {
      const int64_t sourceStep = bytes + 3, targetStep = bytes + 5;
      std::vector<std::byte> source(size_t(8 * sourceStep));
      for (size_t i = 0; i < source.size(); ++i)
        source[i] = std::byte(1 + i % 251);
      std::vector<std::byte> target(size_t(8 * targetStep)), expected = target;
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(&source[size_t(i * sourceStep)], bytes,
                    &expected[size_t(i * targetStep)]);
      copyRuns(target.data(), targetStep, source.data(), sourceStep, bytes,
               count);
      EXPECT_EQ(target, expected) << bytes << " " << count;
    }
}

} // namespace
