// Which products are tried.

#include "tests/cuda/ProductCases.h"

#include "runtime/exec/Executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

using exec::Activation;
using exec::ColumnSum;
using exec::ElementType;

namespace {

struct Size {
  int64_t m, n, k;
};

/// How the factors of a product lie.
enum class Form {
  rows,        ///< both row-major
  transposedB, ///< as the gradient of a layer's input reads its parameter
  transposedA, ///< as the gradient of a parameter reads the layer's input
};

/// Strides for operands of this size; several products lie between one another,
/// as heads do, and `outer` of them one behind the other.
exec::MatmulT makeProduct(Size size, Form form, int64_t batch = 1,
                          int64_t outer = 1) {
  exec::MatmulT matmul;
  matmul.m = size.m;
  matmul.n = size.n;
  matmul.k = size.k;
  auto lay = [&](int64_t rows, int64_t columns, bool isTransposed) {
    std::vector<int64_t> strides;
    if (outer > 1)
      strides.push_back(batch * rows * columns);
    if (batch > 1)
      strides.push_back(isTransposed ? rows : columns);
    strides.push_back(isTransposed ? 1 : batch * columns);
    strides.push_back(isTransposed ? batch * rows : 1);
    return strides;
  };
  if (outer > 1)
    matmul.batch.push_back(outer);
  if (batch > 1)
    matmul.batch.push_back(batch);
  matmul.a_strides = lay(size.m, size.k, form == Form::transposedA);
  matmul.b_strides = lay(size.k, size.n, form == Form::transposedB);
  matmul.c_strides = lay(size.m, size.n, false);
  return matmul;
}

struct End {
  const char *name;
  void (*set)(exec::MatmulT &);
  Form form = Form::rows;
  bool needsDenseRows = false; ///< multiples of 8 elements
  int64_t batch = 1;
  bool isMixed = false; ///< also of 16-bit factors with a result of f32
  int64_t outer = 1;    ///< batches that no step describes
};

const std::vector<End> &getEnds() {
  using M = exec::MatmulT;
  constexpr auto relu = Activation::relu;
  constexpr auto gelu = Activation::gelu_tanh;
  static const std::vector<End> ends = {
      {"none", [](M &) {}, Form::rows, false, 1, true},
      {"none_bt", [](M &) {}, Form::transposedB, false, 1, true},
      {"none_at", [](M &) {}, Form::transposedA, false, 1, true},
      {"none_batch", [](M &) {}, Form::rows, false, 3, true},
      {"none_bt_batch", [](M &) {}, Form::transposedB, false, 3},
      {"none_batches", [](M &) {}, Form::rows, false, 3, true, 2},
      {"none_bt_batches", [](M &) {}, Form::transposedB, false, 2, false, 3},
      {"none_at_batches", [](M &) {}, Form::transposedA, false, 3, false, 2},
      {"accumulate_batches", [](M &m) { m.accumulate = true; }, Form::rows,
       false, 3, false, 2},
      {"addend_batches", [](M &m) { m.has_addend = true; }, Form::rows, false,
       3, false, 2},
      {"bias_batches", [](M &m) { m.has_bias = true; }, Form::rows, false, 3,
       false, 2},
      {"accumulate", [](M &m) { m.accumulate = true; }, Form::transposedA,
       false, 1, true},
      {"addend", [](M &m) { m.has_addend = true; }},
      {"addend_batch", [](M &m) { m.has_addend = true; }, Form::rows, false, 3},
      {"bias", [](M &m) { m.has_bias = true; }, Form::rows, false, 1, true},
      {"bias_batch", [](M &m) { m.has_bias = true; }, Form::rows, false, 3},
      {"bias_addend", [](M &m) { m.has_bias = m.has_addend = true; }},
      {"relu", [](M &m) { m.activation = relu; }},
      {"relu_bias",
       [](M &m) {
         m.activation = relu;
         m.has_bias = true;
       }},
      {"relu_bias_batch",
       [](M &m) {
         m.activation = relu;
         m.has_bias = true;
       },
       Form::rows, false, 3},
      {"relu_aux",
       [](M &m) {
         m.activation = relu;
         m.has_aux = true;
       }},
      {"relu_aux_bias",
       [](M &m) {
         m.activation = relu;
         m.has_aux = m.has_bias = true;
       }},
      {"gelu", [](M &m) { m.activation = gelu; }},
      {"gelu_bias",
       [](M &m) {
         m.activation = gelu;
         m.has_bias = true;
       }},
      {"gelu_bias_batch",
       [](M &m) {
         m.activation = gelu;
         m.has_bias = true;
       },
       Form::rows, false, 3},
      {"gelu_aux",
       [](M &m) {
         m.activation = gelu;
         m.has_aux = true;
       },
       Form::rows, true},
      {"gelu_aux_bias",
       [](M &m) {
         m.activation = gelu;
         m.has_aux = m.has_bias = true;
       },
       Form::rows, true},
      {"drelu",
       [](M &m) {
         m.activation = relu;
         m.has_aux = m.is_gradient = true;
       },
       Form::transposedB},
      {"drelu_sum",
       [](M &m) {
         m.activation = relu;
         m.has_aux = m.is_gradient = true;
         m.column_sum = ColumnSum::c;
       },
       Form::transposedB},
      {"dgelu",
       [](M &m) {
         m.activation = gelu;
         m.has_aux = m.is_gradient = true;
       },
       Form::transposedB, true},
      {"dgelu_sum",
       [](M &m) {
         m.activation = gelu;
         m.has_aux = m.is_gradient = true;
         m.column_sum = ColumnSum::c;
       },
       Form::transposedB, true},
      {"sum_a", [](M &m) { m.column_sum = ColumnSum::a; }, Form::transposedA,
       false, 1, true},
      {"sum_b", [](M &m) { m.column_sum = ColumnSum::b; }, Form::transposedA,
       false, 1, true},
  };
  return ends;
}

} // namespace

