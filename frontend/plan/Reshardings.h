#ifndef MESHC_FRONTEND_PLAN_RESHARDINGS_H
#define MESHC_FRONTEND_PLAN_RESHARDINGS_H

#include "frontend/plan/Plan.h"

#include <string>
#include <vector>

namespace meshc::plan {

/// Collectives of a kind that the compiler inserted to move what is complete to
/// other devices, because an operation could not take it as it lies. Sums over
/// split dimensions, positions around a device's own and what the model asks
/// for by "@" are none: they are what the layout means.
///
///   h is computed as <batch@data, hidden@model>, layer_norm over hidden needs
///   <batch@data>: an all_gather over model is a resharding
struct InsertedResharding {
  const PlannedCommand *collective = nullptr; ///< the first of the step
  int64_t count = 1;                ///< in calls and iterations that are alike
  std::string text = {};            ///< one line
  const exec::Span *span = nullptr; ///< what needs it; may be null
};

/// Those of which each device brings in more than `bytes`, in their order.
std::vector<InsertedResharding> findReshardings(const Plan &plan,
                                                int64_t bytes);

} // namespace meshc::plan

#endif
