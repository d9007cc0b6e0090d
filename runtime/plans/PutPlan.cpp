#include "runtime/plans/PutPlan.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

int64_t runtime::getSize(std::span<const PutLoop> loops) {
  int64_t size = 1;
  for (const PutLoop &loop : loops)
    size *= loop.size;
  return size;
}

int64_t runtime::getOffset(std::span<const PutLoop> loops, int64_t position,
                           int64_t PutLoop::*stride) {
  int64_t offset = 0;
  for (size_t i = loops.size(); i-- > 0; position /= loops[i].size)
    offset += position % loops[i].size * loops[i].*stride;
  return offset;
}

/// Orders loops and makes one of neighbours that step through memory as one.
static void mergeLoops(std::vector<PutLoop> &loops) {
  std::sort(loops.begin(), loops.end(), [](const PutLoop &a, const PutLoop &b) {
    return a.input > b.input;
  });
  std::vector<PutLoop> merged;
  for (const PutLoop &loop : loops) {
    if (!merged.empty() && merged.back().input == loop.input * loop.size &&
        merged.back().index == loop.index * loop.size &&
        merged.back().result == loop.result * loop.size) {
      const int64_t size = merged.back().size * loop.size;
      merged.back() = loop;
      merged.back().size = size;
    } else {
      merged.push_back(loop);
    }
  }
  loops = std::move(merged);
}

PutPlan::PutPlan(const exec::PutT &put)
    : rows(put.positions), rowStride(put.position_stride) {
  for (size_t i = 0; i < put.sizes.size(); ++i) {
    const PutLoop loop{put.sizes[i], put.input_strides[i], put.index_strides[i],
                       put.result_strides[i]};
    (loop.result == 0 ? terms
     : loop.index > 0 ? batches
                      : columns)
        .push_back(loop);
  }
  for (std::vector<PutLoop> *loops : {&batches, &terms, &columns})
    mergeLoops(*loops);
  if (!columns.empty()) {
    line = columns.back();
    columns.pop_back();
  }
}
