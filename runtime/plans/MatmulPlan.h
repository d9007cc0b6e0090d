#ifndef MESHC_RUNTIME_PLANS_MATMULPLAN_H
#define MESHC_RUNTIME_PLANS_MATMULPLAN_H

/// How a product is given to cuBLASLt; arithmetic alone, without the library.
///
/// cuBLASLt thinks in columns: a matrix of rows x columns has its columns
/// contiguous, `leading` elements apart. A row-major matrix is its own
/// transpose in columns, so a row-major c = a b is asked for as c' = b' a'.
/// With a: 2x3, b: 3x5, c: 2x5, all row-major and dense:
///
///   left   b  5x3, leading 5   |  op(left) op(right) = result
///   right  a  3x2, leading 3   |  [5x3]    [3x2]     = [5x2]
///   result c  5x2, leading 5
///
/// The bias runs along the rows of the result (n), as cuBLASLt wants it. A c
/// whose columns are contiguous is asked for as it is.

#include "runtime/exec/Error.h"
#include "runtime/exec/MatmulShape.h"
#include "runtime/exec/exec_generated.h"

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

namespace meshc::runtime::cuda {

/// Memory that cuBLASLt may use while it computes a product, for each device.
/// Source: cuBLAS 13.0 documentation, 2.1.7: 32 MiB on Hopper.
inline constexpr uint64_t matmulWorkspaceBytes = uint64_t(32) << 20;

/// A matrix in columns; sizes and steps in elements.
struct MatrixPlan {
  exec::ElementType element = exec::ElementType::f32;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t leading = 1;
  int64_t batchStride = 0;
  bool isTransposed = false; ///< op(), of the two factors

  auto operator<=>(const MatrixPlan &) const = default;
};

/// Where a call's operands start, in elements behind the command's.
struct MatmulOffsets {
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
};

struct MatmulPlan {
  MatrixPlan left, right, result;
  bool leftIsB = true; ///< the left factor is the command's b
  int64_t batch = 1;   ///< products of one call
  bool accumulate = false;
  bool hasBias = false;
  bool hasAddend = false; ///< laid out as the result
  exec::Activation activation = exec::Activation::none;
  bool hasAux = false;
  bool isGradient = false;
  /// Elements from one column of the result to the next in what an activation
  /// leaves behind; bits for relu.
  int64_t auxLeading = 0;
  /// Of what rows are summed: the result (c), the left (a) or right (b) factor.
  exec::ColumnSum rowSum = exec::ColumnSum::none;
  /// Where the batches begin; batch dimensions that one step does not describe
  /// are here. Each is a call, but for those of tables.
  std::vector<MatmulOffsets> calls;
  /// Whether one call computes all batches: it reads from tables where each
  /// matrix is. Samples of heads that lie between positions and features have
  /// no one step, and a call for each of 12 heads is 12 launches.
  bool hasTables = false;
};

/// Which of a, b and c of `shape` cuBLASLt does not multiply where they lie:
/// those of whose matrix neither dimension is contiguous, or whose columns
/// would overlap.
std::array<bool, 3> findRefused(const MatmulShape &shape);

/// Plans the product of a command.
/// Errors: UnsupportedOnGpu, saying why, where cuBLASLt cannot be asked for it:
/// integers, gelu with erf, an activation before an accumulation, a factor
/// without a contiguous dimension; a bias, column sums or an activation that
/// leaves something behind where the result has no contiguous rows; rows of
/// what gelu leaves behind that are no multiples of 8 elements; the gradient of
/// an activation, or sums of a factor's columns, where k is 1; sums of a factor
/// along the dimension that is contiguous.
Result<MatmulPlan> planMatmul(const exec::CommandT &command);

/// Whether the library computes more than the product and a sum with what is
/// there or elsewhere.
bool hasEnd(const MatmulPlan &plan);

/// Calls of the library that compute the product.
int64_t countCalls(const MatmulPlan &plan);
/// Products of one of them.
int64_t countProducts(const MatmulPlan &plan);

/// Bytes of the tables of a plan that has some.
uint64_t getTableBytes(const MatmulPlan &plan);
/// What is in these tables: the address of each product's left factor, then
/// those of right factors, results, and of what is added from elsewhere. `left`
/// and the others are where the operands of the plan begin.
std::vector<uint64_t> makeTables(const MatmulPlan &plan, uint64_t left,
                                 uint64_t right, uint64_t result,
                                 uint64_t addend);

/// The same products in a call each. What an activation leaves behind and sums
/// of columns are not in batches.
MatmulPlan splitBatch(const MatmulPlan &plan);

} // namespace meshc::runtime::cuda

#endif
