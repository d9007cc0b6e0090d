// Declarations and the border of the program.

#include "frontend/BuilderState.h"

#include "layout/Spelling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace meshc::frontend {

std::string toString(ElementType element, std::span<const Dim> dims) {
  std::string text(getName(element));
  if (dims.empty())
    return text;
  text += '[';
  for (const Dim &dim : dims)
    text += (&dim == dims.data() ? "" : ", ") + dim.name;
  return text + ']';
}

ElementType Tensor::getElementType() const { return node->element; }
std::span<const Dim> Tensor::getDims() const { return node->dims; }
bool Tensor::hasDim(std::string_view name) const {
  return std::any_of(node->dims.begin(), node->dims.end(),
                     [&](const Dim &dim) { return dim.name == name; });
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

BuilderState::BuilderState(mlir::MLIRContext *given)
    : ownContext(given ? nullptr : std::make_unique<mlir::MLIRContext>()),
      context(given ? given : ownContext.get()), declarations(context),
      operations(context) {
  context->loadDialect<nd::NDDialect>();
  auto unknown = mlir::UnknownLoc::get(context);
  module = mlir::ModuleOp::create(unknown);
  declarations.setInsertionPointToEnd(module->getBody());
  auto program = nd::ProgramOp::create(declarations, unknown, "forward");
  declarations.setInsertionPoint(program);
  operations.setInsertionPointToEnd(&program.getBody().front());
}

BuildError &BuilderState::fail(Code code, const Where &where,
                               std::string message, int operand) {
  failed = true;
  BuildError error;
  error.code = code;
  error.message = std::move(message);
  error.where = where;
  error.operand = operand;
  errors.push_back(std::move(error));
  return errors.back();
}

mlir::Location BuilderState::getLocation(const Where &where) const {
  // An update is told where its parameter is declared.
  if (update)
    return update->location;
  if (ofUpdates)
    return *ofUpdates;
  if (where.file.empty())
    return mlir::UnknownLoc::get(context);
  return withSpan(context, {where.file, where.line, where.column, where.endLine,
                            where.endColumn});
}

nd::NamedTensorType BuilderState::getType(ElementType element,
                                          std::span<const Dim> dims) const {
  llvm::SmallVector<nd::DimAttr> attrs;
  for (const Dim &dim : dims)
    attrs.push_back(
        nd::DimAttr::get(mlir::StringAttr::get(context, dim.name), dim.size));
  return nd::NamedTensorType::get(attrs, getType(element));
}

bool BuilderState::checkDim(const Dim &dim, const Where &where) {
  auto [entry, isFirst] = dims.try_emplace(dim.name, DimEntry{dim.size, where});
  if (dim.size < 1) {
    fail(Code::SizeNotPositive, where,
         fmt::format("dimension \"{}\" has size {}; a size is at least 1",
                     dim.name, dim.size));
    return false;
  }
  if (isFirst)
    nd::DimOp::create(declarations, getLocation(where), dim.name,
                      uint64_t(dim.size));
  if (entry->second.size == dim.size)
    return true;
  fail(Code::ContradictingSizes, where,
       fmt::format("dimension \"{}\" has size {} here and {} before", dim.name,
                   dim.size, entry->second.size))
      .related.push_back({entry->second.where, "the size before"});
  return false;
}

bool BuilderState::checkType(ElementType element, std::span<const Dim> dims,
                             const Where &where) {
  if (nodes.size() - firstNode >= Builder::maxOperations) {
    fail(Code::ProgramTooLarge, where,
         fmt::format("the program has more than {} operations",
                     Builder::maxOperations));
    return false;
  }
  if (dims.size() > Builder::maxDims) {
    fail(Code::TooManyDims, where,
         fmt::format("a tensor of {} dimensions; at most {}", dims.size(),
                     Builder::maxDims));
    return false;
  }
  // Room for the widest gradient or accumulator, whatever the element.
  __int128 size = std::max<int64_t>(getByteSize(element), 4);
  std::set<std::string_view> seen;
  for (const Dim &dim : dims) {
    if (!checkDim(dim, where))
      return false;
    if (!seen.insert(dim.name).second) {
      fail(Code::RepeatedDim, where,
           fmt::format("dimension \"{}\" occurs twice in one tensor", dim.name))
          .helps.push_back(fmt::format(
              "write \"{}'\" for its second role, of the same size", dim.name));
      return false;
    }
    size *= dim.size;
    if (size > std::numeric_limits<int64_t>::max()) {
      fail(Code::TensorTooLarge, where,
           fmt::format("a tensor {} has more than 2^63 bytes",
                       toString(element, dims)));
      return false;
    }
  }
  if (!loops.empty() && !checkNumOperations(where))
    return false;
  // Of updates only state takes memory of its own, as much as parameters do.
  if (update)
    return true;
  bool wasTooMuch = bytes > Builder::maxBytes;
  // Few iterations, as checked: the product of bytes and them fits.
  for (const Loop &loop : loops)
    size *= loop.dim.size;
  bytes += size;
  if (bytes <= Builder::maxBytes)
    return true;
  if (wasTooMuch) // and was said
    return false;
  fail(Code::TensorTooLarge, where,
       fmt::format("the tensors of the program have more than 2^52 bytes in "
                   "all; with this {} it is too much",
                   toString(element, dims)));
  return false;
}

std::vector<Dim> BuilderState::unite(std::span<const Tensor> operands) {
  std::vector<Dim> dims;
  for (Tensor operand : operands)
    for (const Dim &dim : operand.getDims())
      if (std::none_of(dims.begin(), dims.end(), [&](const Dim &known) {
            return known.name == dim.name;
          }))
        dims.push_back(dim);
  return dims;
}

std::vector<Dim> BuilderState::uniteLargestFirst(std::vector<Tensor> operands) {
  auto largest = std::max_element(
      operands.begin(), operands.end(), [](Tensor a, Tensor b) {
        return a.getDims().size() < b.getDims().size();
      });
  std::rotate(operands.begin(), largest, largest + 1);
  return unite(operands);
}

Tensor BuilderState::addNode(mlir::Value value, ElementType element,
                             std::vector<Dim> dims, const Where &where) {
  std::vector<std::string> names;
  for (const Dim &dim : dims)
    names.push_back(dim.name);
  shapes.try_emplace(std::move(names), where);
  nodes.push_back({element, std::move(dims), value});
  // What parameters share is none of them's.
  if (mlir::Operation *op = value.getDefiningOp();
      isNumberOfStep(Tensor(&nodes.back())) && op &&
      !mlir::isa<nd::ConstantOp>(op))
    op->setLoc(update->ofStep);
  if (!loops.empty())
    ++loops.back().numOperations;
  return Tensor(&nodes.back());
}

mlir::Value BuilderState::getValue(Tensor tensor) { return tensor.node->value; }

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

Builder::Builder() : state(std::make_unique<BuilderState>(nullptr)) {}
Builder::Builder(mlir::MLIRContext &context)
    : state(std::make_unique<BuilderState>(&context)) {}
Builder::~Builder() = default;

void Builder::markIncomplete() { state->failed = true; }
bool Builder::hasErrors() const { return state->failed; }

std::vector<BuildError> Builder::takeErrors() {
  return std::exchange(state->errors, {});
}

void Builder::setMesh(std::vector<MeshAxisSpec> axes, const Where &where) {
  std::vector<layout::MeshAxis> meshAxes;
  llvm::SmallVector<mlir::Attribute> attrs;
  int64_t devices = 1;
  for (MeshAxisSpec &axis : axes) {
    const Where &axisWhere = axis.where.file.empty() ? where : axis.where;
    auto sameName = [&](const layout::MeshAxis &other) {
      return other.name == axis.name;
    };
    if (std::any_of(meshAxes.begin(), meshAxes.end(), sameName)) {
      state->fail(Code::DuplicateName, axisWhere,
                  fmt::format("the mesh has two axes \"{}\"", axis.name));
      continue;
    }
    if (axis.size < 1) {
      state->fail(Code::SizeNotPositive, axisWhere,
                  fmt::format("mesh axis \"{}\" has size {}; a size is at "
                              "least 1",
                              axis.name, axis.size));
      continue;
    }
    if (axis.size > layout::Mesh::maxDevices / devices) {
      state->fail(Code::MeshTooLarge, axisWhere,
                  fmt::format("the mesh has more than {} devices",
                              layout::Mesh::maxDevices));
      return;
    }
    devices *= axis.size;
    attrs.push_back(nd::DimAttr::get(
        mlir::StringAttr::get(state->context, axis.name), axis.size));
    meshAxes.push_back({axis.name, axis.size});
  }
  state->mesh = layout::Mesh(std::move(meshAxes));
  // Ahead of thousands of dims: what looks for it looks at none of them.
  auto first = mlir::OpBuilder::atBlockBegin(state->module->getBody());
  nd::MeshOp::create(first, state->getLocation(where),
                     first.getArrayAttr(attrs), mlir::DenseI64ArrayAttr(),
                     mlir::StringAttr());
}

Dim Builder::dim(const std::string &name, int64_t size, const Where &where) {
  state->checkDim({name, size}, where);
  return {name, size};
}

Dim Builder::ownDim(const std::string &name, int64_t size, const Where &where) {
  // Where it has another size than in the call whose variables this one has, no
  // variable has it.
  auto shared = state->dims.find(state->getVariableName(name));
  const bool isShared = state->scopes.back().isShared &&
                        shared != state->dims.end() &&
                        shared->second.size == size;
  return dim(isShared ? shared->first : state->getFullName(name), size, where);
}

/// What the text of a rule says; nothing where it is none, which is an error.
static std::optional<layout::LayoutRule>
readRule(BuilderState &state, std::string_view text, const Where &where) {
  auto parsed = layout::parseRule(text);
  if (auto *rule = std::get_if<layout::LayoutRule>(&parsed))
    return std::move(*rule);
  const auto &error = std::get<layout::RuleSyntaxError>(parsed);
  state.fail(
      error.kind == layout::RuleSyntaxError::Kind::UnknownRole
          ? Code::UnknownRole
          : Code::ExpectedToken,
      where,
      fmt::format("\"{}\" is no rule of a layout: {}", text, toString(error)));
  return std::nullopt;
}

void Builder::addRule(std::string_view text, const Where &where) {
  if (std::optional<layout::LayoutRule> rule = readRule(*state, text, where))
    addRule(RuleSpec{std::move(*rule)}, where);
}

void Builder::addRule(RuleSpec rule, const Where &where) {
  if (rule.where.file.empty())
    rule.where = where;
  // From C++ it may be what no text says: of a role and of a name.
  const std::string text = toString(rule.rule);
  const auto read = readRule(*state, text, rule.where);
  if (!read)
    return;
  if (*read != rule.rule) {
    state->fail(Code::ExpectedToken, rule.where,
                fmt::format("\"{}\" is not all that a rule of the layout says: "
                            "one by a name has no role, and names no quotes",
                            text));
    return;
  }
  nd::RuleOp::create(state->declarations, state->getLocation(rule.where),
                     rule.rule);
  state->rules.push_back(std::move(rule));
}

int64_t Builder::getNumBlocks(const std::string &dim) const {
  int64_t count = 1;
  for (const RuleSpec &spec : state->rules)
    if (const layout::LayoutRule &rule = spec.rule;
        rule.isOfDims() && std::ranges::find(rule.dims, dim) != rule.dims.end())
      for (const std::string &name : rule.axes)
        for (const layout::MeshAxis &axis : state->mesh.getAxes())
          if (axis.name == name)
            count *= axis.size;
  return count;
}

void Builder::data(DataSpec data, const Where &where) {
  const auto first = std::find_if(
      state->data.begin(), state->data.end(),
      [&](const auto &fed) { return fed.first.input == data.input; });
  if (first == state->data.end()) {
    state->data.emplace_back(std::move(data), where);
    return;
  }
  state
      ->fail(Code::DuplicateName, where,
             fmt::format("input \"{}\" is bound to data twice", data.input))
      .related.push_back({first->second, "bound here before"});
}

void Builder::training(TrainingSpec training, const Where &where) {
  state->training = std::move(training);
  state->trainingWhere = where;
}

void Builder::precision(const PrecisionSpec &precision, const Where &where) {
  std::optional<nd::Precision> known = nd::symbolizePrecision(precision.name);
  if (!known) {
    // Of names as near, the first is suggested: f16 means fp16.
    static const std::string names[] = {"fp16", "bf16", "f32"};
    BuildError &error =
        state->fail(Code::UnknownPrecision, where,
                    fmt::format("programs do not compute in \"{}\"; expected "
                                "f32, bf16 or fp16",
                                precision.name));
    error.suggestion = layout::findNearest(precision.name, names);
    return;
  }
  int exponent;
  if (!(precision.scale >= 0x1p-24 && precision.scale <= 0x1p24) ||
      std::frexp(precision.scale, &exponent) != 0.5) {
    state->fail(Code::InvalidSetting, where,
                fmt::format("the loss scale is a power of two from 2^-24 to "
                            "2^24, found {}",
                            precision.scale));
    return;
  }
  if (precision.growthSteps < 1) {
    state->fail(Code::InvalidSetting, where,
                fmt::format("\"growth_steps\" is a positive integer, found {}",
                            precision.growthSteps));
    return;
  }
  nd::PrecisionOp::create(state->declarations, state->getLocation(where),
                          *known, llvm::APFloat(precision.scale),
                          uint64_t(precision.growthSteps));
}

//===----------------------------------------------------------------------===//
// Border of the program
//===----------------------------------------------------------------------===//

Tensor Builder::input(const std::string &name, ElementType type,
                      const std::vector<Dim> &dims, const Where &where) {
  auto [entry, isFirst] =
      state->inputs.try_emplace(name, BuilderState::Named{Tensor(), where});
  if (!isFirst) {
    state
        ->fail(Code::DuplicateName, where,
               fmt::format("the model has two inputs \"{}\"", name))
        .related.push_back({entry->second.where, "the first"});
    return {};
  }
  if (!state->checkType(type, dims, where))
    return {};
  mlir::Location location = withName(state->getLocation(where), name);
  state->valueNames.insert(name);
  state->addNamedShape(name, dims, where);
  auto op = nd::InputOp::create(state->operations, location,
                                mlir::Type(state->getType(type, dims)), name);
  return entry->second.value =
             state->addNode(op.getResult(), type, dims, where);
}

void Builder::declareInput(const std::string &name, const Where &where) {
  state->inputs.try_emplace(name, BuilderState::Named{Tensor(), where});
}

void Builder::beginTraining() {
  BuilderState &self = *state;
  self.operations.setInsertionPointAfter(
      self.module->lookupSymbol<nd::ProgramOp>("forward"));
  auto program = nd::ProgramOp::create(
      self.operations, mlir::UnknownLoc::get(self.context), "training");
  self.operations.setInsertionPointToEnd(&program.getBody().front());
  self.isTraining = true;
  self.evaluated = std::exchange(self.declared, {});
  self.inputs.clear();
  self.outputs.clear();
  self.scopes.assign(1, BuilderState::Scope{});
  self.declaring.clear();
  self.valueNames.clear();
  self.valueNumbers.clear();
  self.firstNode = self.nodes.size();
  self.bytes = 0;
}

void Builder::output(const std::string &name, Tensor value, const Where &where,
                     const std::vector<Dim> &order) {
  // The name counts even if the value is in error, so that nobody misses it.
  auto [entry, isFirst] =
      state->outputs.try_emplace(name, BuilderState::Named{value, where});
  if (!isFirst) {
    state
        ->fail(Code::DuplicateName, where,
               fmt::format("the model has two outputs \"{}\"", name))
        .related.push_back({entry->second.where, "the first"});
    return;
  }
  if (!value)
    return;
  setName(value, name);
  const mlir::Location location = withName(state->getLocation(where), name);
  mlir::Value stored = BuilderState::getValue(value);
  if (!order.empty()) {
    const nd::NamedTensorType type =
        state->getType(value.getElementType(), order);
    if (type != stored.getType())
      stored =
          nd::BroadcastOp::create(state->operations, location, type, stored);
  }
  nd::OutputOp::create(state->operations, location, name, stored);
}

} // namespace meshc::frontend
