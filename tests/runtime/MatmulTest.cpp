/// Matrix products against plain loops in f64.

#include "runtime/cpu/Matmul.h"
#include "runtime/plans/OneDnnPlan.h"
#include "tests/runtime/StoredHalf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

struct Case {
  std::string name;
  exec::MatmulT matmul;
};

/// How an operand's dimensions lie in memory, as positions in
/// (batch dims..., rows, columns) from the outermost inwards.
std::vector<int64_t> layOut(const std::vector<int64_t> &sizes,
                            const std::vector<int> &order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= sizes[order[i]];
  }
  return strides;
}

std::vector<int> identity(size_t rank) {
  std::vector<int> order(rank);
  for (size_t i = 0; i < rank; ++i)
    order[i] = int(i);
  return order;
}

exec::MatmulT makeMatmul(std::vector<int64_t> batch, int64_t m, int64_t n,
                         int64_t k, std::vector<int> aOrder = {},
                         std::vector<int> bOrder = {},
                         std::vector<int> cOrder = {}) {
  exec::MatmulT matmul;
  matmul.batch = batch;
  matmul.m = m;
  matmul.n = n;
  matmul.k = k;
  auto strides = [&](int64_t rows, int64_t columns, std::vector<int> order) {
    std::vector<int64_t> sizes = batch;
    sizes.push_back(rows);
    sizes.push_back(columns);
    return layOut(sizes, order.empty() ? identity(sizes.size()) : order);
  };
  matmul.a_strides = strides(m, k, aOrder);
  matmul.b_strides = strides(k, n, bOrder);
  matmul.c_strides = strides(m, n, cOrder);
  return matmul;
}

