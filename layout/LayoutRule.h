#ifndef MESHC_LAYOUT_LAYOUTRULE_H
#define MESHC_LAYOUT_LAYOUTRULE_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
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
/// Those that a rule has a word for.
inline constexpr std::array namedRoles = {Role::Parameter, Role::Gradient,
                                          Role::State};

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
  /// Whether `dim=axis+axis` says all of it.
  bool hasShortForm() const { return isOfDims() && unless.empty(); }
  bool operator==(const LayoutRule &) const = default;
};

/// The rule as a spec has it: "params: * -> data", "\"b1/h\": pos -> ()",
/// "(heads, d_ff) -> model unless batch". parseRule reads it again, if no name
/// has a quote.
std::string toString(const LayoutRule &rule);

/// For a sentence, in quotes; one by a name begins with some.
std::string quote(const LayoutRule &rule);

/// What a rule names.
enum class RulePart : uint8_t { Values, Dims, Axes, Unless };

/// The name number `index` of a part; of `*` dim 0.
struct RuleName {
  RulePart part;
  size_t index;
  auto operator<=>(const RuleName &) const = default;
};

/// What the text of a rule is made of.
struct RuleWord {
  enum class Kind : uint8_t {
    Name,
    String, ///< in quotes
    Mark,   ///< "->", ":", "*", ",", "(" or ")"
    Other,  ///< whatever else, and the end
  };
  Kind kind = Kind::Other;
  std::string_view text = {}; ///< of a string with its quotes
};

/// Why words are no rule.
struct RuleSyntaxError {
  enum class Kind : uint8_t {
    NoName,           ///< `expected` says which: "a dimension", "a mesh axis"
    NoMark,           ///< `expected` behind `after`: "->", "the dimension"
    UnknownRole,      ///< what stands in front of ":"
    EmptyPattern,     ///< "":
    EveryOfNothing,   ///< `*` stands behind no role
    EveryOverNothing, ///< `* -> ()`
  };
  Kind kind;
  size_t word;     ///< that is wrong
  size_t numWords; ///< that are read when it is found
  std::string_view expected = {};
  std::string_view after = {};
  std::string name = {}; ///< UnknownRole
};

/// "expected a dimension", "a layout has no rules for \"weights\"".
std::string toString(const RuleSyntaxError &error);

struct ParsedRule {
  LayoutRule rule;
  std::map<RuleName, size_t> words; ///< where the rule says its names
  size_t numWords = 0;
};

/// The rule with which these words begin: the one grammar of rules.
std::variant<ParsedRule, RuleSyntaxError>
parseRule(const std::function<RuleWord(size_t index)> &getWord);

/// The rule that toString has written.
std::variant<LayoutRule, RuleSyntaxError> parseRule(std::string_view text);

} // namespace meshc::layout

#endif
