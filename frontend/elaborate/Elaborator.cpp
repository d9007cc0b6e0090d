// The order of elaboration, errors and places.

#include "frontend/elaborate/Elaborator.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

/// Expressions evaluated: more than a program of Builder::maxOperations
/// operations needs, and less than half a second. Functions that call each
/// other twice would otherwise run for ever.
static constexpr size_t maxSteps = 1'000'000;

std::string_view meshc::frontend::describe(const Value &value) {
  if (std::holds_alternative<Poison>(value))
    return "an expression in error";
  if (std::holds_alternative<Number>(value))
    return "a number";
  if (std::holds_alternative<bool>(value))
    return "a truth value";
  if (const auto *dims = std::get_if<Dims>(&value))
    return dims->size() == 1 ? "a dimension" : "a list of dimensions";
  return "a tensor";
}

Elaborator::Elaborator(const SpecTrees &trees, Builder &builder,
                       Diagnostics &diagnostics)
    : trees(trees), builder(builder), diagnostics(diagnostics),
      sources(diagnostics.getSources()) {}

/// The only element of one kind in all files; a second is an error.
template <typename Item>
static const Item *getSingle(const SpecTrees &trees,
                             std::vector<Item> ast::File::*items,
                             std::string_view what, Diagnostics &diagnostics,
                             Span (*getSpan)(const Item &)) {
  const Item *single = nullptr;
  for (const ast::File &file : trees.files)
    for (const Item &item : file.*items) {
      if (single)
        diagnostics
            .report(Code::DuplicateName, getSpan(item),
                    fmt::format("the spec has two {}", what))
            .alsoAt(getSpan(*single), "the first");
      else
        single = &item;
    }
  return single;
}

void Elaborator::run() {
  auto getKeyword = [](const auto &item) { return item.keyword; };
  const ast::Model *model = getSingle<ast::Model>(
      trees, &ast::File::models, "models", diagnostics,
      [](const ast::Model &model) { return model.name.span; });
  const ast::Data *data = getSingle<ast::Data>(
      trees, &ast::File::datas, "data blocks", diagnostics, getKeyword);
  const ast::Train *train = getSingle<ast::Train>(
      trees, &ast::File::trains, "train blocks", diagnostics, getKeyword);
  declare();
  applyOverrides();
  resolveDefinitions();
  findParts(train, data);
  buildDims();
  size_t errorsBefore = diagnostics.getErrors().size();
  buildMesh();
  reportBuildErrors({});
  hasMesh = diagnostics.getErrors().size() == errorsBefore;
  // Without a mesh no axis of the layout could be known.
  if (hasMesh)
    buildLayout();
  checkParts();

  if (!model) {
    diagnostics.report(Code::MissingModel, {trees.files.back().source, 0, 0},
                       "the spec has no model");
    return;
  }
  buildModel(*model);
  if (hasTrainingProgram && !diagnostics.hasErrors()) {
    // Once more, for the training step.
    training = true;
    numSteps = 0;
    builder.beginTraining();
    buildModel(*model);
  }
  reportLackingAxes();
  useWholeBatch();
  if (data)
    buildData(*data);
  if (train)
    buildTraining(*train);
  else if (!trees.recompute.empty())
    error(Code::UnknownScope, trees.recompute.front().span,
          "the spec has no train block, whose step would compute that again");
  if (trees.precision)
    setPrecision(*trees.precision);
  if (mustStop())
    return;
  if (diagnostics.hasErrors())
    builder.markIncomplete();
  builder.finish();
  for (BuildError &buildError : builder.takeErrors()) {
    // An error of the model as a whole is shown at its name.
    if (!buildError.where.span.isValid())
      buildError.where.span = model->name.span;
    Diagnostic &reported =
        error(buildError.code, buildError.where.span, buildError.message);
    reported.didYouMean(buildError.suggestion);
    for (auto &[where, text] : buildError.related)
      reported.alsoAt(where.span, text);
    reported.notes.insert(reported.notes.end(), buildError.notes.begin(),
                          buildError.notes.end());
    reported.helps.insert(reported.helps.end(), buildError.helps.begin(),
                          buildError.helps.end());
  }
}

