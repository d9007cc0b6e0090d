#ifndef MESHC_FRONTEND_PLAN_SCOPEMODELS_H
#define MESHC_FRONTEND_PLAN_SCOPEMODELS_H

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace meshc::plan {

/// Of scopes that are given one after the other, the first that each is alike
/// (compareScopes). Only those are compared that have something rare in common:
/// thousands that are alike nothing are told apart in time in proportion.
class ScopeModels {
public:
  /// The number of the first model that a scope with these patterns, one or
  /// more, is alike; where there is none it becomes one itself.
  size_t findOrAdd(std::vector<std::string> patterns);

private:
  std::vector<size_t> findCandidates(const std::vector<std::string> &patterns);

  std::vector<std::vector<std::string>> models;
  /// By pattern, the models that have it, each once.
  std::map<std::string, std::vector<size_t>> having;
};

} // namespace meshc::plan

#endif
