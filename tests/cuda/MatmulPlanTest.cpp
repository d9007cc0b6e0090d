/// Plans of products, carried out with plain loops over columns as cuBLASLt
/// defines them, against the product as exec.fbs defines it.

#include "runtime/plans/MatmulPlan.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/MatmulOperands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using testing::HasSubstr;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;

exec::CommandT makeCommand(const exec::MatmulT &matmul,
                           exec::ElementType factor = f32,
                           exec::ElementType result = f32) {
  exec::CommandT command;
  command.action.Set(exec::MatmulT(matmul));
  const size_t count = getOperandOrder(matmul).count;
  for (size_t i = 0; i < count; ++i) {
    command.operands.push_back(std::make_unique<exec::OperandT>());
    command.operands.back()->element = i + 1 == count ? result : factor;
  }
  return command;
}

/// The product in exact integers; strides as in the command.
void multiply(const exec::MatmulT &matmul, const std::vector<int64_t> &a,
              const std::vector<int64_t> &b, const std::vector<int64_t> &bias,
              std::vector<int64_t> &c) {
  int64_t batches = 1;
  for (int64_t size : matmul.batch)
    batches *= size;
  const size_t rank = matmul.batch.size();
  for (int64_t batch = 0; batch < batches; ++batch) {
    int64_t aStart = 0, bStart = 0, cStart = 0;
    int64_t rest = batch;
    for (size_t d = rank; d-- > 0;) {
      const int64_t position = rest % matmul.batch[d];
      rest /= matmul.batch[d];
      aStart += position * matmul.a_strides[d];
      bStart += position * matmul.b_strides[d];
      cStart += position * matmul.c_strides[d];
    }
    for (int64_t i = 0; i < matmul.m; ++i)
      for (int64_t j = 0; j < matmul.n; ++j) {
        int64_t sum = matmul.has_bias ? bias[j] : 0;
        for (int64_t k = 0; k < matmul.k; ++k)
          sum += a[aStart + i * matmul.a_strides[rank] +
                   k * matmul.a_strides[rank + 1]] *
                 b[bStart + k * matmul.b_strides[rank] +
                   j * matmul.b_strides[rank + 1]];
        int64_t &target = c[cStart + i * matmul.c_strides[rank] +
                            j * matmul.c_strides[rank + 1]];
        target = matmul.accumulate ? target + sum : sum;
      }
  }
}

/// What cuBLASLt does for a plan: D = op(A) op(B) + bias along the rows.
void execute(const MatmulPlan &plan, const std::vector<int64_t> &a,
             const std::vector<int64_t> &b, const std::vector<int64_t> &bias,
             std::vector<int64_t> &c) {
  for (const MatmulOffsets &call : plan.calls) {
    const int64_t *left = plan.leftIsB ? &b[call.b] : &a[call.a];
    const int64_t *right = plan.leftIsB ? &a[call.a] : &b[call.b];
    auto get = [](const MatrixPlan &matrix, const int64_t *start, int64_t batch,
                  int64_t row, int64_t column) {
      if (matrix.isTransposed)
        std::swap(row, column);
      EXPECT_LT(row, matrix.rows);
      EXPECT_LT(column, matrix.columns);
      return start[batch * matrix.batchStride + row + column * matrix.leading];
    };
    const int64_t terms =
        plan.left.isTransposed ? plan.left.rows : plan.left.columns;
    EXPECT_GE(plan.left.leading, plan.left.rows);
    EXPECT_GE(plan.right.leading, plan.right.rows);
    EXPECT_GE(plan.result.leading, plan.result.rows);
    EXPECT_FALSE(plan.result.isTransposed);
    for (int64_t batch = 0; batch < plan.batch; ++batch)
      for (int64_t column = 0; column < plan.result.columns; ++column)
        for (int64_t row = 0; row < plan.result.rows; ++row) {
          int64_t sum = plan.hasBias ? bias[row] : 0;
          for (int64_t k = 0; k < terms; ++k)
            sum += get(plan.left, left, batch, row, k) *
                   get(plan.right, right, batch, k, column);
          int64_t &target = c[call.c + batch * plan.result.batchStride + row +
                              column * plan.result.leading];
          target = plan.accumulate ? target + sum : sum;
        }
  }
}

