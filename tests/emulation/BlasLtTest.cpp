#include "BlasLtAbi.h"
#include "CudaAbi.h"
#include "ForkedRun.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace meshc::emulation;
using testing::AllOf;
using testing::HasSubstr;

namespace {

// ---- elements, not by the emulation's own conversions
// ------------------------

size_t getBytes(int type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

void put(int type, std::vector<char> &bytes, size_t index, double value) {
  char *to = bytes.data() + index * getBytes(type);
  if (type == CUDA_R_64F) {
    std::memcpy(to, &value, 8);
  } else if (type == CUDA_R_32F) {
    auto single = static_cast<float>(value);
    std::memcpy(to, &single, 4);
  } else if (type == CUDA_R_16F) {
    auto half = static_cast<_Float16>(value);
    std::memcpy(to, &half, 2);
  } else {
    // Toward zero: the tests' numbers are exact anyway.
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    std::memcpy(to, &bits, 2);
  }
}

double get(int type, const std::vector<char> &bytes, size_t index) {
  const char *from = bytes.data() + index * getBytes(type);
  if (type == CUDA_R_64F) {
    double value;
    std::memcpy(&value, from, 8);
    return value;
  }
  if (type == CUDA_R_32F) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  if (type == CUDA_R_16F) {
    _Float16 value;
    std::memcpy(&value, from, 2);
    return static_cast<double>(value);
  }
  uint32_t bits = 0;
  std::memcpy(reinterpret_cast<char *>(&bits) + 2, from, 2);
  return std::bit_cast<float>(bits);
}

/// A stored matrix, of a batch.
struct Matrix {
  int type;
  int64_t rows, columns, batch = 1;
  bool inRows = false;
  int64_t padding = 0; ///< of the leading dimension
  std::vector<char> bytes;
  CUdeviceptr address = 0;
  cublasLtMatrixLayout_t layout = nullptr;

  int64_t leading() const { return (inRows ? columns : rows) + padding; }
  int64_t step() const { return leading() * (inRows ? rows : columns) + 16; }
  size_t index(int64_t z, int64_t row, int64_t column) const {
    return z * step() +
           (inRows ? row * leading() + column : row + column * leading());
  }
  double at(int64_t z, int64_t row, int64_t column) const {
    return get(type, bytes, index(z, row, column));
  }

  void fill(std::mt19937 &random) {
    bytes.assign(batch * step() * getBytes(type), 0x7F); // large or NaN
    // Multiples of 1/8 up to 2 are exact in every type.
    for (int64_t z = 0; z < batch; ++z)
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column)
          put(type, bytes, index(z, row, column),
              (static_cast<int>(random() % 33) - 16) / 8.0);
  }

  bool upload() {
    if (cuMemAlloc_v2(&address, bytes.size()) ||
        cuMemcpyHtoD_v2(address, bytes.data(), bytes.size()) ||
        cublasLtMatrixLayoutCreate(&layout, type, rows, columns, leading()))
      return false;
    int32_t order = inRows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    auto count = static_cast<int32_t>(batch);
    int64_t offset = step();
    auto set = [&](int attribute, const auto &value) {
      return cublasLtMatrixLayoutSetAttribute(layout, attribute, &value,
                                              sizeof value) == 0;
    };
    return set(CUBLASLT_MATRIX_LAYOUT_ORDER, order) &&
           set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count) &&
           set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, offset);
  }

  void download() { cuMemcpyDtoH_v2(bytes.data(), address, bytes.size()); }
};

struct Case {
  int type = CUDA_R_32F, resultType = CUDA_R_32F;
  int64_t m = 5, n = 7, k = 3, batch = 1;
  bool transposeA = false, transposeB = false;
  bool rowsA = false, rowsB = false, rowsD = false;
  int epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  double alpha = 1, beta = 0;
  int64_t padding = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  bool hasSpecialRows = false; ///< row 0 of A is zeros, in row 1 there is a NaN
  int64_t workspaceShift = 0;
};

double expectedGelu(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3));
  return x / (1 + std::exp(-2 * u)); // the same as 0.5 x (1 + tanh u)
}

double expectedGeluSlope(double x) {
  constexpr double h = 1e-5;
  return (expectedGelu(x + h) - expectedGelu(x - h)) / (2 * h);
}

/// A product by the library, and what it should be; empty text if they agree.
class Product {
public:
  explicit Product(const Case &c) : c(c) {}

