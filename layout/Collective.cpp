#include "layout/Collective.h"

#include <cstdlib>

using namespace meshc;
using namespace meshc::layout;

const char *layout::getName(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::AllToAll:
    return "all_to_all";
  case CollectiveKind::Permute:
    return "permute";
  case CollectiveKind::Exchange:
    return "exchange";
  case CollectiveKind::Slice:
    return "slice";
  }
  std::abort();
}

int64_t layout::getWireBytes(CollectiveKind kind, int64_t payloadBytes,
                             int64_t groupSize) {
  if (groupSize <= 1)
    return 0;
  // n - n/p rather than (p-1)*n/p: the product could overflow.
  int64_t others = payloadBytes - payloadBytes / groupSize;
  switch (kind) {
  case CollectiveKind::AllReduce:
    return 2 * others;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    return others;
  case CollectiveKind::AllGather:
    return (groupSize - 1) * payloadBytes;
  case CollectiveKind::Permute:
  case CollectiveKind::Exchange:
    return payloadBytes;
  case CollectiveKind::Slice:
    return 0;
  }
  std::abort();
}
