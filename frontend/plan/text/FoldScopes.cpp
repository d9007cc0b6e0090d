#include "frontend/plan/text/FoldScopes.h"

#include "frontend/plan/ScopeDifference.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <span>

using namespace meshc;
using namespace meshc::plan;

using Scopes = std::vector<EqualScopes::Scope>;

namespace {
/// Neighbouring rows of one scope; of none if `scope` is -1.
struct Run {
  int scope = -1;
  std::vector<ValueRow> rows;
  std::vector<std::string> patterns; ///< what each says but for scope and ids
};

} // namespace

static std::string getPattern(const ValueRow &row, const std::string &scope) {
  std::string name = row.name;
  name.erase(row.lead, scope.size());
  std::string text =
      fmt::format("{}|{}|{}", name, fmt::join(row.shape, ","), row.partial);
  for (const Communication &entry : row.communication)
    text += "|" + entry.what;
  return text;
}

/// By the scopes that are in `outer` itself.
static std::vector<Run> divide(std::vector<ValueRow> rows, const Scopes &scopes,
                               int outer) {
  std::vector<Run> runs;
  for (ValueRow &row : rows) {
    const int scope = getScopeIn(scopes, outer, row.inScope);
    if (runs.empty() || runs.back().scope != scope)
      runs.push_back({scope, {}, {}});
    if (scope >= 0)
      runs.back().patterns.push_back(
          getPattern(row, scopes[size_t(scope)].name));
    runs.back().rows.push_back(std::move(row));
  }
  return runs;
}

/// Nothing if the runs have too little in common.
static std::optional<ScopeDifference> compare(const Run &run,
                                              const Run &shown) {
  if (run.scope < 0 || shown.scope < 0)
    return std::nullopt;
  return compareScopes(run.patterns, shown.patterns);
}

/// The name of a row without what comes before its scope and without that.
static std::string getInnerName(const ValueRow &row, const std::string &scope) {
  return row.name.substr(row.lead + scope.size() + 1);
}

static constexpr size_t numListed = 4;

static std::string list(const std::vector<std::string> &entries) {
  return entries.size() <= numListed
             ? fmt::format("{}", fmt::join(entries, ", "))
             : fmt::format("{} to {}", entries.front(), entries.back());
}

/// "c3 to c8, c11": ids of collectives, those that follow each other by the
/// first and the last; of many such runs how many ids there are.
static std::string listIds(const std::vector<std::string> &ids) {
  const auto getNumber = [](const std::string &id) {
    return std::atoi(id.c_str() + 1);
  };
  std::vector<std::string> texts;
  for (size_t begin = 0, end; begin < ids.size(); begin = end) {
    end = begin + 1;
    while (end < ids.size() &&
           getNumber(ids[end]) == getNumber(ids[end - 1]) + 1)
      ++end;
    if (end - begin > 2) {
      texts.push_back(ids[begin] + " to " + ids[end - 1]);
    } else {
      texts.insert(texts.end(), ids.begin() + ptrdiff_t(begin),
                   ids.begin() + ptrdiff_t(end));
    }
  }
  return texts.size() <= numListed ? fmt::format("{}", fmt::join(texts, ", "))
                                   : fmt::format("{} collectives from {} on",
                                                 ids.size(), ids.front());
}

/// One row for the runs from `first` to `last`, which differ alike from
/// `shown`.
static ValueRow summarize(const std::vector<Run> &runs, const Run &shown,
                          size_t first, size_t last,
                          const ScopeDifference &difference,
                          const Scopes &scopes) {
  const std::string &model = scopes[size_t(shown.scope)].name;
  ValueRow row;
  std::vector<std::string> names, ids;
  for (size_t index = first; index <= last; ++index) {
    names.push_back(scopes[size_t(runs[index].scope)].name);
    for (const ValueRow &folded : runs[index].rows) {
      row.bytes += folded.isStored ? folded.bytes : 0;
      for (const Communication &entry : folded.communication)
        ids.push_back(entry.id);
    }
  }
  row.name = list(names);
  row.shape = {(names.size() > 1 ? "each as " : "as ") + model};
  for (size_t missing : difference.less)
    if (!shown.rows[missing].isAside)
      row.shape.push_back("without " +
                          getInnerName(shown.rows[missing], model));
  if (!ids.empty())
    row.shape.push_back("with " + listIds(ids));
  if (std::any_of(difference.more.begin(), difference.more.end(),
                  [&](size_t more) { return !runs[first].rows[more].isAside; }))
    row.shape.emplace_back("and these:");
  return row;
}

/// The row at `position` of runs that have the same, once for all of them.
static ValueRow repeat(std::span<const Run> runs, size_t position) {
  ValueRow row = runs.front().rows[position];
  row.times = int64_t(runs.size());
  row.bytes *= row.times;
  row.wireBytes *= row.times;
  for (size_t entry = 0; entry < row.communication.size(); ++entry) {
    std::vector<std::string> ids;
    for (const Run &run : runs)
      ids.push_back(run.rows[position].communication[entry].id);
    row.communication[entry].id = list(ids);
  }
  return row;
}

/// Folds the rows of what is in `outer`.
static std::vector<ValueRow> foldWithin(std::vector<ValueRow> rows,
                                        const Scopes &scopes, int outer) {
  std::vector<Run> runs = divide(std::move(rows), scopes, outer);
  std::vector<ValueRow> result;
  for (size_t shown = 0, next = 1; shown < runs.size(); shown = next++) {
    std::vector<ValueRow> own = runs[shown].rows;
    if (runs[shown].scope >= 0)
      own = foldWithin(std::move(own), scopes, runs[shown].scope);
    std::move(own.begin(), own.end(), std::back_inserter(result));
    while (next < runs.size()) {
      std::optional<ScopeDifference> difference =
          compare(runs[next], runs[shown]);
      if (!difference)
        break;
      size_t first = next++;
      while (next < runs.size() && runs[next].patterns == runs[first].patterns)
        ++next;
      result.push_back(
          summarize(runs, runs[shown], first, next - 1, *difference, scopes));
      for (size_t more : difference->more)
        result.push_back(repeat({&runs[first], next - first}, more));
    }
  }
  return result;
}

std::vector<ValueRow>
plan::foldScopes(std::vector<ValueRow> rows,
                 const std::vector<EqualScopes::Scope> &scopes) {
  std::vector<ValueRow> result = foldWithin(std::move(rows), scopes, -1);
  std::erase_if(result, [](const ValueRow &row) { return row.isAside; });
  return result;
}