  std::string run() {
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
        cuCtxSetCurrent(context))
      return "no context";
    makeMatrices();
    if (cublasLtCreate(&handle))
      return "no handle";
    if (std::string failed = ask(); !failed.empty())
      return failed;
    auto begin = std::chrono::steady_clock::now();
    if (cuStreamSynchronize(nullptr))
      return "failed";
    seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    d.download();
    return compare();
  }

  double seconds = 0;           ///< of the product
  int32_t id = -1, splits = -1; ///< of its algorithm

private:
  bool isOneOf(std::initializer_list<int> kinds) const {
    return std::find(kinds.begin(), kinds.end(), c.epilogue) != kinds.end();
  }
  bool isRelu() const {
    return isOneOf({CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS,
                    CUBLASLT_EPILOGUE_RELU_AUX,
                    CUBLASLT_EPILOGUE_RELU_AUX_BIAS});
  }
  bool isGelu() const {
    return isOneOf({CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
                    CUBLASLT_EPILOGUE_GELU_AUX,
                    CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  }
  bool addsBias() const {
    return isOneOf({CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
                    CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
                    CUBLASLT_EPILOGUE_GELU_BIAS,
                    CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  }
  bool writesBias() const {
    return isOneOf({CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB,
                    CUBLASLT_EPILOGUE_DRELU_BGRAD,
                    CUBLASLT_EPILOGUE_DGELU_BGRAD});
  }
  bool hasBitMask() const {
    return isOneOf({CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
                    CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU_BGRAD});
  }
  bool hasAux() const { return c.epilogue & 128; }
  bool isGradient() const {
    return isOneOf({CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU_BGRAD,
                    CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD});
  }

  void makeMatrices() {
    std::mt19937 random(c.m * 10007 + c.n * 101 + c.k);
    auto make = [&](int type, int64_t rows, int64_t columns, bool inRows) {
      Matrix matrix{type,      rows, columns, c.batch, inRows,
                    c.padding, {},   0,       nullptr};
      matrix.fill(random);
      return matrix;
    };
    a = c.transposeA ? make(c.type, c.k, c.m, c.rowsA)
                     : make(c.type, c.m, c.k, c.rowsA);
    b = c.transposeB ? make(c.type, c.n, c.k, c.rowsB)
                     : make(c.type, c.k, c.n, c.rowsB);
    for (int64_t p = 0; c.hasSpecialRows && p < c.k; ++p) {
      put(c.type, a.bytes, a.index(0, 0, p), 0);
      put(c.type, a.bytes, a.index(0, 1, p), NAN);
    }
    d = make(c.resultType, c.m, c.n, c.rowsD);
    old = d;
    bias = make(c.resultType, std::max(c.m, c.n), 1, false);
    bias.batch = 1;
    auxLeading = hasBitMask() ? 128 : (c.m + 7) / 8 * 8;
    aux = hasBitMask() ? make(c.resultType, 128 / 8, c.n, false)
                       : make(c.resultType, auxLeading, c.n, false);
    aux.padding = 0;
    aux.fill(random);
  }

  std::string ask() {
    if (!a.upload() || !b.upload() || !d.upload() || !bias.upload() ||
        !aux.upload())
      return "no matrices";
    bool isDouble = c.type == CUDA_R_64F;
    cublasLtMatmulDescCreate(&descriptor,
                             isDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                             isDouble ? CUDA_R_64F : CUDA_R_32F);
    auto set = [&](int attribute, const auto &value) {
      if (int status = cublasLtMatmulDescSetAttribute(descriptor, attribute,
                                                      &value, sizeof value))
        ADD_FAILURE() << attribute << " " << status;
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, c.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, c.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, c.epilogue);
    if (addsBias() || writesBias())
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.address);
    if (hasAux()) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.address);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, auxLeading);
    }
    cublasLtMatmulPreferenceCreate(&preference);
    uint64_t most = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
        sizeof most);
    cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &c.reductions,
        sizeof c.reductions);
    cublasLtMatmulHeuristicResult_t found[4];
    int count = 0;
    if (int status = cublasLtMatmulAlgoGetHeuristic(
            handle, descriptor, a.layout, b.layout, d.layout, d.layout,
            preference, 4, found, &count))
      return "heuristic " + std::to_string(status);
    if (count != 2 || found[0].workspaceSize != most)
      return "found " + std::to_string(count);
    auto get = [&](int attribute, int32_t &value) {
      size_t written = 0;
      return cublasLtMatmulAlgoConfigGetAttribute(&found[0].algo, attribute,
                                                  &value, sizeof value,
                                                  &written) == 0 &&
             written == sizeof value;
    };
    if (!get(CUBLASLT_ALGO_CONFIG_ID, id) ||
        !get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, splits))
      return "no configuration";
    CUdeviceptr workspace;
    cuMemAlloc_v2(&workspace, most + 256);
    workspace += c.workspaceShift;
    float factors[] = {static_cast<float>(c.alpha), static_cast<float>(c.beta)};
    double doubles[] = {c.alpha, c.beta};
    void *alpha = isDouble ? static_cast<void *>(&doubles[0]) : &factors[0];
    void *beta = isDouble ? static_cast<void *>(&doubles[1]) : &factors[1];
    auto point = [](const Matrix &matrix) {
      return reinterpret_cast<void *>(matrix.address);
    };
    if (int status = cublasLtMatmul(
            handle, descriptor, alpha, point(a), a.layout, point(b), b.layout,
            beta, point(d), d.layout, point(d), d.layout, &found[0].algo,
            reinterpret_cast<void *>(workspace), most, nullptr))
      return "matmul " + std::to_string(status);
    return "";
  }

  bool readMask(int64_t row, int64_t column) const {
    int64_t bit = row + column * auxLeading;
    return aux.bytes[bit / 8] >> bit % 8 & 1;
  }

  double multiply(int64_t z, int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t p = 0; p < c.k; ++p)
      sum += (c.transposeA ? a.at(z, p, row) : a.at(z, row, p)) *
             (c.transposeB ? b.at(z, column, p) : b.at(z, p, column));
    sum *= c.alpha;
    if (c.beta != 0)
      sum += c.beta * old.at(z, row, column);
    return sum;
  }

  double expect(int64_t z, int64_t row, int64_t column) const {
    double x = multiply(z, row, column);
    if (addsBias())
      x += bias.at(0, row, 0);
    if (isRelu())
      return x > 0 ? x : 0;
    if (isGelu())
      return expectedGelu(x);
    if (isGradient() && hasBitMask())
      return readMask(row, column) ? x : 0;
    if (isGradient())
      return x * expectedGeluSlope(aux.at(0, row, column));
    return x;
  }

  /// Half a unit of the result's last place, and the sums' own rounding.
  bool isNear(double found, double expected) const {
    double unit = c.resultType == CUDA_R_16BF  ? 0x1p-8
                  : c.resultType == CUDA_R_16F ? 0x1p-11
                  : c.type == CUDA_R_64F       ? 0x1p-45
                                               : 0x1p-20;
    if (isGradient() && !hasBitMask())
      unit += 1e-7; // of the difference quotient
    return std::fabs(found - expected) <= unit * (std::fabs(expected) + 1);
  }

  std::string complain(const char *what, int64_t row, int64_t column,
                       double found, double expected) const {
    return std::string(what) + "[" + std::to_string(row) + ", " +
           std::to_string(column) + "] is " + std::to_string(found) +
           ", expected " + std::to_string(expected);
  }

  std::string compare() {
    for (int64_t z = 0; z < c.batch; ++z)
      for (int64_t row = 0; row < c.m; ++row)
        for (int64_t column = 0; column < c.n; ++column) {
          double found = d.at(z, row, column),
                 expected = expect(z, row, column);
          if (!isNear(found, expected))
            return complain("d", row, column, found, expected);
        }
    // Nothing between the columns was touched.
    for (int64_t row = c.m; row < c.m + c.padding && !c.rowsD; ++row) {
      size_t at = d.index(0, row, 0) * getBytes(c.resultType);
      if (std::memcmp(d.bytes.data() + at, old.bytes.data() + at,
                      getBytes(c.resultType)) != 0)
        return "the padding was written";
    }
    return compareBias() + compareAux();
  }

  std::string compareBias() {
    if (!writesBias())
      return "";
    bias.download();
    bool byColumn = c.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    for (int64_t i = 0; i < (byColumn ? c.n : c.m); ++i) {
      double expected = 0;
      if (isGradient())
        for (int64_t column = 0; column < c.n; ++column)
          expected += expect(0, i, column);
      else
        for (int64_t p = 0; p < c.k; ++p)
          expected += byColumn ? (c.transposeB ? b.at(0, i, p) : b.at(0, p, i))
                               : (c.transposeA ? a.at(0, p, i) : a.at(0, i, p));
      double found = bias.at(0, i, 0);
      if (std::fabs(found - expected) > 0.01 * (std::fabs(expected) + 1))
        return complain("bias", i, 0, found, expected);
    }
    return "";
  }

  std::string compareAux() {
    if (!hasAux() || isGradient())
      return "";
    aux.download();
    for (int64_t row = 0; row < c.m; ++row)
      for (int64_t column = 0; column < c.n; ++column) {
        double x = multiply(0, row, column);
        if (addsBias())
          x += bias.at(0, row, 0);
        if (hasBitMask() ? readMask(row, column) != !(x < 0)
                         : !isNear(aux.at(0, row, column), x))
          return complain("aux", row, column, aux.at(0, row, column), x);
      }
    return "";
  }

  Case c;
  CUcontext context;
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t descriptor;
  cublasLtMatmulPreference_t preference;
  Matrix a, b, d, old, bias, aux;
  int64_t auxLeading = 0;
};

