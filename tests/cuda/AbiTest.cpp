/// Our declarations of CUDA's libraries against NVIDIA's headers; built where
/// CMake finds them.

#include "runtime/cuda/library/CublasLt.h"
#include "runtime/cuda/library/Nccl.h"

#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <type_traits>

namespace ours = meshc::runtime::cuda;

namespace {

/// Whether two types are passed alike: pointers, or numbers of one size, or
/// structures of one size.
template <typename X, typename Y> constexpr bool isAlike() {
  if (sizeof(X) != sizeof(Y))
    return false;
  if (std::is_class_v<X> || std::is_class_v<Y>)
    return std::is_class_v<X> && std::is_class_v<Y>;
  // Device addresses are numbers to some and pointers to others.
  return std::is_floating_point_v<X> == std::is_floating_point_v<Y>;
}

template <typename Library, typename... X, typename R, typename... Y>
constexpr bool isSameInterface(const ours::LibraryFunction<Library, X...> *,
                               R (*)(Y...)) {
  if constexpr (sizeof...(X) != sizeof...(Y))
    return false;
  else
    return sizeof(R) == sizeof(int) && (isAlike<X, Y>() && ...);
}

#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  static_assert(isSameInterface(                                               \
      static_cast<const decltype(ours::Driver::NAME) *>(nullptr), &SYMBOL));
#include "runtime/cuda/library/DriverFunctions.def"
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  static_assert(isSameInterface(                                               \
      static_cast<const decltype(ours::CublasLt::NAME) *>(nullptr), &SYMBOL));
#include "runtime/cuda/library/CublasLtFunctions.def"
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  static_assert(isSameInterface(                                               \
      static_cast<const decltype(ours::Nccl::NAME) *>(nullptr), &SYMBOL));
#include "runtime/cuda/library/NcclFunctions.def"

