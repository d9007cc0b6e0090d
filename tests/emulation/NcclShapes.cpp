// Compiled twice: with the declarations here, and with NVIDIA's.

#include "AbiShapes.h"
#include "NcclNames.h"

#include <cstddef>

#ifdef MESHC_REAL_HEADERS
#include <nccl.h>
#define MESHC_SHAPES getRealNcclShapes
#else
#include "NcclAbi.h"
#define MESHC_SHAPES getNcclShapes
#endif

using namespace meshc::emulation;

AbiShapes meshc::emulation::MESHC_SHAPES() {
  AbiShapes shapes;
#define MESHC_SHAPE(result, name, parameters)                                  \
  shapes[#name] = describeFunction(&name);
  MESHC_NCCL_FUNCTIONS(MESHC_SHAPE)
#undef MESHC_SHAPE
#define MESHC_SHAPE(name, number) shapes[#name] = std::to_string(int(name));
  MESHC_NCCL_VALUES(MESHC_SHAPE)
#undef MESHC_SHAPE
#define MESHC_SHAPE(type, member)                                              \
  shapes[#type "." #member] = std::to_string(offsetof(type, member));
  MESHC_SHAPE(ncclConfig_t, magic)
  MESHC_SHAPE(ncclConfig_t, version)
  MESHC_SHAPE(ncclConfig_t, blocking)
  MESHC_SHAPE(ncclConfig_t, netName)
  MESHC_SHAPE(ncclConfig_t, splitShare)
  MESHC_SHAPE(ncclConfig_t, commName)
  MESHC_SHAPE(ncclConfig_t, nvlinkCentricSched)
#undef MESHC_SHAPE
  shapes["ncclUniqueId"] = describeType<ncclUniqueId>();
  shapes["ncclConfig_t"] = describeType<ncclConfig_t>();
  return shapes;
}
