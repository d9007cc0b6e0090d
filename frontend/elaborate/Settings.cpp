// Numbers of the spec that are set when a training starts: what updates compute
// of them is an input, not a constant.

#include "frontend/elaborate/Elaborator.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

Number Elaborator::nameNumber(std::string_view name, Global &global,
                              const Number &number) {
  if (!global.setting)
    global.setting =
        &settings.emplace_back(NamedSetting{std::string(name), {}, {}});
  return Number::of(number, *global.setting);
}

static std::string_view getSign(Comparison comparison) {
  switch (comparison) {
  case Comparison::Eq:
    return "==";
  case Comparison::Ne:
    return "!=";
  case Comparison::Lt:
    return "<";
  case Comparison::Le:
    return "<=";
  case Comparison::Gt:
    return ">";
  case Comparison::Ge:
    return ">=";
  }
  __builtin_unreachable();
}

/// What holds where the comparison does not.
static Comparison getOpposite(Comparison comparison) {
  switch (comparison) {
  case Comparison::Eq:
    return Comparison::Ne;
  case Comparison::Ne:
    return Comparison::Eq;
  case Comparison::Lt:
    return Comparison::Ge;
  case Comparison::Le:
    return Comparison::Gt;
  case Comparison::Gt:
    return Comparison::Le;
  case Comparison::Ge:
    return Comparison::Lt;
  }
  __builtin_unreachable();
}

bool Elaborator::compare(Comparison comparison, const Number &lhs,
                         const Number &rhs) {
  const bool holds =
      runtime::compare(getSign(comparison), lhs.peek(), rhs.peek()).value();
  if (!lhs.isSettable() && !rhs.isSettable())
    return holds;
  Requirement requirement{
      fmt::format("{} {} {}", lhs.toExpression(), rhs.toExpression(),
                  getSign(holds ? comparison : getOpposite(comparison))),
      lhs.getSettings()};
  for (NamedSetting *setting : rhs.getSettings())
    requirement.settings.push_back(setting);
  if (std::ranges::find(requirements, requirement.expression,
                        &Requirement::expression) == requirements.end())
    requirements.push_back(std::move(requirement));
  return holds;
}

Tensor Elaborator::toSetting(const Number &number, ElementType type,
                             const Where &where) {
  const double value = number.peek().toDouble();
  if (type == ElementType::F32 && std::isfinite(value) &&
      std::isinf(static_cast<float>(value)))
    return builder.constant(value, type, where); // which says so
  const std::string expression = number.toExpression();
  Tensor &input =
      settingInputs[fmt::format("{} {}", getName(type), expression)];
  if (!input) {
    input = builder.setting(expression, type, where);
    computedSettings.emplace_back(number, input);
  }
  return input;
}

void Elaborator::finishSettings() {
  for (const auto &[number, input] : computedSettings)
    if (!number.isSettable()) // what came behind has fixed all of them
      builder.fixSetting(input, number.peek().toDouble());
  for (const NamedSetting &setting : settings)
    builder.addSetting(setting.name, setting.value, setting.isFixed);
  for (const auto &[expression, settings] : requirements)
    if (!std::ranges::all_of(settings, &NamedSetting::isFixed))
      builder.addRequirement(expression);
}
