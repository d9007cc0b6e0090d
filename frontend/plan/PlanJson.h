#ifndef MESHC_FRONTEND_PLAN_PLANJSON_H
#define MESHC_FRONTEND_PLAN_PLANJSON_H

#include "runtime/exec/exec_generated.h"

#include <string>

namespace meshc::plan {

/// The plan as JSON, "schema": "meshc.plan/1"; ends in a newline. README.md of
/// this folder describes the fields.
///
/// Units: bytes and counts are integers, `*_us` are microseconds.
std::string renderPlanJson(const exec::ExecutableT &executable);

} // namespace meshc::plan

#endif