/// The products whose addresses are in the tables of a plan, a call each.
MatmulPlan readTables(const MatmulPlan &plan) {
  MatmulPlan read = splitBatch(plan);
  const std::vector<uint64_t> tables = makeTables(plan, 0, 0, 0, 0);
  const auto count = size_t(countProducts(plan));
  EXPECT_EQ(tables.size() * sizeof(uint64_t), getTableBytes(plan));
  read.calls.clear();
  for (size_t i = 0; i < count; ++i) {
    const int64_t left = int64_t(tables[i]) / getElementBytes(f32);
    const int64_t right = int64_t(tables[count + i]) / getElementBytes(f32);
    const int64_t result =
        int64_t(tables[2 * count + i]) / getElementBytes(f32);
    read.calls.push_back(
        {plan.leftIsB ? right : left, plan.leftIsB ? left : right, result});
  }
  return read;
}

/// Gives dimensions of these sizes strides of a dense array in an order of
/// its own, the first of `order` being contiguous, with gaps; a dimension that
/// is left out gets stride 0.
std::vector<int64_t> layOut(const std::vector<int64_t> &sizes,
                            const std::vector<size_t> &order, int64_t gap) {
  std::vector<int64_t> strides(sizes.size(), 0);
  int64_t stride = 1;
  for (size_t d : order) {
    strides[d] = stride;
    stride = stride * sizes[d] + (stride == 1 ? gap : 0);
  }
  return strides;
}

TEST(MatmulPlanTest, plans_compute_their_product) {
  std::mt19937 random(7);
  auto draw = [&](int count) { return int(random() % unsigned(count)); };
  const int64_t sizes[] = {1, 2, 3, 5, 7};
  int planned = 0, inTables = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    exec::MatmulT matmul;
    matmul.m = sizes[draw(5)];
    matmul.n = sizes[draw(5)];
    matmul.k = sizes[draw(5)];
    for (int d = draw(4); d > 0; --d)
      matmul.batch.push_back(sizes[draw(4)]);
    const size_t rank = matmul.batch.size();
    auto getStrides = [&](int64_t rows, int64_t columns, bool mayRepeat) {
      std::vector<int64_t> shape = matmul.batch;
      shape.push_back(rows);
      shape.push_back(columns);
      std::vector<size_t> order;
      for (size_t d = 0; d < rank + 2; ++d)
        if (!mayRepeat || d >= rank || draw(4) > 0)
          order.push_back(d);
      std::shuffle(order.begin(), order.end(), random);
      // Mostly a matrix dimension is contiguous, as the library needs it.
      if (draw(4) > 0) {
        const size_t inner = rank + size_t(draw(2));
        std::erase(order, inner);
        order.insert(order.begin(), inner);
      }
      return layOut(shape, order, draw(3));
    };
    matmul.a_strides = getStrides(matmul.m, matmul.k, true);
    matmul.b_strides = getStrides(matmul.k, matmul.n, true);
    matmul.c_strides = getStrides(matmul.m, matmul.n, false);
    matmul.has_bias = draw(3) == 0;
    matmul.accumulate = draw(3) == 0;
    Result<MatmulPlan> plan = planMatmul(makeCommand(matmul));
    if (!plan) {
      EXPECT_EQ(plan.getError().code, ErrorCode::UnsupportedOnGpu);
      continue;
    }
    ++planned;
    std::vector<int64_t> a(20000), b(20000), bias(10), c(20000);
    for (std::vector<int64_t> *values : {&a, &b, &bias, &c})
      for (int64_t &value : *values)
        value = draw(19) - 9;
    const std::vector<int64_t> before = c;
    std::vector<int64_t> expected = c;
    multiply(matmul, a, b, bias, expected);
    execute(*plan, a, b, bias, c);
    ASSERT_EQ(c, expected) << "trial " << trial;
    if (plan->hasTables) {
      ++inTables;
      c = before;
      execute(readTables(*plan), a, b, bias, c);
      ASSERT_EQ(c, expected) << "trial " << trial << ", by address";
    }
    const MatmulPlan split = splitBatch(*plan);
    ASSERT_EQ(split.batch, 1);
    ASSERT_EQ(split.calls.size(), plan->calls.size() * size_t(plan->batch));
    c = before;
    execute(split, a, b, bias, c);
    ASSERT_EQ(c, expected) << "trial " << trial << ", one by one";
  }
  EXPECT_GT(planned, 500);
  EXPECT_GT(inTables, 100);
}

