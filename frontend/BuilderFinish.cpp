// The checks that need the whole program.

#include "frontend/BuilderModule.h"
#include "frontend/BuilderState.h"
#include "frontend/DataReaders.h"

#include "layout/Spelling.h"

#include <algorithm>

#include <fmt/format.h>

#include "mlir/IR/Verifier.h"

namespace meshc::frontend {

template <typename Map>
static std::vector<std::string> getKeys(const Map &map) {
  std::vector<std::string> keys;
  for (const auto &[key, value] : map)
    keys.push_back(key);
  return keys;
}

/// Reports one error of the table where the user wrote it.
static void report(BuilderState &state, const layout::LayoutError &error) {
  using Kind = layout::LayoutError::Kind;
  const RuleSpec &rule = state.rules[error.rule];
  auto getAxisWhere = [&](bool last) -> const Where & {
    size_t found = rule.axes.size();
    for (size_t i = 0; i < rule.axes.size(); ++i)
      if (rule.axes[i] == error.axis && (last || found == rule.axes.size()))
        found = i;
    return found < rule.axisWheres.size() ? rule.axisWheres[found] : rule.where;
  };
  const Where &dimWhere =
      rule.dimWhere.file.empty() ? rule.where : rule.dimWhere;
  switch (error.kind) {
  case Kind::UnknownDim:
    state
        .fail(Code::RuleUnknownDim, dimWhere,
              fmt::format("layout rule \"{}\" names no dimension of the "
                          "program",
                          error.dim))
        .suggestion = error.suggestion;
    return;
  case Kind::UnknownAxis:
    state
        .fail(Code::UnknownAxis, getAxisWhere(false),
              fmt::format("the mesh has no axis \"{}\"", error.axis))
        .suggestion = error.suggestion;
    return;
  case Kind::DuplicateRule:
    state
        .fail(Code::DuplicateRule, dimWhere,
              fmt::format("two layout rules for dimension \"{}\"", error.dim))
        .related.push_back({state.rules[error.otherRule].where, "the first"});
    return;
  case Kind::RepeatedAxis:
    state.fail(Code::RepeatedAxis, getAxisWhere(true),
               fmt::format("the rule for \"{}\" names axis \"{}\" twice",
                           error.dim, error.axis));
    return;
  case Kind::SharedAxis:
    break; // depends on a tensor: reported by the caller
  }
  llvm_unreachable("a table cannot share an axis without a tensor");
}

void BuilderState::finishRules() {
  std::set<std::string> used;
  for (const auto &[names, where] : shapes)
    used.insert(names.begin(), names.end());
  std::vector<layout::LayoutRule> table;
  for (const RuleSpec &rule : rules)
    table.push_back({rule.dim, rule.axes});
  std::vector<std::string> known = getKeys(dims);
  std::erase_if(known, [](const std::string &dim) {
    return dim.find('/') != std::string::npos; // a function's own
  });
  auto result = layout::LayoutRules::create(mesh, std::move(table), known);
  if (auto *found = std::get_if<std::vector<layout::LayoutError>>(&result)) {
    for (const layout::LayoutError &error : *found)
      report(*this, error);
    return;
  }
  for (const RuleSpec &rule : rules)
    // A program with errors is incomplete, so that more may be unused.
    if (!failed && !used.contains(rule.dim))
      fail(Code::RuleUnusedDim,
           rule.dimWhere.file.empty() ? rule.where : rule.dimWhere,
           fmt::format("layout rule \"{}\" matches nothing: no tensor of the "
                       "program has this dimension",
                       rule.dim));
  auto &layoutRules = std::get<layout::LayoutRules>(result);
  std::set<std::pair<size_t, size_t>> reported;
  for (const auto &[names, where] : shapes) {
    auto sharding = layoutRules.getSharding(names);
    auto *error = std::get_if<layout::LayoutError>(&sharding);
    if (!error)
      continue;
    auto [first, second] = std::minmax(error->rule, error->otherRule);
    if (!reported.insert({first, second}).second)
      continue;
    BuildError &built = fail(
        Code::SharedAxis, rules[second].where,
        fmt::format("dimensions \"{}\" and \"{}\" of one tensor are split over "
                    "one axis, \"{}\"",
                    rules[first].dim, rules[second].dim, error->axis));
    built.related.push_back(
        {rules[first].where,
         fmt::format("\"{}\" is split over it here", rules[first].dim)});
    built.related.push_back({where, "this tensor has both"});
    built.notes.push_back("an axis serves one dimension of a tensor: split one "
                          "of them over another axis or not at all");
  }
}

void BuilderState::checkObjective(const std::string &name, const Where &where) {
  auto output = outputs.find(name);
  if (output == outputs.end()) {
    fail(Code::UnknownOutput, where,
         fmt::format("the model has no output \"{}\" to minimize", name))
        .suggestion = layout::findNearest(name, getKeys(outputs));
    return;
  }
  const Tensor value = output->second.value;
  if (!value)
    return;
  std::string type = toString(value.getElementType(), value.getDims());
  if (!value.getDims().empty())
    fail(Code::OutputNotScalar, where,
         fmt::format("the output to minimize is a scalar, \"{}\" is {}", name,
                     type))
        .related.push_back({output->second.where, "defined here"});
  else if (!isFloat(value.getElementType()))
    fail(Code::OutputNotFloat, where,
         fmt::format("the output to minimize has float elements, \"{}\" is {}",
                     name, type))
        .related.push_back({output->second.where, "defined here"});
}

void BuilderState::finishTraining() {
  mlir::Location location = getLocation(trainingWhere);
  if (training->minimize.empty())
    fail(Code::MissingMinimize, trainingWhere,
         "training without an output to minimize");
  else
    checkObjective(training->minimize, training->minimizeWhere.file.empty()
                                           ? trainingWhere
                                           : training->minimizeWhere);
  for (const ObjectiveSpec &other : training->others) {
    checkObjective(other.output, other.where);
    llvm::SmallVector<llvm::StringRef> names(other.parameters.begin(),
                                             other.parameters.end());
    nd::ObjectiveOp::create(declarations, getLocation(other.where),
                            other.output, declarations.getStrArrayAttr(names));
  }
  if (training->optimizer.empty() && !training->epochs && !training->steps) {
    nd::ObjectiveOp::create(declarations, location, training->minimize,
                            mlir::ArrayAttr());
    return;
  }
  if (!failed && getParameters().empty())
    fail(Code::NothingToOptimize, trainingWhere,
         "the model to train has no parameters");
  const llvm::SmallVector<llvm::StringRef> recomputed(
      training->recompute.begin(), training->recompute.end());
  nd::TrainingOp::create(declarations, location, training->minimize,
                         training->optimizer, uint64_t(training->epochs),
                         uint64_t(training->steps), uint64_t(training->parts),
                         training->recompute.empty()
                             ? mlir::ArrayAttr()
                             : declarations.getStrArrayAttr(recomputed),
                         /*recomputed=*/mlir::ArrayAttr(),
                         /*rates=*/mlir::ArrayAttr());
}

/// Checks one binding of data against its input, and builds it.
static void finishBinding(BuilderState &state, DataSpec data,
                          const Where &where) {
  const auto entry = state.inputs.find(data.input);
  if (entry == state.inputs.end()) {
    state
        .fail(Code::UnknownInput, where,
              fmt::format("the model has no input \"{}\"", data.input))
        .suggestion = layout::findNearest(data.input, getKeys(state.inputs));
    return;
  }
  const Tensor input = entry->second.value;
  if (!input) // its type is wrong
    return;
  if (!input.hasDim(data.over)) {
    state
        .fail(Code::MissingFedDim, where,
              fmt::format("data over \"{}\" for input \"{}\", which does not "
                          "have that dim",
                          data.over, data.input))
        .related.push_back(
            {entry->second.where,
             fmt::format("it is {}",
                         toString(input.getElementType(), input.getDims()))});
    return;
  }
  std::vector<Dim> sample;
  for (const Dim &dim : input.getDims())
    if (dim.name != data.over)
      sample.push_back(dim);
  const std::string defect = fitToReader(data, input.getElementType(), sample);
  if (!defect.empty()) {
    state
        .fail(Code::UnfitInput, where,
              fmt::format("{} cannot feed input \"{}\": {}", data.reader,
                          data.input, defect))
        .related.push_back(
            {entry->second.where,
             fmt::format("it is {}",
                         toString(input.getElementType(), input.getDims()))});
    return;
  }
  mlir::OpBuilder &builder = state.declarations;
  nd::DataOp::create(
      builder, state.getLocation(where), data.input, data.over, data.reader,
      data.train, data.test,
      data.stride ? builder.getI64IntegerAttr(data.stride) : nullptr,
      data.units.empty() ? nullptr : builder.getStringAttr(data.units),
      data.columns.empty()
          ? nullptr
          : builder.getStrArrayAttr(llvm::SmallVector<llvm::StringRef>(
                data.columns.begin(), data.columns.end())));
}

void BuilderState::finishData() {
  if (data.empty())
    return;
  for (const auto &[spec, where] : data) {
    if (spec.test.empty() != data.front().first.test.empty())
      fail(Code::InvalidSetting, where,
           "test files are named for some inputs and not for others")
          .related.push_back(
              {data.front().second, data.front().first.test.empty()
                                        ? "this one has none"
                                        : "this one has one"});
    finishBinding(*this, spec, where);
  }
  for (const auto &[name, input] : inputs)
    if (std::none_of(data.begin(), data.end(),
                     [&](const auto &fed) { return fed.first.input == name; }))
      fail(Code::MissingData, input.where,
           fmt::format("no data for input \"{}\"", name))
          .related.push_back({data.front().second, "data is bound here"});
}

void Builder::finish() {
  BuilderState &self = *state;
  self.finishRules();
  self.finishVariables();
  self.finishInitials();
  if (self.outputs.empty())
    self.fail(Code::MissingOutput, Where(), "the model has no output");
  if (self.training)
    self.finishTraining();
  self.finishData();
  self.finishIndexBounds();
  self.finishSettings();
}

mlir::OwningOpRef<mlir::ModuleOp> takeModule(Builder &builder) {
  BuilderState &state = BuilderState::of(builder);
  if (state.failed || mlir::failed(mlir::verify(*state.module)))
    return {};
  return std::move(state.module);
}

} // namespace meshc::frontend
