#ifndef MESHC_FRONTEND_PLAN_JSON_TRACEREADER_H
#define MESHC_FRONTEND_PLAN_JSON_TRACEREADER_H

#include "runtime/exec/exec_generated.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace meshc::plan {

/// What a command took, in microseconds: a mean over devices and steps.
struct MeasuredTime {
  double us = 0;     ///< without `waitUs`
  double waitUs = 0; ///< of a collective: until the devices of a group were all
                     ///< there, as far as the trace tells
};

/// What a trace says of the commands of a plan.
struct MeasuredPlan {
  /// By the ids of the plan, "o4" and "c1"; of collectives in one transfer,
  /// each has the time of the transfer. Without those that no device has run.
  std::map<std::string, MeasuredTime, std::less<>> commands;
  int64_t steps = 0;       ///< that were traced
  int64_t processes = 0;   ///< of the run
  double tracedStepUs = 0; ///< a mean over these steps and processes
  /// Of steps that were not traced; none where there were none.
  std::optional<double> stepUs;
};

/// Reads what `--trace` of an executable wrote (runtime/app/README.md), for the
/// plan of `executable`. Nothing, with the reason in `error`, if `text` is no
/// trace of this version or that of another plan: of another model, mesh or
/// layout, which it names, or of one with other commands.
std::optional<MeasuredPlan> readTrace(std::string_view text,
                                      const exec::ExecutableT &executable,
                                      std::string &error);

} // namespace meshc::plan

#endif