double activate(double x, exec::Activation activation) {
  switch (activation) {
  case exec::Activation::none:
    return x;
  case exec::Activation::relu:
    return x > 0 ? x : 0;
  case exec::Activation::gelu_erf:
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case exec::Activation::gelu_tanh:
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return NAN;
}

int64_t getReach(const std::vector<int64_t> &sizes,
                 const std::vector<int64_t> &strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0)
      return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

/// Distance of neighbours, relative to a number between them, at most.
double getPlace(exec::ElementType element) {
  return element == exec::ElementType::bf16 ? 0x1p-7 : 0x1p-10;
}

/// Runs a product with `pieces` pieces on random operands and compares every
/// element; elements of c between its rows must keep their value. Returns the
/// implementation.
///
/// T is the type of the factors, R that of the result.
template <typename T, typename R = T>
std::string check(const exec::MatmulT &matmul, exec::ElementType element,
                  exec::ElementType result, int64_t pieces = 1) {
  std::mt19937 random(7);
  auto fill = [&]<typename V>(V, int64_t count) {
    std::vector<V> values(static_cast<size_t>(count) + 1);
    for (V &value : values)
      if constexpr (std::is_integral_v<V>)
        value = V(int(random() % 201) - 100);
      else
        value = V(std::normal_distribution<double>()(random));
    return values;
  };
  auto withMatrix = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> sizes = matmul.batch;
    sizes.push_back(rows);
    sizes.push_back(columns);
    return sizes;
  };
  std::vector<int64_t> aSizes = withMatrix(matmul.m, matmul.k);
  std::vector<int64_t> bSizes = withMatrix(matmul.k, matmul.n);
  std::vector<int64_t> cSizes = withMatrix(matmul.m, matmul.n);
  std::vector<T> a = fill(T(), getReach(aSizes, matmul.a_strides));
  std::vector<T> b = fill(T(), getReach(bSizes, matmul.b_strides));
  std::vector<R> c = fill(R(), getReach(cSizes, matmul.c_strides));
  std::vector<R> bias = fill(R(), matmul.n);

  std::vector<R> expected = c;
  std::vector<double> bounds(c.size(), 0);
  int64_t batchCount = 1;
  for (int64_t size : matmul.batch)
    batchCount *= size;
  for (int64_t batch = 0; batch < batchCount; ++batch) {
    int64_t aBase = 0, bBase = 0, cBase = 0, rest = batch;
    for (size_t i = matmul.batch.size(); i-- > 0;) {
      const int64_t position = rest % matmul.batch[i];
      rest /= matmul.batch[i];
      aBase += position * matmul.a_strides[i];
      bBase += position * matmul.b_strides[i];
      cBase += position * matmul.c_strides[i];
    }
    const size_t rank = matmul.batch.size();
    for (int64_t i = 0; i < matmul.m; ++i)
      for (int64_t j = 0; j < matmul.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t p = 0; p < matmul.k; ++p) {
          const double product = double(a[aBase + i * matmul.a_strides[rank] +
                                          p * matmul.a_strides[rank + 1]]) *
                                 double(b[bBase + p * matmul.b_strides[rank] +
                                          j * matmul.b_strides[rank + 1]]);
          sum += product;
          magnitude += std::abs(product);
        }
        if (matmul.has_bias)
          sum += double(bias[j]);
        const int64_t place =
            cBase + i * matmul.c_strides[rank] + j * matmul.c_strides[rank + 1];
        double value = activate(sum, matmul.activation);
        if (matmul.accumulate)
          value += double(c[place]);
        expected[place] = R(value);
        // A sum of k + 3 roundings, in any order, of terms of this magnitude;
        // the activations have slope at most 1.13 and oneDNN's polynomial for
        // erf errs by some units in the last place.
        const double sumError =
            (double(matmul.k) + 16) * (magnitude + std::abs(value) + 1);
        if constexpr (std::is_floating_point_v<R>)
          bounds[place] = std::numeric_limits<R>::epsilon() * sumError;
        // Sums in f32, and one rounding that may go the other way.
        else if constexpr (!std::is_integral_v<R>)
          bounds[place] = std::numeric_limits<float>::epsilon() * sumError +
                          getPlace(result) * std::abs(value);
      }
  }

  Result<std::unique_ptr<Matmul>> product =
      Matmul::create(getMatmulShape(matmul, element, result), pieces, 2);
  EXPECT_TRUE(product);
  std::vector<std::byte> scratch((*product)->getScratchBytes() + 64);
  auto address = reinterpret_cast<uintptr_t>(scratch.data());
  std::byte *aligned = scratch.data() + (64 - address % 64) % 64;
  // Backwards, on alternating workers: pieces must not depend on one another.
  for (int64_t piece = (*product)->getNumPieces(); piece-- > 0;) {
    Status status = (*product)->run(
        piece,
        {a.data(), b.data(), c.data(), matmul.has_bias ? bias.data() : nullptr},
        int(piece % 2), aligned);
    EXPECT_TRUE(status);
  }
  for (size_t i = 0; i < c.size(); ++i)
    if (std::abs(double(c[i]) - double(expected[i])) > bounds[i]) {
      ADD_FAILURE() << "element " << i << ": expected " << expected[i]
                    << ", found " << c[i] << ", bound " << bounds[i] << ", by "
                    << (*product)->getImplementation();
      break;
    }
  return (*product)->getImplementation();
}

std::string checkF32(const exec::MatmulT &matmul, int64_t pieces = 1) {
  return check<float>(matmul, exec::ElementType::f32, exec::ElementType::f32,
                      pieces);
}

/// Both 16-bit types, with results as narrow and with results in f32.
void checkHalf(const exec::MatmulT &matmul, int64_t pieces = 1) {
  using exec::ElementType;
  check<StoredBF16>(matmul, ElementType::bf16, ElementType::bf16, pieces);
  check<StoredBF16, float>(matmul, ElementType::bf16, ElementType::f32, pieces);
  check<StoredF16>(matmul, ElementType::f16, ElementType::f16, pieces);
  check<StoredF16, float>(matmul, ElementType::f16, ElementType::f32, pieces);
}

/// The largest error of sums of `k` times 0.1 * 1, in units of 2^-24 of the
/// sum, where one accumulator comes to k / 3.
double getErrorOfEqualTerms(exec::MatmulT matmul, std::string &implementation) {
  std::vector<float> a(size_t(getReach({matmul.m, matmul.k}, matmul.a_strides)),
                       0.1f);
  std::vector<float> b(size_t(getReach({matmul.k, matmul.n}, matmul.b_strides)),
                       1.0f);
  std::vector<float> c(size_t(matmul.m * matmul.n));
  auto product = Matmul::create(
      getMatmulShape(matmul, exec::ElementType::f32, exec::ElementType::f32), 3,
      1);
  EXPECT_TRUE(product);
  implementation = (*product)->getImplementation();
  std::vector<std::byte> scratch((*product)->getScratchBytes() + 64);
  auto address = reinterpret_cast<uintptr_t>(scratch.data());
  std::byte *aligned = scratch.data() + (64 - address % 64) % 64;
  for (int64_t piece = 0; piece < (*product)->getNumPieces(); ++piece)
    EXPECT_TRUE((*product)->run(piece, {a.data(), b.data(), c.data(), nullptr},
                                0, aligned));
  double error = 0;
  for (float sum : c)
    error = std::max(
        error, std::abs(double(sum) / (double(matmul.k) * double(0.1f)) - 1));
  return error * 0x1p24;
}

