#ifndef MESHC_FRONTEND_PLAN_FOLDSCOPES_H
#define MESHC_FRONTEND_PLAN_FOLDSCOPES_H

#include "frontend/plan/ValueTable.h"
#include "runtime/exec/exec_generated.h"

#include <set>

namespace meshc::plan {

/// The outermost scopes of values and parameters: b1 of "b1/attn/wq", layer/0
/// of "layer/0/attn/q", which is one iteration of a loop.
std::set<std::string> findScopes(const exec::ExecutableT &executable);

/// Where the first of `scopes` stands in a name: at its start in "b1/ff/h",
/// behind what comes before in "gradient of b1/ff/h" and "adam/m/b1/ff/w1".
/// Empty if none does.
std::string findScope(const std::string &name,
                      const std::set<std::string> &scopes, size_t &position);

/// How what one scope has differs from what another one has.
struct ScopeDifference {
  std::vector<size_t> more; ///< positions in the one's
  std::vector<size_t> less; ///< positions in the other's
};

/// How two scopes differ, by what each has without its name. Nothing if they
/// have too little in common: more than a quarter of the other's would be hard
/// to read as an exception.
std::optional<ScopeDifference>
compareScopes(const std::vector<std::string> &patterns,
              const std::vector<std::string> &others);

/// Says what equal calls have in common only once. Where the rows of scopes
/// that follow each other (b1, b2, b3 ...) differ in nothing but the scope and
/// the ids of collectives, the first scope's rows stay, and one row stands for
/// the others:
///
///   b2, b3, b4           each as b1                  96 MiB  c3 to c8
///
/// Of scopes that have a few rows more or less than the first, the row says
/// which are missing, and those that are more follow it. Whether a value is
/// stored is not compared: fusion differs at the ends of a chain of calls. The
/// bytes are those of all rows that are stored.
std::vector<ValueRow> foldScopes(std::vector<ValueRow> rows,
                                 const std::set<std::string> &scopes);

} // namespace meshc::plan

#endif
