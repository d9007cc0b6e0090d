#include "runtime/cpu/BlockedMatmul.h"

#include "runtime/exec/SumBlock.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

using namespace meshc;
using namespace meshc::runtime;

namespace {

// One block of each operand; together they stay inside a 256 KiB second-level
// cache for 8-byte elements.
constexpr int64_t rowBlock = 32;
constexpr int64_t columnBlock = 128;
constexpr int64_t depthBlock = sumBlock;

template <typename T> T activate(T value, exec::Activation activation) {
  switch (activation) {
  case exec::Activation::none:
    return value;
  case exec::Activation::relu:
    return value > T(0) ? value : T(0);
  case exec::Activation::gelu_erf:
    if constexpr (std::is_floating_point_v<T>)
      return T(0.5) * value * (T(1) + std::erf(value * T(M_SQRT1_2)));
    break;
  case exec::Activation::gelu_tanh:
    if constexpr (std::is_floating_point_v<T>) {
      // Hendrycks, Gimpel 2016, the tanh form; 0.79788... = sqrt(2 / pi).
      const T inner = T(0.79788456080286535588) *
                      (value + T(0.044715) * value * value * value);
      return T(0.5) * value * (T(1) + std::tanh(inner));
    }
    break;
  }
  __builtin_unreachable(); // checkExecutable refuses gelu of integers
}

/// Sum is the type of the running sums: unsigned for integers, so that they
/// wrap around.
template <typename T, typename Sum>
void runBlocked(const MatmulShape &shape, const MatmulOperands &operands,
                int64_t rowBegin, int64_t rowEnd) {
  const T *a = static_cast<const T *>(operands.a);
  const T *b = static_cast<const T *>(operands.b);
  T *c = static_cast<T *>(operands.c);
  const T *bias = static_cast<const T *>(operands.bias);
  alignas(64) Sum aTile[rowBlock][depthBlock];
  alignas(64) Sum bTile[depthBlock][columnBlock];
  // A sum for each level of blocks of terms (SumBlock.h).
  using Tile = Sum[rowBlock][columnBlock];
  constexpr bool isExact = std::is_integral_v<Sum>;
  constexpr int64_t maxTerms = int64_t(1) << 42; // of any memory
  constexpr int maxLevels = isExact ? 1 : countSumLevels(maxTerms);
  const int levels = std::min(maxLevels, countSumLevels(shape.k.size));
  alignas(64) Tile tiles[maxLevels];
  auto moveUp = [&](int level, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columnBlock; ++j) {
        tiles[level + 1][i][j] += tiles[level][i][j];
        tiles[level][i][j] = Sum(0);
      }
  };
  Tile &sums = tiles[0];

  for (int64_t i0 = rowBegin; i0 < rowEnd; i0 += rowBlock)
    for (int64_t j0 = 0; j0 < shape.n.size; j0 += columnBlock) {
      const int64_t rows = std::min(rowBlock, rowEnd - i0);
      const int64_t columns = std::min(columnBlock, shape.n.size - j0);
      for (int level = 0; level < levels; ++level)
        for (int64_t i = 0; i < rows; ++i)
          std::fill_n(tiles[level][i], columnBlock, Sum(0));
      for (int64_t p0 = 0; p0 < shape.k.size; p0 += depthBlock) {
        const int64_t depth = std::min(depthBlock, shape.k.size - p0);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t p = 0; p < depth; ++p)
            aTile[i][p] = Sum(a[(i0 + i) * shape.m.a + (p0 + p) * shape.k.a]);
        for (int64_t p = 0; p < depth; ++p)
          for (int64_t j = 0; j < columnBlock; ++j)
            bTile[p][j] =
                j < columns
                    ? Sum(b[(p0 + p) * shape.k.b + (j0 + j) * shape.n.b])
                    : Sum(0);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t p = 0; p < depth; ++p) {
            const Sum factor = aTile[i][p];
            for (int64_t j = 0; j < columnBlock; ++j)
              sums[i][j] += factor * bTile[p][j];
          }
        const int whole = countWholeBlocks(p0 + depth);
        for (int level = 0; level < std::min(whole, levels - 1); ++level)
          moveUp(level, rows);
      }
      for (int level = 0; level < levels - 1; ++level)
        moveUp(level, rows);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          Sum sum = tiles[levels - 1][i][j];
          if (bias)
            sum += Sum(bias[j0 + j]);
          T &result = c[(i0 + i) * shape.m.c + (j0 + j) * shape.n.c];
          const T value = activate(T(sum), shape.activation);
          result = shape.accumulate ? T(Sum(result) + Sum(value)) : value;
        }
    }
}

} // namespace

float runtime::activate(float value, exec::Activation activation) {
  return ::activate<float>(value, activation);
}

void runtime::runBlockedMatmul(const MatmulShape &shape,
                               const MatmulOperands &operands, int64_t rowBegin,
                               int64_t rowEnd) {
  switch (shape.element) {
  case exec::ElementType::f32:
    return runBlocked<float, float>(shape, operands, rowBegin, rowEnd);
  case exec::ElementType::f64:
    return runBlocked<double, double>(shape, operands, rowBegin, rowEnd);
  case exec::ElementType::i32:
    return runBlocked<int32_t, uint32_t>(shape, operands, rowBegin, rowEnd);
  case exec::ElementType::i64:
    return runBlocked<int64_t, uint64_t>(shape, operands, rowBegin, rowEnd);
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  __builtin_unreachable(); // 16-bit floats are multiplied as f32
}
