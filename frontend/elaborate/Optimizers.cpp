// Optimizers: functions of a parameter and its gradient, which are elaborated
// for each parameter of the model.

#include "frontend/elaborate/Elaborator.h"
#include "frontend/syntax/ForeignNames.h"
#include "layout/Spelling.h"

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
Elaborator::getOptimizer(const ast::Expr &setting) {
  const ast::CallExpr *call = nullptr;
  if (setting.kind == ExprKind::Call) {
    call = static_cast<const ast::CallExpr *>(&setting);
  } else if (setting.kind == ExprKind::Name) {
    const auto &name = static_cast<const ast::NameExpr &>(setting);
    call = optimizerCalls
               .emplace_back(std::make_unique<ast::CallExpr>(
                   setting.span, ast::Name{name.name, setting.span}))
               .get();
  } else {
    error(Code::UnknownOptimizer, setting.span,
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
  const ast::Function *function = findFunction(call->callee.text);
  if (function && isOptimizer(*function))
    return Optimizer{call, function};
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
        text = fmt::format("{:g}", number->toDouble());
    hyper.push_back(fmt::format("{} = {}", parameter.name.text, text));
  }
  return fmt::format("{}({})", optimizer.call->callee.text,
                     fmt::join(hyper, ", "));
}

void Elaborator::buildUpdates(const Optimizer &optimizer) {
  training = true;
  builder.beginUpdates();
  reportBuildErrors({});
  for (const std::string &parameter : builder.getParameters()) {
    if (diagnostics.hasErrors() || mustStop())
      break;
    buildUpdate(optimizer, parameter);
  }
  updated.reset();
}

void Elaborator::buildUpdate(const Optimizer &optimizer,
                             const std::string &parameter) {
  const ast::CallExpr &call = *optimizer.call;
  const Where where = getWhere(call.span);
  const Builder::Update update = builder.beginUpdate(parameter, where);
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
