// What stands at the top level: dims, numbers, functions, mesh and layout, and
// what replaces them from the command line.

#include "frontend/elaborate/Builtins.h"
#include "layout/Spelling.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

void Elaborator::declare() {
  for (const ast::File &file : trees.files) {
    std::vector<Global> inOrder;
    for (const ast::Definition &number : file.numbers)
      inOrder.push_back(
          {&number, /*isDim=*/false, Global::State::Unresolved, Poison()});
    for (const ast::Definition &dim : file.dims)
      inOrder.push_back(
          {&dim, /*isDim=*/true, Global::State::Unresolved, Poison()});
    // Of two definitions the later one is in error.
    auto getPlace = [](const Global &global) {
      return global.definition->name.span.begin;
    };
    std::ranges::sort(inOrder, {}, getPlace);
    for (Global &global : inOrder) {
      const ast::Name &name = global.definition->name;
      if (name.text.ends_with('\''))
        reportPrime(name);
      auto [known, isFirst] = globals.try_emplace(name.text, global);
      if (isFirst)
        globalOrder.push_back(name.text);
      else
        diagnostics
            .report(Code::DuplicateName, name.span,
                    fmt::format("\"{}\" is defined twice", name.text))
            .alsoAt(known->second.definition->name.span,
                    "the first definition");
    }
  }
  declareFunctions(trees.library, /*isLibrary=*/true);
  declareFunctions(trees.files, /*isLibrary=*/false);
}

void Elaborator::reportPrime(const ast::Name &name) {
  error(Code::ReservedWord, name.span,
        fmt::format("\"{}\" is not defined: a name with a prime is another "
                    "dimension of the size of the name without",
                    name.text))
      .help("leave the definition out");
}

void Elaborator::declareFunctions(const std::vector<ast::File> &files,
                                  bool isLibrary) {
  auto &table = isLibrary ? library : functions;
  for (const ast::File &file : files)
    for (const ast::Function &function : file.functions) {
      const ast::Name &name = function.name;
      checkFunction(function);
      const Builtin *builtin = findBuiltin(name.text);
      if (builtin && !builtin->canBeRedefined) {
        diagnostics
            .report(Code::DuplicateName, name.span,
                    fmt::format("\"{}\" is a built-in function", name.text))
            .note("functions of the standard library can be redefined, "
                  "built-in ones cannot");
        continue;
      }
      auto [known, isFirst] = table.try_emplace(name.text, &function);
      if (!isFirst)
        diagnostics
            .report(Code::DuplicateName, name.span,
                    fmt::format("function \"{}\" is defined twice", name.text))
            .alsoAt(known->second->name.span, "the first definition");
    }
}

/// What can be said of a function without a call: its parameters are distinct
/// and its last statement, no other, returns.
void Elaborator::checkFunction(const ast::Function &function) {
  std::map<std::string_view, Span> seen;
  for (const ast::Parameter &parameter : function.parameters) {
    auto [first, isFirst] =
        seen.try_emplace(parameter.name.text, parameter.name.span);
    if (!isFirst)
      diagnostics
          .report(Code::DuplicateName, parameter.name.span,
                  fmt::format("two parameters are called \"{}\"",
                              parameter.name.text))
          .alsoAt(first->second, "the first");
  }
  for (size_t i = 0; i + 1 < function.body.size(); ++i)
    if (const auto *early =
            std::get_if<ast::ReturnStatement>(&function.body[i])) {
      diagnostics.report(Code::MissingReturn, early->keyword,
                         fmt::format("statements follow the return of \"{}\"",
                                     function.name.text));
      return;
    }
  if (function.body.empty() ||
      !std::holds_alternative<ast::ReturnStatement>(function.body.back()))
    diagnostics
        .report(
            Code::MissingReturn, function.name.span,
            fmt::format("function \"{}\" returns nothing", function.name.text))
        .help("end it with \"return value\"");
}

void Elaborator::applyOverrides() {
  std::vector<std::string> names(globalOrder.begin(), globalOrder.end());
  for (const ast::Definition &definition : trees.overrides) {
    const ast::Name &name = definition.name;
    if (!globals.contains(name.text)) {
      diagnostics
          .report(Code::UnknownOverride, name.span,
                  fmt::format("the spec defines no dimension or number \"{}\"",
                              name.text))
          .didYouMean(layout::findNearest(name.text, names));
      continue;
    }
    auto [known, isFirst] = overrides.try_emplace(name.text, &definition);
    if (!isFirst)
      diagnostics
          .report(Code::DuplicateName, name.span,
                  fmt::format("\"{}\" is overridden twice", name.text))
          .alsoAt(known->second->name.span, "the first override");
    else
      globals.at(name.text).definition = &definition;
  }
}

void Elaborator::resolveDefinitions() {
  for (std::string_view name : globalOrder) {
    if (mustStop())
      return;
    resolve(name, globals.at(name));
  }
}

