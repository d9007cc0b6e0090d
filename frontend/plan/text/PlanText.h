#ifndef MESHC_FRONTEND_PLAN_TEXT_PLANTEXT_H
#define MESHC_FRONTEND_PLAN_TEXT_PLANTEXT_H

#include "layout/Machine.h"
#include "runtime/exec/exec_generated.h"

#include <optional>
#include <set>
#include <string>

namespace meshc::plan {

/// The order of values in their sections: as the program has them, by name, or
/// those first that take most memory or send most.
enum class RowOrder : uint8_t { Program, Name, Bytes, Sent };

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
  RowOrder order = RowOrder::Program;
  /// How many are shown of each list: values of a section, costs, transfers,
  /// values at the peak; nothing: all values and a few of the others.
  std::optional<size_t> top = std::nullopt;
  bool showsRemarks = false;
  /// Columns; 60 at least. The table has no more; lines beside it have no more
  /// if they are wrapped.
  size_t width = 100;
  bool wraps = false;
  bool hasColours = false;
};

/// The plan for reading: every named value with the block one device holds, how
/// it is split and which communication it needs; totals; memory. The table of
/// values has at most `width` columns as long as single names are shorter.
std::string renderPlanText(const exec::ExecutableT &executable,
                           const PlanTextOptions &options);

} // namespace meshc::plan

#endif
