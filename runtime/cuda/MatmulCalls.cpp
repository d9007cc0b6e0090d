#include "runtime/cuda/MatmulCalls.h"

#include "runtime/exec/Executable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

namespace {

/// A descriptor of the library, given back at the end.
template <typename Handle, auto Release> class Descriptor {
public:
  explicit Descriptor(const CublasLt &library) : library(library) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (handle)
      (library.*Release).call(handle);
  }

  Handle handle = nullptr;

private:
  const CublasLt &library;
};

using OwnedDescriptor =
    Descriptor<MatmulDescriptor, &CublasLt::descriptorDestroy>;
using OwnedLayout = Descriptor<MatrixLayout, &CublasLt::layoutDestroy>;
using OwnedPreference =
    Descriptor<MatmulPreference, &CublasLt::preferenceDestroy>;

} // namespace

namespace meshc::runtime::cuda {
class MatmulCall {
public:
  explicit MatmulCall(const CublasLt &library)
      : descriptor(library), left(library), right(library), result(library),
        preference(library) {}

  OwnedDescriptor descriptor;
  OwnedLayout left, right, result;
  OwnedPreference preference;
  std::vector<MatmulAlgorithm> candidates;
  MatmulAlgorithm algorithm{}; ///< the one in use
  // What it was prepared for first.
  MatmulPlan plan;
  MatmulPointers pointers;
  std::array<uint32_t, 6> alignments{};
};
} // namespace meshc::runtime::cuda

static int getType(exec::ElementType element) {
  switch (element) {
  case exec::ElementType::f32:
    return typeF32;
  case exec::ElementType::f64:
    return typeF64;
  case exec::ElementType::bf16:
    return typeBF16;
  case exec::ElementType::f16:
    return typeF16;
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    break;
  }
  __builtin_unreachable(); // planMatmul refuses them
}

static int getEpilogue(const MatmulPlan &plan) {
  int epilogue = 0;
  switch (plan.activation) {
  case exec::Activation::none:
    break;
  case exec::Activation::relu:
    epilogue = plan.isGradient ? epilogueReluGradient : epilogueRelu;
    break;
  case exec::Activation::gelu_tanh:
    epilogue = plan.isGradient ? epilogueGeluGradient : epilogueGelu;
    break;
  case exec::Activation::gelu_erf:
    __builtin_unreachable(); // planMatmul refuses it
  }
  if (plan.hasAux)
    epilogue |= epilogueAux;
  if (plan.hasBias)
    epilogue |= epilogueBias;
  switch (plan.rowSum) {
  case exec::ColumnSum::none:
    break;
  case exec::ColumnSum::c:
    epilogue |= epilogueBiasGradient;
    break;
  case exec::ColumnSum::a:
    epilogue |= epilogueBiasGradientA;
    break;
  case exec::ColumnSum::b:
    epilogue |= epilogueBiasGradientB;
    break;
  }
  return epilogue == 0 ? epilogueNone : epilogue;
}

