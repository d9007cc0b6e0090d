#ifndef MESHC_RUNTIME_CUDA_LIBRARY_CUBLASLT_H
#define MESHC_RUNTIME_CUDA_LIBRARY_CUBLASLT_H

/// cuBLASLt, the library of matrix products, found at run time. Types and
/// numbers are those of its binary interface.

#include "runtime/cuda/library/Driver.h"

namespace meshc::runtime::cuda {

using CublasLtHandle = struct CublasLtObject *;
using MatmulDescriptor = struct MatmulDescriptorObject *;
using MatrixLayout = struct MatrixLayoutObject *;
using MatmulPreference = struct MatmulPreferenceObject *;

/// cublasLtMatmulAlgo_t.
struct MatmulAlgorithm {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct MatmulHeuristic {
  MatmulAlgorithm algorithm;
  size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};

// Source: library_types.h, cublas_api.h and cublasLt.h of CUDA 13.0.
inline constexpr int statusInvalidValue = 7;
inline constexpr int statusArchitectureMismatch = 8;
inline constexpr int statusNotSupported = 15;
inline constexpr int typeF32 = 0;
inline constexpr int typeF64 = 1;
inline constexpr int typeF16 = 2;
inline constexpr int typeBF16 = 14;
inline constexpr int computeF32 = 68; ///< not TF32
inline constexpr int computeF64 = 70;
inline constexpr int operationNone = 0;
inline constexpr int operationTranspose = 1;
inline constexpr int descriptorTransposeA = 3;
inline constexpr int descriptorTransposeB = 4;
inline constexpr int descriptorEpilogue = 7;
inline constexpr int descriptorBiasPointer = 8;
inline constexpr int descriptorAuxPointer = 11;
inline constexpr int descriptorAuxLeading = 12;
inline constexpr int descriptorBiasType = 26;
inline constexpr int layoutBatchCount = 5;
inline constexpr int layoutBatchStride = 6;
inline constexpr int layoutBatchMode = 8; ///< older releases may not know it
inline constexpr uint32_t batchByAddress = 1;
inline constexpr int preferenceWorkspaceBytes = 1;
inline constexpr int preferenceReductions = 3;
inline constexpr int preferenceAlignmentA = 5; ///< then B, C, D
inline constexpr int configId = 0;
inline constexpr int configSplits = 2;
/// Nothing is added up from parts: no algorithm splits sums.
inline constexpr uint32_t reductionNone = 0;
/// Parts of the terms are added up in the type that products are computed in.
inline constexpr uint32_t reductionComputeType = 2;
inline constexpr int epilogueNone = 1;
inline constexpr int epilogueRelu = 2;
inline constexpr int epilogueBias = 4;
inline constexpr int epilogueReluGradient = 8;
inline constexpr int epilogueBiasGradient = 16;
inline constexpr int epilogueGelu = 32; ///< in the form with tanh
inline constexpr int epilogueGeluGradient = 64;
inline constexpr int epilogueAux = 128; ///< of activations and gradients
inline constexpr int epilogueBiasGradientA = 256;
inline constexpr int epilogueBiasGradientB = 512;

/// The first whose interface has all of the numbers above and whose activations
/// and gradients take f32. Source: release notes of cuBLAS, CUDA 11.8 and 12.0.
inline constexpr size_t minCublasLtVersion = 120000;

struct CublasLt {
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  LibraryFunction<CublasLt, __VA_ARGS__> NAME{#SYMBOL};
#include "runtime/cuda/library/CublasLtFunctions.def"

  const char *(*getStatusString)(int) = nullptr;
  std::string path;
  size_t version = 0; ///< 130100 is 13.1.0, 120803 is 12.8.3

  /// The latest that runs on `driver`; without one, the latest that is there.
  /// Loaded by the first call.
  /// Errors: MissingGpuLibrary, or OldGpuLibrary where what is there is too
  /// old, or too new for the driver.
  static Result<const CublasLt *> get(const Driver *driver);
  static Error describe(const char *symbol, int status);

private:
  static Result<const CublasLt *> load(const Driver *driver);
};

/// "13.1.0" of 130100.
std::string getCublasLtVersionText(size_t version);

} // namespace meshc::runtime::cuda

#endif