TEST(MatmulTest, plain) {
  EXPECT_NE(checkF32(makeMatmul({}, 7, 5, 3)), "blocked");
}

TEST(MatmulTest, transposed_operands_are_used_in_place) {
  EXPECT_NE(checkF32(makeMatmul({}, 70, 50, 30, {1, 0}, {})), "blocked");
  EXPECT_NE(checkF32(makeMatmul({}, 70, 50, 30, {}, {1, 0})), "blocked");
  EXPECT_NE(checkF32(makeMatmul({}, 70, 50, 30, {1, 0}, {1, 0})), "blocked");
}

TEST(MatmulTest, a_transposed_result_swaps_the_operands) {
  EXPECT_NE(checkF32(makeMatmul({}, 70, 50, 30, {}, {}, {1, 0})), "blocked");
  EXPECT_NE(checkF32(makeMatmul({3}, 7, 5, 11, {}, {0, 2, 1}, {0, 2, 1})),
            "blocked");
}

TEST(MatmulTest, slices_of_a_transposed_operand_are_copied_where_it_helps) {
  // Three pieces of 688, 688 and 672 rows; columns of it 8 KiB apart.
  exec::MatmulT matmul = makeMatmul({}, 2048, 151, 249, {1, 0});
  const std::string implementation = checkF32(matmul, 3);
  EXPECT_NE(implementation, "blocked");
  // With AVX-512, where products in place are a third slower.
  if (getMatmulSkew() == 0)
    EXPECT_EQ(implementation, "brg:avx512_core");
  matmul.accumulate = true;
  checkF32(matmul, 3);
  matmul.has_bias = true;
  matmul.activation = exec::Activation::relu;
  matmul.a_strides = {1, 4096};
  checkF32(matmul, 3);
  checkHalf(matmul, 3);
}

TEST(MatmulTest, degenerate_sizes) {
  for (int64_t m : {1, 5})
    for (int64_t n : {1, 7})
      for (int64_t k : {1, 3})
        for (bool isTransposed : {false, true}) {
          std::vector<int> order =
              isTransposed ? std::vector<int>{1, 0} : std::vector<int>{0, 1};
          checkF32(makeMatmul({}, m, n, k, order, order));
          checkF32(makeMatmul({}, m, n, k, order, {}, order));
          checkF32(makeMatmul({2}, m, n, k));
        }
}

TEST(MatmulTest, empty_sizes) {
  checkF32(makeMatmul({}, 0, 3, 2));
  checkF32(makeMatmul({}, 3, 0, 2));
  checkF32(makeMatmul({0}, 3, 4, 2));
  // An empty sum is zero, and the bias is still added.
  exec::MatmulT matmul = makeMatmul({}, 3, 4, 0);
  checkF32(matmul);
  matmul.has_bias = true;
  checkF32(matmul);
  matmul.accumulate = true;
  checkF32(matmul);
}

TEST(MatmulTest, rows_with_a_gap) {
  exec::MatmulT matmul = makeMatmul({}, 9, 5, 6);
  matmul.a_strides = {17, 1};
  matmul.b_strides = {1, 13};
  matmul.c_strides = {19, 1};
  EXPECT_NE(checkF32(matmul), "blocked");
}

TEST(MatmulTest, no_unit_stride_takes_the_blocked_loops) {
  exec::MatmulT matmul = makeMatmul({}, 9, 5, 6);
  matmul.a_strides = {20, 3};
  EXPECT_EQ(checkF32(matmul), "blocked");
  matmul = makeMatmul({}, 9, 5, 6);
  matmul.c_strides = {20, 3};
  EXPECT_EQ(checkF32(matmul), "blocked");
}

/// Rows and elements of an operand that lies in [batch, size, size'], every so
/// many of them.
struct Steps {
  int64_t size, rowStep, width, columnStep;
};

