#ifndef MESHC_TESTS_EMULATION_CUDANAMES_H
#define MESHC_TESTS_EMULATION_CUDANAMES_H

/// The names of CudaAbi.h as lists, without its types: what a comparison with
/// NVIDIA's headers reads beside those.

/// The values: name, number.
#define MESHC_CUDA_VALUES(X)                                                   \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                              \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 2)                                    \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5)                                     \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8)                        \
  X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                                         \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12)                           \
  X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                        \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                              \
  X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                                        \
  X(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19)                               \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                                      \
  X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31)                                \
  X(CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 32)                                       \
  X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                        \
  X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                     \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                                 \
  X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)                           \
  X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                                     \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)                    \
  X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                \
  X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                \
  X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                                     \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                          \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                          \
  X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78)                       \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81)              \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 82)                  \
  X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)                                    \
  X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95)                                \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                 \
  X(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                           \
  X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)              \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106)                    \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                           \
  X(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 120)                                   \
  X(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 132)                              \
  X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                \
  X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                    \
  X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                                     \
  X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                     \
  X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                             \
  X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                                          \
  X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                                       \
  X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                        \
  X(CU_STREAM_DEFAULT, 0)                                                      \
  X(CU_STREAM_NON_BLOCKING, 1)                                                 \
  X(CU_EVENT_DEFAULT, 0)                                                       \
  X(CU_EVENT_BLOCKING_SYNC, 1)                                                 \
  X(CU_EVENT_DISABLE_TIMING, 2)                                                \
  X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                          \
  X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                    \
  X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                         \
  X(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, 8)                          \
  X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                          \
  X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                        \
  X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                                   \
  X(CU_MEMORYTYPE_HOST, 1)                                                     \
  X(CU_MEMORYTYPE_DEVICE, 2)                                                   \
  X(CU_MEMORYTYPE_UNIFIED, 4)                                                  \
  X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                           \
  X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                       \
  X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                    \
  X(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1)                               \
  X(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 2)                               \
  X(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)                        \
  X(CU_LAUNCH_ATTRIBUTE_IGNORE, 0)                                             \
  X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)                  \
  X(CU_LAUNCH_ATTRIBUTE_PRIORITY, 8)                                           \
  X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                            \
  X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)

/// The results that the emulation gives or that a test may ask it for: name,
/// number, text.
#define MESHC_CUDA_RESULTS(X)                                                  \
  X(CUDA_SUCCESS, 0, "no error")                                               \
  X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                           \
  X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                              \
  X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                     \
  X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                       \
  X(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")              \
  X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46,                                         \
    "CUDA-capable device(s) is/are busy "                                      \
    "or unavailable")                                                          \
  X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")           \
  X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                  \
  X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")           \
  X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                 \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209,                                         \
    "no kernel image is available for "                                        \
    "execution on the device")                                                 \
  X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")  \
  X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217,                                   \
    "peer access is not supported between these two devices")                  \
  X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")               \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222,                                   \
    "the provided PTX was compiled with an unsupported toolchain.")            \
  X(CUDA_ERROR_INVALID_SOURCE, 300, "device kernel image is invalid")          \
  X(CUDA_ERROR_OPERATING_SYSTEM, 304,                                          \
    "OS call failed or operation not "                                         \
    "supported on this OS")                                                    \
  X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                 \
  X(CUDA_ERROR_ILLEGAL_STATE, 401,                                             \
    "the operation cannot be performed in the "                                \
    "present state")                                                           \
  X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                       \
  X(CUDA_ERROR_NOT_READY, 600, "device not ready")                             \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, 700,                                           \
    "an illegal memory access was "                                            \
    "encountered")                                                             \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701,                                   \
    "too many resources requested for launch")                                 \
  X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated") \
  X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704,                               \
    "peer access is already enabled")                                          \
  X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705,                                   \
    "peer access has not been enabled")                                        \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")              \
  X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                            \
    "part or all of the requested memory range is already mapped")             \
  X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                                \
    "pointer does not correspond to a registered memory region")               \
  X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715,                                       \
    "an illegal instruction was "                                              \
    "encountered")                                                             \
  X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                  \
  X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")               \
  X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                  \
  X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                  \
  X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")            \
  X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803,                                    \
    "system has unsupported display driver / cuda driver combination")         \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900,                                \
    "operation not permitted when stream is capturing")                        \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901,                                \
    "operation failed due to a previous error during capture")                 \
  X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902,                                      \
    "operation would result in a merge of separate capture sequences")         \
  X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903,                                  \
    "capture was not ended in the same stream as it began")                    \
  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904,                                   \
    "capturing stream has unjoined work")                                      \
  X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905,                                  \
    "dependency created on uncaptured work in another stream")                 \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                   \
    "operation would make the legacy stream depend on a capturing blocking "   \
    "stream")                                                                  \
  X(CUDA_ERROR_CAPTURED_EVENT, 907,                                            \
    "operation not permitted on an event last recorded in a capturing stream") \
  X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

