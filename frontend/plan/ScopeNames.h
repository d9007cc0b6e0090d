#ifndef MESHC_FRONTEND_PLAN_SCOPENAMES_H
#define MESHC_FRONTEND_PLAN_SCOPENAMES_H

#include "runtime/exec/exec_generated.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

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

} // namespace meshc::plan

#endif
