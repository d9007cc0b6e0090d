#include "layout/LayoutRules.h"

#include "layout/Spelling.h"

#include <set>
#include <utility>

using namespace meshc;
using namespace meshc::layout;

static LayoutError makeError(LayoutError::Kind kind, size_t rule,
                             const LayoutRule &source) {
  LayoutError error;
  error.kind = kind;
  error.rule = error.otherRule = rule;
  error.dim = source.dim;
  return error;
}

std::variant<LayoutRules, std::vector<LayoutError>>
LayoutRules::create(const Mesh &mesh, std::vector<LayoutRule> rules,
                    std::span<const std::string> programDims) {
  using Kind = LayoutError::Kind;
  std::vector<std::string> axisNames;
  for (const MeshAxis &axis : mesh.getAxes())
    axisNames.push_back(axis.name);

  LayoutRules result;
  std::vector<LayoutError> errors;
  std::map<std::string_view, size_t> firstRule;
  const std::set<std::string_view> knownDims(programDims.begin(),
                                             programDims.end());
  for (size_t i = 0; i < rules.size(); ++i) {
    const LayoutRule &rule = rules[i];
    if (!knownDims.contains(rule.dim)) {
      errors.push_back(makeError(Kind::UnknownDim, i, rule));
      errors.back().suggestion = findNearest(rule.dim, programDims);
    }
    auto [first, isFirst] = firstRule.try_emplace(rule.dim, i);
    if (!isFirst) {
      errors.push_back(makeError(Kind::DuplicateRule, i, rule));
      errors.back().otherRule = first->second;
    }
    DimSplit split;
    std::set<std::string_view> seen, repeated;
    for (const std::string &name : rule.axes) {
      if (!seen.insert(name).second) {
        if (!repeated.insert(name).second)
          continue;
        errors.push_back(makeError(Kind::RepeatedAxis, i, rule));
        errors.back().axis = name;
        continue;
      }
      std::optional<int32_t> axis = mesh.findAxis(name);
      if (axis) {
        split.push_back(mesh.getWholeAxis(*axis));
        continue;
      }
      errors.push_back(makeError(Kind::UnknownAxis, i, rule));
      errors.back().axis = name;
      errors.back().suggestion = findNearest(name, axisNames);
    }
    if (isFirst)
      result.entries.emplace(rule.dim, Entry{i, std::move(split)});
  }
  if (!errors.empty())
    return errors;
  result.mesh = mesh;
  result.rules = std::move(rules);
  return result;
}

const LayoutRule *LayoutRules::findRule(std::string_view dim) const {
  auto entry = entries.find(dim);
  return entry == entries.end() ? nullptr : &rules[entry->second.rule];
}

const DimSplit &LayoutRules::getSplit(std::string_view dim) const {
  static const DimSplit notSplit;
  auto entry = entries.find(dim);
  return entry == entries.end() ? notSplit : entry->second.split;
}

std::variant<Sharding, LayoutError>
LayoutRules::getSharding(std::span<const std::string> dims) const {
  Sharding sharding;
  std::map<int32_t, size_t> userOfAxis; // axis -> index in dims
  for (size_t d = 0; d < dims.size(); ++d) {
    sharding.dims.push_back(getSplit(dims[d]));
    for (AxisRef part : sharding.dims.back()) {
      auto [user, isFirst] = userOfAxis.try_emplace(part.axis, d);
      if (isFirst)
        continue;
      const Entry &entry = entries.find(dims[d])->second;
      LayoutError error = makeError(LayoutError::Kind::SharedAxis, entry.rule,
                                    rules[entry.rule]);
      error.otherDim = dims[user->second];
      error.otherRule = entries.find(error.otherDim)->second.rule;
      error.axis = mesh.getAxes()[part.axis].name;
      return error;
    }
  }
  return getCanonical(mesh, std::move(sharding));
}
