#ifndef MESHC_FRONTEND_PLAN_STEPTIME_H
#define MESHC_FRONTEND_PLAN_STEPTIME_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/Overlap.h"
#include "layout/Machine.h"

namespace meshc::plan {

/// When the commands of a step would run on a machine: predicted by playing the
/// command list as a GPU does. Commands of one queue run in order; one that
/// waits begins when what it waits for is complete. Microseconds from the start
/// of the step.
///
/// Devices that are tasks of worker threads have one queue: transfers are
/// copies by the same threads, so that nothing is computed meanwhile. The time
/// of a command is that of all devices by the workers there are: as many rounds
/// as all pieces of all devices take.
///
/// What computes stands still while it waits: that is *exposed* time of the
/// transfers that are under way meanwhile. What is left of transfers behind the
/// last command that computes is exposed too, so that the step is the time of
/// the commands and what is exposed.
struct StepTime {
  /// Requires: findUnpriced is empty.
  StepTime(const Plan &plan, const std::vector<Transfer> &transfers,
           const layout::Machine &machine);

  struct Span {
    double start = 0, end = 0;
    double getUs() const { return end - start; }
  };
  /// A command that computes does not while a transfer is under way.
  struct Wait {
    int command = -1;  ///< position in Plan.commands; -1: the end of the step
    int transfer = -1; ///< position in the transfers
    double us = 0;
  };

  const layout::Machine &machine;
  /// By position in Plan.commands; of members of one transfer, that of it.
  std::vector<Span> commands;
  std::vector<layout::Machine::Bound> bounds;
  std::vector<double> exposed; ///< by transfer
  std::vector<Wait> waits;
  double stepUs = 0, computeUs = 0, exposedUs = 0;
};

/// Commands that the machine cannot run, as of a matmul of bf16 where none has
/// units for it: positions in Plan.commands. Of a step that has one no time is
/// predicted.
std::vector<int> findUnpriced(const Plan &plan, const layout::Machine &machine);
/// "bf16": what the machine cannot multiply in such a command.
const char *getMatmulTypeName(const exec::CommandT &command);

/// What of a step takes how long: a command or a wait for a transfer, with all
/// that are the same in calls and iterations that are alike.
struct StepCost {
  double us = 0;
  int64_t count = 0;
  int first = -1;      ///< position in Plan.commands
  bool isWait = false; ///< for the transfer that `first` is in
};

/// The costs of a step, the largest first.
std::vector<StepCost> findCosts(const Plan &plan,
                                const std::vector<Transfer> &transfers,
                                const EqualScopes &scopes,
                                const StepTime &time);

} // namespace meshc::plan

#endif
