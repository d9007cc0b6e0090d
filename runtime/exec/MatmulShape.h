#ifndef MESHC_RUNTIME_EXEC_MATMULSHAPE_H
#define MESHC_RUNTIME_EXEC_MATMULSHAPE_H

#include "runtime/exec/exec_generated.h"

#include <compare>
#include <cstdint>
#include <vector>

namespace meshc::runtime {

/// One dimension of a product: its size and its stride (elements) in the three
/// operands, 0 in the operand that does not have it.
struct MatmulDim {
  int64_t size = 1;
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;

  auto operator<=>(const MatmulDim &) const = default;
};

/// A product as its loops see it.
struct MatmulShape {
  std::vector<MatmulDim> batch;
  MatmulDim m; ///< b = 0
  MatmulDim n; ///< a = 0; bias has stride 1 here
  MatmulDim k; ///< c = 0
  exec::ElementType element = exec::ElementType::f32; ///< of a and b
  exec::ElementType result = exec::ElementType::f32;  ///< of c and the bias
  bool accumulate = false;
  bool hasBias = false;
  exec::Activation activation = exec::Activation::none;

  auto operator<=>(const MatmulShape &) const = default;
};

MatmulShape getMatmulShape(const exec::MatmulT &matmul,
                           exec::ElementType element, exec::ElementType result);

/// The same product with fewer and larger dimensions.
MatmulShape mergeDims(MatmulShape shape);

} // namespace meshc::runtime

#endif
