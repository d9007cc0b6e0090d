#ifndef MESHC_TESTS_EMULATION_CUDAABI_H
#define MESHC_TESTS_EMULATION_CUDAABI_H

/// The part of the CUDA driver's binary interface that the emulation provides,
/// declared without NVIDIA's headers. Where those are at hand, AbiTest.cpp
/// compares. Enumerations are passed as int, which is how the compilers of
/// Linux pass them; names and numbers are those of cuda.h, CUDA 13.0.

#include "CudaNames.h"

#include <cstddef>
#include <cstdint>

extern "C" {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUlibrary = struct CUlib_st *;
using CUkernel = struct CUkern_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphNode = struct CUgraphNode_st *;
using CUgraphExec = struct CUgraphExec_st *;
using CUhostFn = void (*)(void *data);

struct CUuuid {
  char bytes[16];
};

struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int number;
    uint64_t alignment;
  } value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
};

struct CUDA_MEMCPY2D {
  size_t srcXInBytes, srcY;
  int srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  int dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};

} // extern "C"

namespace meshc::emulation {
#define MESHC_VALUE(name, number, ...) inline constexpr int name = number;
MESHC_CUDA_VALUES(MESHC_VALUE)
MESHC_CUDA_RESULTS(MESHC_VALUE)
#undef MESHC_VALUE
} // namespace meshc::emulation

extern "C" {
#define MESHC_DECLARATION(name, parameters) CUresult name parameters;
MESHC_CUDA_FUNCTIONS(MESHC_DECLARATION)
#undef MESHC_DECLARATION
}

#endif