std::vector<ProductCase> test::listProductCases() {
  // The first two have results with rows of whole 16 bytes, in every type, the
  // last one all its operands.
  constexpr Size sizes[] = {{5, 8, 2},   {33, 136, 10}, {6, 24, 37},
                            {5, 7, 10},  {34, 131, 37}, {3, 5, 2},
                            {40, 72, 48}};
  constexpr size_t specialSizes[] = {1, 3};
  const std::pair<ElementType, ElementType> types[] = {
      {ElementType::f32, ElementType::f32},
      {ElementType::bf16, ElementType::bf16},
      {ElementType::f16, ElementType::f16},
      {ElementType::bf16, ElementType::f32},
      {ElementType::f16, ElementType::f32},
      {ElementType::f64, ElementType::f64}};
  std::vector<ProductCase> cases;
  for (const End &end : getEnds())
    for (const auto &[factor, result] : types)
      for (size_t i = 0; i < std::size(sizes); ++i)
        for (ProductData data : {ProductData::random, ProductData::special}) {
          const Size &size = sizes[i];
          exec::MatmulT matmul =
              makeProduct(size, end.form, end.batch, end.outer);
          end.set(matmul);
          const bool isPlain = !matmul.has_bias &&
                               matmul.activation == Activation::none &&
                               matmul.column_sum == ColumnSum::none;
          const bool isSpecial = data == ProductData::special;
          // cuBLASLt has no ends for f64.
          if ((factor != result && !end.isMixed) ||
              (factor == ElementType::f64 && !isPlain) ||
              (end.needsDenseRows && size.n % 8 != 0) ||
              (isSpecial && std::count(std::begin(specialSizes),
                                       std::end(specialSizes), i) == 0))
            continue;
          cases.push_back(
              {fmt::format(
                   "{}_{}{}_{}x{}x{}{}", end.name, getName(factor),
                   factor == result ? "" : fmt::format("_{}", getName(result)),
                   size.m, size.n, size.k, isSpecial ? "_special" : ""),
               std::move(matmul), factor, result, data});
        }
  return cases;
}