/// A product whose left factor, or right one, takes these steps.
exec::MatmulT makeStepping(const Steps &steps, bool isLeft, bool isTransposed) {
  auto countSteps = [](int64_t size, int64_t step) {
    return (size + step - 1) / step;
  };
  int64_t rows = countSteps(steps.size, steps.rowStep);
  int64_t columns = countSteps(steps.width, steps.columnStep);
  std::vector<int64_t> strides = {steps.width * steps.rowStep,
                                  steps.columnStep};
  if (isTransposed) {
    std::swap(rows, columns);
    std::swap(strides[0], strides[1]);
  }
  strides.insert(strides.begin(), steps.size * steps.width);
  exec::MatmulT matmul = isLeft ? makeMatmul({3}, rows, 5, columns)
                                : makeMatmul({3}, 5, columns, rows);
  (isLeft ? matmul.a_strides : matmul.b_strides) = strides;
  return matmul;
}

TEST(MatmulTest, what_is_refused_is_what_the_library_does_not_take) {
  int refused = 0;
  for (int64_t size : {1, 2, 5, 7})
    for (int64_t rowStep : {1, 2, 3, 8})
      for (int64_t width : {1, 2, 3})
        for (int64_t columnStep : {1, 2})
          for (bool isLeft : {false, true})
            for (bool isTransposed : {false, true}) {
              const exec::MatmulT matmul = makeStepping(
                  {size, rowStep, width, columnStep}, isLeft, isTransposed);
              const MatmulShape shape = getMatmulShape(
                  matmul, exec::ElementType::f32, exec::ElementType::f32);
              if (findRefused(shape) == std::array{false, false, false}) {
                const std::string implementation = checkF32(matmul);
                // It may have none for vectors, which are right all the same.
                if (matmul.m > 1 && matmul.n > 1 && matmul.k > 1)
                  EXPECT_NE(implementation, "blocked");
                checkHalf(matmul);
                continue;
              }
              ++refused;
              auto product = Matmul::create(shape, 1, 1);
              EXPECT_TRUE(!product || (*product)->getImplementation() ==
                                          std::string("blocked"));
            }
  EXPECT_GT(refused, 20);
}

TEST(MatmulTest, attention_batches_are_used_in_place) {
  // scores[b, h, p, k] from q[b, p, h, e] and k[b, k, h, e].
  exec::MatmulT scores =
      makeMatmul({3, 2}, 5, 7, 11, {0, 2, 1, 3}, {0, 3, 1, 2}, {});
  EXPECT_NE(checkF32(scores), "blocked");
  // values read into [b, p, h, e].
  exec::MatmulT read =
      makeMatmul({3, 2}, 5, 11, 7, {}, {0, 2, 1, 3}, {0, 2, 1, 3});
  EXPECT_NE(checkF32(read), "blocked");
  // The same with a transposed left side, as in its gradient.
  EXPECT_NE(checkF32(makeMatmul({3, 2}, 5, 11, 7, {0, 1, 3, 2}, {0, 2, 1, 3},
                                {0, 2, 1, 3})),
            "blocked");
}

TEST(MatmulTest, many_batch_dimensions) {
  checkF32(makeMatmul({2, 3, 2}, 5, 4, 3, {1, 3, 0, 2, 4}, {2, 0, 3, 1, 4},
                      {0, 3, 2, 1, 4}));
  checkF32(makeMatmul({2, 3, 2, 3}, 2, 4, 3, {1, 3, 0, 2, 4, 5},
                      {2, 0, 3, 1, 4, 5}, {0, 3, 2, 1, 4, 5}));
}

TEST(MatmulTest, a_batch_stride_of_zero_repeats) {
  exec::MatmulT matmul = makeMatmul({4}, 5, 6, 3);
  matmul.b_strides[0] = 0;
  EXPECT_NE(checkF32(matmul), "blocked");
  matmul = makeMatmul({4}, 5, 6, 3);
  matmul.a_strides[0] = 0;
  checkF32(matmul);
  matmul.b_strides[0] = 0;
  checkF32(matmul);
  // In the middle of other batch dimensions.
  matmul = makeMatmul({2, 3, 2}, 5, 6, 4, {1, 0, 2, 3, 4});
  matmul.b_strides[1] = 0;
  checkF32(matmul);
}

