#ifndef MESHC_FRONTEND_PLAN_JSON_PLANJSON_H
#define MESHC_FRONTEND_PLAN_JSON_PLANJSON_H

#include "frontend/plan/json/TraceReader.h"
#include "frontend/plan/text/SourceQuote.h"
#include "layout/Machine.h"
#include "runtime/exec/exec_generated.h"

#include <string>

namespace meshc::plan {

/// The version of the JSON.
inline constexpr const char *planSchema = "meshc.plan/2";

struct PlanJsonOptions {
  /// That times are predicted for, of a plan for its devices.
  const layout::Machine *machine = nullptr;
  /// Bytes that each device has, if that is not the machine's memory.
  std::optional<int64_t> memoryLimit = std::nullopt;
  /// What a run of the plan took; null: none is shown.
  const MeasuredPlan *measured = nullptr;
};

/// The plan as JSON, "schema": planSchema; ends in a newline. README.md of
/// this folder describes the fields. `readSource` gives the text of the files
/// of the spec, which is part of the plan.
///
/// Units: bytes and counts are integers, `*_us` are microseconds.
///
std::string renderPlanJson(const exec::ExecutableT &executable,
                           const ReadSource &readSource,
                           const PlanJsonOptions &options = {});

} // namespace meshc::plan

#endif
