#ifndef MESHC_TESTS_EMULATION_BLASLTNAMES_H
#define MESHC_TESTS_EMULATION_BLASLTNAMES_H

/// The names of BlasLtAbi.h as lists, without its types: what a comparison with
/// NVIDIA's headers reads beside those.

/// The values: name, number.
#define MESHC_BLASLT_VALUES(X)                                                 \
  X(CUDA_R_32F, 0)                                                             \
  X(CUDA_R_64F, 1)                                                             \
  X(CUDA_R_16F, 2)                                                             \
  X(CUDA_R_16BF, 14)                                                           \
  X(CUBLAS_OP_N, 0)                                                            \
  X(CUBLAS_OP_T, 1)                                                            \
  X(CUBLAS_OP_C, 2)                                                            \
  X(CUBLAS_COMPUTE_32F, 68)                                                    \
  X(CUBLAS_COMPUTE_32F_PEDANTIC, 69)                                           \
  X(CUBLAS_COMPUTE_64F, 70)                                                    \
  X(CUBLAS_COMPUTE_64F_PEDANTIC, 71)                                           \
  X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)                                          \
  X(CUBLASLT_ORDER_COL, 0)                                                     \
  X(CUBLASLT_ORDER_ROW, 1)                                                     \
  X(CUBLASLT_POINTER_MODE_HOST, 0)                                             \
  X(CUBLASLT_MATRIX_LAYOUT_TYPE, 0)                                            \
  X(CUBLASLT_MATRIX_LAYOUT_ORDER, 1)                                           \
  X(CUBLASLT_MATRIX_LAYOUT_ROWS, 2)                                            \
  X(CUBLASLT_MATRIX_LAYOUT_COLS, 3)                                            \
  X(CUBLASLT_MATRIX_LAYOUT_LD, 4)                                              \
  X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)                                     \
  X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                            \
  X(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 8)                                      \
  X(CUBLASLT_BATCH_MODE_STRIDED, 0)                                            \
  X(CUBLASLT_BATCH_MODE_POINTER_ARRAY, 1)                                      \
  X(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 0)                                      \
  X(CUBLASLT_MATMUL_DESC_SCALE_TYPE, 1)                                        \
  X(CUBLASLT_MATMUL_DESC_POINTER_MODE, 2)                                      \
  X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                                            \
  X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                                            \
  X(CUBLASLT_MATMUL_DESC_TRANSC, 5)                                            \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                          \
  X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)                                      \
  X(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 10)                                \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 11)                             \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 12)                                  \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 13)                        \
  X(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 15)                                  \
  X(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 26)                                   \
  X(CUBLASLT_EPILOGUE_DEFAULT, 1)                                              \
  X(CUBLASLT_EPILOGUE_RELU, 2)                                                 \
  X(CUBLASLT_EPILOGUE_RELU_AUX, 130)                                           \
  X(CUBLASLT_EPILOGUE_BIAS, 4)                                                 \
  X(CUBLASLT_EPILOGUE_RELU_BIAS, 6)                                            \
  X(CUBLASLT_EPILOGUE_RELU_AUX_BIAS, 134)                                      \
  X(CUBLASLT_EPILOGUE_DRELU, 136)                                              \
  X(CUBLASLT_EPILOGUE_DRELU_BGRAD, 152)                                        \
  X(CUBLASLT_EPILOGUE_GELU, 32)                                                \
  X(CUBLASLT_EPILOGUE_GELU_AUX, 160)                                           \
  X(CUBLASLT_EPILOGUE_GELU_BIAS, 36)                                           \
  X(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 164)                                      \
  X(CUBLASLT_EPILOGUE_DGELU, 192)                                              \
  X(CUBLASLT_EPILOGUE_DGELU_BGRAD, 208)                                        \
  X(CUBLASLT_EPILOGUE_BGRADA, 256)                                             \
  X(CUBLASLT_EPILOGUE_BGRADB, 512)                                             \
  X(CUBLASLT_ALGO_CONFIG_ID, 0)                                                \
  X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)                                        \
  X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)                                         \
  X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)                                 \
  X(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4)                                  \
  X(CUBLASLT_REDUCTION_SCHEME_MASK, 7)                                         \
  X(CUBLASLT_MATMUL_PREF_SEARCH_MODE, 0)                                       \
  X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                               \
  X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                             \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                             \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                             \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                             \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)                             \
  X(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 9)                                   \
  X(CUBLASLT_MATMUL_PREF_IMPL_MASK, 12)