static std::string count(int64_t number, const char *what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

/// What the library computes beside a product, for messages.
static std::string describeEpilogue(const MatmulPlan &plan) {
  std::vector<std::string> ends;
  if (plan.hasBias)
    ends.push_back("a bias");
  if (plan.activation != exec::Activation::none)
    ends.push_back(fmt::format("{}{}",
                               plan.isGradient ? "the gradient of " : "",
                               exec::EnumNameActivation(plan.activation)));
  if (plan.hasAux && !plan.isGradient)
    ends.push_back("what the gradient needs of it");
  if (plan.rowSum != exec::ColumnSum::none)
    ends.push_back("sums of columns");
  return ends.empty() ? "" : fmt::format(", with {}", fmt::join(ends, ", "));
}

/// What the library says where that is another word for having no algorithm.
static std::string describeAnswer(const CublasLt &library, int status) {
  if (status == 0 || status == statusNotSupported)
    return "";
  const char *text = library.getStatusString(status);
  return fmt::format(": {} (status {})", text ? text : "unknown status",
                     status);
}

/// What to do where the library has no algorithm for the product.
static std::string getHint(const MatmulPlan &plan) {
  if (!hasEnd(plan))
    return "";
  return fmt::format("it may have one for the product alone: compile the model "
                     "with --matmul-epilogues {}",
                     getEpilogue(plan) == epilogueBias ? "none"
                                                       : "bias, or none");
}

/// Whether an answer of the library's means that it has no algorithm. Releases
/// differ in what they call an end that they do not have: unsupported, invalid,
/// or of another architecture; so they may of batches by address. Of a product
/// alone the last two would be defects of ours. Source: the statuses of
/// cublasLtMatmul, cublasLt.h of CUDA 13.0.
static bool isUnsupported(int status, const MatmulPlan &plan) {
  return status == statusNotSupported ||
         ((hasEnd(plan) || plan.hasTables) &&
          (status == statusInvalidValue ||
           status == statusArchitectureMismatch));
}

static int64_t getNumTerms(const MatmulPlan &plan) {
  return plan.left.isTransposed ? plan.left.rows : plan.left.columns;
}

/// Whether the library reads a bias or writes sums in its place.
static bool hasVector(const MatmulPlan &plan) {
  return plan.hasBias || plan.rowSum != exec::ColumnSum::none;
}

/// The largest power of two, up to 256, of which `address` is a multiple.
static uint32_t getAlignment(DevicePointer address) {
  return uint32_t(std::min<DevicePointer>(256, address & -address));
}

MatmulCalls::MatmulCalls(const CublasLt &library, int maxCandidates)
    : library(library), maxCandidates(maxCandidates) {}

Result<std::unique_ptr<MatmulCalls>> MatmulCalls::create(const Driver &driver,
                                                         int candidates) {
  Result<const CublasLt *> library = CublasLt::get(&driver);
  if (!library)
    return library.getError();
  std::unique_ptr<MatmulCalls> calls(new MatmulCalls(**library, candidates));
  MESHC_RETURN_IF_ERROR((*library)->create(&calls->handle));
  return calls;
}

MatmulCalls::~MatmulCalls() {
  calls.clear();
  if (handle)
    library.destroy.call(handle);
}

Status MatmulCalls::setPointers(const MatmulPlan &plan, const MatmulCall &call,
                                const MatmulPointers &pointers) const {
  if (hasVector(plan))
    MESHC_RETURN_IF_ERROR(
        library.descriptorSet(call.descriptor.handle, descriptorBiasPointer,
                              &pointers.bias, sizeof(pointers.bias)));
  if (plan.hasAux)
    MESHC_RETURN_IF_ERROR(
        library.descriptorSet(call.descriptor.handle, descriptorAuxPointer,
                              &pointers.aux, sizeof(pointers.aux)));
  return Status::success();
}

/// Has a batch's matrices be found by their addresses.
/// Errors: UnsupportedOnGpu where the library is too old for that.
static Status setByAddress(const CublasLt &library, MatrixLayout layout) {
  const int status = library.layoutSet.call(
      layout, layoutBatchMode, &batchByAddress, sizeof(batchByAddress));
  if (status == statusInvalidValue || status == statusNotSupported)
    return Error{ErrorCode::UnsupportedOnGpu,
                 "cuBLASLt has no batches by address", ""};
  return status == 0 ? Status::success()
                     : CublasLt::describe(library.layoutSet.symbol, status);
}

Result<std::unique_ptr<MatmulCall>>
MatmulCalls::make(const Key &key, const MatmulPlan &plan,
                  const MatmulPointers &pointers) {
  auto call = std::make_unique<MatmulCall>(library);
  auto makeLayout = [&](const MatrixPlan &plan, OwnedLayout &layout) -> Status {
    MESHC_RETURN_IF_ERROR(library.layoutCreate(
        &layout.handle, getType(plan.element), uint64_t(plan.rows),
        uint64_t(plan.columns), plan.leading));
    if (key.batch == 1)
      return Status::success();
    const int32_t batch = int32_t(key.batch);
    MESHC_RETURN_IF_ERROR(library.layoutSet(layout.handle, layoutBatchCount,
                                            &batch, sizeof(batch)));
    if (key.hasTables)
      return setByAddress(library, layout.handle);
    return library.layoutSet(layout.handle, layoutBatchStride,
                             &plan.batchStride, sizeof(plan.batchStride));
  };
  MESHC_RETURN_IF_ERROR(makeLayout(key.left, call->left));
  MESHC_RETURN_IF_ERROR(makeLayout(key.right, call->right));
  MESHC_RETURN_IF_ERROR(makeLayout(key.result, call->result));

  // f64 is computed in f64, everything else in f32.
  const bool isDouble = key.left.element == exec::ElementType::f64;
  MESHC_RETURN_IF_ERROR(library.descriptorCreate(
      &call->descriptor.handle, isDouble ? computeF64 : computeF32,
      isDouble ? typeF64 : typeF32));
  auto set = [&](int attribute, int32_t value) {
    return library.descriptorSet(call->descriptor.handle, attribute, &value,
                                 sizeof(value));
  };
  MESHC_RETURN_IF_ERROR(set(descriptorTransposeA, key.left.isTransposed
                                                      ? operationTranspose
                                                      : operationNone));
  MESHC_RETURN_IF_ERROR(set(descriptorTransposeB, key.right.isTransposed
                                                      ? operationTranspose
                                                      : operationNone));
  MESHC_RETURN_IF_ERROR(set(descriptorEpilogue, getEpilogue(plan)));
  if (hasVector(plan))
    MESHC_RETURN_IF_ERROR(set(descriptorBiasType, getType(key.result.element)));
  if (plan.hasAux)
    MESHC_RETURN_IF_ERROR(
        library.descriptorSet(call->descriptor.handle, descriptorAuxLeading,
                              &plan.auxLeading, sizeof(plan.auxLeading)));
  // The heuristic looks at these addresses.
  MESHC_RETURN_IF_ERROR(setPointers(plan, *call, pointers));

  MESHC_RETURN_IF_ERROR(library.preferenceCreate(&call->preference.handle));
  MESHC_RETURN_IF_ERROR(library.preferenceSet(
      call->preference.handle, preferenceWorkspaceBytes, &matmulWorkspaceBytes,
      sizeof(matmulWorkspaceBytes)));
  // The fastest algorithm may otherwise add up parts of the terms in 16 bits.
  if (getElementBytes(key.result.element) == 2)
    MESHC_RETURN_IF_ERROR(library.preferenceSet(
        call->preference.handle, preferenceReductions, &reductionComputeType,
        sizeof(reductionComputeType)));
  const std::array<uint32_t, 4> alignments = {
      key.alignments[0], key.alignments[1],
      key.hasAddend ? key.alignments[5] : key.alignments[2], key.alignments[2]};
  for (size_t i = 0; i < alignments.size(); ++i)
    MESHC_RETURN_IF_ERROR(library.preferenceSet(
        call->preference.handle, preferenceAlignmentA + int(i), &alignments[i],
        sizeof(alignments[i])));
  call->plan = plan;
  call->pointers = pointers;
  call->alignments = key.alignments;
  Result<Answer> answer = rank(*call);
  if (!answer)
    return answer.getError();
  if (answer->algorithms.empty())
    return Error{
        ErrorCode::UnsupportedOnGpu,
        fmt::format(
            "cuBLASLt has no algorithm{} for {} of {} with {}, {} and {}",
            answer->losesTerms ? " that adds up all terms" : "",
            key.batch == 1 ? "a product"
                           : fmt::format("{} products", key.batch),
            getName(key.left.element), count(key.result.columns, "row"),
            count(key.result.rows, "column"),
            count(getNumTerms(plan), "term")) +
            describeEpilogue(plan) + describeAnswer(library, answer->status),
        getHint(plan)};
  call->candidates = std::move(answer->algorithms);
  call->algorithm = call->candidates.front();
  return call;
}

/// Whether an algorithm may leave terms of a product's sums out. Algorithm 66
/// does where it splits sums into parts that are not all of one length. The
/// library tells no length of what it reads at a time, on which that depends
/// too, so all such splits count.
/// Source: release notes of CUDA 13.4, known issue 6580689 of cuBLAS, on
/// compute capabilities 9.0, 10.x and 11.x since 12.6.3; no release is known
/// that does better.
Result<bool> MatmulCalls::losesTerms(const MatmulAlgorithm &algorithm,
                                     int64_t terms) const {
  constexpr int32_t lossyId = 66;
  constexpr size_t firstLossyVersion = 120603;
  if (library.version < firstLossyVersion)
    return false;
  int32_t id = 0;
  int32_t splits = 0;
  size_t written = 0;
  MESHC_RETURN_IF_ERROR(
      library.getConfig(&algorithm, configId, &id, sizeof(id), &written));
  if (id != lossyId)
    return false;
  MESHC_RETURN_IF_ERROR(library.getConfig(&algorithm, configSplits, &splits,
                                          sizeof(splits), &written));
  return splits > 1 && terms % splits != 0;
}

Result<MatmulCalls::Answer> MatmulCalls::ask(MatmulCall &call) const {
  std::vector<MatmulHeuristic> heuristics(static_cast<size_t>(maxCandidates));
  int found = 0;
  Answer answer;
  answer.status = library.getHeuristic.call(
      handle, call.descriptor.handle, call.left.handle, call.right.handle,
      call.result.handle, call.result.handle, call.preference.handle,
      maxCandidates, heuristics.data(), &found);
  if (isUnsupported(answer.status, call.plan))
    return answer;
  if (answer.status != 0)
    return CublasLt::describe(library.getHeuristic.symbol, answer.status);
  for (int i = 0; i < found; ++i) {
    const MatmulHeuristic &heuristic = heuristics[size_t(i)];
    if (heuristic.status != 0)
      continue;
    Result<bool> loses =
        losesTerms(heuristic.algorithm, getNumTerms(call.plan));
    if (!loses)
      return loses.getError();
    if (*loses)
      answer.losesTerms = true;
    else
      answer.algorithms.push_back(heuristic.algorithm);
  }
  return answer;
}

Result<MatmulCalls::Answer> MatmulCalls::rank(MatmulCall &call) const {
  Result<Answer> answer = ask(call);
  if (!answer || !answer->algorithms.empty() || !answer->losesTerms)
    return answer;
  // What splits no sums is slower, and right.
  MESHC_RETURN_IF_ERROR(
      library.preferenceSet(call.preference.handle, preferenceReductions,
                            &reductionNone, sizeof(reductionNone)));
  answer = ask(call);
  if (answer)
    answer->losesTerms = true;
  return answer;
}

/// The factors and the result of a product as cuBLASLt orders them.
static std::array<DevicePointer, 3> getMatrices(const MatmulPlan &plan,
                                                const MatmulPointers &pointers,
                                                const MatmulOffsets &offsets) {
  const int64_t factorBytes = getElementBytes(plan.left.element);
  const int64_t resultBytes = getElementBytes(plan.result.element);
  DevicePointer a = pointers.a + DevicePointer(offsets.a * factorBytes);
  DevicePointer b = pointers.b + DevicePointer(offsets.b * factorBytes);
  if (plan.leftIsB)
    std::swap(a, b);
  return {a, b, pointers.c + DevicePointer(offsets.c * resultBytes)};
}

/// The matrix that is added: the result itself, where that accumulates.
static DevicePointer getAddend(const MatmulPlan &plan,
                               const MatmulPointers &pointers,
                               const MatmulOffsets &offsets) {
  const DevicePointer start = plan.hasAddend ? pointers.addend : pointers.c;
  return start +
         DevicePointer(offsets.c * getElementBytes(plan.result.element));
}

std::vector<uint64_t> MatmulCalls::makeTables(const MatmulPlan &plan,
                                              const MatmulPointers &pointers) {
  const DevicePointer left = plan.leftIsB ? pointers.b : pointers.a;
  const DevicePointer right = plan.leftIsB ? pointers.a : pointers.b;
  return cuda::makeTables(plan, left, right, pointers.c, pointers.addend);
}

Result<MatmulCall *> MatmulCalls::prepare(MatmulPlan &plan,
                                          const MatmulPointers &pointers) {
  if (plan.hasTables && !pointers.tables)
    plan.hasTables = false;
  Result<MatmulCall *> call = find(plan, pointers);
  if (!call && call.getError().code == ErrorCode::UnsupportedOnGpu &&
      plan.hasTables) {
    plan.hasTables = false;
    ++splitTables;
    call = find(plan, pointers);
  }
  if (call || call.getError().code != ErrorCode::UnsupportedOnGpu ||
      plan.batch == 1 || !hasEnd(plan))
    return call;
  // Source: release notes of CUDA 12.5 Update 1, cuBLAS: a bias with strided
  // batches may be unsupported on Hopper.
  MatmulPlan split = splitBatch(plan);
  Result<MatmulCall *> single = find(split, pointers);
  if (!single)
    return single.getError().code == ErrorCode::UnsupportedOnGpu ? call
                                                                 : single;
  plan = std::move(split);
  ++splitBatches;
  return single;
}

Result<MatmulCall *> MatmulCalls::find(const MatmulPlan &plan,
                                       const MatmulPointers &pointers) {
  Key key{plan.left,
          plan.right,
          plan.result,
          countProducts(plan),
          plan.hasTables,
          plan.accumulate,
          plan.hasBias,
          plan.hasAddend,
          plan.activation,
          plan.hasAux,
          plan.isGradient,
          plan.rowSum,
          {256, 256, 256, 256, 256, 256}};
  for (const MatmulOffsets &offsets : plan.calls) {
    const std::array<DevicePointer, 3> matrices =
        getMatrices(plan, pointers, offsets);
    for (size_t i = 0; i < matrices.size(); ++i)
      key.alignments[i] =
          std::min(key.alignments[i], getAlignment(matrices[i]));
    if (plan.hasAddend)
      key.alignments[5] = std::min(
          key.alignments[5], getAlignment(getAddend(plan, pointers, offsets)));
  }
  // Of those that are not where a call begins, only tables tell.
  if (plan.hasTables) {
    MatrixPlan *const matrices[] = {&key.left, &key.right, &key.result};
    for (size_t i = 0; i < std::size(matrices); ++i) {
      const auto step = DevicePointer(matrices[i]->batchStride *
                                      getElementBytes(matrices[i]->element));
      if (step != 0 && plan.batch > 1)
        key.alignments[i] = std::min(key.alignments[i], getAlignment(step));
      matrices[i]->batchStride = 0;
    }
    if (plan.hasAddend)
      key.alignments[5] = std::min(key.alignments[5], key.alignments[2]);
  }
  if (hasVector(plan))
    key.alignments[3] = getAlignment(pointers.bias);
  if (plan.hasAux)
    key.alignments[4] = getAlignment(pointers.aux);
  auto [entry, isAbsent] = calls.try_emplace(key);
  if (isAbsent) {
    Result<std::unique_ptr<MatmulCall>> made = make(key, plan, pointers);
    // What has no tables is not asked for again; other errors are the end.
    if (!made && !plan.hasTables)
      calls.erase(entry);
    if (!made)
      return made.getError();
    entry->second = std::move(*made);
  }
  if (!entry->second)
    return Error{ErrorCode::UnsupportedOnGpu,
                 "cuBLASLt has no algorithm for a batch by address", ""};
  return entry->second.get();
}

Status MatmulCalls::runOnce(const MatmulPlan &plan, const MatmulCall &call,
                            const MatmulPointers &pointers,
                            const MatmulOffsets &offsets,
                            const MatmulAlgorithm &algorithm,
                            DevicePointer workspace, Stream stream) const {
  // Factors of the sums: of the product and of what is there.
  const bool adds = plan.accumulate || plan.hasAddend;
  const double doubles[] = {1, adds ? 1.0 : 0.0};
  const float floats[] = {1, adds ? 1.0f : 0.0f};
  const bool isDouble = plan.left.element == exec::ElementType::f64;
  const void *alpha = isDouble ? static_cast<const void *>(&doubles[0])
                               : static_cast<const void *>(&floats[0]);
  const void *beta = isDouble ? static_cast<const void *>(&doubles[1])
                              : static_cast<const void *>(&floats[1]);
  auto toPointer = [](DevicePointer address) {
    return reinterpret_cast<void *>(address);
  };
  std::array<DevicePointer, 3> matrices = getMatrices(plan, pointers, offsets);
  DevicePointer addend = getAddend(plan, pointers, offsets);
  if (plan.hasTables) {
    const uint64_t bytes = uint64_t(countProducts(plan)) * sizeof(uint64_t);
    for (size_t i = 0; i < matrices.size(); ++i)
      matrices[i] = pointers.tables + i * bytes;
    addend = plan.hasAddend ? pointers.tables + 3 * bytes : matrices[2];
  }
  const auto [left, right, result] = matrices;
  return library.matmul(handle, call.descriptor.handle, alpha, toPointer(left),
                        call.left.handle, toPointer(right), call.right.handle,
                        beta, toPointer(addend), call.result.handle,
                        toPointer(result), call.result.handle, &algorithm,
                        toPointer(workspace), matmulWorkspaceBytes, stream);
}

Status MatmulCalls::run(const MatmulPlan &plan, MatmulCall &call,
                        const MatmulPointers &pointers, DevicePointer workspace,
                        Stream stream) const {
  MESHC_RETURN_IF_ERROR(setPointers(plan, call, pointers));
  for (int64_t i = 0; i < countCalls(plan); ++i)
    MESHC_RETURN_IF_ERROR(runOnce(plan, call, pointers, plan.calls[size_t(i)],
                                  call.algorithm, workspace, stream));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

std::vector<MatmulCall *> MatmulCalls::getCalls() {
  std::vector<MatmulCall *> all;
  for (const auto &[key, call] : calls)
    if (call)
      all.push_back(call.get());
  return all;
}

static std::string describe(const MatrixPlan &matrix) {
  return fmt::format("{} {}x{}{} by {}+{}", getName(matrix.element),
                     matrix.rows, matrix.columns,
                     matrix.isTransposed ? "'" : "", matrix.leading,
                     matrix.batchStride);
}

std::string MatmulCalls::describe(const MatmulCall &call) const {
  const MatmulPlan &plan = call.plan;
  return fmt::format(
      "cuBLASLt {}, {} candidates, {} bytes | {}, {}, {}, batch {}{}, epilogue "
      "{}, adds {}, aligned {}",
      getVersionText(), maxCandidates, matmulWorkspaceBytes,
      ::describe(plan.left), ::describe(plan.right), ::describe(plan.result),
      countProducts(plan), plan.hasTables ? " by address" : "",
      getEpilogue(plan), plan.accumulate || plan.hasAddend,
      fmt::join(call.alignments, " "));
}

std::string MatmulCalls::getVersionText() const {
  return getCublasLtVersionText(library.version);
}

size_t MatmulCalls::getNumCandidates(const MatmulCall &call) const {
  return call.candidates.size();
}

void MatmulCalls::choose(MatmulCall &call, size_t candidate) {
  call.algorithm = call.candidates[candidate];
}

Status MatmulCalls::runCandidate(const MatmulCall &call, size_t candidate,
                                 DevicePointer workspace, Stream stream) const {
  MESHC_RETURN_IF_ERROR(setPointers(call.plan, call, call.pointers));
  return runOnce(call.plan, call, call.pointers, call.plan.calls.front(),
                 call.candidates[candidate], workspace, stream);
}
