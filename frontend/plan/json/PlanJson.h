#ifndef MESHC_FRONTEND_PLAN_JSON_PLANJSON_H
#define MESHC_FRONTEND_PLAN_JSON_PLANJSON_H

#include "frontend/plan/Explain.h"
#include "layout/Machine.h"
#include "runtime/exec/exec_generated.h"

#include <string>

namespace meshc::plan {

/// The version of the JSON.
inline constexpr const char *planSchema = "meshc.plan/2";

/// The plan as JSON, "schema": planSchema; ends in a newline. README.md of
/// this folder describes the fields. `readSource` gives the text of the files
/// of the spec, which is part of the plan.
///
/// Units: bytes and counts are integers, `*_us` are microseconds.
///
/// With a machine, of a plan for GPUs, times are predicted for it.
/// `memoryLimit` is what each device has, in bytes, if that is not the
/// machine's.
std::string renderPlanJson(const exec::ExecutableT &executable,
                           const ReadSource &readSource,
                           const layout::Machine *machine = nullptr,
                           std::optional<int64_t> memoryLimit = std::nullopt);

} // namespace meshc::plan

#endif
