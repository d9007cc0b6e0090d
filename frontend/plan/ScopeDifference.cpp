#include "frontend/plan/ScopeDifference.h"

#include <set>

using namespace meshc;
using namespace meshc::plan;

/// Positions of what is in `patterns` more often than in `others`.
static std::vector<size_t> findSurplus(const std::vector<std::string> &patterns,
                                       const std::vector<std::string> &others) {
  std::multiset<std::string> rest(others.begin(), others.end());
  std::vector<size_t> surplus;
  for (size_t index = 0; index < patterns.size(); ++index)
    if (auto found = rest.find(patterns[index]); found != rest.end())
      rest.erase(found);
    else
      surplus.push_back(index);
  return surplus;
}

std::optional<ScopeDifference>
plan::compareScopes(const std::vector<std::string> &patterns,
                    const std::vector<std::string> &others) {
  ScopeDifference difference{findSurplus(patterns, others),
                             findSurplus(others, patterns)};
  if (4 * (difference.more.size() + difference.less.size()) > others.size())
    return std::nullopt;
  return difference;
}
