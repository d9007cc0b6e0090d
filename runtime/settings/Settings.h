#ifndef MESHC_RUNTIME_SETTINGS_SETTINGS_H
#define MESHC_RUNTIME_SETTINGS_SETTINGS_H

/// The numbers that a spec defines by names, of which the steps of a training
/// compute with some: `--set lr=0.01` sets one without compiling again.
///
/// What is computed of them is an expression: numbers, names and the signs of
/// arithmetic behind what they apply to, apart by blanks; "~" negates. That of
/// 1 - 0.1 * lr is "1 0.1 lr * -". Comparisons, as "lr 0 >", are 1 or 0. It is
/// computed as the compiler computes with
/// numbers (Numbers.h), so that a number that is set gives the bits that the
/// same number gives where it is compiled.

#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"
#include "runtime/settings/Numbers.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// A number by its name, as a user gives it.
struct NamedNumber {
  std::string name;
  Number value;
};

/// The number that a text is in full, as specs write them, with a sign: "-3",
/// "0.01", "1e-4".
std::optional<Number> parseNumber(std::string_view text);

/// A number as part of an expression: one that is not an integer does not look
/// like one.
std::string toExpression(Number number);

class Settings {
public:
  Settings() = default;
  /// With the values that are compiled. Errors: DamagedProgram where one is no
  /// expression of those before it, or a requirement does not hold of them.
  static Result<Settings> create(const exec::ExecutableT &program);

  /// Sets numbers; what is computed of them follows. Nothing is set where one
  /// cannot be. Errors: UnknownName;
  /// WrongSetting where the program is made of one, where what is computed of
  /// them is no number, or where a requirement does not hold any more.
  Status set(std::span<const NamedNumber> numbers);

  /// Errors: UnknownName, naming those there are.
  Result<Number> get(std::string_view name) const;
  /// What has been set, by name.
  const std::map<std::string, Number> &getChanged() const { return changed; }

  /// What an expression is. Errors: DamagedProgram where it is none of these
  /// settings; WrongSetting where it is no number.
  Result<Number> evaluate(std::string_view expression) const;
  /// The same in floats of 32 or 64 bits. Errors: also
  /// WrongSetting where a finite number is infinite in them.
  Result<std::vector<std::byte>> evaluate(std::string_view expression,
                                          exec::ElementType element) const;

  /// Names with what each is: those that can be set, or those that cannot.
  std::vector<NamedNumber> list(bool isFixed) const;

private:
  struct Setting {
    std::string name, expression;
    bool isFixed = false;
    Number value;
  };
  const Setting *find(std::string_view name) const;
  /// Computes all values anew, and whether the requirements hold.
  Status compute();
  /// The same of an expression over the first `count` settings.
  Result<Number> evaluate(std::string_view expression, size_t count) const;
  /// "lr = 0", of what has been set; why an expression is no number.
  std::string describeChanged() const;

  std::vector<Setting> settings;
  std::map<std::string, size_t, std::less<>> places; ///< there, by name
  std::vector<std::string> requirements;
  std::map<std::string, Number> changed;
};

} // namespace meshc::runtime

#endif
