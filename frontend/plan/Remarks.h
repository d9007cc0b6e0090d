#ifndef MESHC_FRONTEND_PLAN_REMARKS_H
#define MESHC_FRONTEND_PLAN_REMARKS_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/Plan.h"
#include "runtime/exec/Origins.h"

#include <string>
#include <vector>

namespace meshc::plan {

/// What costs memory or a message and was not written.
///
///   Resharding   a collective that the compiler inserted to move what is
///                complete to other devices, because an operation could not
///                take it as it lies. Sums over split dimensions, positions
///                around a device's own and what a rule for a role or a value
///                asks for are none: they are what the layout means.
///   Gather       an all_gather for windows, such as a convolution's: a device
///                gets all of what it reads a part of, because that takes less
///                time than an exchange of the parts
///   LibraryCopy  a copy of what no library takes as it lies, or a padded form
///   StoredView   a view, which repeats or reorders elements, that is in memory
///                as a whole
///   Untiled      a large value that operations pass among themselves, which
///                is in memory as a whole: it is not computed a tile at a time
///   Unrolled     a loop that is written out, as it carries a value from one
///                iteration to the next: of 256 commands or more
///   Replicated   a value that is whole on every device of an axis, although
///                the layout splits others over it, and no rule says anything
///                of the value: none of its dimensions has one over that axis.
///                A value that is gathered has a rule, and its resharding is
///                told. Told of parameters, with their state; of inputs and of
///                what is stored of the forward phase. Gradients lie as their
///                values do.
///
///   LostRule     a rule for every tensor of a role (`*`) that adds nothing to
///                some: its axes divide none of their dimensions, or they lie
///                on one of its axes already. One remark for all of these
///
///   h is computed as <batch@data, hidden@model>, layer_norm over hidden needs
///   <batch@data>: an all_gather over model is a resharding
struct Remark {
  enum class Kind : uint8_t {
    Resharding,
    Gather,
    LibraryCopy,
    StoredView,
    Untiled,
    Unrolled,
    Replicated,
    LostRule
  };
  Kind kind;
  int64_t bytes = 0; ///< on each device; of what is sent what one brings in;
                     ///< of a loop 0
  int64_t count = 1; ///< in calls and iterations that are alike
  int command = -1;  ///< in Plan.commands, the first; -1 of a replicated value
  int tensor = -1;   ///< the value that it is about; -1: none in the plan
  std::vector<layout::AxisRef> axes = {}; ///< of what is sent or replicated
  std::string text = {};                  ///< one line: what, and why
  std::string advice = {};                ///< what would avoid it, where known
  const exec::Span *span = nullptr;       ///< may be null
};

const char *getName(Remark::Kind kind);

/// Reshardings of which each device brings in more than `bytes`, in their
/// order.
std::vector<Remark> findReshardings(const Plan &plan, const EqualScopes &scopes,
                                    int64_t bytes);

/// All of more than `bytes`, the largest first; lost rules and loops whatever
/// it is.
std::vector<Remark> findRemarks(const Plan &plan, const EqualScopes &scopes,
                                int64_t bytes = runtime::remarkBytes);

} // namespace meshc::plan

#endif