TEST(MatmulTest, merging_batches_makes_them_rows_or_columns) {
  // x[b, p, d] w[d, f] is one product of b * p rows.
  exec::MatmulT matmul = makeMatmul({16, 8}, 1, 32, 64);
  matmul.b_strides = {0, 0, 32, 1};
  MatmulShape shape = mergeDims(
      getMatmulShape(matmul, exec::ElementType::f32, exec::ElementType::f32));
  EXPECT_TRUE(shape.batch.empty());
  EXPECT_EQ(shape.m.size, 128);
  checkF32(matmul);
  // With the repeated side on the left, they are columns.
  matmul = makeMatmul({3}, 4, 5, 6, {}, {1, 0, 2}, {1, 0, 2});
  matmul.a_strides[0] = 0;
  shape = mergeDims(
      getMatmulShape(matmul, exec::ElementType::f32, exec::ElementType::f32));
  EXPECT_TRUE(shape.batch.empty());
  EXPECT_EQ(shape.n.size, 15);
  checkF32(matmul);
  // A bias runs along the columns, so they cannot be merged.
  matmul.has_bias = true;
  shape = mergeDims(
      getMatmulShape(matmul, exec::ElementType::f32, exec::ElementType::f32));
  EXPECT_EQ(shape.n.size, 5);
  checkF32(matmul);
}

TEST(MatmulTest, post_operations) {
  for (bool accumulates : {false, true})
    for (bool hasBias : {false, true})
      for (exec::Activation activation :
           {exec::Activation::none, exec::Activation::relu,
            exec::Activation::gelu_erf, exec::Activation::gelu_tanh})
        for (auto [batch, cOrder] :
             {std::pair<std::vector<int64_t>, std::vector<int>>{{}, {}},
              {{}, {1, 0}},
              {{3}, {1, 0, 2}}}) {
          exec::MatmulT matmul = makeMatmul(batch, 17, 21, 13, {}, {}, cOrder);
          matmul.accumulate = accumulates;
          matmul.has_bias = hasBias;
          matmul.activation = activation;
          checkF32(matmul);
          check<double>(matmul, exec::ElementType::f64, exec::ElementType::f64);
        }
}

TEST(MatmulTest, other_types) {
  for (auto matmul :
       {makeMatmul({}, 70, 131, 67), makeMatmul({2}, 33, 5, 129, {0, 2, 1}),
        makeMatmul({2, 3}, 3, 5, 2, {1, 0, 3, 2}, {}, {1, 0, 2, 3})}) {
    EXPECT_EQ(
        check<double>(matmul, exec::ElementType::f64, exec::ElementType::f64),
        "blocked");
    check<int32_t>(matmul, exec::ElementType::i32, exec::ElementType::i32);
    check<int64_t>(matmul, exec::ElementType::i64, exec::ElementType::i64);
    matmul.accumulate = true;
    check<int64_t>(matmul, exec::ElementType::i64, exec::ElementType::i64, 3);
    check<double>(matmul, exec::ElementType::f64, exec::ElementType::f64, 8);
  }
}

TEST(MatmulTest, pieces_cover_the_whole_product) {
  // Large enough to be cut: rows, columns, batches and the loop around them.
  for (int64_t pieces : {2, 3, 8}) {
    checkF32(makeMatmul({}, 1000, 300, 401), pieces);
    exec::MatmulT columns = makeMatmul({}, 300, 1001, 400);
    columns.has_bias = true;
    checkF32(columns, pieces);
    checkF32(makeMatmul({9, 2}, 130, 140, 200, {0, 2, 1, 3}), pieces);
    checkF32(makeMatmul({11, 2, 3}, 60, 70, 90, {1, 3, 0, 2, 4},
                        {2, 0, 3, 1, 4}, {0, 3, 2, 1, 4}),
             pieces);
  }
}

TEST(MatmulTest, every_piece_is_used) {
  Result<std::unique_ptr<Matmul>> product = Matmul::create(
      getMatmulShape(makeMatmul({}, 512, 4096, 1024), exec::ElementType::f32,
                     exec::ElementType::f32),
      8, 1);
  ASSERT_TRUE(product);
  // Pieces of 512 columns and fewer are slow without AVX-512, which operands
  // are not moved for.
  const bool hasAvx512 = getMatmulSkew() == 0;
  EXPECT_GE((*product)->getNumPieces(), hasAvx512 ? 6 : 4);
  EXPECT_LE((*product)->getNumPieces(), hasAvx512 ? 8 : 4);
}

