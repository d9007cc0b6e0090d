#ifndef MESHC_RUNTIME_CUDA_LIBRARY_NCCL_H
#define MESHC_RUNTIME_CUDA_LIBRARY_NCCL_H

/// NCCL, the library of collectives between GPUs, found at run time. Types and
/// numbers are those of its binary interface.

#include "runtime/cuda/library/Driver.h"

#include <climits>

namespace meshc::runtime::cuda {

using NcclComm = struct NcclCommObject *;

struct NcclUniqueId {
  char bytes[128];
};

/// ncclConfig_t as of 2.18; NCCL goes by `size`, so later fields keep their
/// defaults.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 1;
  int cgaClusterSize = INT_MIN;
  int minCTAs = INT_MIN;
  int maxCTAs = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN;
};

// Source: nccl.h of NCCL 2.28.
inline constexpr int ncclUnhandledCudaError = 1;
inline constexpr int ncclInvalidUsage = 5;
inline constexpr int ncclRemoteError = 6;
inline constexpr int ncclInProgress = 7;
inline constexpr int ncclSplitNoColor = -1;
inline constexpr int ncclInt8 = 0;
inline constexpr int ncclUint8 = 1;
inline constexpr int ncclInt32 = 2;
inline constexpr int ncclInt64 = 4;
inline constexpr int ncclFloat16 = 6;
inline constexpr int ncclFloat32 = 7;
inline constexpr int ncclFloat64 = 8;
inline constexpr int ncclBfloat16 = 9;
inline constexpr int ncclSum = 0;
inline constexpr int ncclMax = 2;
inline constexpr int ncclMin = 3;

/// ncclCommSplit is of 2.18.
inline constexpr int minNcclVersion = 21800;

struct Nccl {
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  LibraryFunction<Nccl __VA_OPT__(, ) __VA_ARGS__> NAME{#SYMBOL};
#include "runtime/cuda/library/NcclFunctions.def"

  const char *(*getErrorString)(int) = nullptr;
  const char *(*getLastError)(NcclComm) = nullptr;
  std::string path;
  int version = 0; ///< 22809 is 2.28.9

  /// Loaded by the first call. Errors: MissingGpuLibrary, OldGpuLibrary.
  static Result<const Nccl *> get();
  /// Error of a failed call: CommunicationFailed where another process is gone,
  /// DoesNotFit where memory is what lacks, else GpuCallFailed.
  static Error describe(const char *symbol, int status);

private:
  static Result<const Nccl *> load();
};

/// "2.28.9" of 22809.
std::string getNcclVersionText(int version);

} // namespace meshc::runtime::cuda

#endif
