#include "runtime/plans/MatmulPlan.h"

#include "runtime/exec/Executable.h"
#include "runtime/exec/MatmulOperands.h"
#include "runtime/exec/MatmulShape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

static Error refuse(std::string reason) {
  return {ErrorCode::UnsupportedOnGpu,
          "cuBLASLt cannot compute this product: " + std::move(reason), ""};
}

namespace {
/// A dimension of a matrix as it lies in memory.
struct Side {
  int64_t size, stride;
};
} // namespace

/// The matrix whose columns run along `along`, if that is contiguous.
static std::optional<MatrixPlan> planColumns(Side along, Side across) {
  if (along.size > 1 && along.stride != 1)
    return std::nullopt;
  MatrixPlan matrix;
  matrix.rows = along.size;
  matrix.columns = across.size;
  matrix.leading = across.size > 1 ? across.stride : along.size;
  if (matrix.leading < matrix.rows)
    return std::nullopt;
  return matrix;
}

/// The factor with op() of rows x columns.
static std::optional<MatrixPlan> planFactor(Side rows, Side columns) {
  if (std::optional<MatrixPlan> matrix = planColumns(rows, columns))
    return matrix;
  std::optional<MatrixPlan> matrix = planColumns(columns, rows);
  if (matrix)
    matrix->isTransposed = true;
  return matrix;
}

std::array<bool, 3> cuda::findRefused(const MatmulShape &given) {
  const MatmulShape shape = mergeDims(given);
  const MatmulDim &m = shape.m, &n = shape.n, &k = shape.k;
  return {!planFactor({m.size, m.a}, {k.size, k.a}),
          !planFactor({k.size, k.b}, {n.size, n.b}),
          !planFactor({n.size, n.c}, {m.size, m.c})};
}

static bool isFloat(exec::ElementType element) {
  switch (element) {
  case exec::ElementType::f32:
  case exec::ElementType::f64:
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    return true;
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    return false;
  }
  __builtin_unreachable(); // checkExecutable refuses other values
}

/// Every call `size` times, one step after another.
static std::vector<MatmulOffsets>
repeat(const std::vector<MatmulOffsets> &calls, int64_t size,
       const MatmulOffsets &step) {
  std::vector<MatmulOffsets> repeated;
  for (const MatmulOffsets &start : calls)
    for (int64_t i = 0; i < size; ++i)
      repeated.push_back(
          {start.a + i * step.a, start.b + i * step.b, start.c + i * step.c});
  return repeated;
}

Result<MatmulPlan> cuda::planMatmul(const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  const exec::ElementType a = command.operands[0]->element;
  const exec::ElementType b = command.operands[1]->element;
  const exec::ElementType c = command.operands.back()->element;
  const bool isHalf =
      a == exec::ElementType::bf16 || a == exec::ElementType::f16;
  if (!isFloat(a))
    return refuse(fmt::format("its elements are {}", getName(a)));
  // Products of 16-bit floats may leave as f32.
  if (a != b || (c != a && !(isHalf && c == exec::ElementType::f32)))
    return refuse(fmt::format("its elements are {} and {}, its result's {}",
                              getName(a), getName(b), getName(c)));
  if (matmul.activation == exec::Activation::gelu_erf)
    return refuse("it ends with gelu in the form with erf");
  if (matmul.accumulate && matmul.activation != exec::Activation::none)
    return refuse("it adds to what an activation gave");

  const MatmulShape shape = mergeDims(getMatmulShape(matmul, a, c));
  MatmulPlan plan;
  plan.accumulate = matmul.accumulate;
  plan.hasBias = matmul.has_bias;
  plan.activation = matmul.activation;
  plan.hasAddend = matmul.has_addend;
  plan.hasAux = matmul.has_aux;
  plan.isGradient = matmul.is_gradient;
  if (shape.m.size == 0 || shape.n.size == 0 ||
      std::any_of(shape.batch.begin(), shape.batch.end(),
                  [](const MatmulDim &dim) { return dim.size == 0; }))
    return plan;
  if (shape.k.size == 0)
    return refuse("it sums over nothing");

  // A real library writes beyond its workspace for some of these. Source:
  // release notes of cuBLAS, CUDA 12.4, known issues; nvmath-python refuses the
  // first everywhere and the second before 12.3.4.
  if (shape.k.size == 1 && plan.isGradient)
    return refuse(fmt::format("it ends with the gradient of {}, and sums over "
                              "one term",
                              exec::EnumNameActivation(plan.activation)));
  const bool sumsFactor = matmul.column_sum == exec::ColumnSum::a ||
                          matmul.column_sum == exec::ColumnSum::b;
  if (shape.k.size == 1 && sumsFactor)
    return refuse("it sums columns of a factor that has one row");

  // c with contiguous rows, else with contiguous columns.
  std::optional<MatrixPlan> result =
      planColumns({shape.n.size, shape.n.c}, {shape.m.size, shape.m.c});
  plan.leftIsB = result.has_value();
  if (!result)
    result = planColumns({shape.m.size, shape.m.c}, {shape.n.size, shape.n.c});
  if (!result)
    return refuse("no dimension of its result is contiguous");
  if (plan.hasBias && !plan.leftIsB)
    return refuse("it has a bias, and its result's rows are not contiguous");
  if ((plan.hasAux || matmul.column_sum != exec::ColumnSum::none) &&
      !plan.leftIsB)
    return refuse("its end goes along rows, and its result's rows are not "
                  "contiguous");
  if (plan.hasAux && matmul.activation == exec::Activation::relu)
    plan.auxLeading = getMaskRowWords(shape.n.size) * 32;
  else if (plan.hasAux)
    plan.auxLeading = shape.n.size;
  // Source: cublasLt.h of CUDA 13.0, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD.
  if (plan.auxLeading % 8 != 0)
    return refuse(fmt::format("its gelu leaves rows of {} elements behind, "
                              "which must be a multiple of 8",
                              plan.auxLeading));
  plan.rowSum = matmul.column_sum;
  if (matmul.column_sum == exec::ColumnSum::a)
    plan.rowSum = exec::ColumnSum::b;
  else if (matmul.column_sum == exec::ColumnSum::b)
    plan.rowSum = exec::ColumnSum::a;
  const Side aRows{shape.m.size, shape.m.a}, aColumns{shape.k.size, shape.k.a};
  const Side bRows{shape.k.size, shape.k.b}, bColumns{shape.n.size, shape.n.b};
  const std::optional<MatrixPlan> left =
      plan.leftIsB ? planFactor(bColumns, bRows) : planFactor(aRows, aColumns);
  const std::optional<MatrixPlan> right =
      plan.leftIsB ? planFactor(aColumns, aRows) : planFactor(bRows, bColumns);
  if (!left || !right)
    return refuse(fmt::format("no dimension of its {} factor is contiguous",
                              bool(left) == plan.leftIsB ? "left" : "right"));
  // cuBLASLt sums across the columns of a matrix as it lies alone. Source:
  // nvmath-python, tests of its epilogues, which lay the factors out so.
  if ((plan.rowSum == exec::ColumnSum::a && left->isTransposed) ||
      (plan.rowSum == exec::ColumnSum::b && !right->isTransposed))
    return refuse(
        fmt::format("it sums its {} factor along the dimension that "
                    "is contiguous",
                    plan.rowSum == exec::ColumnSum::b ? "left" : "right"));
  plan.left = *left;
  plan.right = *right;
  plan.result = *result;
  plan.left.element = plan.right.element = a;
  plan.result.element = c;

  // The longest batch dimension is one call's, the others are loops.
  std::vector<MatmulDim> loops = shape.batch;
  const auto longest = std::max_element(
      loops.begin(), loops.end(),
      [](const MatmulDim &x, const MatmulDim &y) { return x.size < y.size; });
  if (longest != loops.end()) {
    plan.batch = longest->size;
    plan.left.batchStride = plan.leftIsB ? longest->b : longest->a;
    plan.right.batchStride = plan.leftIsB ? longest->a : longest->b;
    plan.result.batchStride = longest->c;
    loops.erase(longest);
  }
  if (plan.batch > INT32_MAX)
    return refuse(fmt::format("it has {} products in one batch", plan.batch));
  plan.calls.emplace_back();
  for (const MatmulDim &dim : loops)
    plan.calls = repeat(plan.calls, dim.size, {dim.a, dim.b, dim.c});
  // Source: cuBLAS 13.0 documentation, cublasLtEpilogue_t: batches by address
  // have no ends.
  plan.hasTables = plan.calls.size() > 1 && !hasEnd(plan) &&
                   plan.batch * int64_t(plan.calls.size()) <= INT32_MAX;
  return plan;
}