void Elaborator::buildDims() {
  for (std::string_view name : resolvedDims) {
    const Global &global = globals.at(name);
    const Dim &dim = std::get<Dims>(global.value).front();
    builder.dim(dim.name, dim.size, getWhere(global.definition->name.span));
  }
}

Value Elaborator::resolve(std::string_view name, Global &global) {
  if (global.state == Global::State::Resolved)
    return global.value;
  Span span = global.definition->name.span;
  if (global.state == Global::State::Resolving) {
    error(Code::CyclicDefinition, span,
          fmt::format("\"{}\" is defined by itself", name));
    return Poison();
  }
  global.state = Global::State::Resolving;
  // Definitions stand outside any function.
  Frame *suspended = std::exchange(frame, nullptr);
  Value value = evaluate(*global.definition->value);
  frame = suspended;
  global.state = Global::State::Resolved;
  if (global.isDim) {
    const ast::Definition &definition = *global.definition;
    std::optional<int64_t> size =
        getSize(definition.name, value, definition.value->span);
    if (!size)
      return global.value = Poison();
    resolvedDims.push_back(name);
    return global.value = Dims{{std::string(name), *size}};
  }
  if (std::holds_alternative<bool>(value))
    return global.value = value;
  std::optional<Number> number = getNumber(value);
  if (number)
    return global.value = nameNumber(name, global, *number);
  if (!isPoison(value))
    error(
        Code::WrongKind, global.definition->value->span,
        fmt::format("\"{}\" is {}, expected a number", name, describe(value)));
  return Poison();
}

std::optional<int64_t> Elaborator::getSize(const ast::Name &of,
                                           const Value &value, Span span) {
  std::optional<Number> number = getNumber(value);
  const std::string_view name = of.text;
  if (isPoison(value))
    return std::nullopt;
  if (!number) {
    error(Code::SizeNotInteger, span,
          fmt::format("the size of \"{}\" is {}, expected a number", name,
                      describe(value)));
    return std::nullopt;
  }
  std::optional<int64_t> size = toInteger(*number);
  if (!size) {
    Diagnostic &reported =
        error(Code::SizeNotInteger, span,
              fmt::format("dimension \"{}\" has size {}, which {}", name,
                          toString(*number), describeNoInteger(*number)));
    if (parts.number > 1)
      reported.note(fmt::format(
          "in one of {} parts of a step, where \"{}\" has {} positions",
          parts.number, parts.batch.name, parts.batch.size / parts.number));
    return std::nullopt;
  }
  if (*size < 1) {
    error(Code::SizeNotPositive, span,
          fmt::format("dimension \"{}\" has size {}; a size is at least 1",
                      name, *size));
    return std::nullopt;
  }
  return size;
}

void Elaborator::buildMesh() {
  const std::vector<ast::Definition> *definitions = nullptr;
  Span span;
  for (const ast::File &file : trees.files)
    for (const ast::Mesh &mesh : file.meshes) {
      if (definitions)
        diagnostics
            .report(Code::DuplicateName, mesh.keyword,
                    "the spec has two meshes")
            .alsoAt(span, "the first");
      definitions = &mesh.axes;
      span = mesh.keyword;
    }
  if (trees.mesh)
    definitions = &*trees.mesh;
  std::vector<MeshAxisSpec> axes;
  if (!definitions) {
    builder.setMesh({}, getWhere({trees.files.back().source, 0, 0}));
    return;
  }
  for (const ast::Definition &axis : *definitions) {
    span = axis.name.span;
    std::optional<Number> number =
        evaluateNumber(*axis.value, "the size of a mesh axis");
    std::optional<int64_t> size = number ? toInteger(*number) : std::nullopt;
    if (number && !size)
      error(Code::SizeNotInteger, axis.value->span,
            fmt::format("mesh axis \"{}\" has size {}, which {}",
                        axis.name.text, toString(*number),
                        describeNoInteger(*number)));
    else if (size)
      axes.push_back({std::string(axis.name.text), *size,
                      getWhere(join(axis.name.span, axis.value->span))});
  }
  if (axes.size() < definitions->size())
    return;
  if (!axes.empty())
    span = join(axes.front().where.span, axes.back().where.span);
  builder.setMesh(
      std::move(axes),
      getWhere(span.isValid() ? span : Span{trees.files.back().source, 0, 0}));
}

RuleSpec Elaborator::getRule(const ast::LayoutRule &rule) {
  RuleSpec spec{rule.rule, getWhere(rule.span), {}};
  for (const auto &[name, span] : rule.spans)
    spec.wheres[name] = getWhere(span);
  return spec;
}

bool Elaborator::isAxisOfOption(std::string_view name) const {
  return std::ranges::any_of(*trees.mesh, [&](const ast::Definition &axis) {
    return axis.name.text == name;
  });
}

