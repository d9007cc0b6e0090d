#include "frontend/plan/FoldScopes.h"

#include <fmt/format.h>
#include <optional>

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

namespace {
/// Neighbouring rows of one scope; of none if `scope` is empty.
struct Run {
  std::string scope;
  std::vector<ValueRow> rows;
  std::vector<std::string> patterns; ///< what each says but for scope and ids
};

} // namespace

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

static std::string getPattern(const ValueRow &row, const std::string &scope,
                              size_t position) {
  std::string name = row.name;
  name.erase(position, scope.size());
  std::string text =
      fmt::format("{}|{}|{}", name, fmt::join(row.shape, ","), row.bytes);
  for (const Communication &entry : row.communication)
    text += "|" + entry.what;
  return text;
}

static std::vector<Run> divide(std::vector<ValueRow> rows,
                               const std::set<std::string> &scopes) {
  std::vector<Run> runs;
  for (ValueRow &row : rows) {
    size_t position = 0;
    std::string scope = findScope(row.name, scopes, position);
    if (runs.empty() || runs.back().scope != scope)
      runs.push_back({scope, {}, {}});
    if (!scope.empty())
      runs.back().patterns.push_back(getPattern(row, scope, position));
    runs.back().rows.push_back(std::move(row));
  }
  return runs;
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

/// Nothing if the runs have too little in common.
static std::optional<ScopeDifference> compare(const Run &run,
                                              const Run &shown) {
  if (run.scope.empty() || shown.scope.empty())
    return std::nullopt;
  return compareScopes(run.patterns, shown.patterns);
}

/// The name of a row without what comes before its scope and without that.
static std::string getInnerName(const ValueRow &row, const std::string &scope) {
  return row.name.substr(row.name.find(scope + "/") + scope.size() + 1);
}

static constexpr size_t numListed = 4;

static std::string list(const std::vector<std::string> &entries) {
  return entries.size() <= numListed
             ? fmt::format("{}", fmt::join(entries, ", "))
             : fmt::format("{} to {}", entries.front(), entries.back());
}

/// One row for the runs from `first` to `last`, which differ alike from
/// `shown`.
static ValueRow summarize(const std::vector<Run> &runs, const Run &shown,
                          size_t first, size_t last,
                          const ScopeDifference &difference) {
  ValueRow row;
  std::vector<std::string> names, ids;
  for (size_t index = first; index <= last; ++index) {
    names.push_back(runs[index].scope);
    for (const ValueRow &folded : runs[index].rows) {
      row.bytes += folded.isStored ? folded.bytes : 0;
      for (const Communication &entry : folded.communication)
        ids.push_back(entry.id);
    }
  }
  row.name = list(names);
  row.shape = {(names.size() > 1 ? "each as " : "as ") + shown.scope};
  for (size_t missing : difference.less)
    row.shape.push_back("without " +
                        getInnerName(shown.rows[missing], shown.scope));
  if (!difference.more.empty())
    row.shape.emplace_back("and these:");
  if (!ids.empty())
    row.communication.push_back({"", list(ids)});
  return row;
}

std::vector<ValueRow> plan::foldScopes(std::vector<ValueRow> rows,
                                       const std::set<std::string> &scopes) {
  std::vector<Run> runs = divide(std::move(rows), scopes);
  std::vector<ValueRow> result;
  for (size_t shown = 0, next = 1; shown < runs.size(); shown = next++) {
    result.insert(result.end(), runs[shown].rows.begin(),
                  runs[shown].rows.end());
    while (next < runs.size()) {
      std::optional<ScopeDifference> difference =
          compare(runs[next], runs[shown]);
      if (!difference)
        break;
      size_t first = next++;
      while (next < runs.size() && runs[next].patterns == runs[first].patterns)
        ++next;
      result.push_back(
          summarize(runs, runs[shown], first, next - 1, *difference));
      for (size_t index = first; index < next; ++index)
        for (size_t more : difference->more)
          result.push_back(runs[index].rows[more]);
    }
  }
  return result;
}