TEST(AbiTest, numbers_of_the_driver) {
  EXPECT_EQ(ours::errorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ours::errorNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(ours::errorInvalidImage, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(ours::errorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(ours::errorInvalidPtx, CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(ours::errorUnsupportedPtx, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(ours::errorNotFound, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(ours::errorNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(ours::memoryTypeDevice, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(ours::graphUsesNodePriorities,
            unsigned(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  EXPECT_EQ(ours::streamNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(ours::eventDisableTiming, unsigned(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(ours::captureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(ours::attributeMultiprocessors,
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(ours::attributeArchitectureMajor,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(ours::attributeArchitectureMinor,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(ours::attributeMaxSharedBytes,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(ours::functionMaxDynamicSharedBytes,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
}

TEST(AbiTest, copies) {
  EXPECT_EQ(sizeof(ours::Copy2D), sizeof(CUDA_MEMCPY2D));
  EXPECT_EQ(offsetof(ours::Copy2D, fromMemoryType),
            offsetof(CUDA_MEMCPY2D, srcMemoryType));
  EXPECT_EQ(offsetof(ours::Copy2D, fromDevice),
            offsetof(CUDA_MEMCPY2D, srcDevice));
  EXPECT_EQ(offsetof(ours::Copy2D, fromPitch),
            offsetof(CUDA_MEMCPY2D, srcPitch));
  EXPECT_EQ(offsetof(ours::Copy2D, toMemoryType),
            offsetof(CUDA_MEMCPY2D, dstMemoryType));
  EXPECT_EQ(offsetof(ours::Copy2D, toDevice),
            offsetof(CUDA_MEMCPY2D, dstDevice));
  EXPECT_EQ(offsetof(ours::Copy2D, toPitch), offsetof(CUDA_MEMCPY2D, dstPitch));
  EXPECT_EQ(offsetof(ours::Copy2D, widthBytes),
            offsetof(CUDA_MEMCPY2D, WidthInBytes));
  EXPECT_EQ(offsetof(ours::Copy2D, height), offsetof(CUDA_MEMCPY2D, Height));
}

TEST(AbiTest, numbers_of_cublaslt) {
  EXPECT_EQ(ours::statusInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(ours::statusArchitectureMismatch, CUBLAS_STATUS_ARCH_MISMATCH);
  EXPECT_EQ(ours::statusNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(ours::typeF32, CUDA_R_32F);
  EXPECT_EQ(ours::typeF64, CUDA_R_64F);
  EXPECT_EQ(ours::typeF16, CUDA_R_16F);
  EXPECT_EQ(ours::typeBF16, CUDA_R_16BF);
  EXPECT_EQ(ours::computeF32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(ours::computeF64, CUBLAS_COMPUTE_64F);
  EXPECT_EQ(ours::operationNone, CUBLAS_OP_N);
  EXPECT_EQ(ours::operationTranspose, CUBLAS_OP_T);
  EXPECT_EQ(ours::descriptorTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(ours::descriptorTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(ours::descriptorEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(ours::descriptorBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(ours::descriptorBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(ours::layoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(ours::layoutBatchStride,
            CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(ours::layoutBatchMode, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE);
  EXPECT_EQ(ours::batchByAddress, uint32_t(CUBLASLT_BATCH_MODE_POINTER_ARRAY));
  EXPECT_EQ(ours::preferenceWorkspaceBytes,
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(ours::preferenceAlignmentA,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(ours::preferenceAlignmentA + 3,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(ours::preferenceReductions,
            CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(ours::reductionComputeType,
            uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  EXPECT_EQ(ours::reductionNone, uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE));
  EXPECT_EQ(ours::configId, CUBLASLT_ALGO_CONFIG_ID);
  EXPECT_EQ(ours::configSplits, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  EXPECT_EQ(ours::epilogueNone, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(ours::epilogueRelu, CUBLASLT_EPILOGUE_RELU);
  EXPECT_EQ(ours::epilogueBias, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(ours::epilogueGelu, CUBLASLT_EPILOGUE_GELU);
  EXPECT_EQ(ours::epilogueGelu | ours::epilogueBias,
            CUBLASLT_EPILOGUE_GELU_BIAS);
  EXPECT_EQ(ours::epilogueRelu | ours::epilogueAux | ours::epilogueBias,
            CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
  EXPECT_EQ(ours::epilogueGelu | ours::epilogueAux, CUBLASLT_EPILOGUE_GELU_AUX);
  EXPECT_EQ(ours::epilogueReluGradient | ours::epilogueAux,
            CUBLASLT_EPILOGUE_DRELU);
  EXPECT_EQ(ours::epilogueGeluGradient | ours::epilogueAux |
                ours::epilogueBiasGradient,
            CUBLASLT_EPILOGUE_DGELU_BGRAD);
  EXPECT_EQ(ours::epilogueBiasGradientA, CUBLASLT_EPILOGUE_BGRADA);
  EXPECT_EQ(ours::epilogueBiasGradientB, CUBLASLT_EPILOGUE_BGRADB);
  EXPECT_EQ(ours::descriptorAuxPointer,
            CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  EXPECT_EQ(ours::descriptorAuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  EXPECT_EQ(sizeof(ours::MatmulAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(sizeof(ours::MatmulHeuristic),
            sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(offsetof(ours::MatmulHeuristic, workspaceBytes),
            offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  EXPECT_EQ(offsetof(ours::MatmulHeuristic, status),
            offsetof(cublasLtMatmulHeuristicResult_t, state));
}

TEST(AbiTest, numbers_of_nccl) {
  EXPECT_EQ(ours::ncclUnhandledCudaError, int(::ncclUnhandledCudaError));
  EXPECT_EQ(ours::ncclRemoteError, int(::ncclRemoteError));
  EXPECT_EQ(ours::ncclInvalidUsage, int(::ncclInvalidUsage));
  EXPECT_EQ(ours::ncclInProgress, int(::ncclInProgress));
  EXPECT_EQ(ours::ncclSplitNoColor, NCCL_SPLIT_NOCOLOR);
  EXPECT_EQ(ours::ncclInt8, int(::ncclInt8));
  EXPECT_EQ(ours::ncclUint8, int(::ncclUint8));
  EXPECT_EQ(ours::ncclInt32, int(::ncclInt32));
  EXPECT_EQ(ours::ncclInt64, int(::ncclInt64));
  EXPECT_EQ(ours::ncclFloat16, int(::ncclFloat16));
  EXPECT_EQ(ours::ncclFloat32, int(::ncclFloat32));
  EXPECT_EQ(ours::ncclFloat64, int(::ncclFloat64));
  EXPECT_EQ(ours::ncclBfloat16, int(::ncclBfloat16));
  EXPECT_EQ(ours::ncclSum, int(::ncclSum));
  EXPECT_EQ(ours::ncclMax, int(::ncclMax));
  EXPECT_EQ(ours::ncclMin, int(::ncclMin));
  EXPECT_EQ(sizeof(ours::NcclUniqueId), sizeof(ncclUniqueId));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const ours::NcclConfig config;
  EXPECT_EQ(config.magic, theirs.magic);
  EXPECT_EQ(config.cgaClusterSize, theirs.cgaClusterSize);
  EXPECT_EQ(config.netName, theirs.netName);
  EXPECT_EQ(offsetof(ours::NcclConfig, blocking),
            offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(ours::NcclConfig, netName),
            offsetof(ncclConfig_t, netName));
  EXPECT_EQ(offsetof(ours::NcclConfig, splitShare),
            offsetof(ncclConfig_t, splitShare));
}

/// Whether a library is on this machine; a test without one is skipped.
template <typename T> bool isThere(const meshc::runtime::Result<T> &library) {
  return library || library.getError().code !=
                        meshc::runtime::ErrorCode::MissingGpuLibrary;
}

TEST(RealLibrariesTest, cublaslt_has_every_function) {
  const auto library = ours::CublasLt::get(nullptr);
  if (!isThere(library))
    GTEST_SKIP() << library.getError().message;
  ASSERT_TRUE(library) << library.getError().message;
  EXPECT_GE((*library)->version, 120000u);
  EXPECT_EQ(ours::CublasLt::describe("f", CUBLAS_STATUS_NOT_INITIALIZED)
                .message.find("f failed: "),
            0u);
}

TEST(RealLibrariesTest, nccl_makes_an_id_without_a_gpu) {
  const auto library = ours::Nccl::get();
  if (!isThere(library))
    GTEST_SKIP() << library.getError().message;
  ASSERT_TRUE(library) << library.getError().message;
  ours::NcclUniqueId id{};
  const meshc::runtime::Status made = (*library)->getUniqueId(&id);
  ASSERT_TRUE(made) << made.getError().message;
  EXPECT_TRUE(std::any_of(std::begin(id.bytes), std::end(id.bytes),
                          [](char byte) { return byte != 0; }));
  // Without a driver a communicator is an error in NCCL's words, no crash.
  ours::NcclComm comm = nullptr;
  ours::NcclConfig config;
  const meshc::runtime::Status opened =
      (*library)->commInitRank(&comm, 1, id, 0, &config);
  if (!ours::Driver::get()) {
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.getError().message.find("ncclCommInitRankConfig failed: "),
              0u)
        << opened.getError().message;
  } else if (comm) {
    (void)(*library)->commDestroy.call(comm);
  }
}

} // namespace
