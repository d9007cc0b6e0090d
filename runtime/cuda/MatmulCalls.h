#ifndef MESHC_RUNTIME_CUDA_MATMULCALLS_H
#define MESHC_RUNTIME_CUDA_MATMULCALLS_H

#include "runtime/cuda/library/CublasLt.h"
#include "runtime/plans/MatmulPlan.h"

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace meshc::runtime::cuda {

/// Addresses of a product's operands.
struct MatmulPointers {
  DevicePointer a = 0;
  DevicePointer b = 0;
  DevicePointer c = 0;
  DevicePointer bias = 0;   ///< or column sums; 0 where the plan has neither
  DevicePointer aux = 0;    ///< 0 where the plan has none
  DevicePointer addend = 0; ///< 0 where the plan has none
  /// Room for getTableBytes() of the plan, and where its tables are when it
  /// runs; 0: a plan has none.
  DevicePointer tables = 0;
};

/// Algorithms that cuBLASLt is asked for if nothing else is said, the one it
/// holds for the fastest first.
inline constexpr int maxMatmulCandidates = 8;

/// A product with the algorithms that cuBLASLt has for it.
class MatmulCall;

/// The products of an executable on one GPU. cuBLASLt is asked once for every
/// shape and alignment of operands.
class MatmulCalls {
public:
  /// Asks for at most `candidates` algorithms of each product.
  /// Errors: see CublasLt::get.
  static Result<std::unique_ptr<MatmulCalls>>
  create(const Driver &driver, int candidates = maxMatmulCandidates);
  ~MatmulCalls();

  /// Prepares a product for operands that are aligned as these are. Where the
  /// library has no algorithm for a batch with an end, but one for its products
  /// alone, `plan` becomes a call for each of them; where it has none for
  /// products by address, or there is no room for tables, a call for each
  /// batch. Errors: UnsupportedOnGpu where the library has no algorithm for it.
  Result<MatmulCall *> prepare(MatmulPlan &plan,
                               const MatmulPointers &pointers);
  /// Enqueues a product; `workspace` has matmulWorkspaceBytes.
  Status run(const MatmulPlan &plan, MatmulCall &call,
             const MatmulPointers &pointers, DevicePointer workspace,
             Stream stream) const;

  /// "13.1.0", of cuBLASLt.
  std::string getVersionText() const;
  /// What `plan` reads at `pointers.tables` when it runs.
  static std::vector<uint64_t> makeTables(const MatmulPlan &plan,
                                          const MatmulPointers &pointers);
  /// Times that prepare() made single calls of a batch.
  int64_t getNumSplitBatches() const { return splitBatches; }
  /// Times that prepare() made calls of batches by address.
  int64_t getNumSplitTables() const { return splitTables; }
  /// The products that were prepared, in an order that depends on them alone.
  std::vector<MatmulCall *> getCalls();
  /// What an algorithm depends on but for the GPU: the library's version,
  /// types, sizes, end and alignments; one line.
  std::string describe(const MatmulCall &call) const;
  size_t getNumCandidates(const MatmulCall &call) const;
  /// Makes a product use one of the algorithms that it was prepared with; it
  /// uses the first until then.
  static void choose(MatmulCall &call, size_t candidate);
  /// Enqueues a part of the product, on the operands it was prepared for, by
  /// one of its algorithms.
  Status runCandidate(const MatmulCall &call, size_t candidate,
                      DevicePointer workspace, Stream stream) const;

private:
  /// What an algorithm depends on.
  struct Key {
    MatrixPlan left, right, result;
    int64_t batch;
    bool hasTables;
    bool accumulate, hasBias, hasAddend;
    exec::Activation activation;
    bool hasAux, isGradient;
    exec::ColumnSum rowSum;
    /// Of left, right, result, bias, aux and addend (bytes).
    std::array<uint32_t, 6> alignments;

    auto operator<=>(const Key &) const = default;
  };

  MatmulCalls(const CublasLt &library, int maxCandidates);

  Result<MatmulCall *> find(const MatmulPlan &plan,
                            const MatmulPointers &pointers);
  Result<std::unique_ptr<MatmulCall>>
  make(const Key &key, const MatmulPlan &plan, const MatmulPointers &pointers);
  Status runOnce(const MatmulPlan &plan, const MatmulCall &call,
                 const MatmulPointers &pointers, const MatmulOffsets &offsets,
                 const MatmulAlgorithm &algorithm, DevicePointer workspace,
                 Stream stream) const;
  Status setPointers(const MatmulPlan &plan, const MatmulCall &call,
                     const MatmulPointers &pointers) const;
  /// What the library has for a product.
  struct Answer {
    int status = 0; ///< other than 0: nothing, in these words of the library's
    std::vector<MatmulAlgorithm> algorithms; ///< its favourite first
    bool losesTerms = false; ///< some were left out that compute it wrongly
  };
  /// Asks until there are algorithms that compute a product.
  Result<Answer> rank(MatmulCall &call) const;
  Result<Answer> ask(MatmulCall &call) const;
  Result<bool> losesTerms(const MatmulAlgorithm &algorithm,
                          int64_t terms) const;

  const CublasLt &library;
  const int maxCandidates;
  CublasLtHandle handle = nullptr;
  int64_t splitBatches = 0;
  int64_t splitTables = 0;
  std::map<Key, std::unique_ptr<MatmulCall>> calls;
};

} // namespace meshc::runtime::cuda

#endif
