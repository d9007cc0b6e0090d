#include "MatmulProblem.h"

#include "BlasLtAbi.h"
#include "Elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace meshc::emulation;

namespace {

/// A tile of the result that stays in registers: 16 rows by 4 columns of f32.
constexpr int64_t tileColumns = 4;
template <class Sum> constexpr int64_t tileRows = 64 / sizeof(Sum);

/// op(matrix) as panels of `width` rows (columns of b), each with its elements
/// of one k side by side; missing rows are 0.
template <class Sum>
std::vector<Sum> pack(const MatrixOperand &matrix, const unsigned char *data,
                      int64_t size, int64_t depth, int64_t step,
                      int64_t depthStep, int64_t width) {
  int64_t panels = (size + width - 1) / width;
  std::vector<Sum> packed(panels * width * depth);
  for (int64_t i = 0; i < size; ++i) {
    Sum *to = packed.data() + i / width * width * depth + i % width;
    for (int64_t p = 0; p < depth; ++p)
      to[p * width] = static_cast<Sum>(
          loadElement(matrix.type, data, i * step + p * depthStep));
  }
  return packed;
}

/// sums[column][row] = sum over k of a's panel times b's.
template <class Sum>
void multiplyPanels(const Sum *a, const Sum *b, int64_t depth,
                    Sum (&sums)[tileColumns][tileRows<Sum>]) {
  constexpr int64_t lanes = 16 / sizeof(Sum), parts = 4;
  typedef Sum Lanes __attribute__((vector_size(16)));
  static_assert(lanes * parts == tileRows<Sum>);
  // Two halves of the tile at a time: sixteen registers hold no more.
  for (int64_t half = 0; half < parts; half += 2) {
    Lanes part[tileColumns][2] = {};
    for (int64_t p = 0; p < depth; ++p) {
      Lanes left[2];
      std::memcpy(left, a + p * tileRows<Sum> + half * lanes, sizeof left);
      for (int64_t j = 0; j < tileColumns; ++j) {
        Sum right = b[p * tileColumns + j];
        part[j][0] += left[0] * right;
        part[j][1] += left[1] * right;
      }
    }
    for (int64_t j = 0; j < tileColumns; ++j)
      std::memcpy(sums[j] + half * lanes, part[j], sizeof part[j]);
  }
}

/// sqrt(2 / pi) and the cubic factor of the tanh form of gelu (Hendrycks and
/// Gimpel, 2016, section 2).
constexpr double geluScale = 0.7978845608028654, geluCubic = 0.044715;

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(geluScale * (x + geluCubic * x * x * x)));
}

