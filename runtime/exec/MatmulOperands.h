#ifndef MESHC_RUNTIME_EXEC_MATMULOPERANDS_H
#define MESHC_RUNTIME_EXEC_MATMULOPERANDS_H

/// Which operand of a product's command is which, for codegen and runtime.

#include "runtime/exec/exec_generated.h"

#include <cstddef>
#include <cstdint>

namespace meshc::runtime {

/// Positions among a command's operands; -1 where there is none. a and b are 0
/// and 1.
struct MatmulOperandOrder {
  int bias = -1;
  int addend = -1;
  int aux = -1;
  int sums = -1;
  int c = 0;
  size_t count = 0; ///< of all operands
  int results = 1;  ///< of the last ones that are written
};

inline MatmulOperandOrder getOperandOrder(const exec::MatmulT &matmul) {
  MatmulOperandOrder order;
  int next = 2;
  if (matmul.has_bias)
    order.bias = next++;
  if (matmul.has_addend)
    order.addend = next++;
  if (matmul.has_aux && matmul.is_gradient)
    order.aux = next++;
  if (matmul.column_sum != exec::ColumnSum::none) {
    order.sums = next++;
    ++order.results;
  }
  if (matmul.has_aux && !matmul.is_gradient) {
    order.aux = next++;
    ++order.results;
  }
  order.c = next++;
  order.count = size_t(next);
  return order;
}

/// 32-bit words of a row of the bits that relu leaves behind of `n` elements:
/// rows have multiples of 128 bits. Source: cublasLt.h of CUDA 13.0,
/// CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD.
inline int64_t getMaskRowWords(int64_t n) { return (n + 127) / 128 * 4; }

} // namespace meshc::runtime

#endif
