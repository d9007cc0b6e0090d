#ifndef MESHC_FRONTEND_PLAN_TEXT_VALUEROWS_H
#define MESHC_FRONTEND_PLAN_TEXT_VALUEROWS_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/text/PlanText.h"
#include "frontend/plan/text/ValueTable.h"

namespace meshc::plan {

/// Rows of values under one heading of the table.
struct ValueSection {
  std::string heading;
  std::vector<ValueRow> rows;
};

/// The values of a plan, by what they are and when they are computed: those
/// that lie on devices all the time, those of each phase with what completes
/// them. In the order of the program calls and iterations that are alike are
/// folded (FoldScopes.h), then neighbours in one scope that are alike,
/// "attn/wq, wk, wv", the state of an optimizer that lies as the parameters do,
/// and their copies of another type; a scope is told once, above its values.
/// Gradients, and what functions of the library compute on their way, are left
/// out where they take no memory and need no message. In any other order a row
/// stands for all values that are the same but for their call or iteration:
///
///   layer/0/attn/scores, x 96    batch 4@data, heads 12@model, ...    1.5 GiB
std::vector<ValueSection> findValueRows(const Plan &plan,
                                        const EqualScopes &equal,
                                        const PlanTextOptions &options);

/// "batch 128@data", "pixel 784"; of one device the positions that it holds,
/// "batch 128:256@data".
std::vector<std::string> getShape(const Plan &plan,
                                  const exec::TensorLayoutT &layout,
                                  std::optional<int64_t> device);

} // namespace meshc::plan

#endif
