#ifndef MESHC_FRONTEND_PLAN_KINDS_PLANNEDKIND_H
#define MESHC_FRONTEND_PLAN_KINDS_PLANNEDKIND_H

/// What a plan says of each kind of command: a file per kind, a row per kind in
/// PlannedKind.cpp. Its name is in runtime/exec/kinds. Of collectives, which
/// are told by what they send, the row is about slices of the own block.

#include "frontend/plan/GpuUse.h"
#include "layout/Machine.h"

#include <optional>
#include <string>

namespace meshc::plan {

struct PlannedKind {
  const char *description; ///< "a library matmul": what `explain` calls it
  /// "matmuls": what its flops are told as, apart from those of all commands;
  /// null: not.
  const char *flopsName = nullptr;
  /// None if the machine cannot run it.
  std::optional<layout::Machine::Price> (*findPrice)(
      const exec::CommandT &command, const layout::Machine &machine);
  /// Counts what a GPU gets of it.
  void (*addGpuUse)(const PlannedCommand &planned, GpuUse &use);
  /// Lines about what a GPU gets of it; null: nothing.
  std::string (*explainLaunches)(const exec::CommandT &command) = nullptr;
};

extern const PlannedKind plannedKernel, plannedMatmul, plannedCollective,
    plannedCopy, plannedConvolution, plannedPut;

const PlannedKind &getPlannedKind(exec::Action action);
inline const PlannedKind &getPlannedKind(const exec::CommandT &command) {
  return getPlannedKind(command.action.type);
}

/// What kinds are priced by that only move elements, or compute them one by
/// one.
std::optional<layout::Machine::Price>
findKernelPrice(const exec::CommandT &command, const layout::Machine &machine);

/// By the type of the factors, which a library multiplies: none if it has no
/// units for it.
std::optional<layout::MatmulType> findMatmulType(const exec::CommandT &command);

} // namespace meshc::plan

#endif
