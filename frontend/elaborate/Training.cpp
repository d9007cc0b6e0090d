// The train block.

#include "frontend/elaborate/Elaborator.h"
#include "layout/Spelling.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;

void Elaborator::buildTraining(const ast::Train &train) {
  TrainingSpec spec;
  Recipe recipe;
  std::map<std::string_view, Span> seen;
  bool isValid = true;
  for (const ast::Setting &setting : train.settings) {
    std::string_view name = setting.name.text;
    auto [first, isFirst] = seen.try_emplace(name, setting.name.span);
    const bool isForSome =
        name == "minimize" || name == "optimizer" || name == "freeze";
    const bool isRepeated = isForSome || name == "recompute";
    if (!setting.patterns.empty() && !isForSome) {
      error(Code::InvalidSetting, setting.patterns.front().span,
            fmt::format("\"{}\" is said for all parameters", name));
      isValid = false;
      continue;
    }
    if (!isFirst && !isRepeated) {
      error(Code::DuplicateName, setting.name.span,
            fmt::format("\"{}\" is set twice", name))
          .alsoAt(first->second, "the first");
      continue;
    }
    if (name == "minimize") {
      if (setting.value->kind == ExprKind::Name) {
        recipe.minimized.push_back(&setting);
        continue;
      }
      error(Code::WrongKind, setting.value->span,
            "expected the name of an output");
      isValid = false;
    } else if (name == "optimizer") {
      std::optional<Optimizer> optimizer = getOptimizer(setting);
      isValid &= optimizer.has_value();
      if (optimizer) {
        spec.optimizer += (spec.optimizer.empty() ? "" : ", ") +
                          describeOptimizer(*optimizer);
        recipe.optimizers.push_back(*optimizer);
      }
    } else if (name == "freeze") {
      recipe.frozen.push_back(&setting);
    } else if (name == "clip") {
      recipe.clip = &setting;
    } else if (name == "recompute") {
      recipe.recomputed.push_back(&setting);
    } else if (name == "ema") {
      recipe.means = &setting;
    } else if (name == "microbatches") {
      spec.parts = parts.number; // see findParts
    } else if (name == "epochs" || name == "steps") {
      std::optional<int64_t> count = getCount(setting);
      isValid &= count.has_value();
      (name == "epochs" ? spec.epochs : spec.steps) = count.value_or(0);
    } else if (name == "precision") {
      if (!trees.precision) // the command line's counts
        setPrecision(*setting.value);
    } else {
      static const std::string names[] = {
          "minimize", "optimizer", "epochs",       "steps", "precision",
          "freeze",   "clip",      "microbatches", "ema",   "recompute"};
      error(Code::UnknownSetting, setting.name.span,
            fmt::format("a train block has no setting \"{}\"", name))
          .didYouMean(layout::findNearest(name, names));
      isValid = false;
    }
  }
  if (!seen.contains("minimize")) {
    error(Code::MissingMinimize, train.keyword,
          "the train block does not say what to minimize")
        .help("add \"minimize\" and the name of an output");
    isValid = false;
  }
  // Gradients need no recipe.
  bool isRecipe = !trees.recompute.empty();
  for (std::string_view name : {"optimizer", "epochs", "steps", "freeze",
                                "clip", "microbatches", "ema", "recompute"})
    isRecipe |= seen.contains(name);
  if (isRecipe && !seen.contains("optimizer")) {
    error(Code::UnknownOptimizer, train.keyword,
          "the train block does not name an optimizer")
        .help("add \"optimizer sgd(lr = 0.1)\"");
    isValid = false;
  }
  // Without either, who trains says for how long.
  if (seen.contains("epochs") && seen.contains("steps")) {
    error(Code::MissingDuration, train.keyword,
          "epochs and steps exclude one another")
        .help("write either \"epochs 5\" or \"steps 1000\"");
    isValid = false;
  }
  if (!isValid)
    return;
  const auto getOutput = [](const ast::Setting &setting) {
    return static_cast<const ast::NameExpr &>(*setting.value).name;
  };
  const ast::Setting &first = *recipe.minimized.front();
  spec.minimize = std::string(getOutput(first));
  spec.minimizeWhere = getWhere(first.value->span);
  // What becomes of parameters is said of a model that there is.
  if (auto scopes = getRecomputed(recipe.recomputed))
    spec.recompute = std::move(*scopes);
  const bool hasParameters = !diagnostics.hasErrors();
  if (hasParameters)
    spec.others = getObjectives(recipe);
  builder.training(std::move(spec), getWhere(train.keyword));
  if (!diagnostics.hasErrors() && !recipe.optimizers.empty())
    buildUpdates(recipe);
}

/// bf16, or fp16(initial_scale = 1024, growth_steps = 100).
void Elaborator::setPrecision(const ast::Expr &expr) {
  PrecisionSpec spec;
  if (expr.kind == ExprKind::Name) {
    spec.name = std::string(static_cast<const ast::NameExpr &>(expr).name);
  } else if (expr.kind == ExprKind::Call) {
    const auto &call = static_cast<const ast::CallExpr &>(expr);
    spec.name = std::string(call.callee.text);
    std::set<std::string_view> given;
    for (const ast::Argument &argument : call.arguments) {
      if (!argument.name || argument.arrow) {
        error(Code::ExpectedToken, argument.value->span,
              "settings of a precision are named")
            .help("write fp16(initial_scale = ...)");
        return;
      }
      std::string_view name = argument.name->text;
      static const std::string names[] = {"initial_scale", "growth_steps"};
      if (spec.name != "fp16" || std::find(std::begin(names), std::end(names),
                                           name) == std::end(names)) {
        Diagnostic &unknown =
            error(Code::UnknownArgument, argument.name->span,
                  fmt::format("precision \"{}\" has no setting \"{}\"",
                              spec.name, name));
        if (spec.name == "fp16")
          unknown.didYouMean(layout::findNearest(std::string(name), names));
        return;
      }
      if (!given.insert(name).second) {
        error(Code::DuplicateName, argument.name->span,
              fmt::format("\"{}\" is given twice", name));
        return;
      }
      std::optional<Number> number =
          evaluateNumber(*argument.value, fmt::format("\"{}\"", name));
      if (!number)
        return;
      if (name == "initial_scale") {
        spec.scale = number->toDouble();
      } else if (std::optional<int64_t> steps = toInteger(*number)) {
        spec.growthSteps = *steps;
      } else {
        error(Code::InvalidSetting, argument.value->span,
              fmt::format("\"growth_steps\" is a positive integer, found {}",
                          toString(*number)));
        return;
      }
    }
  } else {
    error(Code::WrongKind, expr.span,
          "expected a precision: f32, bf16 or fp16");
    return;
  }
  builder.precision(spec, getWhere(expr.span));
  reportBuildErrors({});
}

/// A number of epochs or steps, of which no executable takes more.
std::optional<int64_t> Elaborator::getCount(const ast::Setting &setting) {
  std::optional<Number> number =
      evaluateNumber(*setting.value, fmt::format("\"{}\"", setting.name.text));
  if (!number)
    return std::nullopt;
  const int exponent = setting.name.text == "epochs" ? 30 : 56;
  std::optional<int64_t> count = toInteger(*number);
  if (count && *count > 0 && *count <= int64_t(1) << exponent)
    return count;
  error(Code::InvalidSetting, setting.value->span,
        fmt::format(
            "\"{}\" is a positive integer{}, found {}", setting.name.text,
            count && *count > 0 ? fmt::format(" up to 2^{}", exponent) : "",
            toString(*number)));
  return std::nullopt;
}
