// The emulated libcublasLt.so.13: descriptors, what the library checks, and the
// queueing of products.

#include "BlasLtAbi.h"
#include "Elements.h"
#include "Environment.h"
#include "Extension.h"
#include "Fibers.h"
#include "MatmulProblem.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace meshc::emulation;

// ---- descriptors ------------------------------------------------------------

// Each begins with a number of its own, so that one that was destroyed or never
// made is found.
struct cublasLtContext {
  static constexpr uint64_t tag = 0x6d65736863420001;
  uint64_t mark = tag;
};

struct cublasLtMatrixLayoutOpaque_t {
  static constexpr uint64_t tag = 0x6d65736863420002;
  uint64_t mark = tag;
  int32_t type, order = CUBLASLT_ORDER_COL, batch = 1;
  uint64_t rows, columns;
  int64_t leading, batchStep = 0;
  uint32_t batchMode = CUBLASLT_BATCH_MODE_STRIDED;
};

struct cublasLtMatmulDescOpaque_t {
  static constexpr uint64_t tag = 0x6d65736863420003;
  uint64_t mark = tag;
  int32_t compute, scale, pointerMode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N,
          transposeC = CUBLAS_OP_N;
  int32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT, biasType = -1, smCount = 0;
  void *bias = nullptr, *aux = nullptr;
  int64_t biasBatchStep = 0, auxLeading = 0, auxBatchStep = 0;
};

struct cublasLtMatmulPreferenceOpaque_t {
  static constexpr uint64_t tag = 0x6d65736863420004;
  uint64_t mark = tag;
  uint64_t workspaceBytes = 0;
  uint32_t searchMode = 0, reductionMask = ~0u;
  uint32_t alignments[4] = {256, 256, 256, 256};
  float maxWaves = 0;
  uint64_t implementationMask = ~uint64_t(0);
};

namespace {

template <class Object> bool isLive(const Object *object) {
  return object && object->mark == Object::tag;
}

template <class Object> cublasStatus_t destroy(Object *object) {
  if (!isLive(object))
    return CUBLAS_STATUS_INVALID_VALUE;
  object->mark = 0;
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t refuse(const char *function, cublasStatus_t status,
                      const std::string &why) {
  std::fprintf(stderr, "meshc emulation: %s: %s\n", function, why.c_str());
  return status;
}

struct Attribute {
  void *place;
  size_t bytes;
};

template <class Value> Attribute makeAttribute(Value &value) {
  return {&value, sizeof value};
}

std::optional<Attribute> find(cublasLtMatrixLayoutOpaque_t &layout,
                              int attribute) {
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_TYPE:
    return makeAttribute(layout.type);
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return makeAttribute(layout.order);
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    return makeAttribute(layout.rows);
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    return makeAttribute(layout.columns);
  case CUBLASLT_MATRIX_LAYOUT_LD:
    return makeAttribute(layout.leading);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return makeAttribute(layout.batch);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return makeAttribute(layout.batchStep);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_MODE:
    // The header of CUDA 13.0 has it; of releases before, this is not known.
    if (getEnvironment().blasLtVersion < 130000)
      return std::nullopt;
    return makeAttribute(layout.batchMode);
  default:
    return std::nullopt;
  }
}

std::optional<Attribute> find(cublasLtMatmulDescOpaque_t &descriptor,
                              int attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
    return makeAttribute(descriptor.compute);
  case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
    return makeAttribute(descriptor.scale);
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return makeAttribute(descriptor.pointerMode);
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return makeAttribute(descriptor.transposeA);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return makeAttribute(descriptor.transposeB);
  case CUBLASLT_MATMUL_DESC_TRANSC:
    return makeAttribute(descriptor.transposeC);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return makeAttribute(descriptor.epilogue);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return makeAttribute(descriptor.bias);
  case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
    return makeAttribute(descriptor.biasBatchStep);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return makeAttribute(descriptor.aux);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return makeAttribute(descriptor.auxLeading);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
    return makeAttribute(descriptor.auxBatchStep);
  case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
    return makeAttribute(descriptor.smCount);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return makeAttribute(descriptor.biasType);
  default:
    return std::nullopt;
  }
}

