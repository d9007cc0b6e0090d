/// Rows of many devices combined in their order.

#include "runtime/plans/Reduction.h"
#include "runtime/exec/SumBlock.h"
#include "tests/runtime/StoredHalf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using exec::ElementType;
using exec::ReduceKind;

namespace {

TEST(SumBlockTest, levels) {
  for (auto [terms, levels] : {std::pair<int64_t, int>(0, 1),
                               {1, 1},
                               {64, 1},
                               {65, 2},
                               {4096, 2},
                               {4097, 3},
                               {20000000, 5},
                               {INT64_MAX, 11}})
    EXPECT_EQ(countSumLevels(terms), levels) << terms;
  for (auto [terms, blocks] : {std::pair<int64_t, int>(0, 0),
                               {1, 0},
                               {63, 0},
                               {64, 1},
                               {128, 1},
                               {4096, 2},
                               {4160, 1}})
    EXPECT_EQ(countWholeBlocks(terms), blocks) << terms;
}

/// Rows of `count` elements of T, `stride` apart, from many devices.
template <typename T> struct Rows {
  Rows(size_t sources, int64_t count, int64_t stride) {
    for (size_t i = 0; i < sources; ++i)
      data.emplace_back(size_t(count * stride));
  }
  std::vector<const std::byte *> getPointers() const {
    std::vector<const std::byte *> pointers;
    for (const std::vector<T> &row : data)
      pointers.push_back(reinterpret_cast<const std::byte *>(row.data()));
    return pointers;
  }
  std::vector<std::vector<T>> data;
};

class ManyDevices : public ::testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(Devices, ManyDevices,
                         ::testing::Values(1, 2, 3, 5, 7, 64, 65, 130, 4097));

/// More than one tile of columns.
constexpr int64_t columns = 1500;

TEST_P(ManyDevices, floats_keep_their_digits) {
  Rows<float> rows(GetParam(), columns, 1);
  for (std::vector<float> &row : rows.data)
    for (size_t j = 0; j < row.size(); ++j)
      row[j] = j % 2 == 0 ? 0.1f : 1.1f;
  std::vector<float> sum(columns), copy(columns);
  std::byte *targets[] = {reinterpret_cast<std::byte *>(sum.data()),
                          reinterpret_cast<std::byte *>(copy.data())};
  reduceRow(ElementType::f32, ReduceKind::sum, rows.getPointers(), targets,
            columns);
  EXPECT_EQ(sum, copy);
  const double bound =
      double(sumBlock * countSumLevels(int64_t(GetParam()))) * 0x1p-24;
  for (size_t j = 0; j < sum.size(); ++j)
    ASSERT_NEAR(sum[j] / (double(GetParam()) * double(rows.data[0][j])), 1,
                bound);
}

// Blocks of 64 in order, each from left to right.
TEST_P(ManyDevices, the_order_is_that_of_the_devices) {
  Rows<float> rows(GetParam(), 1, 1);
  for (size_t i = 0; i < rows.data.size(); ++i)
    rows.data[i][0] = float(int(i * 7919 % 1021) - 500) / 1021;
  auto add = [&](auto &&self, size_t first, size_t last) -> float {
    size_t part = 64;
    while (part * 64 < last - first)
      part *= 64;
    if (last - first <= 64)
      part = 1;
    float sum = 0;
    for (size_t i = first; i < last; i += part) {
      const float term =
          part == 1 ? rows.data[i][0] : self(self, i, std::min(i + part, last));
      sum = i == first ? term : sum + term;
    }
    return sum;
  };
  float sum = 0;
  std::byte *target = reinterpret_cast<std::byte *>(&sum);
  reduceRow(ElementType::f32, ReduceKind::sum, rows.getPointers(), {&target, 1},
            1);
  EXPECT_EQ(sum, add(add, 0, GetParam()));
}

// Strided rows, 16 bits, integers and extrema are what one row after the other
// makes them.
TEST_P(ManyDevices, other_rows) {
  constexpr int64_t stride = 3, count = 500, start = 20;
  Rows<float> strided(GetParam(), count + start, stride);
  Rows<StoredBF16> narrow(GetParam(), columns, 1);
  Rows<int32_t> integers(GetParam(), columns, 1);
  const std::vector<int64_t> strides(GetParam(), stride);
  for (size_t i = 0; i < GetParam(); ++i) {
    for (float &element : strided.data[i])
      element = 1.1f;
    for (StoredBF16 &element : narrow.data[i])
      element = StoredBF16(1.0);
    for (int32_t &element : integers.data[i])
      element = int32_t(i) - 7;
  }
  std::vector<float> sum(count);
  combineRows(ElementType::f32, ReduceKind::sum, strided.getPointers(), strides,
              start, reinterpret_cast<std::byte *>(sum.data()), count);
  const double bound =
      double(sumBlock * countSumLevels(int64_t(GetParam()))) * 0x1p-24;
  for (float element : sum)
    ASSERT_NEAR(element / (double(GetParam()) * double(1.1f)), 1, bound);

  std::vector<StoredBF16> half(columns);
  std::byte *target = reinterpret_cast<std::byte *>(half.data());
  reduceRow(ElementType::bf16, ReduceKind::sum, narrow.getPointers(),
            {&target, 1}, columns);
  for (const StoredBF16 &element : half)
    ASSERT_EQ(double(element), double(StoredBF16(double(GetParam()))));

  std::vector<int32_t> total(columns);
  target = reinterpret_cast<std::byte *>(total.data());
  const auto devices = int32_t(GetParam());
  for (auto [kind, expected] :
       {std::pair(ReduceKind::sum, devices * (devices - 1) / 2 - 7 * devices),
        std::pair(ReduceKind::max, devices - 8),
        std::pair(ReduceKind::min, -7)}) {
    reduceRow(ElementType::i32, kind, integers.getPointers(), {&target, 1},
              columns);
    for (int32_t element : total)
      ASSERT_EQ(element, expected);
  }
}

} // namespace
