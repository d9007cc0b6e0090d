#include "runtime/settings/Settings.h"

#include "layout/Spelling.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::runtime;

std::optional<Number> runtime::parseNumber(std::string_view text) {
  const char *begin = text.data(), *end = begin + text.size();
  int64_t integer = 0;
  if (const auto [rest, error] = std::from_chars(begin, end, integer);
      error == std::errc() && rest == end)
    return Number::of(integer);
  double real = 0;
  const auto [rest, error] = std::from_chars(begin, end, real);
  if (error != std::errc() || rest != end || std::isnan(real))
    return std::nullopt;
  return Number::of(real);
}

std::string runtime::toExpression(Number number) {
  std::string text = toString(number);
  if (!number.isInteger && text.find_first_of(".ein") == std::string::npos)
    text += ".0";
  return text;
}

static Error getDamage(std::string_view expression) {
  return {ErrorCode::DamagedProgram,
          fmt::format("damaged program: '{}' is no expression of its settings",
                      expression),
          "compile the model again"};
}

/// What the sign of an operation of two operands gives; an error is without a
/// note. Nothing where it is no such sign.
static std::optional<Result<Number>> apply(std::string_view sign, Number lhs,
                                           Number rhs) {
  if (const std::optional<bool> truth = compare(sign, lhs, rhs))
    return Result<Number>(Number::of(int64_t(*truth)));
  if (sign.size() != 1 ||
      std::string_view("+-*/%^").find(sign) == std::string_view::npos)
    return std::nullopt;
  std::string why;
  if (const auto number =
          runtime::compute(Arithmetic(sign.front()), lhs, rhs, why))
    return Result<Number>(*number);
  return Result<Number>(Error{
      ErrorCode::WrongSetting,
      fmt::format("{} {} {}: {}", toString(lhs), sign, toString(rhs), why),
      ""});
}

/// The terms of an expression.
static std::vector<std::string_view> split(std::string_view expression) {
  std::vector<std::string_view> terms;
  while (true) {
    const size_t blank = expression.find(' ');
    terms.push_back(expression.substr(0, blank));
    if (blank == std::string_view::npos)
      return terms;
    expression.remove_prefix(blank + 1);
  }
}

/// An expression as a spec would have it, with more brackets.
static std::string toInfix(std::string_view expression) {
  std::vector<std::string> stack;
  auto pop = [&] {
    std::string last = stack.empty() ? "" : stack.back();
    if (!stack.empty())
      stack.pop_back();
    return last;
  };
  for (std::string_view term : split(expression)) {
    const bool isOperand =
        std::isalpha(static_cast<unsigned char>(term.front())) ||
        term.front() == '_' || parseNumber(term);
    if (term == "~") {
      stack.push_back("-" + pop());
    } else if (isOperand) {
      stack.emplace_back(term);
    } else {
      const std::string right = pop(), left = pop();
      const bool isWhole = &term.back() == &expression.back();
      std::string text = fmt::format("{} {} {}", left, term, right);
      stack.push_back(isWhole ? std::move(text) : fmt::format("({})", text));
    }
  }
  return pop();
}

Result<Settings> Settings::create(const exec::ExecutableT &program) {
  Settings created;
  for (const auto &setting : program.settings) {
    if (!created.places.emplace(setting->name, created.settings.size()).second)
      return getDamage(setting->name);
    created.settings.push_back(
        {setting->name, setting->value, setting->is_fixed, {}});
  }
  created.requirements = program.requirements;
  const Status computed = created.compute();
  if (computed)
    return created;
  // Nobody has set anything.
  return Error{ErrorCode::DamagedProgram, computed.getError().message,
               "compile the model again"};
}

const Settings::Setting *Settings::find(std::string_view name) const {
  const auto found = places.find(name);
  return found == places.end() ? nullptr : &settings[found->second];
}

Result<Number> Settings::get(std::string_view name) const {
  if (const Setting *setting = find(name))
    return setting->value;
  std::vector<std::string> all, names;
  for (const Setting &setting : settings) {
    all.push_back(setting.name);
    if (!setting.isFixed)
      names.push_back(setting.name);
  }
  // Of one that is fixed the next attempt is told.
  const std::string nearest = layout::findNearest(name, all);
  std::string note = "no number of this program can be set";
  if (!nearest.empty())
    note = fmt::format("did you mean '{}'?", nearest);
  else if (!names.empty())
    note = fmt::format("expected one of '{}'", fmt::join(names, "', '"));
  return Error{ErrorCode::UnknownName,
               fmt::format("the spec defines no number '{}'", name),
               std::move(note)};
}