/// The statuses: name, number.
#define MESHC_BLASLT_STATUSES(X)                                               \
  X(CUBLAS_STATUS_SUCCESS, 0)                                                  \
  X(CUBLAS_STATUS_NOT_INITIALIZED, 1)                                          \
  X(CUBLAS_STATUS_ALLOC_FAILED, 3)                                             \
  X(CUBLAS_STATUS_INVALID_VALUE, 7)                                            \
  X(CUBLAS_STATUS_ARCH_MISMATCH, 8)                                            \
  X(CUBLAS_STATUS_MAPPING_ERROR, 11)                                           \
  X(CUBLAS_STATUS_EXECUTION_FAILED, 13)                                        \
  X(CUBLAS_STATUS_INTERNAL_ERROR, 14)                                          \
  X(CUBLAS_STATUS_NOT_SUPPORTED, 15)                                           \
  X(CUBLAS_STATUS_LICENSE_ERROR, 16)

/// The functions: result, name, parameters.
#define MESHC_BLASLT_FUNCTIONS(X)                                              \
  X(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle))               \
  X(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle))                \
  X(const char *, cublasLtGetStatusName, (cublasStatus_t status))              \
  X(const char *, cublasLtGetStatusString, (cublasStatus_t status))            \
  X(size_t, cublasLtGetVersion, (void))                                        \
  X(size_t, cublasLtGetCudartVersion, (void))                                  \
  X(cublasStatus_t, cublasLtMatrixLayoutCreate,                                \
    (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows,        \
     uint64_t columns, int64_t leading))                                       \
  X(cublasStatus_t, cublasLtMatrixLayoutDestroy,                               \
    (cublasLtMatrixLayout_t layout))                                           \
  X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                          \
    (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, \
     const void *value, size_t bytes))                                         \
  X(cublasStatus_t, cublasLtMatrixLayoutGetAttribute,                          \
    (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, \
     void *value, size_t bytes, size_t *written))                              \
  X(cublasStatus_t, cublasLtMatmulDescCreate,                                  \
    (cublasLtMatmulDesc_t * descriptor, cublasComputeType_t compute,           \
     cudaDataType_t scale))                                                    \
  X(cublasStatus_t, cublasLtMatmulDescDestroy,                                 \
    (cublasLtMatmulDesc_t descriptor))                                         \
  X(cublasStatus_t, cublasLtMatmulDescSetAttribute,                            \
    (cublasLtMatmulDesc_t descriptor,                                          \
     cublasLtMatmulDescAttributes_t attribute, const void *value,              \
     size_t bytes))                                                            \
  X(cublasStatus_t, cublasLtMatmulDescGetAttribute,                            \
    (cublasLtMatmulDesc_t descriptor,                                          \
     cublasLtMatmulDescAttributes_t attribute, void *value, size_t bytes,      \
     size_t *written))                                                         \
  X(cublasStatus_t, cublasLtMatmulPreferenceCreate,                            \
    (cublasLtMatmulPreference_t * preference))                                 \
  X(cublasStatus_t, cublasLtMatmulPreferenceDestroy,                           \
    (cublasLtMatmulPreference_t preference))                                   \
  X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                      \
    (cublasLtMatmulPreference_t preference,                                    \
     cublasLtMatmulPreferenceAttributes_t attribute, const void *value,        \
     size_t bytes))                                                            \
  X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                            \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,                 \
     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,                       \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                       \
     cublasLtMatmulPreference_t preference, int requested,                     \
     cublasLtMatmulHeuristicResult_t *results, int *returned))                 \
  X(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,                      \
    (const cublasLtMatmulAlgo_t *algorithm,                                    \
     cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,              \
     size_t bytes, size_t *written))                                           \
  X(cublasStatus_t, cublasLtMatmul,                                            \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,                 \
     const void *alpha, const void *aData, cublasLtMatrixLayout_t a,           \
     const void *bData, cublasLtMatrixLayout_t b, const void *beta,            \
     const void *cData, cublasLtMatrixLayout_t c, void *dData,                 \
     cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm,          \
     void *workspace, size_t workspaceBytes, cudaStream_t stream))

#endif