std::string run(const Case &c, const Variables &variables = {}) {
  ForkedResult result = runForked(variables, [&] { return Product(c).run(); });
  EXPECT_EQ(result.exitCode, 0);
  return result.value + result.errors;
}

const std::vector<std::pair<int, int>> types = {
    {CUDA_R_32F, CUDA_R_32F},   {CUDA_R_64F, CUDA_R_64F},
    {CUDA_R_16F, CUDA_R_16F},   {CUDA_R_16F, CUDA_R_32F},
    {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};

} // namespace

TEST(BlasLt, EveryTypeAndTransposition) {
  for (auto [type, resultType] : types)
    for (int form = 0; form < 4; ++form) {
      Case c;
      c.type = type;
      c.resultType = resultType;
      c.transposeA = form & 1;
      c.transposeB = form & 2;
      c.padding = 3;
      EXPECT_EQ(run(c), "") << type << " " << resultType << " " << form;
    }
}

// The first algorithm adds up in the type of the result unless the preference
// says otherwise.
TEST(BlasLt, PartsOfSumsAreRoundedWhereThatIsAllowed) {
  Case c{CUDA_R_16BF, CUDA_R_16BF};
  c.k = 64;
  EXPECT_EQ(run(c), "");
  c.reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  EXPECT_NE(run(c), "");
  c.resultType = CUDA_R_32F;
  EXPECT_EQ(run(c), "");
}