Span Elaborator::getUserSpan(Span span) const {
  for (const Frame *at = frame; at && sources.get(span.source).isLibrary();
       at = at->caller)
    span = at->call;
  return span;
}

Where Elaborator::getWhere(Span span) const {
  span = getUserSpan(span);
  const Source &source = sources.get(span.source);
  LineColumn begin = source.getLineColumn(span.begin);
  LineColumn end = source.getLineColumn(span.end);
  return {source.getName(), begin.line, begin.column,
          end.line,         end.column, span};
}

Diagnostic &Elaborator::error(Code code, Span span, std::string message) {
  Diagnostic &reported =
      diagnostics.report(code, getUserSpan(span), std::move(message));
  addCalls(reported, span);
  if (updated)
    reported.note(fmt::format("for parameter \"{}\"", *updated));
  else if (std::get<bool>(training))
    reported.note("where \"training\" is true");
  return reported;
}

void Elaborator::addCalls(Diagnostic &reported, Span span) {
  Span place = getUserSpan(span);
  if (place != span && frame->function)
    reported.note(fmt::format("found in \"{}\" of the standard library",
                              frame->function->name.text));
  // The nearest calls are enough to tell which use of a function is meant.
  int shown = 0;
  for (const Frame *at = frame; at && at->function && shown < 3;
       at = at->caller) {
    if (sources.get(at->call.source).isLibrary() || at->call == place)
      continue;
    reported.alsoAt(at->call, "in this call");
    ++shown;
  }
}

/// A fix in front of the bracket that ends the operation; a help where that is
/// in the library, at a call of the user's.
static void adviseInsertion(Diagnostic &reported, const SourceSet &sources,
                            const BuildError &error) {
  std::string advice =
      fmt::format("{}:{}", error.insertionReason, error.insertion);
  const Span whole = error.where.span;
  const Span last{whole.source, whole.end - 1, whole.end};
  if (whole.isValid() && sources.getText(last) == "]")
    reported.fix({last.source, last.begin, last.begin}, error.insertion,
                 std::move(advice));
  else
    reported.help(std::move(advice));
}

void Elaborator::reportBuildErrors(const std::vector<Operand> &operands) {
  for (BuildError &buildError : builder.takeErrors()) {
    Span span = buildError.where.span;
    bool hasCulprit =
        buildError.operand >= 0 && size_t(buildError.operand) < operands.size();
    bool isMismatch = buildError.code == Code::ElementTypeMismatch;
    if (hasCulprit && !isMismatch)
      span = operands[size_t(buildError.operand)].span;
    Diagnostic &reported = error(buildError.code, span, buildError.message);
    reported.didYouMean(buildError.suggestion);
    if (!buildError.insertion.empty())
      adviseInsertion(reported, sources, buildError);
    if (isMismatch)
      for (const Operand &operand : operands)
        if (operand.value)
          reported.alsoAt(getUserSpan(operand.span),
                          toString(operand.value.getElementType(),
                                   operand.value.getDims()));
    for (auto &[where, text] : buildError.related)
      reported.alsoAt(where.span, text);
    for (std::string &note : buildError.notes)
      reported.note(std::move(note));
    for (std::string &help : buildError.helps)
      reported.help(std::move(help));
    if (buildError.code == Code::ProgramTooLarge)
      aborted = true;
  }
}

Tensor Elaborator::checked(Tensor result,
                           const std::vector<Operand> &operands) {
  if (!result)
    reportBuildErrors(operands);
  return result;
}

bool Elaborator::countStep(Span span) {
  if (mustStop())
    return false;
  if (++numSteps <= maxSteps)
    return true;
  error(Code::ProgramTooLarge, span,
        fmt::format("elaborating the program takes more than {} steps",
                    maxSteps));
  aborted = true;
  return false;
}
