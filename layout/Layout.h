#ifndef MESHC_LAYOUT_LAYOUT_H
#define MESHC_LAYOUT_LAYOUT_H

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

/// What a tensor is to a training, as far as a layout tells them apart. Each
/// lies as the one before it in this list unless a rule says otherwise.
enum class Role : uint8_t {
  Value,     ///< whatever has dims: inputs, activations, the model's own state
  Parameter, ///< what is trained
  Gradient,  ///< of a parameter
  State,     ///< what the optimizer keeps of a parameter, and running means
};
inline constexpr size_t numRoles = 4;

/// "values", "params", "gradients", "state", as a rule says it.
std::string_view toString(Role role);

/// One line of the table: `[role:] dims -> axes [unless dims]`, or
/// `"name": dims -> axes`.
///
/// Without a role it says how these dims are split wherever they occur; with
/// one, how they are in tensors of that role, in place of what is said without.
/// No dims are `*`: each tensor of the role is split over the axes once more,
/// along the dim of which a device has most positions, if the axes divide them;
/// of several the first. A rule does not hold in a tensor that has one of the
/// dims behind `unless`.
///
/// A rule by a pattern of names, without the iterations of loops (fitsPattern),
/// is for values, inputs, the model's state and parameters of such a name. It
/// holds in place of what is said of its dims otherwise, for params too, and
/// `*` adds nothing along them; of several the first. Gradients and state
/// follow the parameter, and have only rules of their role besides. Its axes
/// may be none.
struct LayoutRule {
  std::vector<std::string> dims;
  std::vector<std::string> axes; ///< major first
  Role role = Role::Value;
  std::vector<std::string> unless = {};
  std::string values = {}; ///< the pattern of names; empty: no such rule

  bool isEvery() const { return dims.empty(); }
  /// Whether it says how dims are split wherever they occur.
  bool isOfDims() const { return role == Role::Value && values.empty(); }
};

/// "params: * -> data", "(heads, d_ff) -> model unless batch",
/// "\"b1/h\": pos -> ()".
std::string toString(const LayoutRule &rule);

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

/// How a tensor lies, and which rules made it so.
struct TensorLayout {
  Sharding sharding; ///< canonical
  /// By dim: the rules that split it, in the order of their axes.
  std::vector<std::vector<size_t>> rules;
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
  /// The same for a value between two operations, which is never illegal: of
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
