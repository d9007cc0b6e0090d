#ifndef MESHC_LAYOUT_LAYOUTRULES_H
#define MESHC_LAYOUT_LAYOUTRULES_H

#include "layout/Sharding.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace meshc::layout {

/// One line of the layout table: `dim -> (axes...)`, major first.
struct LayoutRule {
  std::string dim;
  std::vector<std::string> axes;
};

/// What is wrong with a layout. `rule`, `dim`, `axis` name the culprits;
/// `suggestion` is the nearest known name within the edit distance that
/// findNearest accepts, or empty.
struct LayoutError {
  enum class Kind {
    UnknownDim,    ///< the rule names no dimension of the program
    UnknownAxis,   ///< the rule names no axis of the mesh
    DuplicateRule, ///< two rules for one dimension
    RepeatedAxis,  ///< one rule names an axis twice
    SharedAxis,    ///< two dimensions of one tensor on one axis
  };
  Kind kind;
  size_t rule = 0;      ///< index of the offending rule
  size_t otherRule = 0; ///< SharedAxis, DuplicateRule: the other rule
  std::string dim;
  std::string otherDim; ///< SharedAxis
  std::string axis;     ///< UnknownAxis, RepeatedAxis, SharedAxis
  std::string suggestion;
};

/// The layout table of a program, checked against its mesh and dimensions.
class LayoutRules {
public:
  /// Every error of the table, not just the first.
  static std::variant<LayoutRules, std::vector<LayoutError>>
  create(const Mesh &mesh, std::vector<LayoutRule> rules,
         std::span<const std::string> programDims);

  /// The rules as given to create.
  std::span<const LayoutRule> getRules() const { return rules; }
  /// The rule for `dim`, or null.
  const LayoutRule *findRule(std::string_view dim) const;

  /// Axes that split dimension `dim` as the rule lists them, axes of size 1
  /// included; empty if no rule names it.
  const DimSplit &getSplit(std::string_view dim) const;

  /// The sharding the table gives a tensor with these dimensions, in canonical
  /// form, or the SharedAxis error. Sharing an axis is an error whatever its
  /// size, so that a layout's legality does not depend on the mesh's size.
  std::variant<Sharding, LayoutError>
  getSharding(std::span<const std::string> dims) const;

private:
  struct Entry {
    size_t rule;
    DimSplit split;
  };
  Mesh mesh;
  std::vector<LayoutRule> rules;
  std::map<std::string, Entry, std::less<>> entries;
};

} // namespace meshc::layout

#endif
