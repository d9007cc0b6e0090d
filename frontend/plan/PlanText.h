#ifndef MESHC_FRONTEND_PLAN_PLANTEXT_H
#define MESHC_FRONTEND_PLAN_PLANTEXT_H

#include "layout/Machine.h"
#include "runtime/exec/exec_generated.h"

#include <optional>
#include <set>
#include <string>

namespace meshc::plan {

struct PlanTextOptions {
  /// The parts of a step to show.
  std::set<exec::Phase> phases = {exec::Phase::forward, exec::Phase::backward,
                                  exec::Phase::update};
  /// A device, of which to show exactly what it holds; nothing: what all hold
  /// alike. Requires: it is one of the mesh.
  std::optional<int64_t> device = std::nullopt;
  /// Bytes that each device has, to say whether the plan fits; nothing: those
  /// of the machine, if there is one.
  std::optional<int64_t> memoryLimit = std::nullopt;
  /// The machine of GPUs to predict for, of a plan for them; null: nothing is
  /// predicted.
  const layout::Machine *machine = nullptr;
};

/// The plan for reading: every named value with the block one device holds, how
/// it is split and which communication it needs; totals; memory. At most 100
/// columns as long as single names are shorter; plain text.
std::string renderPlanText(const exec::ExecutableT &executable,
                           const PlanTextOptions &options);

} // namespace meshc::plan

#endif