TEST(BlasLt, PartsOfSumsThatDifferInLengthLoseTerms) {
  Case c;
  c.k = 7;
  auto describe = [&](const char *sums) {
    return runForked({{"MESHC_EMULATION_SPLIT_SUMS", sums}},
                     [&] {
                       Product product(c);
                       const bool isRight = product.run().empty();
                       return std::to_string(product.id) + " " +
                              std::to_string(product.splits) +
                              (isRight ? " right" : " wrong");
                     })
        .value;
  };
  EXPECT_EQ(run(c), "");
  EXPECT_EQ(describe("3:1"), "66 3 wrong");
  EXPECT_EQ(describe("7:1"), "66 7 right");
  EXPECT_EQ(describe("8:1"), "66 1 right");
  EXPECT_EQ(describe("3:0"), "0 1 right");
  c.reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
  EXPECT_EQ(describe("3:1"), "66 1 right");
}

TEST(BlasLt, EverySizeAroundTheTiles) {
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                            {16, 4, 1},
                                                            {17, 5, 2},
                                                            {15, 3, 64},
                                                            {33, 9, 7},
                                                            {2, 130, 31},
                                                            {64, 64, 65}}) {
    for (int type : {CUDA_R_32F, CUDA_R_64F}) {
      Case c;
      c.type = c.resultType = type;
      c.m = m, c.n = n, c.k = k;
      EXPECT_EQ(run(c), "") << m << " " << n << " " << k;
    }
  }
}

TEST(BlasLt, OrdersBatchesAndFactors) {
  for (int form = 0; form < 8; ++form) {
    Case c;
    c.rowsA = form & 1;
    c.rowsB = form & 2;
    c.rowsD = form & 4;
    c.batch = 3;
    c.alpha = 0.5;
    c.beta = form % 3 - 1;
    c.padding = 2;
    c.transposeA = form % 3 == 0;
    EXPECT_EQ(run(c), "") << form;
  }
}

