#ifndef MESHC_TESTS_EMULATION_NCCLNAMES_H
#define MESHC_TESTS_EMULATION_NCCLNAMES_H

/// The names of NcclAbi.h as lists, without its types: what a comparison with
/// NVIDIA's header reads beside those.

/// The values: name, number.
#define MESHC_NCCL_VALUES(X)                                                   \
  X(ncclSuccess, 0)                                                            \
  X(ncclUnhandledCudaError, 1)                                                 \
  X(ncclSystemError, 2)                                                        \
  X(ncclInternalError, 3)                                                      \
  X(ncclInvalidArgument, 4)                                                    \
  X(ncclInvalidUsage, 5)                                                       \
  X(ncclRemoteError, 6)                                                        \
  X(ncclInProgress, 7)                                                         \
  X(ncclSum, 0)                                                                \
  X(ncclProd, 1)                                                               \
  X(ncclMax, 2)                                                                \
  X(ncclMin, 3)                                                                \
  X(ncclAvg, 4)                                                                \
  X(ncclInt8, 0)                                                               \
  X(ncclUint8, 1)                                                              \
  X(ncclInt32, 2)                                                              \
  X(ncclUint32, 3)                                                             \
  X(ncclInt64, 4)                                                              \
  X(ncclUint64, 5)                                                             \
  X(ncclFloat16, 6)                                                            \
  X(ncclFloat32, 7)                                                            \
  X(ncclFloat64, 8)                                                            \
  X(ncclBfloat16, 9)

/// The functions: result, name, parameters.
#define MESHC_NCCL_FUNCTIONS(X)                                                \
  X(ncclResult_t, ncclGetVersion, (int *version))                              \
  X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))                        \
  X(const char *, ncclGetErrorString, (ncclResult_t result))                   \
  X(const char *, ncclGetLastError, (ncclComm_t comm))                         \
  X(ncclResult_t, ncclMemAlloc, (void **address, size_t bytes))                \
  X(ncclResult_t, ncclMemFree, (void *address))                                \
  X(ncclResult_t, ncclCommInitRank,                                            \
    (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))                 \
  X(ncclResult_t, ncclCommInitRankConfig,                                      \
    (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank,                  \
     ncclConfig_t *config))                                                    \
  X(ncclResult_t, ncclCommSplit,                                               \
    (ncclComm_t comm, int color, int key, ncclComm_t *split,                   \
     ncclConfig_t *config))                                                    \
  X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))                         \
  X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))                          \
  X(ncclResult_t, ncclCommAbort, (ncclComm_t comm))                            \
  X(ncclResult_t, ncclCommGetAsyncError,                                       \
    (ncclComm_t comm, ncclResult_t * result))                                  \
  X(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))          \
  X(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))      \
  X(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))        \
  X(ncclResult_t, ncclGroupStart, (void))                                      \
  X(ncclResult_t, ncclGroupEnd, (void))                                        \
  X(ncclResult_t, ncclAllReduce,                                               \
    (const void *from, void *to, size_t count, ncclDataType_t type,            \
     ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream))             \
  X(ncclResult_t, ncclReduceScatter,                                           \
    (const void *from, void *to, size_t count, ncclDataType_t type,            \
     ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream))             \
  X(ncclResult_t, ncclAllGather,                                               \
    (const void *from, void *to, size_t count, ncclDataType_t type,            \
     ncclComm_t comm, cudaStream_t stream))                                    \
  X(ncclResult_t, ncclBroadcast,                                               \
    (const void *from, void *to, size_t count, ncclDataType_t type, int root,  \
     ncclComm_t comm, cudaStream_t stream))                                    \
  X(ncclResult_t, ncclAlltoAll,                                                \
    (const void *from, void *to, size_t count, ncclDataType_t type,            \
     ncclComm_t comm, cudaStream_t stream))                                    \
  X(ncclResult_t, ncclSend,                                                    \
    (const void *from, size_t count, ncclDataType_t type, int peer,            \
     ncclComm_t comm, cudaStream_t stream))                                    \
  X(ncclResult_t, ncclRecv,                                                    \
    (void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,   \
     cudaStream_t stream))

#endif
