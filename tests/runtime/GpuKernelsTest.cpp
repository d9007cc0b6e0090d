// The arithmetic of kernels that move data, without one.

#include "runtime/exec/GpuKernels.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc::runtime;

namespace {

uint32_t divide(uint32_t number, MoveDivisor divisor) {
  return uint32_t((uint64_t(number) * divisor.multiplier) >> divisor.shift);
}

TEST(MoveDivisor, DividesEveryNumberBelow31Bits) {
  constexpr uint32_t limit = uint32_t(1) << 31;
  std::mt19937 random(1);
  std::vector<uint32_t> sizes;
  for (uint32_t size = 1; size < 2000; ++size)
    sizes.push_back(size);
  for (int bits = 11; bits < 31; ++bits)
    for (int offset : {-1, 0, 1})
      sizes.push_back((uint32_t(1) << bits) + uint32_t(offset));
  for (int i = 0; i < 2000; ++i)
    sizes.push_back(1 + uint32_t(random()) % (limit - 1));
  sizes.push_back(limit - 1);
  for (uint32_t size : sizes) {
    const MoveDivisor divisor = getMoveDivisor(size);
    auto expectQuotient = [&](uint32_t number) {
      ASSERT_EQ(divide(number, divisor), number / size)
          << number << " / " << size;
    };
    expectQuotient(0);
    expectQuotient(limit - 1);
    // On both sides of the greatest multiples, where an error would show first,
    // and of others.
    const uint32_t greatest = (limit - 1) / size;
    for (int i = 0; i < 20; ++i) {
      const uint32_t times = i < 4 ? greatest - std::min(uint32_t(i), greatest)
                                   : uint32_t(random()) % (greatest + 1);
      const uint32_t multiple = times * size;
      expectQuotient(multiple);
      if (multiple > 0)
        expectQuotient(multiple - 1);
      if (multiple < limit - 1)
        expectQuotient(multiple + 1);
    }
  }
}

MovePiece getPiece(std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  MovePiece piece{};
  piece.rank = int64_t(sizes.size());
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    piece.sizes[dim] = sizes[dim];
    piece.fromStrides[dim] = piece.toStrides[dim] = strides[dim];
  }
  return piece;
}

TEST(MovePiece, IsNarrowUpToTheBorder) {
  const int64_t limit = maxNarrowElements;
  // A thread's step behind the last element still fits.
  EXPECT_LT(limit + 16 * moveKernelThreads, int64_t(1) << 31);
  EXPECT_TRUE(isNarrow(getPiece({}, {})));
  EXPECT_TRUE(isNarrow(getPiece({limit}, {1})));
  EXPECT_FALSE(isNarrow(getPiece({limit + 1}, {1})));
  EXPECT_FALSE(isNarrow(getPiece({int64_t(1) << 33}, {1})));
  // Few along each dimension, many together; also by a product beyond 64 bits.
  EXPECT_TRUE(isNarrow(getPiece({1 << 15, (1 << 16) - 1}, {1, 0})));
  EXPECT_FALSE(isNarrow(getPiece({1 << 15, 1 << 16}, {1, 0})));
  EXPECT_FALSE(
      isNarrow(getPiece({1 << 30, 1 << 30, 1 << 30, 1 << 30}, {0, 0, 0, 0})));
  // Few elements far from one another, in either place.
  EXPECT_TRUE(isNarrow(getPiece({2, 3}, {limit - 3, 1})));
  EXPECT_FALSE(isNarrow(getPiece({2, 3}, {limit - 2, 1})));
  EXPECT_FALSE(isNarrow(getPiece({3}, {int64_t(1) << 62})));
  EXPECT_FALSE(isNarrow(getPiece({3}, {-1})));
  MovePiece piece = getPiece({3}, {1});
  piece.toStrides[0] = limit / 2 + 1;
  EXPECT_FALSE(isNarrow(piece));
  std::swap(piece.fromStrides[0], piece.toStrides[0]);
  EXPECT_FALSE(isNarrow(piece));
  piece.fromStrides[0] = (limit - 1) / 2;
  EXPECT_TRUE(isNarrow(piece));
}

} // namespace
