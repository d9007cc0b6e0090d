// Optimizers: functions of a parameter and its gradient, which are elaborated
// for each parameter of the model.

#include "frontend/elaborate/Elaborator.h"
#include "frontend/syntax/ForeignNames.h"
#include "layout/Spelling.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;

/// Whether a function takes a parameter and its gradient, before anything else.
static bool isOptimizer(const ast::Function &function) {
  return function.parameters.size() >= 2 &&
         !function.parameters[0].defaultValue &&
         !function.parameters[1].defaultValue;
}

void Elaborator::reportUnknownOptimizer(const ast::Name &name) {
  const ast::Function *function = findFunction(name.text);
  if (function) {
    error(Code::UnknownOptimizer, name.span,
          fmt::format("\"{}\" is no optimizer", name.text))
        .alsoAt(getUserSpan(function->name.span), "this function")
        .note("the first two parameters of an optimizer are a parameter of the "
              "model and its gradient");
    return;
  }
  std::vector<std::string> names;
  for (const auto *table : {&functions, &library})
    for (const auto &[known, candidate] : *table)
      // As the library calls them.
      if (isOptimizer(*candidate) && candidate->parameters[1].name.text == "g")
        names.emplace_back(known);
  Diagnostic &unknown =
      error(Code::UnknownOptimizer, name.span,
            fmt::format("there is no optimizer \"{}\"", name.text));
  if (!adviseForeign(unknown, ForeignKind::Optimizer, name.text))
    unknown.didYouMean(layout::findNearest(std::string(name.text), names));
}

std::optional<Elaborator::Optimizer>
Elaborator::getOptimizer(const ast::Setting &setting) {
  const ast::Expr &value = *setting.value;
  const ast::CallExpr *call = nullptr;
  if (value.kind == ExprKind::Call) {
    call = static_cast<const ast::CallExpr *>(&value);
  } else if (value.kind == ExprKind::Name) {
    const auto &name = static_cast<const ast::NameExpr &>(value);
    call = optimizerCalls
               .emplace_back(std::make_unique<ast::CallExpr>(
                   value.span, ast::Name{name.name, value.span}))
               .get();
  } else {
    error(Code::UnknownOptimizer, value.span,
          "expected an optimizer such as sgd(lr = 0.1)");
    return std::nullopt;
  }
  for (const ast::Argument &argument : call->arguments)
    if (!argument.name || argument.arrow) {
      error(Code::ExpectedToken, argument.value->span,
            "hyper-parameters of an optimizer are named")
          .help(fmt::format("write {}(lr = ...)", call->callee.text));
      return std::nullopt;
    }
  if (call->callee.text == "ema") {
    error(Code::ReservedWord, call->callee.span,
          "no optimizer can be called \"ema\"")
        .note("running means are called ema/w, and state of an optimizer after "
              "its function");
    return std::nullopt;
  }
  const ast::Function *function = findFunction(call->callee.text);
  if (function && isOptimizer(*function))
    return Optimizer{call, function, &setting};
  reportUnknownOptimizer(call->callee);
  return std::nullopt;
}

std::string Elaborator::describeOptimizer(const Optimizer &optimizer) {
  std::vector<std::string> hyper;
  for (const ast::Parameter &parameter :
       std::span(optimizer.function->parameters).subspan(2)) {
    const auto given = std::ranges::find_if(
        optimizer.call->arguments, [&](const ast::Argument &argument) {
          return argument.name->text == parameter.name.text;
        });
    const ast::Expr *expr = given != optimizer.call->arguments.end()
                                ? given->value.get()
                                : parameter.defaultValue.get();
    if (!expr)
      continue; // that is an error
    std::string text(sources.getText(expr->span));
    if (given != optimizer.call->arguments.end() && isKnown(*expr))
      if (std::optional<Number> number = getNumber(evaluate(*expr)))
        text = fmt::format("{:g}", number->peek().toDouble());
    hyper.push_back(fmt::format("{} = {}", parameter.name.text, text));
  }
  return fmt::format("{}({})", optimizer.call->callee.text,
                     fmt::join(hyper, ", "));
}

//===----------------------------------------------------------------------===//
// For which parameters
//===----------------------------------------------------------------------===//

bool Elaborator::checkPattern(const ast::StringExpr &pattern) {
  const std::vector<std::string> parameters = builder.getParameters();
  if (std::ranges::any_of(parameters, [&](const std::string &name) {
        return layout::fitsPattern(pattern.value, name);
      }))
    return true;
  error(Code::UnknownParameter, pattern.span,
        fmt::format("no parameter is called \"{}\"", pattern.value))
      .didYouMean(layout::findNearest(pattern.value, parameters));
  return false;
}