std::optional<Attribute> find(cublasLtMatmulPreferenceOpaque_t &preference,
                              int attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    return makeAttribute(preference.searchMode);
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return makeAttribute(preference.workspaceBytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return makeAttribute(preference.reductionMask);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return makeAttribute(
        preference.alignments[attribute -
                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
  case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
    return makeAttribute(preference.maxWaves);
  case CUBLASLT_MATMUL_PREF_IMPL_MASK:
    return makeAttribute(preference.implementationMask);
  default:
    return std::nullopt;
  }
}

template <class Object>
cublasStatus_t setAttribute(const char *function, Object *object, int attribute,
                            const void *value, size_t bytes) {
  if (!isLive(object) || !value)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::optional<Attribute> found = find(*object, attribute);
  if (!found)
    return refuse(function, CUBLAS_STATUS_NOT_SUPPORTED,
                  "the emulation does not know attribute " +
                      std::to_string(attribute));
  if (found->bytes != bytes)
    return refuse(function, CUBLAS_STATUS_INVALID_VALUE,
                  "attribute " + std::to_string(attribute) + " has " +
                      std::to_string(found->bytes) + " bytes, not " +
                      std::to_string(bytes));
  std::memcpy(found->place, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Object>
cublasStatus_t getAttribute(const char *function, Object *object, int attribute,
                            void *value, size_t bytes, size_t *written) {
  if (!isLive(object))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::optional<Attribute> found = find(*object, attribute);
  if (!found)
    return refuse(function, CUBLAS_STATUS_NOT_SUPPORTED,
                  "the emulation does not know attribute " +
                      std::to_string(attribute));
  if (written)
    *written = found->bytes;
  if (!value || bytes < found->bytes)
    return bytes == 0 && written ? CUBLAS_STATUS_SUCCESS
                                 : CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, found->place, found->bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// ---- checks -----------------------------------------------------------------

/// Why a product is refused.
struct Refusal {
  cublasStatus_t status;
  std::string why;
};

using Checked = std::optional<Refusal>;

Refusal makeInvalid(std::string why) {
  return {CUBLAS_STATUS_INVALID_VALUE, std::move(why)};
}

Refusal makeUnsupported(std::string why) {
  return {CUBLAS_STATUS_NOT_SUPPORTED, std::move(why)};
}

Checked checkLayout(const char *name,
                    const cublasLtMatrixLayoutOpaque_t &layout) {
  std::string matrix = std::string("matrix ") + name;
  if (getTypeBytes(layout.type) == 0)
    return makeUnsupported(matrix + " has type " + std::to_string(layout.type));
  if (layout.order != CUBLASLT_ORDER_COL && layout.order != CUBLASLT_ORDER_ROW)
    return makeUnsupported(matrix + " has order " +
                           std::to_string(layout.order));
  bool inColumns = layout.order == CUBLASLT_ORDER_COL;
  auto inner = static_cast<int64_t>(inColumns ? layout.rows : layout.columns);
  if (layout.rows == 0 || layout.columns == 0 || layout.leading < inner)
    return makeInvalid(matrix + " of " + std::to_string(layout.rows) + " x " +
                       std::to_string(layout.columns) +
                       " has the leading dimension " +
                       std::to_string(layout.leading));
  if (layout.batch < 1)
    return makeInvalid(matrix + " has a batch of " +
                       std::to_string(layout.batch));
  if (layout.batchMode != CUBLASLT_BATCH_MODE_STRIDED &&
      layout.batchMode != CUBLASLT_BATCH_MODE_POINTER_ARRAY)
    return makeUnsupported(matrix + " has batch mode " +
                           std::to_string(layout.batchMode));
  return std::nullopt;
}

MatrixOperand makeOperand(const cublasLtMatrixLayoutOpaque_t &layout,
                          const void *data, bool transposes) {
  MatrixOperand operand;
  operand.type = layout.type;
  operand.data = static_cast<unsigned char *>(const_cast<void *>(data));
  operand.rows = static_cast<int64_t>(layout.rows);
  operand.columns = static_cast<int64_t>(layout.columns);
  bool inColumns = layout.order == CUBLASLT_ORDER_COL;
  operand.rowStep = inColumns ? 1 : layout.leading;
  operand.columnStep = inColumns ? layout.leading : 1;
  operand.isByAddress = layout.batchMode == CUBLASLT_BATCH_MODE_POINTER_ARRAY;
  operand.batchStep =
      layout.batch > 1 && !operand.isByAddress ? layout.batchStep : 0;
  if (transposes) {
    std::swap(operand.rows, operand.columns);
    std::swap(operand.rowStep, operand.columnStep);
  }
  return operand;
}

bool isTransposed(int operation) {
  // The conjugate of a real matrix is itself.
  return operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

/// The types of the table at cublasLtMatmul in the cuBLAS documentation, of the
/// four that are emulated.
Checked checkTypes(const cublasLtMatmulDescOpaque_t &descriptor,
                   const MatmulProblem &problem) {
  int a = problem.a.type, c = problem.c.type;
  std::string types =
      "types " + std::to_string(a) + ", " + std::to_string(problem.b.type) +
      ", " + std::to_string(c) + ", " + std::to_string(problem.d.type) +
      " in compute type " + std::to_string(descriptor.compute) +
      " and scale type " + std::to_string(descriptor.scale);
  if (a != problem.b.type || c != problem.d.type)
    return makeUnsupported(types);
  switch (descriptor.compute) {
  case CUBLAS_COMPUTE_64F:
  case CUBLAS_COMPUTE_64F_PEDANTIC:
    if (descriptor.scale == CUDA_R_64F && a == CUDA_R_64F && c == CUDA_R_64F)
      return std::nullopt;
    return makeUnsupported(types);
  case CUBLAS_COMPUTE_32F_FAST_TF32:
    if (a != CUDA_R_32F)
      return makeUnsupported(types);
    [[fallthrough]];
  case CUBLAS_COMPUTE_32F:
  case CUBLAS_COMPUTE_32F_PEDANTIC:
    if (descriptor.scale == CUDA_R_32F && a != CUDA_R_64F &&
        (c == CUDA_R_32F || c == a))
      return std::nullopt;
    return makeUnsupported(types);
  default:
    return makeUnsupported(types);
  }
}

struct EpilogueNeeds {
  bool bias = false, aux = false, auxIsBits = false;
};

std::optional<EpilogueNeeds> getNeeds(int epilogue) {
  switch (epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
  case CUBLASLT_EPILOGUE_RELU:
  case CUBLASLT_EPILOGUE_GELU:
    return EpilogueNeeds{};
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_RELU_BIAS:
  case CUBLASLT_EPILOGUE_GELU_BIAS:
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    return EpilogueNeeds{true, false, false};
  case CUBLASLT_EPILOGUE_RELU_AUX:
  case CUBLASLT_EPILOGUE_DRELU:
    return EpilogueNeeds{false, true, true};
  case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DRELU_BGRAD:
    return EpilogueNeeds{true, true, true};
  case CUBLASLT_EPILOGUE_GELU_AUX:
  case CUBLASLT_EPILOGUE_DGELU:
    return EpilogueNeeds{false, true, false};
  case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    return EpilogueNeeds{true, true, false};
  default:
    return std::nullopt;
  }
}

/// The ends that a sum over one term cannot have. Source: release notes of
/// cuBLAS, CUDA 12.4, known issues; nvmath-python,
/// linalg/_internal/epilog_protocol.py.
bool needsTerms(int epilogue) {
  switch (epilogue) {
  case CUBLASLT_EPILOGUE_DRELU:
  case CUBLASLT_EPILOGUE_DRELU_BGRAD:
  case CUBLASLT_EPILOGUE_DGELU:
  case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    return true;
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    return getEnvironment().blasLtVersion < 120304;
  default:
    return false;
  }
}

Checked checkEpilogue(const cublasLtMatmulDescOpaque_t &descriptor,
                      const cublasLtMatrixLayoutOpaque_t &d,
                      const MatmulProblem &problem) {
  std::optional<EpilogueNeeds> needs = getNeeds(descriptor.epilogue);
  std::string name = "epilogue " + std::to_string(descriptor.epilogue);
  if (!needs)
    return makeUnsupported(name);
  if (descriptor.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return std::nullopt;
  if (d.order == CUBLASLT_ORDER_ROW)
    return makeUnsupported(name + " of a result in rows");
  if (problem.a.columns == 1 && needsTerms(descriptor.epilogue))
    return makeUnsupported(name + " of a sum over one term");
  // Source: nvmath-python, tests of its epilogues, which lay the factors out
  // so.
  if (descriptor.epilogue == CUBLASLT_EPILOGUE_BGRADA && problem.a.rowStep != 1)
    return makeUnsupported(name + " of a transposed A");
  if (descriptor.epilogue == CUBLASLT_EPILOGUE_BGRADB &&
      problem.b.columnStep != 1)
    return makeUnsupported(name + " of a B that is not transposed");
  if (needs->bias && !descriptor.bias)
    return makeInvalid(name + " without a bias");
  if (needs->bias && descriptor.biasType != -1 && descriptor.biasType != d.type)
    return makeUnsupported(name + " with a bias of another type than the "
                                  "result's");
  if (!needs->aux)
    return std::nullopt;
  // The multiples are those at CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD.
  int64_t multiple = needs->auxIsBits ? 128 : 8;
  if (!descriptor.aux || descriptor.auxLeading % multiple != 0 ||
      descriptor.auxLeading < static_cast<int64_t>(d.rows) ||
      (d.batch > 1 && descriptor.auxBatchStep % multiple != 0))
    return makeInvalid(name + " with the auxiliary leading dimension " +
                       std::to_string(descriptor.auxLeading));
  return std::nullopt;
}

/// Fills in everything but the addresses' data and the factors.
Checked makeProblem(const cublasLtMatmulDescOpaque_t *descriptor,
                    const cublasLtMatrixLayoutOpaque_t *a,
                    const cublasLtMatrixLayoutOpaque_t *b,
                    const cublasLtMatrixLayoutOpaque_t *c,
                    const cublasLtMatrixLayoutOpaque_t *d,
                    MatmulProblem &problem) {
  if (!isLive(descriptor) || !isLive(a) || !isLive(b) || !isLive(c) ||
      !isLive(d))
    return makeInvalid("a descriptor is missing");
  const char *names[] = {"A", "B", "C", "D"};
  const cublasLtMatrixLayoutOpaque_t *layouts[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (Checked refused = checkLayout(names[i], *layouts[i]))
      return refused;
  if (descriptor->pointerMode != CUBLASLT_POINTER_MODE_HOST)
    return makeUnsupported("factors in the GPU's memory");
  if (descriptor->transposeC != CUBLAS_OP_N)
    return makeUnsupported("a transposed C");
  problem.a = makeOperand(*a, nullptr, isTransposed(descriptor->transposeA));
  problem.b = makeOperand(*b, nullptr, isTransposed(descriptor->transposeB));
  problem.c = makeOperand(*c, nullptr, false);
  problem.d = makeOperand(*d, nullptr, false);
  auto describe = [](const MatrixOperand &matrix) {
    return std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns);
  };
  if (problem.a.columns != problem.b.rows || problem.a.rows != problem.d.rows ||
      problem.b.columns != problem.d.columns ||
      problem.c.rows != problem.d.rows ||
      problem.c.columns != problem.d.columns)
    return makeInvalid("op(A) is " + describe(problem.a) + ", op(B) " +
                       describe(problem.b) + ", C " + describe(problem.c) +
                       ", D " + describe(problem.d));
  if (a->batch != d->batch || b->batch != d->batch || c->batch != d->batch)
    return makeInvalid("the batches differ");
  if (a->batchMode != d->batchMode || b->batchMode != d->batchMode ||
      c->batchMode != d->batchMode)
    return makeUnsupported("the batch modes differ");
  // Source: cuBLAS 13.0 documentation, cublasLtEpilogue_t.
  if (problem.d.isByAddress &&
      descriptor->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    return makeUnsupported("an epilogue of a batch by address");
  problem.batch = d->batch;
  problem.isDouble = descriptor->scale == CUDA_R_64F;
  problem.epilogue = descriptor->epilogue;
  if (Checked refused = checkTypes(*descriptor, problem))
    return refused;
  return checkEpilogue(*descriptor, *d, problem);
}

/// Bytes from a matrix's first to its last element, of all its batch.
size_t getSpan(const MatrixOperand &matrix, int64_t batch) {
  return static_cast<size_t>((matrix.rows - 1) * matrix.rowStep +
                             (matrix.columns - 1) * matrix.columnStep +
                             (batch - 1) * matrix.batchStep + 1) *
         getTypeBytes(matrix.type);
}

/// What the heuristic tells an algorithm's memory: its scratch memory and the
/// alignment it was promised.
struct Algorithm {
  static constexpr uint64_t tag = 0x6d65736863420005;
  uint64_t mark = tag;
  uint64_t workspaceBytes = 0;
  uint32_t alignments[4] = {1, 1, 1, 1};
  uint32_t number = 0;
  uint32_t roundsHalves = 0;
  int32_t id = 0, splits = 1;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Checked checkMemory(const MatmulProblem &problem,
                    const cublasLtMatmulDescOpaque_t &descriptor,
                    const Algorithm &algorithm) {
  const MatrixOperand *matrices[] = {&problem.a, &problem.b, &problem.c,
                                     &problem.d};
  const char *names[] = {"A", "B", "C", "D"};
  for (int i = 0; i < 4; ++i) {
    const MatrixOperand &matrix = *matrices[i];
    if (i == 2 && problem.beta == 0)
      continue;
    const size_t bytes = getTypeBytes(matrix.type);
    const std::string name = std::string("matrix ") + names[i];
    auto check = [&](CUdeviceptr address, int64_t batch) -> Checked {
      if (address % std::max<size_t>(bytes, algorithm.alignments[i]) != 0)
        return makeInvalid(name + " is not aligned as the algorithm was told");
      if (meshcEmulationCheckRange(address, getSpan(matrix, batch)))
        return makeInvalid(name + " reaches outside an allocation");
      return std::nullopt;
    };
    const auto address = reinterpret_cast<CUdeviceptr>(matrix.data);
    if (!matrix.isByAddress) {
      if (Checked refused = check(address, problem.batch))
        return refused;
      continue;
    }
    const size_t tableBytes =
        static_cast<size_t>(problem.batch) * sizeof(CUdeviceptr);
    if (address % sizeof(CUdeviceptr) != 0 ||
        meshcEmulationCheckRange(address, tableBytes))
      return makeInvalid("the addresses of " + name +
                         " are misaligned or outside an allocation");
    std::vector<CUdeviceptr> addresses(static_cast<size_t>(problem.batch));
    std::memcpy(addresses.data(), matrix.data, tableBytes);
    for (CUdeviceptr one : addresses)
      if (Checked refused = check(one, 1))
        return refused;
  }
  std::optional<EpilogueNeeds> needs = getNeeds(descriptor.epilogue);
  int64_t biasLength = descriptor.epilogue == CUBLASLT_EPILOGUE_BGRADB
                           ? problem.d.columns
                           : problem.d.rows;
  size_t bytes = getTypeBytes(problem.d.type);
  if (needs->bias &&
      (meshcEmulationCheckRange(
           reinterpret_cast<CUdeviceptr>(descriptor.bias),
           (biasLength + (problem.batch - 1) * descriptor.biasBatchStep) *
               bytes) ||
       reinterpret_cast<CUdeviceptr>(descriptor.bias) % bytes != 0))
    return makeInvalid("the bias reaches outside an allocation");
  int64_t auxElements = (problem.d.columns - 1) * descriptor.auxLeading +
                        problem.d.rows +
                        (problem.batch - 1) * descriptor.auxBatchStep;
  if (needs->aux &&
      meshcEmulationCheckRange(reinterpret_cast<CUdeviceptr>(descriptor.aux),
                               needs->auxIsBits ? (auxElements + 7) / 8
                                                : auxElements * bytes))
    return makeInvalid("the auxiliary matrix reaches outside an allocation");
  return std::nullopt;
}

bool readAlgorithm(const cublasLtMatmulAlgo_t &from, Algorithm &algorithm) {
  std::memcpy(&algorithm, &from, sizeof algorithm);
  return algorithm.mark == Algorithm::tag;
}

/// The number of the real algorithm that leaves terms out.
constexpr int32_t lossyId = 66;

std::string describe(const MatmulProblem &problem) {
  return "\"m\": " + std::to_string(problem.d.rows) +
         ", \"n\": " + std::to_string(problem.d.columns) +
         ", \"k\": " + std::to_string(problem.a.columns) +
         ", \"batch\": " + std::to_string(problem.batch) +
         ", \"type\": " + std::to_string(problem.a.type) +
         ", \"epilogue\": " + std::to_string(problem.epilogue) +
         ", \"beta\": " + std::to_string(problem.beta) +
         ", \"algorithm\": " + std::to_string(problem.algorithm);
}

/// Microseconds that a product pretends to take. Called while products run, one
/// after another.
int64_t getTime(const MatmulProblem &problem) {
  static std::mt19937_64 random(getEnvironment().seed);
  const Environment &environment = getEnvironment();
  auto get = [&](const std::vector<int> &milliseconds) {
    return problem.algorithm < milliseconds.size()
               ? int64_t(1000) * milliseconds[problem.algorithm]
               : 0;
  };
  int64_t time = get(environment.matmulTimes);
  time += time / 1000 * int64_t(random() % (10 * environment.matmulNoise + 1));
  return problem.isInGraph ? time : time + get(environment.matmulLaunchTimes);
}

/// The part of every function that can fail on demand.
bool isFailing(const char *function, const std::string &arguments,
               cublasStatus_t &status) {
  return meshcEmulationCall(function, arguments.c_str(), &status);
}

} // namespace

// ---- functions --------------------------------------------------------------

extern "C" {

MESHC_EMULATION_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  cublasStatus_t status;
  if (isFailing("cublasLtCreate", "", status))
    return status;
  if (!handle)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (meshcEmulationCurrentBus() < 0)
    return refuse("cublasLtCreate", CUBLAS_STATUS_NOT_INITIALIZED,
                  "there is no current context");
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

MESHC_EMULATION_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(handle) == CUBLAS_STATUS_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_NOT_INITIALIZED;
}

MESHC_EMULATION_API const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define MESHC_NAME(name, number)                                               \
  case number:                                                                 \
    return #name;
    MESHC_BLASLT_STATUSES(MESHC_NAME)
#undef MESHC_NAME
  default:
    return "unknown cublas status";
  }
}

MESHC_EMULATION_API const char *cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

MESHC_EMULATION_API size_t cublasLtGetVersion(void) {
  return size_t(getEnvironment().blasLtVersion);
}

MESHC_EMULATION_API size_t cublasLtGetCudartVersion(void) { return 13000; }

MESHC_EMULATION_API cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                           uint64_t rows, uint64_t columns, int64_t leading) {
  if (!layout)
    return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t;
  (*layout)->type = type;
  (*layout)->rows = rows;
  (*layout)->columns = columns;
  (*layout)->leading = leading;
  return CUBLAS_STATUS_SUCCESS;
}

MESHC_EMULATION_API cublasStatus_t
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

MESHC_EMULATION_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
    const void *value, size_t bytes) {
  return setAttribute("cublasLtMatrixLayoutSetAttribute", layout, attribute,
                      value, bytes);
}

MESHC_EMULATION_API cublasStatus_t cublasLtMatrixLayoutGetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
    void *value, size_t bytes, size_t *written) {
  return getAttribute("cublasLtMatrixLayoutGetAttribute", layout, attribute,
                      value, bytes, written);
}

MESHC_EMULATION_API cublasStatus_t
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *descriptor,
                         cublasComputeType_t compute, cudaDataType_t scale) {
  if (!descriptor)
    return CUBLAS_STATUS_INVALID_VALUE;
  *descriptor = new cublasLtMatmulDescOpaque_t;
  (*descriptor)->compute = compute;
  (*descriptor)->scale = scale;
  return CUBLAS_STATUS_SUCCESS;
}

MESHC_EMULATION_API cublasStatus_t
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  return destroy(descriptor);
}

MESHC_EMULATION_API cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
    const void *value, size_t bytes) {
  return setAttribute("cublasLtMatmulDescSetAttribute", descriptor, attribute,
                      value, bytes);
}

