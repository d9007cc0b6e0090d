#ifndef MESHC_FRONTEND_PLAN_GPUUSE_H
#define MESHC_FRONTEND_PLAN_GPUUSE_H

#include "frontend/plan/Plan.h"
#include "runtime/plans/GpuMemoryNeed.h"

#include <string>
#include <vector>

namespace meshc::plan {

/// What the planned program asks of a GPU beyond what a CPU device has.
struct GpuUse {
  /// All 0 of a plan for CPUs.
  explicit GpuUse(const Plan &plan);

  // What is issued in one run, on each device.
  int64_t kernels = 0;     ///< launches of generated kernels
  int64_t products = 0;    ///< calls of cuBLASLt
  int64_t copies = 0;      ///< slices of the own block among them
  int64_t collectives = 0; ///< transfers, however many messages one takes

  /// What is allocated where every device has a GPU of its own, on the one that
  /// needs most.
  runtime::cuda::GpuMemoryNeed memory;
  /// "o3: cuBLASLt cannot compute this product: ..."
  std::vector<std::string> refusedProducts;
  /// "a move has 9 dimensions ..., in command 'x' of program 'step'"; `memory`
  /// is that of the arena alone then.
  std::vector<std::string> refusedMoves;
};

bool isGpuPlan(const Plan &plan);

} // namespace meshc::plan

#endif