/// The functions: name, parameters. All return CUresult.
#define MESHC_CUDA_FUNCTIONS(X)                                                \
  X(cuInit, (unsigned flags))                                                  \
  X(cuDriverGetVersion, (int *version))                                        \
  X(cuGetErrorName, (CUresult result, const char **text))                      \
  X(cuGetErrorString, (CUresult result, const char **text))                    \
  X(cuGetProcAddress_v2, (const char *name, void **address, int version,       \
                          uint64_t flags, int *status))                        \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                             \
  X(cuDeviceGetCount, (int *count))                                            \
  X(cuDeviceGetName, (char *name, int size, CUdevice device))                  \
  X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                      \
  X(cuDeviceGetPCIBusId, (char *text, int size, CUdevice device))              \
  X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                    \
  X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))        \
  X(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))         \
  X(cuDeviceGetP2PAttribute,                                                   \
    (int *value, int attribute, CUdevice from, CUdevice to))                   \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))          \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                           \
  X(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags))          \
  X(cuDevicePrimaryCtxGetState,                                                \
    (CUdevice device, unsigned *flags, int *active))                           \
  X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))    \
  X(cuCtxCreate_v4,                                                            \
    (CUcontext * context, void *parameters, unsigned flags, CUdevice device))  \
  X(cuCtxDestroy_v2, (CUcontext context))                                      \
  X(cuCtxSetCurrent, (CUcontext context))                                      \
  X(cuCtxGetCurrent, (CUcontext * context))                                    \
  X(cuCtxPushCurrent_v2, (CUcontext context))                                  \
  X(cuCtxPopCurrent_v2, (CUcontext * context))                                 \
  X(cuCtxGetDevice, (CUdevice * device))                                       \
  X(cuCtxSynchronize, (void))                                                  \
  X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                  \
  X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                   \
  X(cuCtxDisablePeerAccess, (CUcontext peer))                                  \
  X(cuMemGetInfo_v2, (size_t * free, size_t * total))                          \
  X(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                      \
  X(cuMemFree_v2, (CUdeviceptr address))                                       \
  X(cuMemGetAddressRange_v2,                                                   \
    (CUdeviceptr * base, size_t * bytes, CUdeviceptr address))                 \
  X(cuMemAllocHost_v2, (void **address, size_t bytes))                         \
  X(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))            \
  X(cuMemFreeHost, (void *address))                                            \
  X(cuMemHostGetDevicePointer_v2,                                              \
    (CUdeviceptr * device, void *address, unsigned flags))                     \
  X(cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags))       \
  X(cuMemHostUnregister, (void *address))                                      \
  X(cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr address))  \
  X(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                \
  X(cuMemcpyAsync,                                                             \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))         \
  X(cuMemcpyPeer, (CUdeviceptr to, CUcontext toContext, CUdeviceptr from,      \
                   CUcontext fromContext, size_t bytes))                       \
  X(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext toContext, CUdeviceptr from, \
                        CUcontext fromContext, size_t bytes, CUstream stream)) \
  X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))         \
  X(cuMemcpyHtoDAsync_v2,                                                      \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))         \
  X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))               \
  X(cuMemcpyDtoHAsync_v2,                                                      \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))               \
  X(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))         \
  X(cuMemcpyDtoDAsync_v2,                                                      \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))         \
  X(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy))                                \
  X(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy))                       \
  X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))          \
  X(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count))        \
  X(cuMemsetD8Async,                                                           \
    (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))      \
  X(cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t count))            \
  X(cuMemsetD32Async,                                                          \
    (CUdeviceptr to, unsigned value, size_t count, CUstream stream))           \
  X(cuModuleLoadData, (CUmodule * module, const void *image))                  \
  X(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned count, \
                         int *options, void **values))                         \
  X(cuModuleUnload, (CUmodule module))                                         \
  X(cuModuleGetFunction,                                                       \
    (CUfunction * function, CUmodule module, const char *name))                \
  X(cuLibraryLoadData,                                                         \
    (CUlibrary * library, const void *code, int *jitOptions, void **jitValues, \
     unsigned numJitOptions, int *options, void **values,                      \
     unsigned numOptions))                                                     \
  X(cuLibraryUnload, (CUlibrary library))                                      \
  X(cuLibraryGetKernel,                                                        \
    (CUkernel * kernel, CUlibrary library, const char *name))                  \
  X(cuLibraryGetModule, (CUmodule * module, CUlibrary library))                \
  X(cuKernelGetFunction, (CUfunction * function, CUkernel kernel))             \
  X(cuFuncGetAttribute, (int *value, int attribute, CUfunction function))      \
  X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))       \
  X(cuKernelGetAttribute,                                                      \
    (int *value, int attribute, CUkernel kernel, CUdevice device))             \
  X(cuKernelSetAttribute,                                                      \
    (int attribute, int value, CUkernel kernel, CUdevice device))              \
  X(cuLaunchKernel,                                                            \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,      \
     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,  \
     CUstream stream, void **parameters, void **extra))                        \
  X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function,      \
                       void **parameters, void **extra))                       \
  X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data))        \
  X(cuStreamCreate, (CUstream * stream, unsigned flags))                       \
  X(cuStreamCreateWithPriority,                                                \
    (CUstream * stream, unsigned flags, int priority))                         \
  X(cuStreamDestroy_v2, (CUstream stream))                                     \
  X(cuStreamSynchronize, (CUstream stream))                                    \
  X(cuStreamQuery, (CUstream stream))                                          \
  X(cuStreamGetPriority, (CUstream stream, int *priority))                     \
  X(cuStreamGetFlags, (CUstream stream, unsigned *flags))                      \
  X(cuStreamGetCtx, (CUstream stream, CUcontext * context))                    \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))       \
  X(cuEventCreate, (CUevent * event, unsigned flags))                          \
  X(cuEventDestroy_v2, (CUevent event))                                        \
  X(cuEventRecord, (CUevent event, CUstream stream))                           \
  X(cuEventQuery, (CUevent event))                                             \
  X(cuEventSynchronize, (CUevent event))                                       \
  X(cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))     \
  X(cuEventElapsedTime_v2, (float *milliseconds, CUevent begin, CUevent end))  \
  X(cuStreamBeginCapture_v2, (CUstream stream, int mode))                      \
  X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                    \
  X(cuStreamIsCapturing, (CUstream stream, int *status))                       \
  X(cuThreadExchangeStreamCaptureMode, (int *mode))                            \
  X(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))     \
  X(cuGraphDestroy, (CUgraph graph))                                           \
  X(cuGraphInstantiateWithFlags,                                               \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))             \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                    \
  X(cuGraphUpload, (CUgraphExec exec, CUstream stream))                        \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))

#endif
