#include "frontend/elaborate/Numbers.h"
#include "runtime/settings/Settings.h"

#include <algorithm>
#include <utility>

using namespace meshc;
using namespace meshc::frontend;
using ast::Operator;

/// Longer expressions fix what they are of: each step of a training computes
/// them anew. No recipe of the standard library has one of 100 characters.
static constexpr size_t maxExpression = 1000;

/// Fixes settings, and those that their values are made of.
static void fix(std::vector<NamedSetting *> open) {
  // A chain of definitions may be long: no recursion.
  while (!open.empty()) {
    NamedSetting *setting = open.back();
    open.pop_back();
    if (std::exchange(setting->isFixed, true))
      continue;
    open.insert(open.end(), setting->others.begin(), setting->others.end());
  }
}

runtime::Number Number::get() const {
  if (derivation)
    fix(derivation->settings);
  return value;
}

bool Number::isSettable() const {
  return derivation &&
         !std::ranges::all_of(derivation->settings, &NamedSetting::isFixed);
}

std::string Number::toExpression() const {
  return derivation ? derivation->expression : runtime::toExpression(value);
}

Number Number::of(const Number &number, NamedSetting &setting) {
  if (setting.value.empty()) {
    setting.value = number.toExpression();
    if (number.derivation)
      setting.others = number.derivation->settings;
  }
  Number named = number;
  named.derivation =
      std::make_shared<Derivation>(Derivation{setting.name, {&setting}});
  return named;
}

Number Number::derive(runtime::Number value, const Number &lhs,
                      const Number *rhs, std::string_view sign) {
  Number derived(value);
  if (!lhs.derivation && !(rhs && rhs->derivation))
    return derived;
  Derivation derivation{lhs.toExpression(), {}};
  if (rhs)
    derivation.expression += " " + rhs->toExpression();
  (derivation.expression += ' ') += sign;
  for (const Number *of : {&lhs, rhs})
    if (of && of->derivation)
      for (NamedSetting *setting : of->derivation->settings)
        if (!std::ranges::count(derivation.settings, setting))
          derivation.settings.push_back(setting);
  if (derivation.expression.size() > maxExpression)
    fix(derivation.settings);
  else
    derived.derivation = std::make_shared<Derivation>(std::move(derivation));
  return derived;
}

static runtime::Arithmetic getArithmetic(Operator op) {
  switch (op) {
  case Operator::Add:
    return runtime::Arithmetic::Add;
  case Operator::Subtract:
    return runtime::Arithmetic::Subtract;
  case Operator::Multiply:
    return runtime::Arithmetic::Multiply;
  case Operator::Divide:
    return runtime::Arithmetic::Divide;
  case Operator::Remainder:
    return runtime::Arithmetic::Remainder;
  case Operator::Power:
    return runtime::Arithmetic::Power;
  default:
    __builtin_unreachable();
  }
}

std::string frontend::toString(const Number &number) {
  return runtime::toString(number.peek());
}

std::optional<int64_t> frontend::toInteger(const Number &number) {
  return runtime::toInteger(number.get());
}

std::string frontend::describeNoInteger(const Number &number) {
  return runtime::describeNoInteger(number.peek());
}

std::optional<Number> frontend::compute(Operator op, const Number &lhs,
                                        const Number &rhs, std::string &why) {
  const runtime::Arithmetic arithmetic = getArithmetic(op);
  const auto value = runtime::compute(arithmetic, lhs.value, rhs.value, why);
  if (!value)
    return std::nullopt;
  const char sign = char(arithmetic);
  return Number::derive(*value, lhs, &rhs, {&sign, 1});
}

std::optional<Number> frontend::negate(const Number &number, std::string &why) {
  const auto value = runtime::negate(number.value, why);
  if (!value)
    return std::nullopt;
  return Number::derive(*value, number, nullptr, "~");
}
