#ifndef MESHC_RUNTIME_CUDA_MATMULCALLS_H
#define MESHC_RUNTIME_CUDA_MATMULCALLS_H

#include "runtime/Cuda/CublasLt.h"
#include "runtime/Cuda/MatmulPlan.h"

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <vector>

namespace meshc::runtime::cuda {

/// Memory that cuBLASLt may use while it computes a product, for each device.
/// Source: cuBLAS 13.0 documentation, 2.1.7: 32 MiB on Hopper.
inline constexpr uint64_t matmulWorkspaceBytes = uint64_t(32) << 20;

/// Addresses of a product's operands.
struct MatmulPointers {
  DevicePointer a = 0;
  DevicePointer b = 0;
  DevicePointer c = 0;
  DevicePointer bias = 0; ///< 0 where the plan has none
};

/// A product with the algorithm that cuBLASLt chose for it.
class MatmulCall;

/// The products of an executable on one GPU. cuBLASLt is asked once for every
/// shape and alignment of operands.
class MatmulCalls {
public:
  /// Errors: see CublasLt::get.
  static Result<std::unique_ptr<MatmulCalls>> create(const Driver &driver);
  ~MatmulCalls();

  /// Prepares a product for operands that are aligned as these are.
  /// Errors: UnsupportedOnGpu where the library has no algorithm for it.
  Result<MatmulCall *> prepare(const MatmulPlan &plan,
                               const MatmulPointers &pointers);
  /// Enqueues a product; `workspace` has matmulWorkspaceBytes.
  Status run(const MatmulPlan &plan, MatmulCall &call,
             const MatmulPointers &pointers, DevicePointer workspace,
             Stream stream) const;

  /// The algorithms that the library offers for a prepared product, at most
  /// `count`: its favourite first, which is the call's own.
  Result<std::vector<MatmulAlgorithm>> rank(MatmulCall &call, int count) const;
  /// Has a call use another of them.
  static void choose(MatmulCall &call, const MatmulAlgorithm &algorithm);

private:
  /// What an algorithm depends on.
  struct Key {
    MatrixPlan left, right, result;
    int64_t batch;
    bool accumulate, hasBias;
    exec::ElementType biasElement;
    exec::Activation activation;
    /// Of left, right, result and bias (bytes).
    std::array<uint32_t, 4> alignments;

    auto operator<=>(const Key &) const = default;
  };

  explicit MatmulCalls(const CublasLt &library);

  Result<std::unique_ptr<MatmulCall>> make(const Key &key,
                                           const MatmulPointers &pointers);

  const CublasLt &library;
  CublasLtHandle handle = nullptr;
  std::map<Key, std::unique_ptr<MatmulCall>> calls;
};

} // namespace meshc::runtime::cuda

#endif
