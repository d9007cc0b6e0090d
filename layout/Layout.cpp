#include "layout/Layout.h"

#include "layout/Spelling.h"

#include <algorithm>
#include <utility>

using namespace meshc;
using namespace meshc::layout;

std::string_view layout::toString(LostRule::Why why) {
  switch (why) {
  case LostRule::Why::Unless:
    return "unless";
  case LostRule::Why::Replaced:
    return "replaced";
  case LostRule::Why::AlreadySplit:
    return "already_split";
  case LostRule::Why::Indivisible:
    return "indivisible";
  }
  __builtin_unreachable();
}

static LayoutError makeError(LayoutError::Kind kind, size_t rule,
                             std::string dim) {
  LayoutError error;
  error.kind = kind;
  error.rule = error.otherRule = rule;
  error.dim = std::move(dim);
  return error;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {

/// What may be wrong with a rule, before any tensor is looked at.
class RuleChecker {
public:
  RuleChecker(const Mesh &mesh, std::span<const std::string> programDims)
      : mesh(mesh), programDims(programDims),
        knownDims(programDims.begin(), programDims.end()) {
    for (const MeshAxis &axis : mesh.getAxes())
      axisNames.push_back(axis.name);
  }

  void checkDims(const LayoutRule &rule, size_t index) {
    // Every dim of every value is none.
    if (rule.isEvery() && rule.role == Role::Value)
      errors.push_back(makeError(LayoutError::Kind::UnknownDim, index, ""));
    for (const auto &[names, kind] :
         {std::pair(&rule.dims, LayoutError::Kind::UnknownDim),
          std::pair(&rule.unless, LayoutError::Kind::UnknownUnless)})
      for (const std::string &dim : *names)
        if (!knownDims.contains(dim)) {
          errors.push_back(makeError(kind, index, dim));
          errors.back().suggestion = findNearest(dim, programDims);
        }
  }

  DimSplit getSplit(const LayoutRule &rule, size_t index) {
    DimSplit split;
    std::set<std::string_view> seen, repeated;
    const std::string dim = rule.isEvery() ? "" : rule.dims.front();
    for (const std::string &name : rule.axes) {
      if (!seen.insert(name).second) {
        if (!repeated.insert(name).second)
          continue;
        errors.push_back(
            makeError(LayoutError::Kind::RepeatedAxis, index, dim));
        errors.back().axis = name;
        continue;
      }
      if (std::optional<int32_t> axis = mesh.findAxis(name)) {
        split.push_back(mesh.getWholeAxis(*axis));
        continue;
      }
      errors.push_back(makeError(LayoutError::Kind::UnknownAxis, index, dim));
      errors.back().axis = name;
      errors.back().suggestion = findNearest(name, axisNames);
    }
    return split;
  }

  void reportDuplicate(size_t index, size_t first, const std::string &dim) {
    errors.push_back(makeError(LayoutError::Kind::DuplicateRule, index, dim));
    errors.back().otherRule = first;
  }

  std::vector<LayoutError> takeErrors() { return std::move(errors); }

private:
  const Mesh &mesh;
  std::span<const std::string> programDims;
  std::set<std::string_view> knownDims;
  std::vector<std::string> axisNames;
  std::vector<LayoutError> errors;
};

} // namespace

std::variant<Layout, std::vector<LayoutError>>
Layout::create(const Mesh &mesh, std::vector<LayoutRule> rules,
               std::span<const std::string> programDims) {
  RuleChecker checker(mesh, programDims);
  Layout result;
  for (size_t i = 0; i < rules.size(); ++i) {
    const LayoutRule &rule = rules[i];
    Table &table = result.findTable(rule);
    checker.checkDims(rule, i);
    std::vector<Entry *> entries;
    if (rule.isEvery()) {
      if (table.every)
        checker.reportDuplicate(i, table.every->rule, "");
      else
        entries.push_back(&table.every.emplace(Entry{i, {}}));
    }
    for (const std::string &dim : rule.dims) {
      auto [entry, isFirst] = table.byDim.try_emplace(dim, Entry{i, {}});
      if (isFirst)
        entries.push_back(&entry->second);
      else
        checker.reportDuplicate(i, entry->second.rule, dim);
    }
    const DimSplit split = checker.getSplit(rule, i);
    for (Entry *entry : entries)
      entry->split = split;
  }
  if (std::vector<LayoutError> errors = checker.takeErrors(); !errors.empty())
    return errors;
  result.mesh = mesh;
  result.rules = std::move(rules);
  return result;
}

std::variant<Layout, std::vector<LayoutError>>
Layout::create(const Mesh &mesh, std::vector<LayoutRule> rules) {
  std::vector<std::string> dims;
  for (const LayoutRule &rule : rules)
    for (const auto *names : {&rule.dims, &rule.unless})
      dims.insert(dims.end(), names->begin(), names->end());
  return create(mesh, std::move(rules), dims);
}

Layout::Table &Layout::findTable(const LayoutRule &rule) {
  if (rule.values.empty())
    return tables[size_t(rule.role)];
  auto known = std::ranges::find(tablesOfValues, rule.values,
                                 &std::pair<std::string, Table>::first);
  return known != tablesOfValues.end()
             ? known->second
             : tablesOfValues.emplace_back(rule.values, Table()).second;
}

bool Layout::hasRulesFor(std::string_view name) const {
  return std::ranges::any_of(tablesOfValues, [&](const auto &table) {
    return fitsPattern(table.first, name);
  });
}

std::optional<size_t> Layout::findRule(std::string_view dim) const {
  const auto &byDim = tables[size_t(Role::Value)].byDim;
  auto entry = byDim.find(dim);
  return entry == byDim.end() ? std::nullopt
                              : std::optional(entry->second.rule);
}

bool Layout::hasRulesFor(Role role) const {
  for (size_t i = size_t(Role::Parameter); i <= size_t(role); ++i)
    if (tables[i].every || !tables[i].byDim.empty())
      return true;
  return false;
}

const DimSplit &Layout::getSplit(std::string_view dim) const {
  static const DimSplit notSplit;
  const auto &byDim = tables[size_t(Role::Value)].byDim;
  auto entry = byDim.find(dim);
  return entry == byDim.end() ? notSplit : entry->second.split;
}

bool Layout::isExempt(const LayoutRule &rule,
                      std::span<const std::string> dims) const {
  return std::ranges::any_of(rule.unless, [&](const std::string &dim) {
    return std::ranges::find(dims, dim) != dims.end();
  });
}

bool Layout::isExempt(std::string_view dim,
                      std::span<const std::string> dims) const {
  std::optional<size_t> rule = findRule(dim);
  return rule && isExempt(rules[*rule], dims);
}

//===----------------------------------------------------------------------===//
// One tensor
//===----------------------------------------------------------------------===//

/// The answer of a table for one tensor, while it is made.
class Layout::Asking {
public:
  Asking(const Layout &layout, TensorShape tensor)
      : layout(layout), tensor(tensor) {
    result.sharding.dims.resize(tensor.dims.size());
    result.rules.resize(tensor.dims.size());
  }

  /// Dims of `settled` lie as they do.
  void addRules(Role role, const std::set<size_t> &settled = {}) {
    const Table &table = layout.tables[size_t(role)];
    for (size_t d = 0; d < tensor.dims.size(); ++d)
      if (auto entry = table.byDim.find(tensor.dims[d]);
          entry != table.byDim.end() && holds(entry->second)) {
        if (settled.contains(d))
          addLost(LostRule::Why::Replaced, entry->second.rule);
        else
          replace(d, entry->second);
      }
    if (table.every && holds(*table.every))
      addEvery(*table.every, settled);
  }

  /// The rules for its name; the dims for which there are some.
  std::set<size_t> addRulesOfName() {
    std::set<size_t> said;
    for (const auto &[pattern, table] : layout.tablesOfValues)
      if (!tensor.name.empty() && fitsPattern(pattern, tensor.name))
        for (size_t d = 0; d < tensor.dims.size(); ++d)
          if (auto entry = table.byDim.find(tensor.dims[d]);
              entry != table.byDim.end() && holds(entry->second)) {
            if (said.insert(d).second)
              replace(d, entry->second);
            else
              addLost(LostRule::Why::Replaced, entry->second.rule);
          }
    return said;
  }

  /// Two dims on one axis; nothing if there are none.
  std::optional<LayoutError> findSharedAxis() const {
    std::map<int32_t, std::pair<size_t, size_t>> users; // axis -> dim, rule
    for (size_t d = 0; d < tensor.dims.size(); ++d)
      for (AxisRef part : result.sharding.dims[d]) {
        const size_t rule = findRuleOf(d, part);
        auto [user, isFirst] = users.try_emplace(part.axis, d, rule);
        if (isFirst)
          continue;
        LayoutError error =
            makeError(LayoutError::Kind::SharedAxis, rule, tensor.dims[d]);
        error.otherDim = tensor.dims[user->second.first];
        error.otherRule = user->second.second;
        error.axis = layout.mesh.getAxes()[size_t(part.axis)].name;
        return error;
      }
    return std::nullopt;
  }

  TensorLayout finish() {
    for (const std::vector<size_t> &ofDim : result.rules)
      for (size_t rule : ofDim)
        result.isByName |= !layout.rules[rule].values.empty();
    result.sharding = getCanonical(layout.mesh, std::move(result.sharding));
    return std::move(result);
  }

  /// Takes axes off dims behind the first that has them.
  Sharding finishLegal() {
    std::set<int32_t> taken;
    for (DimSplit &split : result.sharding.dims)
      std::erase_if(
          split, [&](AxisRef axis) { return !taken.insert(axis.axis).second; });
    return getCanonical(layout.mesh, std::move(result.sharding));
  }

private:
  bool holds(const Entry &entry) {
    if (!layout.isExempt(layout.rules[entry.rule], tensor.dims))
      return true;
    addLost(LostRule::Why::Unless, entry.rule);
    return false;
  }

  void addLost(LostRule::Why why, size_t rule) {
    if (const LostRule lost{why, rule};
        std::ranges::find(result.lost, lost) == result.lost.end())
      result.lost.push_back(lost);
  }

  void replace(size_t d, const Entry &entry) {
    for (size_t rule : result.rules[d])
      addLost(LostRule::Why::Replaced, rule);
    result.rules[d] = {entry.rule};
    result.sharding.dims[d] = entry.split;
  }

  void addEvery(const Entry &entry, const std::set<size_t> &settled) {
    const auto isTaken = [&](AxisRef added) {
      return std::ranges::any_of(
          result.sharding.dims, [&](const DimSplit &dim) {
            return std::ranges::any_of(
                dim, [&](AxisRef axis) { return axis.axis == added.axis; });
          });
    };
    if (std::ranges::any_of(entry.split, isTaken)) {
      addLost(LostRule::Why::AlreadySplit, entry.rule);
      return;
    }
    int64_t most = 0;
    size_t best = 0;
    bool isSettled = false; // a name keeps the axes off a dim they divide
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      const int64_t held = tensor.sizes[d] / getBlocks(result.sharding.dims[d]);
      DimSplit whole = result.sharding.dims[d];
      whole.insert(whole.end(), entry.split.begin(), entry.split.end());
      if (tensor.sizes[d] % getBlocks(whole) != 0 || held <= most)
        continue;
      if (settled.contains(d)) {
        isSettled = true;
        continue;
      }
      most = held;
      best = d;
    }
    if (most == 0) {
      addLost(isSettled ? LostRule::Why::Replaced : LostRule::Why::Indivisible,
              entry.rule);
      return;
    }
    DimSplit &split = result.sharding.dims[best];
    split.insert(split.end(), entry.split.begin(), entry.split.end());
    // What says that the dim is whole does not split it.
    std::erase_if(result.rules[best], [&](size_t rule) {
      if (!layout.rules[rule].axes.empty())
        return false;
      addLost(LostRule::Why::Replaced, rule);
      return true;
    });
    result.rules[best].push_back(entry.rule);
  }

  static int64_t getBlocks(const DimSplit &split) {
    int64_t blocks = 1;
    for (AxisRef axis : split)
      blocks *= axis.size;
    return blocks;
  }

  size_t findRuleOf(size_t d, AxisRef part) const {
    for (size_t rule : result.rules[d])
      if (std::ranges::find(layout.rules[rule].axes,
                            layout.mesh.getAxes()[size_t(part.axis)].name) !=
          layout.rules[rule].axes.end())
        return rule;
    __builtin_unreachable();
  }

  const Layout &layout;
  TensorShape tensor;
  TensorLayout result;
};