bool Elaborator::checkPatterns(const std::vector<const ast::Setting *> &lines) {
  const ast::Setting *general = nullptr;
  bool isValid = true;
  for (const ast::Setting *line : lines) {
    if (line->patterns.empty() && std::exchange(general, line)) {
      error(Code::DuplicateName, line->name.span,
            fmt::format("\"{}\" is set twice", line->name.text))
          .help(fmt::format("say for which parameters: {} ... for \"layer/*\"",
                            line->name.text));
      isValid = false;
    }
    for (const ast::StringExpr &pattern : line->patterns)
      isValid &= checkPattern(pattern);
  }
  return isValid;
}

const ast::Setting *
Elaborator::findLine(const std::vector<const ast::Setting *> &lines,
                     std::string_view parameter) {
  const ast::Setting *general = nullptr;
  for (const ast::Setting *line : lines) {
    if (line->patterns.empty())
      general = line;
    for (const ast::StringExpr &pattern : line->patterns)
      if (layout::fitsPattern(pattern.value, parameter))
        return line;
  }
  return general;
}

std::vector<const ast::StringExpr *>
Elaborator::getNames(const ast::Setting &line) {
  std::vector names{static_cast<const ast::StringExpr *>(line.value.get())};
  for (const ast::StringExpr &name : line.more)
    names.push_back(&name);
  return names;
}

bool Elaborator::checkFrozen(const std::vector<const ast::Setting *> &lines) {
  for (const ast::Setting *line : lines) {
    if (line->value->kind != ExprKind::String || !line->patterns.empty()) {
      error(Code::WrongKind, line->value->span,
            "expected the names of parameters")
          .help("write freeze \"encoder/*\"");
      return false;
    }
    for (const ast::StringExpr *pattern : getNames(*line))
      if (!checkPattern(*pattern))
        return false;
  }
  return true;
}

bool Elaborator::isFrozen(const std::vector<const ast::Setting *> &lines,
                          std::string_view parameter) {
  return std::ranges::any_of(lines, [&](const ast::Setting *line) {
    return std::ranges::any_of(
        getNames(*line), [&](const ast::StringExpr *pattern) {
          return layout::fitsPattern(pattern->value, parameter);
        });
  });
}