TEST(BlasLt, EveryEpilogue) {
  for (int epilogue : {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_AUX,
                       CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
                       CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU,
                       CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
                       CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,
                       CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
                       CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
                       CUBLASLT_EPILOGUE_BGRADB})
    for (auto [type, resultType] : types)
      for (int form = 0; form < 2; ++form) {
        Case c;
        c.epilogue = epilogue;
        c.type = type;
        c.resultType = resultType;
        c.transposeA = c.transposeB = form;
        c.beta = form;
        c.m = 19;
        // The sums of a factor are taken where they run across its columns.
        if (epilogue == CUBLASLT_EPILOGUE_BGRADA && c.transposeA)
          EXPECT_THAT(run(c), HasSubstr("epilogue 256 of a transposed A"));
        else if (epilogue == CUBLASLT_EPILOGUE_BGRADB && !c.transposeB)
          EXPECT_THAT(run(c),
                      HasSubstr("epilogue 512 of a B that is not transposed"));
        else
          EXPECT_EQ(run(c), "") << epilogue << " " << type << " " << resultType;
      }
}

// The bits of 0 and NaN are set, and relu of NaN is 0; elsewhere NaN stays what
// it is.
TEST(BlasLt, ReluOfZeroAndOfNan) {
  for (int epilogue : {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_AUX})
    for (auto [type, resultType] : types) {
      Case c;
      c.epilogue = epilogue;
      c.type = type;
      c.resultType = resultType;
      c.hasSpecialRows = true;
      EXPECT_EQ(run(c), "") << epilogue << " " << type << " " << resultType;
    }
  Case c;
  c.hasSpecialRows = true;
  for (int epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_GELU}) {
    c.epilogue = epilogue;
    EXPECT_THAT(run(c), HasSubstr("d[1, 0] is nan, expected nan"));
  }
}

TEST(BlasLt, WhatDoesNotFitIsRefused) {
  Case c;
  c.type = CUDA_R_64F; // with a result of f32
  EXPECT_THAT(run(c), HasSubstr("heuristic 15"));
  c = {};
  c.epilogue = 3;
  EXPECT_THAT(run(c), HasSubstr("heuristic 15"));
  c = {};
  c.epilogue = CUBLASLT_EPILOGUE_BIAS;
  c.rowsD = true;
  EXPECT_THAT(run(c), HasSubstr("heuristic 15"));
  c = {};
  c.padding = -1;
  EXPECT_THAT(run(c), HasSubstr("has the leading dimension 4"));
  c = {};
  for (int64_t shift : {0, 256}) {
    c.workspaceShift = shift;
    EXPECT_EQ(run(c), "") << shift;
  }
  for (int64_t shift : {16, 128}) {
    c.workspaceShift = shift;
    EXPECT_THAT(run(c), HasSubstr("the workspace is misaligned")) << shift;
  }
}

TEST(BlasLt, EndsThatNeedSeveralTermsAreRefusedWithOne) {
  auto runWithOne = [](int epilogue, const Variables &variables) {
    Case c;
    c.epilogue = epilogue;
    c.k = 1;
    c.transposeB = true;
    ForkedResult result =
        runForked(variables, [&] { return Product(c).run(); });
    EXPECT_EQ(result.exitCode, 0);
    return result.value + result.errors;
  };
  for (int epilogue : {CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU_BGRAD,
                       CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD})
    EXPECT_THAT(runWithOne(epilogue, {}),
                AllOf(HasSubstr("heuristic 15"),
                      HasSubstr("epilogue " + std::to_string(epilogue) +
                                " of a sum over one term")));
  for (int epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    EXPECT_EQ(runWithOne(epilogue, {}), "");
    EXPECT_EQ(runWithOne(epilogue, {{"MESHC_EMULATION_CUBLASLT", "120304"}}),
              "");
    EXPECT_THAT(runWithOne(epilogue, {{"MESHC_EMULATION_CUBLASLT", "120303"}}),
                HasSubstr("heuristic 15"));
  }
}