std::variant<TensorLayout, LayoutError> Layout::getLayout(TensorShape tensor,
                                                          Role role) const {
  Asking asking(*this, tensor);
  asking.addRules(Role::Value);
  const std::set<size_t> settled = asking.addRulesOfName();
  if (role >= Role::Parameter)
    asking.addRules(Role::Parameter, settled);
  for (size_t i = size_t(Role::Gradient); i <= size_t(role); ++i)
    asking.addRules(Role(i));
  if (std::optional<LayoutError> error = asking.findSharedAxis())
    return std::move(*error);
  return asking.finish();
}

Sharding Layout::getLegalSharding(TensorShape tensor) const {
  Asking asking(*this, tensor);
  asking.addRules(Role::Value);
  return asking.finishLegal();
}

/// "data and model".
static std::string enumerate(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + names[i];
  return text;
}

std::string Layout::explain(const LostRule &lost, const TensorLayout &asked,
                            std::span<const std::string> dims) const {
  const LayoutRule &rule = rules[lost.rule];
  switch (lost.why) {
  case LostRule::Why::Unless: {
    std::vector<std::string> met;
    for (const std::string &dim : rule.unless)
      if (std::ranges::find(dims, dim) != dims.end())
        met.push_back("\"" + dim + "\"");
    return "not beside " + enumerate(met);
  }
  case LostRule::Why::Replaced:
    // The first rule of a dim is the one that replaced; `*` adds behind it.
    for (size_t d = 0; d < dims.size(); ++d) {
      const std::vector<size_t> &winners = asked.rules[d];
      if (winners.empty() || winners.front() == lost.rule)
        continue;
      const LayoutRule &winner = rules[winners.front()];
      if (rule.isEvery()
              ? !winner.values.empty()
              : std::ranges::find(rule.dims, dims[d]) != rule.dims.end())
        return quote(winner) + " says otherwise";
    }
    return "another rule says otherwise";
  case LostRule::Why::AlreadySplit: {
    std::vector<std::string> taken;
    for (const DimSplit &split : asked.sharding.dims)
      for (AxisRef part : split)
        if (const std::string &axis = mesh.getAxes()[size_t(part.axis)].name;
            std::ranges::find(rule.axes, axis) != rule.axes.end() &&
            std::ranges::find(taken, axis) == taken.end())
          taken.push_back(axis);
    return "already split over " + enumerate(taken.empty() ? rule.axes : taken);
  }
  case LostRule::Why::Indivisible:
    return enumerate(rule.axes) +
           (rule.axes.size() == 1 ? " divides" : " divide") + " no dimension";
  }
  __builtin_unreachable();
}
