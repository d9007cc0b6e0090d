#ifndef MESHC_FRONTEND_PLAN_SCOPEDIFFERENCE_H
#define MESHC_FRONTEND_PLAN_SCOPEDIFFERENCE_H

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace meshc::plan {

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
