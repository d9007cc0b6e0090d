#ifndef MESHC_FRONTEND_ELABORATE_NUMBERS_H
#define MESHC_FRONTEND_ELABORATE_NUMBERS_H

/// Numbers of a spec at compile time. One that is computed of a number that the
/// spec defines by a name knows of which, and how: an update of parameters
/// takes it as an expression over such numbers, which may be set when a
/// training starts (runtime/settings/Settings.h). Whoever asks what a number
/// is, other than for a message, makes the program of it, and these cannot be
/// set.

#include "frontend/syntax/Ast.h"
#include "runtime/settings/Numbers.h"

#include <memory>

namespace meshc::frontend {

/// A number that a spec defines by a name.
struct NamedSetting {
  std::string name;
  std::string value;                  ///< as an expression over others
  std::vector<NamedSetting *> others; ///< in `value`
  bool isFixed = false;               ///< the program is made of it
};

class Number {
public:
  Number() = default;
  static Number of(int64_t value) { return Number(runtime::Number::of(value)); }
  static Number of(double value) { return Number(runtime::Number::of(value)); }
  /// The number as what `setting` is; fills `value` and `others` of one that is
  /// new. The setting must outlive the number.
  static Number of(const Number &number, NamedSetting &setting);

  /// What it is, which the program is made of from now on.
  runtime::Number get() const;
  double toDouble() const { return get().toDouble(); }

  /// Whether it can be another one when a training starts.
  bool isSettable() const;
  /// As an expression over settings, and which these are.
  std::string toExpression() const;
  std::vector<NamedSetting *> getSettings() const {
    return derivation ? derivation->settings : std::vector<NamedSetting *>();
  }
  /// What it is, for messages and for what stands beside its expression.
  runtime::Number peek() const { return value; }

private:
  struct Derivation {
    std::string expression;
    std::vector<NamedSetting *> settings;
  };
  explicit Number(runtime::Number value) : value(value) {}
  friend std::optional<Number> compute(ast::Operator op, const Number &lhs,
                                       const Number &rhs, std::string &why);
  friend std::optional<Number> negate(const Number &number, std::string &why);
  /// `value`, computed of `lhs` and `rhs`, if there is one.
  static Number derive(runtime::Number value, const Number &lhs,
                       const Number *rhs, std::string_view sign);

  runtime::Number value;
  std::shared_ptr<const Derivation> derivation; ///< null: of numbers alone
};

/// For messages.
std::string toString(const Number &number);

/// See runtime::toInteger; the program is made of it.
std::optional<int64_t> toInteger(const Number &number);

/// Why toInteger gives nothing, behind "which": "is not an integer".
std::string describeNoInteger(const Number &number);

/// lhs op rhs for + - * / % ^, as runtime::compute.
std::optional<Number> compute(ast::Operator op, const Number &lhs,
                              const Number &rhs, std::string &why);

std::optional<Number> negate(const Number &number, std::string &why);

} // namespace meshc::frontend

#endif
