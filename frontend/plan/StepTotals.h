#ifndef MESHC_FRONTEND_PLAN_STEPTOTALS_H
#define MESHC_FRONTEND_PLAN_STEPTOTALS_H

#include "frontend/plan/Overlap.h"
#include "frontend/plan/StepTime.h"

#include <optional>

namespace meshc::plan {

/// What a program computes and sends on each device, in `runs` runs of it.
struct RunSums {
  int64_t flops = 0;
  int64_t payloadBytes = 0, wireBytes = 0;
  int64_t transfers = 0;

  void add(const RunSums &other, int64_t runs);
};
RunSums sumRun(const Plan &plan, const std::vector<Transfer> &transfers);

/// What a whole step comes to, all of its parts together.
struct StepTotals {
  StepTotals(const Plan &plan, const std::vector<Transfer> &transfers);

  RunSums sums;
  /// 0: the program does not say which dim counts samples. Where no data feeds
  /// it, that is the first dim of its first input that all inputs have and no
  /// parameter.
  int64_t samples = 0;
  /// Of a model whose first input of integers wider than a byte has one dim
  /// beside that of samples: both together. Else 0.
  int64_t tokens = 0;
};

/// How fast that is on the machine of `time`, which the plan's own part takes.
/// Requires: findUnpriced is empty.
struct StepRate {
  StepRate(const Plan &plan, const StepTime &time);

  double stepUs = 0, exposedUs = 0; ///< of all parts
  /// The part of it in which the matmuls and convolutions would be done at the
  /// machine's full rates for their types: what is called MFU, but with what
  /// the backward phase computes again. Nothing where the machine has no such
  /// rates, as hosts.
  std::optional<double> peakShare;

  double getPerSecond(int64_t count) const {
    return double(count) * 1e6 / stepUs;
  }
};

/// Leaves of a training its evaluation alone, of which the plan is, then; its
/// variables keep their memory.
void keepEvaluation(exec::ExecutableT &executable);

} // namespace meshc::plan

#endif