TEST(MatmulPlanTest, batches_that_no_step_describes_are_one_call) {
  // q[batch, pos, head, feature] k[batch, key, head, feature]
  // -> [batch, head, pos, key].
  exec::MatmulT matmul;
  matmul.batch = {3, 2};
  matmul.m = 7;
  matmul.n = 5;
  matmul.k = 8;
  matmul.a_strides = {7 * 16, 8, 16, 1};
  matmul.b_strides = {5 * 16, 8, 1, 16};
  matmul.c_strides = {70, 35, 5, 1};
  const Result<MatmulPlan> plan = planMatmul(makeCommand(matmul));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->hasTables);
  EXPECT_EQ(countCalls(*plan), 1);
  EXPECT_EQ(countProducts(*plan), 6);
  EXPECT_EQ(getTableBytes(*plan), 3u * 6 * 8);
  // One call has the longest dimension: b's matrices of all batches, of each
  // head.
  const std::vector<uint64_t> tables =
      makeTables(*plan, 1000, 20000, 300000, 0);
  const std::vector<uint64_t> left(tables.begin(), tables.begin() + 6);
  EXPECT_EQ(left, (std::vector<uint64_t>{1000, 1320, 1640, 1032, 1352, 1672}));

  // The library has no ends for these.
  matmul.has_bias = true;
  const Result<MatmulPlan> ended = planMatmul(makeCommand(matmul));
  ASSERT_TRUE(ended);
  EXPECT_FALSE(ended->hasTables);
  EXPECT_EQ(countCalls(*ended), 2);
}

TEST(MatmulPlanTest, a_dense_row_major_product_is_one_call) {
  exec::MatmulT matmul;
  matmul.m = 2;
  matmul.k = 3;
  matmul.n = 5;
  matmul.a_strides = {3, 1};
  matmul.b_strides = {5, 1};
  matmul.c_strides = {5, 1};
  Result<MatmulPlan> plan = planMatmul(makeCommand(matmul));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->leftIsB);
  EXPECT_EQ(plan->left, (MatrixPlan{f32, 5, 3, 5, 0, false}));
  EXPECT_EQ(plan->right, (MatrixPlan{f32, 3, 2, 3, 0, false}));
  EXPECT_EQ(plan->result, (MatrixPlan{f32, 5, 2, 5, 0, false}));
  EXPECT_EQ(plan->calls.size(), 1u);
}

TEST(MatmulPlanTest, heads_between_positions_and_features_are_a_batch) {
  // q[pos, head, feature] k[key, head, feature] -> [head, pos, key].
  exec::MatmulT matmul;
  matmul.batch = {4};
  matmul.m = 7;
  matmul.n = 5;
  matmul.k = 8;
  matmul.a_strides = {8, 32, 1};
  matmul.b_strides = {8, 1, 32};
  matmul.c_strides = {35, 5, 1};
  Result<MatmulPlan> plan = planMatmul(makeCommand(matmul));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->batch, 4);
  EXPECT_EQ(plan->calls.size(), 1u);
  EXPECT_EQ(plan->left, (MatrixPlan{f32, 8, 5, 32, 8, true}));
  EXPECT_EQ(plan->right, (MatrixPlan{f32, 8, 7, 32, 8, false}));
  EXPECT_EQ(plan->result, (MatrixPlan{f32, 5, 7, 5, 35, false}));
}

