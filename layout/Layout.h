#ifndef MESHC_LAYOUT_LAYOUT_H
#define MESHC_LAYOUT_LAYOUT_H

#include "layout/LayoutRule.h"
#include "layout/Sharding.h"

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace meshc::layout {

/// What is wrong with a layout. `rule`, `dim`, `axis` name the culprits;
/// `suggestion` is the nearest known name within the edit distance that
/// findNearest accepts, or empty.
struct LayoutError {
  enum class Kind {
    UnknownDim,    ///< the rule names no dimension of the program
    UnknownUnless, ///< nor does what stands behind its `unless`
    UnknownAxis,   ///< the rule names no axis of the mesh
    DuplicateRule, ///< two rules for one dimension, or `*`, of the same tensors
    RepeatedAxis,  ///< one rule names an axis twice
    SharedAxis,    ///< two dimensions of one tensor on one axis
  };
  Kind kind;
  size_t rule = 0;      ///< index of the offending rule
  size_t otherRule = 0; ///< SharedAxis, DuplicateRule: the other rule
  std::string dim;      ///< empty: `*`
  std::string otherDim; ///< SharedAxis
  std::string axis;     ///< UnknownAxis, RepeatedAxis, SharedAxis
  std::string suggestion;
};

/// A tensor of which is asked how it lies. Sizes are those of the whole.
struct TensorShape {
  std::span<const std::string> dims;
  std::span<const int64_t> sizes;
  /// "layer/attn/scores", of gradients and state that of the parameter; empty:
  /// no rule is for it by its name.
  std::string_view name = {};
};

/// Why a rule that names a tensor does not split it.
struct LostRule {
  enum class Why {
    Unless,       ///< it has a dim behind `unless`
    Replaced,     ///< a rule of its role or name says otherwise of the dim
    AlreadySplit, ///< `*`, but it lies on one of the axes
    Indivisible,  ///< `*`, but the axes divide no dim
  };
  Why why;
  size_t rule;
  auto operator<=>(const LostRule &) const = default;
};

/// "unless", "replaced", "already_split", "indivisible".
std::string_view toString(LostRule::Why why);

/// How a tensor lies, and which rules made it so.
struct TensorLayout {
  Sharding sharding; ///< canonical
  /// By dim: the rules that split it, in the order of their axes.
  std::vector<std::vector<size_t>> rules;
  /// Whether one of them is for its name. A pattern may fit where none of the
  /// rule's dims is, or where `unless` one is.
  bool isByName = false;
  std::vector<LostRule> lost;
};

/// The layout table of a program, checked against its mesh and dimensions: the
/// one answer to how a value is split.
///
///     batch     -> data
///     d         -> data unless batch
///     params: * -> data
///
///     on data=4          Value                  Parameter
///     [batch=8, d=6]     batch@data             (none)
///     [d=8, d_ff=12]     d@data                 d@data: already split
///     [d_ff=12, wide=8]  whole                  d_ff@data: 12 > 8
///     [wide=6]           whole                  whole: 4 does not divide 6
class Layout {
public:
  /// Every error of the table, not just the first.
  static std::variant<Layout, std::vector<LayoutError>>
  create(const Mesh &mesh, std::vector<LayoutRule> rules,
         std::span<const std::string> programDims);
  /// Of rules alone: all dims that they name are dims of the program.
  static std::variant<Layout, std::vector<LayoutError>>
  create(const Mesh &mesh, std::vector<LayoutRule> rules);

  /// The rules as given to create.
  std::span<const LayoutRule> getRules() const { return rules; }
  const Mesh &getMesh() const { return mesh; }
  /// The rule without a role for `dim`; nothing if there is none.
  std::optional<size_t> findRule(std::string_view dim) const;
  /// Whether tensors of this role may lie otherwise than values of their dims.
  bool hasRulesFor(Role role) const;
  /// Whether a rule is for what has this name.
  bool hasRulesFor(std::string_view name) const;

  /// Axes that split dimension `dim` as the rule without a role lists them,
  /// whatever its `unless` says, axes of size 1 included; empty if no rule
  /// names it.
  const DimSplit &getSplit(std::string_view dim) const;
  /// Whether one of `dims` stands behind the `unless` of the rule for `dim`.
  bool isExempt(std::string_view dim, std::span<const std::string> dims) const;

  /// How a tensor of this role lies, or the SharedAxis error. Sharing an axis
  /// is an error whatever its size, so that a layout's legality does not depend
  /// on the mesh's size.
  std::variant<TensorLayout, LayoutError> getLayout(TensorShape tensor,
                                                    Role role) const;
  /// Why a rule lost, of a tensor of these dims for which getLayout has said
  /// so: "not beside "batch"", ""params: d -> model" says otherwise", "already
  /// split over data", "data divides no dimension".
  std::string explain(const LostRule &lost, const TensorLayout &asked,
                      std::span<const std::string> dims) const;
  /// How a value between two operations lies, which is never illegal: of
  /// two dimensions on one axis the first keeps it.
  Sharding getLegalSharding(TensorShape tensor) const;

private:
  struct Entry {
    size_t rule;
    DimSplit split;
  };
  /// The rules of one role.
  struct Table {
    std::map<std::string, Entry, std::less<>> byDim;
    std::optional<Entry> every;
  };
  class Asking;

  Table &findTable(const LayoutRule &rule);
  bool isExempt(const LayoutRule &rule,
                std::span<const std::string> dims) const;

  Mesh mesh;
  std::vector<LayoutRule> rules;
  std::array<Table, numRoles> tables;
  std::vector<std::pair<std::string, Table>> tablesOfValues; ///< by pattern
};

} // namespace meshc::layout

#endif
