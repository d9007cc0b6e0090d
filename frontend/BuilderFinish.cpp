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

/// "for dimension "d"", or "for all params".
static std::string describeRule(const layout::LayoutRule &rule,
                                const std::string &dim) {
  const std::string role = !rule.values.empty()
                               ? fmt::format(" of \"{}\"", rule.values)
                           : rule.role == layout::Role::Value
                               ? ""
                               : fmt::format(" of {}", toString(rule.role));
  return dim.empty() ? fmt::format("for all {}", toString(rule.role))
                     : fmt::format("for dimension \"{}\"{}", dim, role);
}

/// Where a rule names a dim, `*` if it is empty; else the whole rule.
static const Where &getWhereOf(const RuleSpec &spec, layout::RulePart part,
                               const std::string &dim) {
  const auto &names =
      part == layout::RulePart::Unless ? spec.rule.unless : spec.rule.dims;
  return spec.getWhere(
      part,
      dim.empty() ? 0 : size_t(std::ranges::find(names, dim) - names.begin()));
}

/// Reports one error of the table where the user wrote it.
static void report(BuilderState &state, const layout::LayoutError &error) {
  using Kind = layout::LayoutError::Kind;
  const RuleSpec &spec = state.rules[error.rule];
  const layout::LayoutRule &rule = spec.rule;
  auto getAxisWhere = [&](bool last) -> const Where & {
    size_t found = rule.axes.size();
    for (size_t i = 0; i < rule.axes.size(); ++i)
      if (rule.axes[i] == error.axis && (last || found == rule.axes.size()))
        found = i;
    return spec.getWhere(layout::RulePart::Axes, found);
  };
  const Where &dimWhere = getWhereOf(spec, layout::RulePart::Dims, error.dim);
  switch (error.kind) {
  case Kind::UnknownDim: {
    BuildError &unknown =
        state.fail(Code::RuleUnknownDim, dimWhere,
                   fmt::format("layout rule \"{}\" names no dimension of the "
                               "program",
                               error.dim));
    if (state.mesh.findAxis(error.dim))
      unknown.helps.push_back(fmt::format(
          "\"{}\" is an axis of the mesh, which stands behind the arrow: a "
          "rule says dim -> axis",
          error.dim));
    else
      unknown.suggestion = error.suggestion;
    return;
  }
  case Kind::UnknownUnless:
    state
        .fail(Code::RuleUnknownDim,
              getWhereOf(spec, layout::RulePart::Unless, error.dim),
              fmt::format("\"unless {}\" names no dimension of the program",
                          error.dim))
        .suggestion = error.suggestion;
    return;
  case Kind::UnknownAxis:
    // Of a rule that is the wrong way round the dim's error is enough.
    if (std::ranges::any_of(rule.dims, [&](const std::string &dim) {
          return state.mesh.findAxis(dim) && !state.dims.contains(dim);
        }))
      return;
    state
        .fail(Code::UnknownAxis, getAxisWhere(false),
              fmt::format("the mesh has no axis \"{}\"", error.axis))
        .suggestion = error.suggestion;
    return;
  case Kind::DuplicateRule:
    state
        .fail(Code::DuplicateRule, dimWhere,
              fmt::format("two layout rules {}", describeRule(rule, error.dim)))
        .related.push_back({state.rules[error.otherRule].where, "the first"});
    return;
  case Kind::RepeatedAxis:
    state.fail(Code::RepeatedAxis, getAxisWhere(true),
               error.dim.empty()
                   ? fmt::format("the rule for all {} names axis \"{}\" twice",
                                 toString(rule.role), error.axis)
                   : fmt::format("the rule for \"{}\" names axis \"{}\" twice",
                                 error.dim, error.axis));
    return;
  case Kind::SharedAxis:
    break; // depends on a tensor: reported by the caller
  }
  llvm_unreachable("a table cannot share an axis without a tensor");
}

namespace {

/// The tensors of a program, against its layout.
class LayoutChecker {
public:
  LayoutChecker(BuilderState &state, const layout::Layout &layout)
      : state(state), layout(layout) {
    for (auto variable : state.module->getOps<nd::VariableOp>())
      if (variable.getRole() == nd::VariableRole::Parameter)
        parameters.push_back(variable);
  }

  void checkRules() {
    for (const auto &[index, spec] : llvm::enumerate(state.rules)) {
      const bool isOfValues = !spec.rule.values.empty();
      if (isOfValues && !has(spec.rule, {})) {
        reportUnknownValues(spec);
        continue;
      }
      checkUsed(spec);
      checkUnless(spec);
      if (isOfValues)
        checkFirst(index);
    }
  }

