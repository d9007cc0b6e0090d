#ifndef MESHC_TESTS_EMULATION_NCCLABI_H
#define MESHC_TESTS_EMULATION_NCCLABI_H

/// The part of NCCL's binary interface that the emulation provides, in the
/// manner of CudaAbi.h; names and numbers are those of nccl.h, NCCL 2.28.9.

#include "NcclNames.h"

#include <climits>
#include <cstddef>

extern "C" {

using ncclResult_t = int;
using ncclDataType_t = int;
using ncclRedOp_t = int;
using ncclComm_t = struct ncclComm *;
using cudaStream_t = struct CUstream_st *;

struct ncclUniqueId {
  char internal[128];
};

/// Only what comes first is read; `size` says how much there is.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 22809;
  int blocking = INT_MIN;
  int cgaClusterSize = INT_MIN, minCTAs = INT_MIN, maxCTAs = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN, trafficClass = INT_MIN;
  const char *commName = nullptr;
  int collnetEnable = INT_MIN, CTAPolicy = INT_MIN, shrinkShare = INT_MIN,
      nvlsCTAs = INT_MIN, nChannelsPerNetPeer = INT_MIN,
      nvlinkCentricSched = INT_MIN;
};

#define MESHC_DECLARATION(result, name, parameters) result name parameters;
MESHC_NCCL_FUNCTIONS(MESHC_DECLARATION)
#undef MESHC_DECLARATION

} // extern "C"

namespace meshc::emulation {
#define MESHC_VALUE(name, number) inline constexpr int name = number;
MESHC_NCCL_VALUES(MESHC_VALUE)
#undef MESHC_VALUE
/// NCCL_SPLIT_NOCOLOR, which is a macro there.
inline constexpr int splitNoColor = -1;
} // namespace meshc::emulation

#endif
