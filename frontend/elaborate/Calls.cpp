// Calls: which function, which argument for which parameter, and the body.

#include "frontend/elaborate/Builtins.h"
#include "frontend/syntax/ForeignNames.h"
#include "layout/Spelling.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

/// A function sees what was there when it was written: one of the library only
/// the library, one of the user its own functions first.
const ast::Function *Elaborator::findFunction(std::string_view name) const {
  bool isInLibrary = frame && frame->function &&
                     sources.get(frame->function->name.span.source).isLibrary();
  for (const auto *table : {&functions, &library}) {
    if (isInLibrary && table == &functions)
      continue;
    auto found = table->find(name);
    if (found != table->end())
      return found->second;
  }
  return nullptr;
}

void Elaborator::reportUnknownFunction(const ast::Name &callee) {
  std::vector<std::string> names{"einsum", "rename", "reshape", "broadcast"};
  for (const Builtin &builtin : getBuiltins())
    names.push_back(builtin.name);
  for (const auto *table : {&functions, &library})
    for (const auto &[name, function] : *table)
      names.emplace_back(name);
  if (lookUp(callee.text)) {
    error(Code::WrongKind, callee.span,
          fmt::format("\"{}\" is {}, not a function", callee.text,
                      describe(*lookUp(callee.text))));
    return;
  }
  Diagnostic &unknown =
      error(Code::UnknownFunction, callee.span,
            fmt::format("there is no function \"{}\"", callee.text));
  // Conversions are called like element types.
  if (!adviseForeign(unknown, ForeignKind::Function, callee.text) &&
      !adviseForeign(unknown, ForeignKind::ElementType, callee.text))
    unknown.didYouMean(layout::findNearest(callee.text, names));
}

std::optional<Elaborator::Arguments>
Elaborator::bind(const ast::CallExpr &call,
                 const std::vector<std::string> &parameters,
                 size_t numRequired) {
  Arguments arguments(parameters.size(), nullptr);
  size_t numPositional = 0;
  bool isValid = true;
  for (const ast::Argument &argument : call.arguments) {
    if (argument.arrow) {
      error(Code::ExpectedToken, *argument.arrow,
            fmt::format("\"{}\" takes no \"->\"", call.callee.text))
          .note("\"->\" stands in einsum, rename and reshape");
      return std::nullopt;
    }
    size_t position = 0;
    if (argument.name) {
      auto named =
          std::find(parameters.begin(), parameters.end(), argument.name->text);
      if (named == parameters.end()) {
        Diagnostic &unknown =
            error(Code::UnknownArgument, argument.name->span,
                  fmt::format("\"{}\" has no parameter \"{}\"",
                              call.callee.text, argument.name->text));
        const bool takesDims = std::find(parameters.begin(), parameters.end(),
                                         "over") != parameters.end();
        if (!takesDims ||
            !adviseForeign(unknown, ForeignKind::Argument, argument.name->text))
          unknown.didYouMean(
              layout::findNearest(argument.name->text, parameters));
        isValid = false;
        continue;
      }
      position = size_t(named - parameters.begin());
    } else {
      position = numPositional++;
      if (position >= parameters.size()) {
        error(Code::TooManyArguments, argument.value->span,
              fmt::format("\"{}\" takes {} argument{}, found {}",
                          call.callee.text, parameters.size(),
                          parameters.size() == 1 ? "" : "s",
                          call.arguments.size()));
        return std::nullopt;
      }
    }
    if (arguments[position]) {
      error(Code::DuplicateName, argument.value->span,
            fmt::format("two arguments for parameter \"{}\" of \"{}\"",
                        parameters[position], call.callee.text))
          .alsoAt(arguments[position]->value->span, "the first");
      isValid = false;
      continue;
    }
    arguments[position] = &argument;
  }
  for (size_t i = 0; i < numRequired && isValid; ++i)
    if (!arguments[i]) {
      error(Code::MissingArgument, call.span,
            fmt::format("\"{}\" needs an argument for \"{}\"", call.callee.text,
                        parameters[i]));
      isValid = false;
    }
  return isValid ? std::optional(arguments) : std::nullopt;
}

std::optional<Elaborator::Values>
Elaborator::evaluateCall(const ast::CallExpr &call) {
  std::string_view name = call.callee.text;
  const Builtin *builtin = findBuiltin(name);
  if (!builtin || builtin->canBeRedefined)
    if (const ast::Function *function = findFunction(name))
      return callFunction(call, *function);
  if (!builtin) {
    reportUnknownFunction(call.callee);
    return std::nullopt;
  }
  if (call.scope || call.variables) {
    error(Code::WrongKind,
          call.variables ? call.variables->span : call.scope->span,
          fmt::format("\"{}\" is built in and {}", name,
                      call.variables ? "has no variables"
                                     : "opens no scope to name"));
    return std::nullopt;
  }
  std::optional<Arguments> arguments = Arguments();
  if (builtin->hasParameters)
    arguments = bind(call, builtin->parameters, builtin->numRequired);
  if (!arguments)
    return std::nullopt;
  Value value = (this->*builtin->call)(call, *arguments);
  return isPoison(value) ? std::nullopt : std::optional(Values{value});
}