  /// Two dims of one tensor on one axis. Names are those of the dims.
  void checkTensors() {
    for (const auto &[names, where] : state.shapes) {
      // Legal or not does not depend on sizes, of rules without `*`.
      const std::vector<int64_t> sizes(names.size(), 1);
      checkTensor({names, sizes}, layout::Role::Value, where);
    }
    for (const BuilderState::NamedShape &shape : state.namedShapes) {
      const layout::TensorShape tensor{shape.dims, shape.sizes, shape.name};
      checkTensor(tensor, shape.role, shape.where);
      if (shape.role == layout::Role::Parameter)
        for (auto role : {layout::Role::Gradient, layout::Role::State})
          checkTensor(tensor, role, shape.where);
    }
  }

private:
  /// Whether a tensor that the rule may be of has all of these dims.
  bool has(const layout::LayoutRule &rule,
           std::initializer_list<std::string_view> dims) const {
    auto hasAll = [&](const auto &hasDim) {
      return std::ranges::all_of(dims, hasDim);
    };
    if (!rule.values.empty())
      return std::ranges::any_of(
          state.namedShapes, [&](const BuilderState::NamedShape &shape) {
            return layout::fitsPattern(rule.values, shape.name) &&
                   hasAll([&](std::string_view dim) {
                     return std::ranges::find(shape.dims, dim) !=
                            shape.dims.end();
                   });
          });
    if (rule.role == layout::Role::Value)
      return std::ranges::any_of(state.shapes, [&](const auto &shape) {
        return hasAll([&](std::string_view dim) {
          return std::ranges::find(shape.first, dim) != shape.first.end();
        });
      });
    return llvm::any_of(parameters, [&](nd::VariableOp variable) {
      return hasAll([&](std::string_view dim) {
        return variable.getTensorType().hasDim(dim);
      });
    });
  }

  void checkUsed(const RuleSpec &spec) {
    const layout::LayoutRule &rule = spec.rule;
    for (const std::string &dim : rule.dims)
      if (!has(rule, {dim}))
        state.fail(
            Code::RuleUnusedDim, getWhereOf(spec, layout::RulePart::Dims, dim),
            !rule.values.empty()
                ? fmt::format(
                      "layout rule \"{}\" of \"{}\" matches nothing: no "
                      "tensor of this name has this dimension",
                      dim, rule.values)
            : rule.role == layout::Role::Value
                ? fmt::format("layout rule \"{}\" matches nothing: no tensor "
                              "of the program has this dimension",
                              dim)
                : fmt::format("layout rule \"{}\" of {} matches nothing: no "
                              "parameter has this dimension",
                              dim, toString(rule.role)));
    if (rule.isEvery() && parameters.empty())
      state.fail(Code::RuleUnusedDim,
                 getWhereOf(spec, layout::RulePart::Dims, ""),
                 fmt::format("the layout rule for all {} matches nothing: the "
                             "model has no parameters",
                             toString(rule.role)));
  }

  /// Nothing that has dims and a name fits the pattern of a rule.
  void reportUnknownValues(const RuleSpec &spec) {
    const std::string &pattern = spec.rule.values;
    std::vector<std::string> names(state.valueNames.begin(),
                                   state.valueNames.end());
    auto fits = [&](const std::string &name) {
      return layout::fitsPattern(pattern, name);
    };
    BuildError &error = state.fail(
        Code::UnknownValues, spec.getWhere(layout::RulePart::Values, 0),
        fmt::format("layout rule for \"{}\" matches nothing: no value of the "
                    "model is called so",
                    pattern));
    const auto isOfState = [&](auto &variable) {
      return variable.second.getRole() == nd::VariableRole::State &&
             fits(variable.first);
    };
    if (auto known = std::ranges::find_if(state.variables, isOfState);
        known != state.variables.end()) {
      layout::LayoutRule ofRole = spec.rule;
      ofRole.values.clear();
      ofRole.role = layout::Role::State;
      error.notes.push_back(
          fmt::format("\"{}\" is kept by the optimizer, which rules for roles "
                      "are for: {}",
                      known->first, toString(ofRole)));
    } else if (auto known = std::ranges::find_if(names, fits);
               known != names.end()) {
      error.notes.push_back(fmt::format(
          "\"{}\" is a number, or what a loop stacks or adds up, which no rule "
          "by a name is for",
          *known));
    } else {
      error.suggestion = layout::findNearest(pattern, names);
    }
  }