bool cuda::hasEnd(const MatmulPlan &plan) {
  return plan.hasBias || plan.activation != exec::Activation::none ||
         plan.hasAux || plan.rowSum != exec::ColumnSum::none;
}

int64_t cuda::countCalls(const MatmulPlan &plan) {
  return plan.hasTables ? 1 : int64_t(plan.calls.size());
}

int64_t cuda::countProducts(const MatmulPlan &plan) {
  return plan.hasTables ? plan.batch * int64_t(plan.calls.size()) : plan.batch;
}

uint64_t cuda::getTableBytes(const MatmulPlan &plan) {
  return uint64_t(countProducts(plan)) * (plan.hasAddend ? 4 : 3) *
         sizeof(uint64_t);
}

std::vector<uint64_t> cuda::makeTables(const MatmulPlan &plan, uint64_t left,
                                       uint64_t right, uint64_t result,
                                       uint64_t addend) {
  std::vector<uint64_t> addresses;
  auto add = [&](uint64_t begin, const MatrixPlan &matrix, auto getOffset) {
    for (const MatmulOffsets &call : plan.calls)
      for (int64_t i = 0; i < plan.batch; ++i)
        addresses.push_back(
            begin + uint64_t((getOffset(call) + i * matrix.batchStride) *
                             getElementBytes(matrix.element)));
  };
  auto getA = [](const MatmulOffsets &call) { return call.a; };
  auto getB = [](const MatmulOffsets &call) { return call.b; };
  auto getC = [](const MatmulOffsets &call) { return call.c; };
  if (plan.leftIsB) {
    add(left, plan.left, getB);
    add(right, plan.right, getA);
  } else {
    add(left, plan.left, getA);
    add(right, plan.right, getB);
  }
  add(result, plan.result, getC);
  if (plan.hasAddend)
    add(addend, plan.result, getC);
  return addresses;
}

MatmulPlan cuda::splitBatch(const MatmulPlan &plan) {
  assert(!plan.hasAux && plan.rowSum == exec::ColumnSum::none &&
         "checkExecutable refuses them");
  MatmulPlan split = plan;
  const int64_t left = plan.left.batchStride;
  const int64_t right = plan.right.batchStride;
  split.calls = repeat(plan.calls, plan.batch,
                       {plan.leftIsB ? right : left,
                        plan.leftIsB ? left : right, plan.result.batchStride});
  split.batch = 1;
  split.hasTables = false;
  for (MatrixPlan *matrix : {&split.left, &split.right, &split.result})
    matrix->batchStride = 0;
  return split;
}