const Elaborator::SharedCall *
Elaborator::findShared(const ast::Name &name, const ast::Function &function) {
  auto found = frame->calls.find(name.text);
  if (found == frame->calls.end()) {
    std::vector<std::string> names;
    for (const auto &[known, call] : frame->calls)
      if (call.function == &function)
        names.push_back(known);
    error(Code::UnknownCall, name.span,
          fmt::format("there is no call \"{}\" here, ahead of this one, whose "
                      "variables it could have",
                      name.text))
        .help(fmt::format("name it: {}(...) as {}", function.name.text,
                          name.text))
        .didYouMean(layout::findNearest(name.text, names));
    return nullptr;
  }
  if (found->second.function == &function)
    return &found->second;
  error(Code::UnknownCall, name.span,
        fmt::format("\"{}\" calls \"{}\", whose variables \"{}\" cannot have",
                    name.text, found->second.function->name.text,
                    function.name.text))
      .alsoAt(getUserSpan(found->second.span), "this call");
  return nullptr;
}

void Elaborator::checkResults(const ast::Function &function, Values &results) {
  auto isOwn = [&](const Dim &dim) {
    const std::string_view name = dim.name;
    return std::ranges::find(frame->dims,
                             name.substr(0, name.find_last_not_of('\'') + 1)) !=
           frame->dims.end();
  };
  const auto &returned =
      *std::ranges::find_if(function.body, [](const auto &s) {
        return std::holds_alternative<ast::ReturnStatement>(s);
      });
  const auto &values = std::get<ast::ReturnStatement>(returned).values;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto *tensor = std::get_if<Tensor>(&results[i]);
    const auto *list = std::get_if<Dims>(&results[i]);
    std::span<const Dim> dims = tensor ? tensor->getDims()
                                : list ? std::span<const Dim>(*list)
                                       : std::span<const Dim>();
    auto own = std::ranges::find_if(dims, isOwn);
    if (own == dims.end())
      continue;
    error(Code::OwnDimReturned, values[i]->span,
          fmt::format("the result of \"{}\" has dimension \"{}\", which the "
                      "function made: nobody outside could name it",
                      function.name.text, own->name))
        .help("take the dimension as a parameter, or rename it to one");
    results[i] = Poison();
  }
}

std::optional<Elaborator::Values>
Elaborator::callFunction(const ast::CallExpr &call,
                         const ast::Function &function,
                         const std::vector<Binding> &given) {
  bool isBound = bound == &call;
  for (const Frame *at = frame; at; at = at->caller)
    if (at->function == &function) {
      error(Code::RecursiveFunction, call.span,
            fmt::format("function \"{}\" calls itself", function.name.text))
          .note("functions are expanded where they are called, so that none "
                "can call itself");
      return std::nullopt;
    }
  const std::span<const ast::Parameter> called =
      std::span(function.parameters).subspan(given.size());
  std::vector<std::string> parameters;
  for (const ast::Parameter &parameter : called)
    parameters.emplace_back(parameter.name.text);
  // A parameter with a default may stand before one without.
  std::optional<Arguments> arguments = bind(call, parameters, 0);
  if (!arguments)
    return std::nullopt;

  Frame callee{&function, call.span, frame};
  for (size_t i = 0; i < given.size(); ++i)
    callee.bindings[function.parameters[i].name.text] = given[i];
  // In the order in which they are written, so that the scopes which calls
  // among them open are numbered in that order.
  for (const ast::Argument &argument : call.arguments) {
    auto position = std::find(arguments->begin(), arguments->end(), &argument) -
                    arguments->begin();
    const ast::Parameter &parameter = called[size_t(position)];
    // In an index a dim is its positions, unless a dim is asked for.
    using Kind = ast::ParameterType::Kind;
    const bool isDim = parameter.type && (parameter.type->kind == Kind::Dim ||
                                          parameter.type->kind == Kind::Dims);
    callee.bindings[parameter.name.text] = {
        evaluateIn(isInIndex && !isDim, *argument.value), argument.value->span};
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ast::Parameter &parameter = called[i];
    if (!(*arguments)[i] && !parameter.defaultValue) {
      Diagnostic &missing =
          error(Code::MissingArgument, call.span,
                fmt::format("\"{}\" needs an argument for \"{}\"",
                            function.name.text, parameter.name.text))
              .alsoAt(getUserSpan(parameter.name.span), "this parameter");
      if (!given.empty())
        missing.help(fmt::format("write {}({} = ...)", function.name.text,
                                 parameter.name.text));
      return std::nullopt;
    }
  }
  const SharedCall *shared =
      call.variables ? findShared(*call.variables, function) : nullptr;
  if (call.variables && !shared)
    return std::nullopt;
  Builder::ScopeId scope =
      call.scope ? builder.enterScope(std::string(call.scope->text),
                                      getWhere(call.scope->span))
                 : builder.enterNumberedScope(std::string(function.name.text),
                                              getWhere(call.span));
  if (shared)
    builder.shareVariables(shared->scope);
  reportBuildErrors({});

  Frame *caller = std::exchange(frame, &callee);
  const bool isAround = std::exchange(isInIndex, false);
  // Defaults may use the parameters before them.
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ast::Parameter &parameter = called[i];
    if (!(*arguments)[i])
      callee.bindings[parameter.name.text] = {evaluate(*parameter.defaultValue),
                                              parameter.name.span};
  }
  checkArguments(caller);
  std::optional<Values> results = execute(function.body);
  if (results)
    checkResults(function, *results);
  frame = caller;
  isInIndex = isAround;
  // Inside an expression nothing else names it.
  if (results && results->size() == 1 && !isBound)
    if (const auto *tensor = std::get_if<Tensor>(&results->front()))
      results->front() = builder.bindToScope(*tensor, getWhere(call.span));
  builder.leaveScope();
  reportBuildErrors({});
  frame->calls.try_emplace(scope.name, SharedCall{&function, scope, call.span});
  return results;
}
