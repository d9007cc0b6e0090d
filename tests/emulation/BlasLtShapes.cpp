// Compiled twice: with the declarations here, and with NVIDIA's.

#include "AbiShapes.h"
#include "BlasLtNames.h"

#include <cstddef>

#ifdef MESHC_REAL_HEADERS
#include <cublasLt.h>
#define MESHC_SHAPES getRealBlasLtShapes
#else
#include "BlasLtAbi.h"
#define MESHC_SHAPES getBlasLtShapes
#endif

using namespace meshc::emulation;

AbiShapes meshc::emulation::MESHC_SHAPES() {
  AbiShapes shapes;
#define MESHC_SHAPE(result, name, parameters)                                  \
  shapes[#name] = describeFunction(&name);
  MESHC_BLASLT_FUNCTIONS(MESHC_SHAPE)
#undef MESHC_SHAPE
#define MESHC_SHAPE(name, number) shapes[#name] = std::to_string(int(name));
  MESHC_BLASLT_VALUES(MESHC_SHAPE)
  MESHC_BLASLT_STATUSES(MESHC_SHAPE)
#undef MESHC_SHAPE
#define MESHC_SHAPE(type, member)                                              \
  shapes[#type "." #member] = std::to_string(offsetof(type, member));
  MESHC_SHAPE(cublasLtMatmulHeuristicResult_t, algo)
  MESHC_SHAPE(cublasLtMatmulHeuristicResult_t, workspaceSize)
  MESHC_SHAPE(cublasLtMatmulHeuristicResult_t, state)
  MESHC_SHAPE(cublasLtMatmulHeuristicResult_t, wavesCount)
#undef MESHC_SHAPE
  shapes["cublasLtMatmulAlgo_t"] = describeType<cublasLtMatmulAlgo_t>();
  shapes["cublasLtMatmulHeuristicResult_t"] =
      describeType<cublasLtMatmulHeuristicResult_t>();
  return shapes;
}
