#include "layout/CostModel.h"

#include <bit>
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

static int64_t getRounds(CollectiveKind kind, int64_t groupSize) {
  const int64_t doublings = std::bit_width(uint64_t(groupSize - 1));
  switch (kind) {
  case CollectiveKind::AllReduce:
    return 2 * doublings;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather:
  case CollectiveKind::AllToAll:
    return doublings;
  case CollectiveKind::Exchange:
    return 2 * doublings + 1;
  case CollectiveKind::Permute:
    return 1;
  case CollectiveKind::Slice:
    return 0;
  }
  std::abort();
}

double CostModel::getCost(CollectiveKind kind, int64_t groupSize,
                          int64_t wireBytes, int64_t localBytes) const {
  double cost = double(localBytes) / copyBytesPerUs;
  if (kind == CollectiveKind::Slice || groupSize <= 1)
    return cost;
  double wireUs = double(wireBytes) / wireBytesPerUs;
  if (kind == CollectiveKind::Exchange)
    wireUs *= exchangeFactor;
  return cost + launchUs + roundUs * double(getRounds(kind, groupSize)) +
         wireUs;
}
