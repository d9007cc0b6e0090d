#ifndef MESHC_FRONTEND_PLAN_TEXT_HELDPOSITIONS_H
#define MESHC_FRONTEND_PLAN_TEXT_HELDPOSITIONS_H

#include "frontend/plan/Plan.h"

#include <optional>
#include <string>

namespace meshc::plan {

/// The positions of dimension `dim` that a device holds, "batch 128:256": from
/// the first number to before the second; "batch none" of padding alone. Of a
/// window they may reach beyond the dimension, where it is 0.
std::string describeHeld(const Plan &plan, const exec::TensorLayoutT &layout,
                         size_t dim, int64_t device);

/// Which devices hold what of a value ("h", "t4", "scores" without its scope),
/// a line for each block, wrapped at `width` columns; ends in a newline.
/// Nothing, with the reason in `message`, if the plan has no such value.
std::optional<std::string> renderTensor(const exec::ExecutableT &executable,
                                        std::string_view id, size_t width,
                                        std::string &message);

} // namespace meshc::plan

#endif
