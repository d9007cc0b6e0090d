#ifndef MESHC_FRONTEND_PLAN_SCOPESUMS_H
#define MESHC_FRONTEND_PLAN_SCOPESUMS_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Overlap.h"
#include "frontend/plan/StepTime.h"

#include <array>
#include <string>
#include <vector>

namespace meshc::plan {

/// What the calls and loops of a model take of a step: computing, waiting,
/// memory at the peak.
///
/// A *part* is a path of calls and loops, "layer/block/attn": all iterations of
/// a loop are one, and so are calls that are alike (EqualScopes). What is added
/// up is told from origins: a value or command is of the part of its scope, and
/// one that is called as a call or a loop of its scope is the result of that,
/// and of its part. Gradients and an optimizer's states are of the part of
/// their value, and so is an update; but what computes or sends the gradient of
/// a value is of the part that reads the value, since it is the backward pass
/// of that. A fused operation is of the part of its result, or of a part in
/// that of which it reads parameters; a buffer is of that of the value in it at
/// the peak. What has no origin, and what no value takes of memory, is of the
/// model alone.
///
/// The sums are exact: those of the parts in a part, and of what is in none of
/// them, are that of the part; those of the model are the whole step.
struct ScopeSums {
  /// `time` is null where none is predicted.
  ScopeSums(const Plan &plan, const EqualScopes &scopes,
            const std::vector<Transfer> &transfers, const MemoryUse &memory,
            const StepTime *time);

  /// On each device.
  struct Amounts {
    int64_t flops = 0, wireBytes = 0;
    /// Of commands, and of waits for transfers; of one with several
    /// collectives by the bytes that they send. Whole nanoseconds.
    int64_t computeNs = 0, exposedNs = 0;
    std::array<int64_t, numMemoryCategories> bytes{}; ///< at the peak

    Amounts &operator+=(const Amounts &other);
    int64_t getBytes() const;
  };
  struct Part {
    std::string name;  ///< "layer/block/attn"; empty of the model
    int parent = -1;   ///< stands in front of it; -1: it is the model
    int64_t count = 0; ///< calls and iterations that it is
    Amounts whole;     ///< with the parts in it
    Amounts own;       ///< of what is in none of them
  };
  std::vector<Part> parts; ///< the first is the model
  /// By tensor, and by position in Plan.commands.
  std::vector<int> tensorParts, commandParts;
  std::vector<int> liveParts; ///< by position in MemoryUse.live
};

} // namespace meshc::plan

#endif
