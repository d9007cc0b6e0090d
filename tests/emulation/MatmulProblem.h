#ifndef MESHC_TESTS_EMULATION_MATMULPROBLEM_H
#define MESHC_TESTS_EMULATION_MATMULPROBLEM_H

/// A product as cuBLASLt's functions describe it, and its computation:
///
///   d = epilogue(alpha * op(a) * op(b) + beta * c)
///
/// f64 is summed in f64, every other type in f32, in ascending order of k.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshc::emulation {

/// Elements are numbered from the matrix's start; steps in elements.
struct MatrixOperand {
  int type = 0; ///< a cudaDataType
  unsigned char *data = nullptr;
  bool isByAddress =
      false; ///< `data` has the address of each matrix of a batch
  int64_t rows = 0, columns = 0;
  int64_t rowStep = 0, columnStep = 0, batchStep = 0;
};

struct MatmulProblem {
  MatrixOperand a, b; ///< op() is applied: a is m x k, b is k x n
  MatrixOperand c, d;
  int64_t batch = 1;
  bool isDouble = false;
  double alpha = 1, beta = 0;

  int epilogue = 0;
  unsigned char *bias = nullptr; ///< of d's type; for the BGRAD ones written
  int64_t biasBatchStep = 0;
  unsigned char *aux = nullptr; ///< of d's type, or bits for relu
  int64_t auxLeading = 0, auxBatchStep = 0;

  /// Scratch memory of the algorithm; its contents are lost.
  unsigned char *workspace = nullptr;
  size_t workspaceBytes = 0;
  uint64_t algorithm = 0; ///< its number among the heuristic's
  bool isInGraph = false; ///< launched with others
  /// Whether it adds up two halves of the terms in the type of the result.
  bool roundsHalves = false;
};

void computeMatmul(const MatmulProblem &problem);

} // namespace meshc::emulation

#endif