MESHC_EMULATION_API cublasStatus_t cublasLtMatmulDescGetAttribute(
    cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
    void *value, size_t bytes, size_t *written) {
  return getAttribute("cublasLtMatmulDescGetAttribute", descriptor, attribute,
                      value, bytes, written);
}

MESHC_EMULATION_API cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  if (!preference)
    return CUBLAS_STATUS_INVALID_VALUE;
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

MESHC_EMULATION_API cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

MESHC_EMULATION_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  return setAttribute("cublasLtMatmulPreferenceSetAttribute", preference,
                      attribute, value, bytes);
}

MESHC_EMULATION_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t *results, int *returned) {
  constexpr const char *name = "cublasLtMatmulAlgoGetHeuristic";
  if (!isLive(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!isLive(preference) || requested < 1 || !results || !returned)
    return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  MatmulProblem problem;
  Checked refused = makeProblem(descriptor, a, b, c, d, problem);
  cublasStatus_t status;
  if (isFailing(name, refused ? "" : describe(problem), status))
    return status;
  if (refused)
    return refuse(name, refused->status, refused->why);
  const Environment &environment = getEnvironment();
  auto isAmong = [&](const std::vector<int> &epilogues) {
    return std::find(epilogues.begin(), epilogues.end(), problem.epilogue) !=
           epilogues.end();
  };
  if (isAmong(environment.missingEpilogues) ||
      (problem.batch > 1 && isAmong(environment.missingBatches)))
    return environment.missingStatus;
  // The fastest first, which needs the most memory.
  constexpr uint64_t needs[] = {uint64_t(4) << 20, uint64_t(1) << 20, 0};
  for (uint64_t bytes : needs) {
    if (bytes > preference->workspaceBytes || *returned == requested)
      continue;
    Algorithm algorithm;
    algorithm.workspaceBytes = bytes;
    algorithm.number = uint32_t(*returned);
    algorithm.roundsHalves =
        *returned == 0 && (preference->reductionMask &
                           CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0;
    const SplitSums &sums = environment.splitSums;
    if (*returned < sums.algorithms) {
      algorithm.id = lossyId;
      if (problem.a.columns >= sums.splits &&
          preference->reductionMask != CUBLASLT_REDUCTION_SCHEME_NONE)
        algorithm.splits = sums.splits;
    }
    // No algorithm reads more than 16 bytes at a time.
    for (int i = 0; i < 4; ++i)
      algorithm.alignments[i] = std::min(preference->alignments[i], 16u);
    cublasLtMatmulHeuristicResult_t &result = results[(*returned)++];
    std::memset(&result, 0, sizeof result);
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = bytes;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

MESHC_EMULATION_API cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *chosen,
    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t bytes,
    size_t *written) {
  constexpr const char *name = "cublasLtMatmulAlgoConfigGetAttribute";
  cublasStatus_t status;
  if (isFailing(name, "", status))
    return status;
  Algorithm algorithm;
  if (!chosen || !readAlgorithm(*chosen, algorithm))
    return refuse(name, CUBLAS_STATUS_INVALID_VALUE,
                  "the algorithm is not one of the heuristic's");
  int32_t number;
  switch (attribute) {
  case CUBLASLT_ALGO_CONFIG_ID:
    number = algorithm.id;
    break;
  case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
    number = algorithm.splits;
    break;
  default:
    return refuse(name, CUBLAS_STATUS_NOT_SUPPORTED,
                  "the emulation does not know attribute " +
                      std::to_string(attribute));
  }
  if (written)
    *written = sizeof number;
  if (bytes == 0 && written)
    return CUBLAS_STATUS_SUCCESS;
  if (!value || bytes != sizeof number)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, sizeof number);
  return CUBLAS_STATUS_SUCCESS;
}

MESHC_EMULATION_API cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
               const void *alpha, const void *aData, cublasLtMatrixLayout_t a,
               const void *bData, cublasLtMatrixLayout_t b, const void *beta,
               const void *cData, cublasLtMatrixLayout_t c, void *dData,
               cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *chosen,
               void *workspace, size_t workspaceBytes, cudaStream_t stream) {
  constexpr const char *name = "cublasLtMatmul";
  if (!isLive(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  auto problem = std::make_unique<MatmulProblem>();
  Checked refused = makeProblem(descriptor, a, b, c, d, *problem);
  if (!refused && (!alpha || !beta))
    refused = makeInvalid("a factor is missing");
  if (!refused) {
    auto readFactor = [&](const void *factor) {
      return loadElement(descriptor->scale,
                         static_cast<const unsigned char *>(factor), 0);
    };
    problem->alpha = readFactor(alpha);
    problem->beta = readFactor(beta);
  }
  Algorithm algorithm;
  const bool isKnown = !chosen || readAlgorithm(*chosen, algorithm);
  problem->algorithm = algorithm.number;
  problem->roundsHalves = algorithm.roundsHalves != 0;
  cublasStatus_t status;
  if (isFailing(name, refused ? "" : describe(*problem), status))
    return status;
  if (refused)
    return refuse(name, refused->status, refused->why);
  if (!isKnown)
    return refuse(name, CUBLAS_STATUS_INVALID_VALUE,
                  "the algorithm is not one of the heuristic's");
  if (algorithm.workspaceBytes > workspaceBytes)
    return refuse(name, CUBLAS_STATUS_INVALID_VALUE,
                  "the algorithm needs a workspace of " +
                      std::to_string(algorithm.workspaceBytes) + " bytes");
  // Source: release notes of CUDA 12.9 Update 1, cuBLAS: workspaces are
  // multiples of 256 bytes; earlier releases took 16.
  constexpr uintptr_t workspaceAlignment = 256;
  if (reinterpret_cast<uintptr_t>(workspace) % workspaceAlignment != 0 ||
      meshcEmulationCheckRange(reinterpret_cast<CUdeviceptr>(workspace),
                               algorithm.workspaceBytes))
    return refuse(name, CUBLAS_STATUS_INVALID_VALUE,
                  "the workspace is misaligned or outside of an allocation");
  auto point = [](MatrixOperand &matrix, const void *data) {
    matrix.data = static_cast<unsigned char *>(const_cast<void *>(data));
  };
  point(problem->a, aData);
  point(problem->b, bData);
  point(problem->c, cData);
  point(problem->d, dData);
  if (Checked refused = checkMemory(*problem, *descriptor, algorithm))
    return refuse(name, refused->status, refused->why);
  problem->bias = static_cast<unsigned char *>(descriptor->bias);
  problem->biasBatchStep = descriptor->biasBatchStep;
  problem->aux = static_cast<unsigned char *>(descriptor->aux);
  problem->auxLeading = descriptor->auxLeading;
  problem->auxBatchStep = descriptor->auxBatchStep;
  if (algorithm.id == lossyId && algorithm.splits > 1) {
    const int64_t left = problem->a.columns % algorithm.splits;
    problem->a.columns -= left;
    problem->b.rows -= left;
  }
  problem->workspace = static_cast<unsigned char *>(workspace);
  problem->workspaceBytes = algorithm.workspaceBytes;
  int captures = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!getEnvironment().matmulLaunchTimes.empty() &&
      cuStreamIsCapturing(stream, &captures) != CUDA_SUCCESS)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  problem->isInGraph = captures != CU_STREAM_CAPTURE_STATUS_NONE;
  meshcEmulationWork work;
  work.text = name;
  work.data = problem.release();
  work.waits = false;
  work.begin = [](void *data) { return data; };
  work.poll = [](void *data) {
    const auto &problem = *static_cast<MatmulProblem *>(data);
    computeMatmul(problem);
    meshcEmulationTakeTime(getTime(problem));
    return 0;
  };
  work.end = [](void *) {};
  work.destroy = [](void *data) { delete static_cast<MatmulProblem *>(data); };
  return meshcEmulationSubmit(stream, &work) == CUDA_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // extern "C"