double geluGradient(double x) {
  double t = std::tanh(geluScale * (x + geluCubic * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * geluScale * (1 + 3 * geluCubic * x * x);
}

/// The epilogue of one matrix of the batch.
class Epilogue {
public:
  Epilogue(const MatmulProblem &problem, int64_t batch)
      : problem(problem), kind(problem.epilogue), type(problem.d.type) {
    size_t bytes = getTypeBytes(type);
    if (problem.bias)
      bias = problem.bias + batch * problem.biasBatchStep * bytes;
    auxBase = batch * problem.auxBatchStep;
    if (sumsGradients())
      gradients.resize(problem.d.rows);
  }

  double apply(int64_t row, int64_t column, double x) {
    if (addsBias())
      x += loadElement(type, bias, row);
    int64_t aux = auxBase + row + column * problem.auxLeading;
    switch (kind) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return x;
    case CUBLASLT_EPILOGUE_RELU_AUX:
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
      // Set for 0 and for NaN, as cuBLASLt 13.1 does on an H200.
      writeBit(aux, !(x < 0));
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      // NaN becomes 0, as in some of the library's algorithms. Source: NVIDIA's
      // developer forum, topic 329783.
      return x > 0 ? x : 0;
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      storeElement(type, problem.aux, aux, x);
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return gelu(x);
    case CUBLASLT_EPILOGUE_DRELU:
    case CUBLASLT_EPILOGUE_DRELU_BGRAD:
      return addGradient(row, readBit(aux) ? x : 0);
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
      return addGradient(row,
                         x * geluGradient(loadElement(type, problem.aux, aux)));
    }
    __builtin_unreachable(); // checked when it was asked for
  }

  void finish() {
    for (size_t i = 0; i < gradients.size(); ++i)
      storeElement(type, bias, i, gradients[i]);
  }

  unsigned char *bias = nullptr;

private:
  bool addsBias() const { return kind & CUBLASLT_EPILOGUE_BIAS; }
  bool sumsGradients() const {
    return kind == CUBLASLT_EPILOGUE_DRELU_BGRAD ||
           kind == CUBLASLT_EPILOGUE_DGELU_BGRAD;
  }
  double addGradient(int64_t row, double x) {
    if (!gradients.empty())
      gradients[row] += x;
    return x;
  }
  bool readBit(int64_t bit) const {
    return problem.aux[bit / 8] >> bit % 8 & 1;
  }
  void writeBit(int64_t bit, bool value) {
    unsigned char &byte = problem.aux[bit / 8];
    byte = static_cast<unsigned char>((byte & ~(1 << bit % 8)) |
                                      (value << bit % 8));
  }

  const MatmulProblem &problem;
  int kind, type;
  int64_t auxBase = 0;
  std::vector<double> gradients;
};

/// The same in two halves of the terms, the first rounded to `type`.
template <class Sum>
void multiplyHalves(const Sum *a, const Sum *b, int64_t depth, int type,
                    Sum (&sums)[tileColumns][tileRows<Sum>]) {
  const int64_t half = depth / 2;
  Sum first[tileColumns][tileRows<Sum>];
  multiplyPanels<Sum>(a, b, half, first);
  multiplyPanels<Sum>(a + half * tileRows<Sum>, b + half * tileColumns,
                      depth - half, sums);
  for (int64_t column = 0; column < tileColumns; ++column)
    for (int64_t row = 0; row < tileRows<Sum>; ++row) {
      unsigned char rounded[sizeof(double)];
      storeElement(type, rounded, 0, first[column][row]);
      sums[column][row] += static_cast<Sum>(loadElement(type, rounded, 0));
    }
}

/// The bias gradients of operands: sums over k of a's rows or b's columns.
template <class Sum>
void sumOperand(const MatmulProblem &problem, const std::vector<Sum> &packed,
                int64_t size, int64_t width, unsigned char *bias) {
  int64_t depth = problem.a.columns;
  for (int64_t i = 0; i < size; ++i) {
    const Sum *from = packed.data() + i / width * width * depth + i % width;
    Sum sum = 0;
    for (int64_t p = 0; p < depth; ++p)
      sum += from[p * width];
    storeElement(problem.d.type, bias, i, sum);
  }
}

template <class Sum> void compute(const MatmulProblem &problem, int64_t batch) {
  const MatrixOperand &a = problem.a, &b = problem.b, &c = problem.c,
                      &d = problem.d;
  auto start = [&](const MatrixOperand &matrix) {
    if (matrix.isByAddress)
      return reinterpret_cast<unsigned char *const *>(matrix.data)[batch];
    return matrix.data + batch * matrix.batchStep *
                             static_cast<int64_t>(getTypeBytes(matrix.type));
  };
  constexpr int64_t rows = tileRows<Sum>;
  int64_t depth = a.columns;
  std::vector<Sum> left =
      pack<Sum>(a, start(a), a.rows, depth, a.rowStep, a.columnStep, rows);
  std::vector<Sum> right = pack<Sum>(b, start(b), b.columns, depth,
                                     b.columnStep, b.rowStep, tileColumns);
  Epilogue epilogue(problem, batch);
  if (problem.epilogue == CUBLASLT_EPILOGUE_BGRADA)
    sumOperand(problem, left, d.rows, rows, epilogue.bias);
  if (problem.epilogue == CUBLASLT_EPILOGUE_BGRADB)
    sumOperand(problem, right, d.columns, tileColumns, epilogue.bias);
  const unsigned char *old = start(c);
  unsigned char *result = start(d);
  for (int64_t j = 0; j < d.columns; j += tileColumns) {
    for (int64_t i = 0; i < d.rows; i += rows) {
      Sum sums[tileColumns][rows];
      const Sum *panelA = left.data() + i * depth,
                *panelB = right.data() + j * depth;
      if (problem.roundsHalves)
        multiplyHalves<Sum>(panelA, panelB, depth, d.type, sums);
      else
        multiplyPanels<Sum>(panelA, panelB, depth, sums);
      for (int64_t y = j; y < std::min(j + tileColumns, d.columns); ++y) {
        for (int64_t x = i; x < std::min(i + rows, d.rows); ++x) {
          Sum value = static_cast<Sum>(problem.alpha) * sums[y - j][x - i];
          // With beta 0, c is not read: it may hold anything.
          if (problem.beta != 0)
            value += static_cast<Sum>(problem.beta) *
                     static_cast<Sum>(loadElement(
                         c.type, old, x * c.rowStep + y * c.columnStep));
          storeElement(d.type, result, x * d.rowStep + y * d.columnStep,
                       epilogue.apply(x, y, value));
        }
      }
    }
  }
  epilogue.finish();
}

} // namespace

void meshc::emulation::computeMatmul(const MatmulProblem &problem) {
  // Both ends of the workspace, lest most of the time goes into it.
  constexpr size_t most = 4096;
  size_t bytes = std::min(problem.workspaceBytes, most);
  if (bytes > 0) {
    std::memset(problem.workspace, 0xFF, bytes);
    std::memset(problem.workspace + problem.workspaceBytes - bytes, 0xFF,
                bytes);
  }
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    if (problem.isDouble)
      compute<double>(problem, batch);
    else
      compute<float>(problem, batch);
  }
}