void Elaborator::checkAxes(const ast::LayoutRule &rule) {
  if (trees.mesh &&
      !std::ranges::all_of(rule.rule.axes, [&](const std::string &axis) {
        return isAxisOfOption(axis);
      }))
    lacking.push_back(&rule);
}

/// Says which axes of the option are likely those that it lacks: of each that
/// no rule names the nearest. False if there are none.
bool Elaborator::adviseAxes(Diagnostic &reported,
                            std::vector<std::string_view> missing) const {
  std::vector<std::string> names(missing.begin(), missing.end());
  bool isAdvised = false;
  for (const ast::Definition &axis : *trees.mesh) {
    auto isOf = [&](const ast::LayoutRule &rule) {
      return std::ranges::find(rule.rule.axes, axis.name.text) !=
             rule.rule.axes.end();
    };
    if (layoutRules &&
        std::any_of(layoutRules->begin(), layoutRules->end(), isOf))
      continue;
    std::string nearest = layout::findNearest(axis.name.text, names);
    if (nearest.empty())
      continue;
    std::erase(names, nearest);
    isAdvised = true;
    reported.fix(
        axis.name.span, nearest,
        fmt::format("did you mean \"{}\" by \"{}\"?", nearest, axis.name.text));
  }
  return isAdvised;
}

void Elaborator::reportLackingAxes() {
  if (lacking.empty())
    return;
  std::vector<std::string_view> missing;
  for (const ast::LayoutRule *rule : lacking)
    for (const std::string &axis : rule->rule.axes)
      if (!isAxisOfOption(axis) &&
          std::ranges::find(missing, axis) == missing.end())
        missing.push_back(axis);
  bool isOne = missing.size() == 1;
  // An empty mesh has no text to point at.
  Span span = trees.mesh->empty() ? lacking.front()->span
                                  : join(trees.mesh->front().name.span,
                                         trees.mesh->back().value->span);
  Diagnostic &reported = error(
      Code::UnknownAxis, span,
      fmt::format("the mesh of the command line has no {} \"{}\", over which "
                  "the spec splits dimensions",
                  isOne ? "axis" : "axes", fmt::join(missing, "\" and \"")));
  if (adviseAxes(reported, missing))
    return;
  for (const ast::LayoutRule *rule : lacking)
    reported.alsoAt(rule->span, "by this rule");
  reported.help(
      fmt::format("give another layout too: --layout {}", getLayoutOfOption()));
}

/// What is left of the layout with the axes of the option, for --layout.
std::string Elaborator::getLayoutOfOption() const {
  const bool isShort =
      std::ranges::all_of(*layoutRules, [](const ast::LayoutRule &rule) {
        return rule.rule.hasShortForm();
      });
  std::vector<std::string> left;
  for (const ast::LayoutRule &rule : *layoutRules) {
    layout::LayoutRule kept = rule.rule;
    std::erase_if(kept.axes, [&](const std::string &axis) {
      return !isAxisOfOption(axis);
    });
    if (kept.axes.empty() && !rule.rule.axes.empty())
      continue;
    if (!isShort) {
      left.push_back(toString(kept));
      continue;
    }
    for (const std::string &dim : kept.dims)
      left.push_back(fmt::format("{}={}", dim, fmt::join(kept.axes, "+")));
  }
  if (left.empty())
    return "''";
  return isShort ? fmt::format("{}", fmt::join(left, ","))
                 : fmt::format("'{}'", fmt::join(left, ", "));
}

void Elaborator::buildLayout() {
  Span first;
  for (const ast::File &file : trees.files)
    for (const ast::Layout &layout : file.layouts) {
      if (layoutRules)
        diagnostics
            .report(Code::DuplicateName, layout.keyword,
                    "the spec has two layouts")
            .alsoAt(first, "the first");
      layoutRules = &layout.rules;
      first = layout.keyword;
    }
  if (trees.layout)
    layoutRules = &*trees.layout;
  else if (layoutRules)
    for (const ast::LayoutRule &rule : *layoutRules)
      checkAxes(rule);
  // What the mesh of the command line lacks is told after the model.
  if (!layoutRules || !lacking.empty())
    return;
  for (const ast::LayoutRule &rule : *layoutRules) {
    // A dimension whose definition is in error has no size, but is no unknown.
    if (std::ranges::any_of(rule.rule.dims, [&](const std::string &dim) {
          auto global = globals.find(dim);
          return global != globals.end() && isPoison(global->second.value);
        }))
      continue;
    RuleSpec spec = getRule(rule);
    Where where = spec.where;
    builder.addRule(std::move(spec), where);
  }
}

std::vector<std::string> Elaborator::getDimNames() const {
  std::vector<std::string> names;
  for (const auto &[name, global] : globals)
    if (global.isDim)
      names.emplace_back(name);
  return names;
}