TEST(MatmulPlanTest, products_of_half_precision_may_leave_as_f32) {
  exec::MatmulT matmul;
  matmul.m = matmul.n = matmul.k = 2;
  matmul.a_strides = matmul.b_strides = matmul.c_strides = {2, 1};
  constexpr exec::ElementType bf16 = exec::ElementType::bf16;
  Result<MatmulPlan> plan = planMatmul(makeCommand(matmul, bf16, f32));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->left.element, bf16);
  EXPECT_EQ(plan->result.element, f32);
  EXPECT_TRUE(planMatmul(makeCommand(matmul, bf16, bf16)));
  EXPECT_FALSE(planMatmul(makeCommand(matmul, f32, bf16)));
}

TEST(MatmulPlanTest, says_what_it_cannot_plan) {
  auto expectError = [](const exec::CommandT &command, const char *text) {
    Result<MatmulPlan> plan = planMatmul(command);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.getError().code, ErrorCode::UnsupportedOnGpu);
    EXPECT_THAT(plan.getError().message, HasSubstr(text));
  };
  exec::MatmulT dense;
  dense.m = dense.n = dense.k = 2;
  dense.a_strides = dense.b_strides = dense.c_strides = {2, 1};
  expectError(
      makeCommand(dense, exec::ElementType::i32, exec::ElementType::i32),
      "its elements are i32");
  exec::MatmulT matmul = dense;
  matmul.activation = exec::Activation::gelu_erf;
  expectError(makeCommand(matmul), "gelu in the form with erf");
  matmul.activation = exec::Activation::relu;
  matmul.accumulate = true;
  expectError(makeCommand(matmul), "adds to what an activation gave");
  matmul = dense;
  matmul.a_strides = {6, 3};
  expectError(makeCommand(matmul), "no dimension of its left factor");
  matmul = dense;
  matmul.b_strides = {6, 3};
  expectError(makeCommand(matmul), "no dimension of its right factor");
  matmul = dense;
  matmul.c_strides = {6, 3};
  expectError(makeCommand(matmul), "no dimension of its result");
  matmul = dense;
  matmul.c_strides = {1, 2};
  matmul.has_bias = true;
  expectError(makeCommand(matmul), "its result's rows are not contiguous");
  matmul = dense;
  matmul.k = 0;
  expectError(makeCommand(matmul), "sums over nothing");
  matmul = dense;
  matmul.k = 1;
  matmul.a_strides = {1, 1};
  matmul.is_gradient = matmul.has_aux = true;
  for (auto activation :
       {exec::Activation::relu, exec::Activation::gelu_tanh}) {
    matmul.n = 8;
    matmul.b_strides = matmul.c_strides = {8, 1};
    matmul.activation = activation;
    expectError(makeCommand(matmul),
                activation == exec::Activation::relu
                    ? "ends with the gradient of relu, and sums over one term"
                    : "the gradient of gelu_tanh, and sums over one term");
    exec::MatmulT two = matmul;
    two.k = 2;
    two.a_strides = {2, 1};
    EXPECT_TRUE(planMatmul(makeCommand(two)));
  }
  matmul = dense;
  matmul.k = 1;
  for (auto of : {exec::ColumnSum::a, exec::ColumnSum::b}) {
    matmul.column_sum = of;
    expectError(makeCommand(matmul), "columns of a factor that has one row");
  }
  matmul = dense;
  matmul.column_sum = exec::ColumnSum::a;
  expectError(makeCommand(matmul),
              "sums its left factor along the dimension that is contiguous");
  matmul.a_strides = {1, 2};
  EXPECT_TRUE(planMatmul(makeCommand(matmul)));
  matmul.column_sum = exec::ColumnSum::b;
  EXPECT_TRUE(planMatmul(makeCommand(matmul)));
  matmul.b_strides = {1, 2};
  expectError(makeCommand(matmul),
              "sums its right factor along the dimension that is contiguous");
}

} // namespace