TEST(MatmulTest, sixteen_bits) {
  checkHalf(makeMatmul({}, 7, 5, 3));
  checkHalf(makeMatmul({}, 70, 50, 30, {1, 0}, {}));
  checkHalf(makeMatmul({}, 70, 50, 30, {}, {1, 0}));
  checkHalf(makeMatmul({}, 70, 50, 30, {}, {}, {1, 0}));
  checkHalf(makeMatmul({3}, 7, 5, 11, {}, {0, 2, 1}, {0, 2, 1}));
  checkHalf(makeMatmul({3, 2}, 5, 7, 11, {0, 2, 1, 3}, {0, 3, 1, 2}, {}));
  for (int64_t m : {1, 5})
    for (int64_t n : {1, 7})
      for (int64_t k : {0, 1, 3})
        checkHalf(makeMatmul({2}, m, n, k));
  checkHalf(makeMatmul({0}, 3, 4, 2));
  // More than one block of rows, columns and terms, each with a rest.
  checkHalf(makeMatmul({}, 260, 390, 400), 3);
  checkHalf(makeMatmul({2}, 257, 385, 385, {0, 2, 1}, {0, 2, 1}), 4);
  exec::MatmulT gaps = makeMatmul({}, 9, 5, 6);
  gaps.a_strides = {20, 3};
  gaps.b_strides = {2, 13};
  gaps.c_strides = {19, 2};
  checkHalf(gaps);
}

TEST(MatmulTest, sixteen_bits_with_everything) {
  for (exec::Activation activation :
       {exec::Activation::none, exec::Activation::relu,
        exec::Activation::gelu_erf, exec::Activation::gelu_tanh})
    for (bool accumulates : {false, true}) {
      exec::MatmulT matmul = makeMatmul({}, 33, 400, 17);
      matmul.has_bias = true;
      matmul.accumulate = accumulates;
      matmul.activation = activation;
      checkHalf(matmul, 2);
    }
}

// Terms beyond one call of the library: a whole number of calls and a rest; the
// result in one piece and in several of its longer side; batches.
TEST(MatmulTest, long_sums_with_everything) {
  for (int64_t k : {int64_t(16385), int64_t(2 * 16384), int64_t(40000)}) {
    exec::MatmulT matmul = makeMatmul({}, 3, 5, k);
    EXPECT_NE(checkF32(matmul, 3), "blocked");
    matmul.accumulate = true;
    checkF32(matmul, 3);
    matmul.has_bias = true;
    matmul.activation = exec::Activation::relu;
    checkF32(matmul, 3);
  }
  checkF32(makeMatmul({}, 70, 2, 16385), 3);
  checkF32(makeMatmul({}, 2, 70, 16385), 3);
  checkF32(makeMatmul({}, 5, 3, 40000, {1, 0}), 2); // a weight's gradient
  checkF32(makeMatmul({}, 1, 900, 16400), 2);
  checkF32(makeMatmul({4}, 3, 2, 20000), 3);
  checkF32(makeMatmul({2, 3}, 3, 2, 16500, {1, 2, 0, 3}), 2);
  checkHalf(makeMatmul({}, 5, 3, 40000), 2);
}

// Of the library's own blocks of 16384 terms the error is a few hundred units
// at most (TiledMatmul.h), that of 184 such blocks 2 * 64 more.
TEST(MatmulTest, long_sums_keep_their_digits) {
  std::string implementation;
  for (std::vector<int> order : {std::vector<int>{0, 1}, {1, 0}}) {
    const exec::MatmulT matmul = makeMatmul({}, 2, 3, 3000007, order);
    EXPECT_LT(getErrorOfEqualTerms(matmul, implementation), 512)
        << implementation;
  }
}

// 64 on each of four levels.
TEST(MatmulTest, long_sums_of_the_blocked_loops_keep_their_digits) {
  std::string implementation;
  exec::MatmulT matmul = makeMatmul({}, 2, 3, 30001);
  for (auto *strides : {&matmul.a_strides, &matmul.b_strides})
    for (int64_t &stride : *strides)
      stride *= 2; // no unit stride: not the library's
  EXPECT_LT(getErrorOfEqualTerms(matmul, implementation), 3 * 64);
  EXPECT_EQ(implementation, "blocked");
}

} // namespace