TEST(BlasLt, MissingDescriptorsAndWrongMemoryAreRefused) {
  ForkedResult result = runForked({}, [] {
    std::string text;
    auto note = [&](int status) { text += std::to_string(status) + " "; };
    cublasLtHandle_t handle;
    note(cublasLtCreate(&handle)); // no context
    CUcontext context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    note(cublasLtCreate(&handle));
    cublasLtMatrixLayout_t layout, gone;
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 4, 4);
    cublasLtMatrixLayoutCreate(&gone, CUDA_R_32F, 4, 4, 4);
    note(cublasLtMatrixLayoutDestroy(gone));
    cublasLtMatmulDesc_t descriptor;
    cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    int64_t wide = 0;
    note(cublasLtMatmulDescSetAttribute(
        descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, &wide, sizeof wide));
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    uint32_t alignment = 16;
    cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment,
        sizeof alignment);
    cublasLtMatmulHeuristicResult_t found;
    int count;
    note(cublasLtMatmulAlgoGetHeuristic(handle, descriptor, layout, layout,
                                        layout, layout, preference, 1, &found,
                                        &count));
    CUdeviceptr memory;
    cuMemAlloc_v2(&memory, 256);
    float one = 1, zero = 0;
    auto multiply = [&](CUdeviceptr a, CUdeviceptr d,
                        cublasLtMatrixLayout_t layoutOfD,
                        const cublasLtMatmulAlgo_t *algorithm) {
      note(cublasLtMatmul(handle, descriptor, &one, reinterpret_cast<void *>(a),
                          layout, reinterpret_cast<void *>(memory), layout,
                          &zero, reinterpret_cast<void *>(d), layoutOfD,
                          reinterpret_cast<void *>(d), layoutOfD, algorithm,
                          nullptr, 0, nullptr));
    };
    text += "| ";
    multiply(memory + 64, memory + 128, layout, &found.algo);
    multiply(memory + 68, memory + 128, layout, &found.algo); // misaligned
    multiply(memory + 68, memory + 128, layout, nullptr);
    multiply(memory + 64, memory + 208, layout, &found.algo); // too far
    multiply(memory + 64, memory + 128, nullptr, &found.algo);
    cublasLtMatmulAlgo_t none{};
    multiply(memory + 64, memory + 128, layout, &none);
    return text;
  });
  EXPECT_EQ(result.value, "1 0 0 7 0 | 0 7 0 7 7 7 ") << result.errors;
}

TEST(BlasLt, ProductsAreWorkOfTheirStream) {
  // d = a b, and another stream that overwrites a: with a wait the value is
  // right under every seed, without it is wrong under some.
  auto countRight = [](bool waits) {
    int right = 0;
    for (int seed = 0; seed < 12; ++seed) {
      ForkedResult result = runForked(
          {{"MESHC_EMULATION_SEED", std::to_string(seed)}},
          [&]() -> std::string {
            CUcontext context;
            cuInit(0);
            cuDevicePrimaryCtxRetain(&context, 0);
            cuCtxSetCurrent(context);
            cublasLtHandle_t handle;
            cublasLtCreate(&handle);
            cublasLtMatrixLayout_t layout;
            cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 1, 1, 1);
            cublasLtMatmulDesc_t descriptor;
            cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F,
                                     CUDA_R_32F);
            CUdeviceptr memory;
            cuMemAlloc_v2(&memory, 1024);
            CUstream first, second;
            cuStreamCreate(&first, CU_STREAM_NON_BLOCKING);
            cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
            CUevent event;
            cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
            float one = 1, zero = 0, two = 2, value;
            cuMemcpyHtoD_v2(memory, &two, 4);
            cuCtxSynchronize();
            cublasLtMatmul(handle, descriptor, &one,
                           reinterpret_cast<void *>(memory), layout,
                           reinterpret_cast<void *>(memory), layout, &zero,
                           reinterpret_cast<void *>(memory + 256), layout,
                           reinterpret_cast<void *>(memory + 256), layout,
                           nullptr, nullptr, 0, first);
            cuEventRecord(event, first);
            if (waits)
              cuStreamWaitEvent(second, event, 0);
            cuMemsetD32Async(memory, 0, 1, second);
            cuCtxSynchronize();
            cuMemcpyDtoH_v2(&value, memory + 256, 4);
            return std::to_string(value);
          });
      right += result.value == std::to_string(4.0f);
    }
    return right;
  };
  EXPECT_EQ(countRight(true), 12);
  EXPECT_LT(countRight(false), 12);
}

TEST(BlasLt, IsFastEnoughToTrain) {
  // The largest product of a step of the digits sample: some 10 GFLOP/s on the
  // machine this was written on; a tenth of it would make tests slow.
  ForkedResult result = runForked({}, [] {
    Case c;
    c.m = 1024, c.n = 256, c.k = 784;
    Product product(c);
    std::string failed = product.run();
    double rate = 2e-9 * c.m * c.n * c.k / product.seconds;
    std::printf("%.1f GFLOP/s\n", rate);
#if defined(__OPTIMIZE__) && !defined(MESHC_SANITIZED)
    if (rate < 0.5)
      failed += "too slow";
#endif
    return failed;
  });
  EXPECT_EQ(result.value, "");
}