Status Settings::set(std::span<const NamedNumber> numbers) {
  Settings next = *this; // all of them, or none
  for (const auto &[name, value] : numbers) {
    Result<Number> before = get(name);
    if (!before)
      return before.getError();
    if (find(name)->isFixed)
      return Error{
          ErrorCode::WrongSetting,
          fmt::format("the program is made of '{}', which is {}", name,
                      toString(*before)),
          fmt::format("compile it with -D {}={}", name, toString(value))};
    next.changed.insert_or_assign(name, value);
  }
  Status computed = next.compute();
  if (computed)
    *this = std::move(next);
  return computed;
}

Status Settings::compute() {
  for (size_t i = 0; i < settings.size(); ++i) {
    Setting &setting = settings[i];
    if (const auto found = changed.find(setting.name); found != changed.end()) {
      setting.value = found->second;
      continue;
    }
    Result<Number> value = evaluate(setting.expression, i);
    if (!value)
      return value.getError();
    setting.value = *value;
  }
  for (const std::string &requirement : requirements) {
    Result<Number> holds = evaluate(requirement);
    if (!holds)
      return holds.getError();
    if (holds->toDouble() == 0)
      return Error{ErrorCode::WrongSetting,
                   fmt::format("the program is made for numbers of which {}, "
                               "which does not hold {}",
                               toInfix(requirement), describeChanged()),
                   "compile it with -D NAME=VALUE"};
  }
  return Status::success();
}

std::string Settings::describeChanged() const {
  std::string text;
  for (const auto &[name, value] : changed)
    text += fmt::format("{}{} = {}", text.empty() ? "with " : ", ", name,
                        toString(value));
  return text;
}

Result<Number> Settings::evaluate(std::string_view expression) const {
  return evaluate(expression, settings.size());
}

Result<Number> Settings::evaluate(std::string_view expression,
                                  size_t count) const {
  std::vector<Number> stack;
  for (std::string_view term : split(expression)) {
    const Setting *setting = find(term);
    if (setting && size_t(setting - settings.data()) < count) {
      stack.push_back(setting->value);
      continue;
    }
    if (const std::optional<Number> number = parseNumber(term)) {
      stack.push_back(*number);
      continue;
    }
    if (term == "~" && !stack.empty()) {
      std::string why;
      const std::optional<Number> result = negate(stack.back(), why);
      if (!result)
        return Error{ErrorCode::WrongSetting,
                     fmt::format("-({}): {}", toString(stack.back()), why),
                     describeChanged()};
      stack.back() = *result;
      continue;
    }
    if (stack.size() < 2)
      return getDamage(expression);
    const Number last = stack.back();
    stack.pop_back();
    std::optional<Result<Number>> result = apply(term, stack.back(), last);
    if (!result)
      return getDamage(expression);
    if (!*result)
      return Error{ErrorCode::WrongSetting, result->getError().message,
                   describeChanged()};
    stack.back() = **result;
  }
  if (stack.size() != 1)
    return getDamage(expression);
  return stack.front();
}

Result<std::vector<std::byte>>
Settings::evaluate(std::string_view expression,
                   exec::ElementType element) const {
  Result<Number> number = evaluate(expression);
  if (!number)
    return number.getError();
  auto toBytes = [](auto value) {
    std::vector<std::byte> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  if (element == exec::ElementType::f64)
    return toBytes(number->toDouble());
  const auto value = static_cast<float>(number->toDouble());
  if (std::isinf(value) && !std::isinf(number->toDouble()))
    return Error{ErrorCode::WrongSetting,
                 fmt::format("{} is infinite in f32", toString(*number)),
                 describeChanged()};
  return toBytes(value);
}

std::vector<NamedNumber> Settings::list(bool isFixed) const {
  std::vector<NamedNumber> numbers;
  for (const Setting &setting : settings)
    if (setting.isFixed == isFixed)
      numbers.push_back({setting.name, setting.value});
  return numbers;
}