std::vector<ObjectiveSpec> Elaborator::getObjectives(const Recipe &recipe) {
  const std::vector<const ast::Setting *> &lines = recipe.minimized;
  if (!checkFrozen(recipe.frozen) || !checkPatterns(lines))
    return {};
  std::vector<ObjectiveSpec> others;
  for (const ast::Setting *line : lines)
    others.push_back(
        {std::string(static_cast<const ast::NameExpr &>(*line->value).name),
         {},
         getWhere(line->value->span)});
  for (const std::string &parameter : builder.getParameters()) {
    if (isFrozen(recipe.frozen, parameter))
      continue;
    const ast::Setting *line = findLine(lines, parameter);
    if (!line) {
      error(
          Code::MissingMinimize, lines.front()->name.span,
          fmt::format("parameter \"{}\" has no output to minimize", parameter))
          .help("\"minimize\" without \"for\" is for the rest")
          .help(fmt::format("freeze \"{}\" leaves it as it is", parameter));
      return {};
    }
    others[size_t(std::ranges::find(lines, line) - lines.begin())]
        .parameters.push_back(parameter);
  }
  others.erase(others.begin());
  return others;
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

void Elaborator::buildUpdates(const Recipe &recipe) {
  std::vector<const ast::Setting *> lines;
  for (const Optimizer &optimizer : recipe.optimizers)
    lines.push_back(optimizer.setting);
  const std::vector<const ast::Setting *> &frozen = recipe.frozen;
  if (!checkPatterns(lines))
    return;
  std::vector<std::pair<std::string, const Optimizer *>> updates;
  for (const std::string &parameter : builder.getParameters()) {
    if (isFrozen(frozen, parameter))
      continue;
    const ast::Setting *line = findLine(lines, parameter);
    if (!line) {
      error(Code::UnknownOptimizer, lines.front()->name.span,
            fmt::format("parameter \"{}\" has no optimizer", parameter))
          .help("an optimizer without \"for\" is for the rest")
          .help(fmt::format("freeze \"{}\" leaves it as it is", parameter));
      return;
    }
    updates.emplace_back(parameter,
                         &recipe.optimizers[size_t(
                             std::ranges::find(lines, line) - lines.begin())]);
  }
  if (updates.empty() && !builder.getParameters().empty()) {
    error(Code::NothingToOptimize, frozen.front()->name.span,
          "all parameters are frozen: there is nothing to train");
    return;
  }
  builder.beginUpdates();
  reportBuildErrors({});
  if (recipe.clip) {
    std::vector<std::string> parameters;
    for (const auto &[parameter, optimizer] : updates)
      parameters.push_back(parameter);
    buildClip(*recipe.clip, parameters);
  }
  if (recipe.means && !buildMeans(*recipe.means))
    return;
  const Value around = std::exchange(training, true);
  std::map<const Optimizer *, std::string> rates;
  std::map<std::string_view, int> numbers;
  for (const auto &[parameter, optimizer] : updates) {
    if (diagnostics.hasErrors() || mustStop())
      break;
    if (!rates.contains(optimizer)) {
      const std::string_view called = optimizer->call->callee.text;
      const int number = ++numbers[called];
      std::string name = fmt::format("{}/lr", called);
      if (number > 1)
        name += fmt::format("/{}", number);
      buildRate(*optimizer, parameter, rates[optimizer] = name);
    }
    buildUpdate(*optimizer, parameter);
  }
  updated.reset();
  training = around;
  if (!diagnostics.hasErrors())
    finishSettings();
}

void Elaborator::buildRate(const Optimizer &optimizer,
                           const std::string &parameter,
                           std::string_view name) {
  const ast::CallExpr &call = *optimizer.call;
  const auto given =
      std::ranges::find_if(call.arguments, [](const ast::Argument &argument) {
        return argument.name && argument.name->text == "lr";
      });
  // What the compiler knows is told with the recipe.
  if (given == call.arguments.end() || isKnown(*given->value))
    return;
  const Where where = getWhere(given->value->span);
  builder.beginRate(parameter, std::string(call.callee.text));
  Frame top;
  frame = &top;
  updated = parameter;
  updatedElement = ElementType::F32;
  numSteps = 0;
  const Value value = evaluate(*given->value);
  const auto *rate = std::get_if<Tensor>(&value);
  builder.endRate(std::string(name), rate ? *rate : Tensor(), where);
  reportBuildErrors({});
  frame = nullptr;
}

void Elaborator::buildUpdate(const Optimizer &optimizer,
                             const std::string &parameter) {
  const ast::CallExpr &call = *optimizer.call;
  const Where where = getWhere(call.span);
  const Builder::Update update =
      builder.beginUpdate(parameter, std::string(call.callee.text), where);
  Frame top;
  frame = &top;
  updated = parameter;
  updatedElement = update.parameter.getElementType();
  numSteps = 0;
  const auto &parameters = optimizer.function->parameters;
  std::optional<Values> results =
      callFunction(call, *optimizer.function,
                   {{update.parameter, parameters[0].name.span},
                    {update.gradient, parameters[1].name.span}});
  Tensor next;
  if (results && results->size() > 1)
    reportSeveral(call, results->size());
  else if (results)
    next = toTensor(results->front(), call.span, updatedElement);
  builder.endUpdate(next, where);
  reportBuildErrors({});
  frame = nullptr;
}

/// ema 0.999
bool Elaborator::buildMeans(const ast::Setting &means) {
  std::optional<Number> decay = evaluateNumber(*means.value, "\"ema\"");
  if (!decay)
    return false;
  const double number = decay->toDouble();
  if (number > 0 && number < 1 && float(number) < 1) {
    builder.keepMeans(number);
    return true;
  }
  error(Code::InvalidSetting, means.value->span,
        fmt::format("what a running mean keeps of itself is between 0 and 1, "
                    "found {}",
                    toString(*decay)));
  return false;
}

/// clip norm(1), clip value(0.5)
void Elaborator::buildClip(const ast::Setting &clip,
                           const std::vector<std::string> &parameters) {
  const auto *call = clip.value->kind == ExprKind::Call
                         ? static_cast<const ast::CallExpr *>(clip.value.get())
                         : nullptr;
  const std::string_view kind = call ? call->callee.text : "";
  if ((kind != "norm" && kind != "value") || call->arguments.size() != 1 ||
      call->arguments.front().name) {
    error(Code::WrongKind, clip.value->span,
          "expected what gradients are bounded by")
        .help("write clip norm(1), for the norm of all gradients together, or "
              "clip value(0.5), for each element");
    return;
  }
  const ast::Expr &value = *call->arguments.front().value;
  std::optional<Number> limit = evaluateNumber(value, "a bound of gradients");
  if (!limit)
    return;
  const double bound = limit->toDouble();
  if (!(bound > 0) || !std::isfinite(float(bound)) || float(bound) == 0) {
    error(Code::InvalidSetting, value.span,
          fmt::format("gradients are bounded by a positive number, found {}",
                      toString(*limit)));
    return;
  }
  if (kind == "norm")
    builder.clipNorm(parameters, bound, getWhere(clip.value->span));
  else
    builder.clipValue(bound);
  reportBuildErrors({});
}
