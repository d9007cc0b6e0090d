#include "frontend/plan/ScopeNames.h"

using namespace meshc;
using namespace meshc::plan;

/// The length of the scope that `name` begins with: "b1" of "b1/ff/h",
/// "layer/0" of "layer/0/ff/h"; 0 if it has none.
static size_t getScopeLength(std::string_view name) {
  const size_t end = name.find('/');
  if (end == std::string_view::npos)
    return 0;
  const size_t number = name.find_first_not_of("0123456789", end + 1);
  const bool isIteration = number != std::string_view::npos &&
                           number > end + 1 && name[number] == '/';
  return isIteration ? number : end;
}

std::set<std::string> plan::findScopes(const exec::ExecutableT &executable) {
  std::set<std::string> scopes;
  for (const auto &tensor : executable.tensors) {
    const size_t length = getScopeLength(tensor->name);
    bool isOfSpec = tensor->role == exec::BufferRole::parameter ||
                    tensor->role == exec::BufferRole::activation;
    if (isOfSpec && length > 0)
      scopes.insert(tensor->name.substr(0, length));
  }
  return scopes;
}

std::string plan::findScope(const std::string &name,
                            const std::set<std::string> &scopes,
                            size_t &position) {
  position = 0;
  while (position < name.size()) {
    size_t end = name.find_first_of(" /", position);
    if (end == std::string::npos)
      return "";
    std::string part =
        name.substr(position, getScopeLength(name.substr(position)));
    if (name[end] == '/' && scopes.contains(part))
      return part;
    position = end + 1;
  }
  return "";
}

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
