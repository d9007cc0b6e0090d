#ifndef MESHC_FRONTEND_PLAN_TEXT_EXPLAIN_H
#define MESHC_FRONTEND_PLAN_TEXT_EXPLAIN_H

#include "frontend/plan/text/SourceQuote.h"

namespace meshc::plan {

/// What `explain` speaks of, one line: "mlp.mesh on data=2: 2 devices; layout:
/// batch -> data".
std::string describeSubject(const exec::ExecutableT &executable);

/// Says in sentences why a collective ("c17") is in the program, why a named
/// value ("h", "t4") lies as it does, or what an operation ("o3") computes:
/// what needed what, the rules, the spec lines, payload and bytes sent, the
/// best rejected alternative. Scopes may be left out where only one value is
/// meant: "scores", "gradient of scores".
///
/// Errors: nothing for an unknown id; `message` then says so, with a
/// suggestion.
std::optional<std::string> explain(const exec::ExecutableT &executable,
                                   std::string_view id,
                                   const ReadSource &readSource,
                                   std::string &message);

} // namespace meshc::plan

#endif