  /// Of patterns that fit a name the first holds: an error if that is another
  /// one wherever rule `index`, for values of a name, fits.
  void checkFirst(size_t index) {
    const RuleSpec &spec = state.rules[index];
    std::optional<size_t> first;
    for (const BuilderState::NamedShape &shape : state.namedShapes) {
      if (!layout::fitsPattern(spec.rule.values, shape.name))
        continue;
      auto found =
          layout.getLayout({shape.dims, shape.sizes, shape.name}, shape.role);
      auto *asked = std::get_if<layout::TensorLayout>(&found);
      if (!asked)
        return; // which is an error of its own
      for (auto [dim, rules] : llvm::zip_equal(shape.dims, asked->rules)) {
        if (llvm::is_contained(rules, index))
          return;
        if (llvm::is_contained(spec.rule.dims, dim) && !rules.empty() &&
            !state.rules[rules.front()].rule.values.empty())
          first = rules.front();
      }
    }
    if (first)
      state
          .fail(Code::UnknownValues, spec.getWhere(layout::RulePart::Values, 0),
                fmt::format("layout rule for \"{}\" never holds: a rule in "
                            "front of it is for the same values",
                            spec.rule.values))
          .related.push_back(
              {state.rules[*first].where, "the first that fits"});
  }

  void checkUnless(const RuleSpec &spec) {
    const layout::LayoutRule &rule = spec.rule;
    for (const std::string &other : rule.unless) {
      const bool isMet =
          rule.isEvery()
              ? has(rule, {other})
              : std::ranges::any_of(rule.dims, [&](const std::string &dim) {
                  return dim != other && has(rule, {dim, other});
                });
      if (!isMet)
        state.fail(Code::NeverExempt,
                   getWhereOf(spec, layout::RulePart::Unless, other),
                   fmt::format("\"unless {}\" changes nothing: no {} has this "
                               "dimension beside one that the rule splits",
                               other,
                               rule.role == layout::Role::Value ? "tensor"
                                                                : "parameter"));
    }
  }

  void checkTensor(layout::TensorShape tensor, layout::Role role,
                   const Where &where) {
    auto result = layout.getLayout(tensor, role);
    auto *error = std::get_if<layout::LayoutError>(&result);
    if (!error)
      return;
    auto [first, second] = std::minmax(error->rule, error->otherRule);
    if (!reported.insert({first, second}).second)
      return;
    std::string dim = error->dim, other = error->otherDim;
    if (error->rule == first && first != second)
      std::swap(dim, other);
    layout::LayoutRule settled{
        {dim}, {error->axis}, state.rules[second].rule.role, {other}};
    // Of a value it is enough to say of one dim that it stays whole.
    for (size_t of : {first, second})
      if (const std::string &values = state.rules[of].rule.values;
          !values.empty())
        settled = {{of == second ? other : dim}, {}, {}, {}, values};
    BuildError &built = state.fail(
        Code::SharedAxis, state.rules[second].where,
        fmt::format("dimensions \"{}\" and \"{}\" of one tensor are split over "
                    "one axis, \"{}\"",
                    other, dim, error->axis));
    if (first != second)
      built.related.push_back(
          {state.rules[first].where,
           fmt::format("\"{}\" is split over it here", other)});
    built.related.push_back({where, "this tensor has both"});
    built.notes.push_back(fmt::format(
        "an axis serves one dimension of a tensor: split one of "
        "them over another axis, not at all, or not {}: {}",
        settled.values.empty() ? "beside the other" : "in this value",
        toString(settled)));
  }

  BuilderState &state;
  const layout::Layout &layout;
  std::vector<nd::VariableOp> parameters;
  std::set<std::pair<size_t, size_t>> reported;
};

} // namespace

void BuilderState::finishRules() {
  std::vector<layout::LayoutRule> table;
  for (const RuleSpec &spec : rules)
    table.push_back(spec.rule);
  std::vector<std::string> known = getKeys(dims);
  std::erase_if(known, [](const std::string &dim) {
    return dim.find('/') != std::string::npos; // a function's own
  });
  auto result = layout::Layout::create(mesh, std::move(table), known);
  if (auto *found = std::get_if<std::vector<layout::LayoutError>>(&result)) {
    for (const layout::LayoutError &error : *found)
      report(*this, error);
    return;
  }
  LayoutChecker checker(*this, std::get<layout::Layout>(result));
  // A program with errors is incomplete, so that more may be unused.
  if (!failed)
    checker.checkRules();
  checker.checkTensors();
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
  if (!value.getDims().empty()) {
    BuildError &error =
        fail(Code::OutputNotScalar, where,
             fmt::format("the output to minimize is a scalar, \"{}\" is {}",
                         name, type));
    error.related.push_back({output->second.where, "defined here"});
    error.helps.push_back(fmt::format(
        "one number is what mean(...) or sum(...) makes of it: output {} = "
        "mean(...)",
        name));
  } else if (!isFloat(value.getElementType()))
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
