// Compiled twice: with the declarations here, and with NVIDIA's.

#include "AbiShapes.h"
#include "CudaNames.h"

#include <cstddef>

#ifdef MESHC_REAL_HEADERS
// Declares the older versions of functions too.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#define MESHC_SHAPES getRealCudaShapes
#else
#include "CudaAbi.h"
#define MESHC_SHAPES getCudaShapes
#endif

using namespace meshc::emulation;

AbiShapes meshc::emulation::MESHC_SHAPES() {
  AbiShapes shapes;
#define MESHC_SHAPE(name, ...) shapes[#name] = describeFunction(&name);
  MESHC_CUDA_FUNCTIONS(MESHC_SHAPE)
#undef MESHC_SHAPE
#define MESHC_SHAPE(name, ...) shapes[#name] = std::to_string(int(name));
  MESHC_CUDA_VALUES(MESHC_SHAPE)
  MESHC_CUDA_RESULTS(MESHC_SHAPE)
#undef MESHC_SHAPE
#define MESHC_SHAPE(type, member)                                              \
  shapes[#type "." #member] = std::to_string(offsetof(type, member));
  MESHC_SHAPE(CUDA_MEMCPY2D, srcY)
  MESHC_SHAPE(CUDA_MEMCPY2D, srcMemoryType)
  MESHC_SHAPE(CUDA_MEMCPY2D, srcHost)
  MESHC_SHAPE(CUDA_MEMCPY2D, srcDevice)
  MESHC_SHAPE(CUDA_MEMCPY2D, srcPitch)
  MESHC_SHAPE(CUDA_MEMCPY2D, dstXInBytes)
  MESHC_SHAPE(CUDA_MEMCPY2D, dstY)
  MESHC_SHAPE(CUDA_MEMCPY2D, dstMemoryType)
  MESHC_SHAPE(CUDA_MEMCPY2D, dstHost)
  MESHC_SHAPE(CUDA_MEMCPY2D, dstDevice)
  MESHC_SHAPE(CUDA_MEMCPY2D, dstPitch)
  MESHC_SHAPE(CUDA_MEMCPY2D, WidthInBytes)
  MESHC_SHAPE(CUDA_MEMCPY2D, Height)
  MESHC_SHAPE(CUlaunchConfig, blockDimX)
  MESHC_SHAPE(CUlaunchConfig, sharedMemBytes)
  MESHC_SHAPE(CUlaunchConfig, hStream)
  MESHC_SHAPE(CUlaunchConfig, attrs)
  MESHC_SHAPE(CUlaunchConfig, numAttrs)
  MESHC_SHAPE(CUlaunchAttribute, value)
#undef MESHC_SHAPE
  shapes["CUDA_MEMCPY2D"] = describeType<CUDA_MEMCPY2D>();
  shapes["CUlaunchConfig"] = describeType<CUlaunchConfig>();
  shapes["CUlaunchAttribute"] = describeType<CUlaunchAttribute>();
  shapes["CUuuid"] = describeType<CUuuid>();
  return shapes;
}
