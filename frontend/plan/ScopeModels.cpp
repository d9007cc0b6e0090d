#include "frontend/plan/ScopeModels.h"

#include "frontend/plan/ScopeDifference.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::plan;

/// The models that have one of the rarest patterns, in order. Of n patterns a
/// model has all but n / 5: with `more` that it lacks and `less` of its own
/// beside the others, 4 (more + less) <= n - more + less by compareScopes.
std::vector<size_t>
ScopeModels::findCandidates(const std::vector<std::string> &patterns) {
  std::vector<const std::vector<size_t> *> rarest;
  for (const std::string &pattern : patterns)
    rarest.push_back(&having[pattern]);
  const size_t count = patterns.size() / 5 + 1;
  std::nth_element(
      rarest.begin(), rarest.begin() + ptrdiff_t(count - 1), rarest.end(),
      [](const auto *a, const auto *b) { return a->size() < b->size(); });
  std::vector<size_t> candidates;
  for (size_t i = 0; i < count; ++i)
    candidates.insert(candidates.end(), rarest[i]->begin(), rarest[i]->end());
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()),
                   candidates.end());
  return candidates;
}

size_t ScopeModels::findOrAdd(std::vector<std::string> patterns) {
  for (size_t model : findCandidates(patterns))
    if (compareScopes(patterns, models[model]))
      return model;
  const size_t added = models.size();
  for (const std::string &pattern : patterns)
    if (std::vector<size_t> &known = having[pattern];
        known.empty() || known.back() != added)
      known.push_back(added);
  models.push_back(std::move(patterns));
  return added;
}
