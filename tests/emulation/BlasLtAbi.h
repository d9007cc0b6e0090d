#ifndef MESHC_TESTS_EMULATION_BLASLTABI_H
#define MESHC_TESTS_EMULATION_BLASLTABI_H

/// The part of cuBLASLt's binary interface that the emulation provides, in the
/// manner of CudaAbi.h; names and numbers are those of cublasLt.h, CUDA 13.0.

#include "BlasLtNames.h"

#include <cstddef>
#include <cstdint>

extern "C" {

using cublasStatus_t = int;
using cublasComputeType_t = int;
using cudaDataType = int;
using cudaDataType_t = int;
using cublasLtMatrixLayoutAttribute_t = int;
using cublasLtMatmulDescAttributes_t = int;
using cublasLtMatmulPreferenceAttributes_t = int;
using cublasLtMatmulAlgoConfigAttributes_t = int;
using cudaStream_t = struct CUstream_st *;
using cublasLtHandle_t = struct cublasLtContext *;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t *;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t *;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t *;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

#define MESHC_DECLARATION(result, name, parameters) result name parameters;
MESHC_BLASLT_FUNCTIONS(MESHC_DECLARATION)
#undef MESHC_DECLARATION

} // extern "C"

namespace meshc::emulation {
#define MESHC_VALUE(name, number) inline constexpr int name = number;
MESHC_BLASLT_VALUES(MESHC_VALUE)
MESHC_BLASLT_STATUSES(MESHC_VALUE)
#undef MESHC_VALUE
} // namespace meshc::emulation

#endif
