#include "codegen/ExecTypes.h"

#include "codegen/exec/Exec.h"
#include "runtime/exec/Origins.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

exec::BufferRole meshc::codegen::getBufferRole(nd::VariableRole role) {
  switch (role) {
  case nd::VariableRole::Parameter:
    return exec::BufferRole::parameter;
  case nd::VariableRole::ModelState:
    return exec::BufferRole::model_state;
  case nd::VariableRole::State:
    return exec::BufferRole::state;
  case nd::VariableRole::InStep:
    return exec::BufferRole::gradient;
  }
  llvm_unreachable("not a role of a variable");
}

int64_t meshc::codegen::getElementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t meshc::codegen::getBytes(RankedTensorType type) {
  return type.getNumElements() * getElementBytes(type.getElementType());
}

int64_t meshc::codegen::getTensorBytes(Value tensor) {
  return getBytes(cast<RankedTensorType>(tensor.getType()));
}

exec::ElementType ExecTypes::getElementType(Type type) const {
  if (type.isF32())
    return exec::ElementType::f32;
  if (type.isF64())
    return exec::ElementType::f64;
  if (type.isF16())
    return exec::ElementType::f16;
  if (type.isBF16())
    return exec::ElementType::bf16;
  if (type.isInteger(32))
    return exec::ElementType::i32;
  if (type.isInteger(64))
    return exec::ElementType::i64;
  if (type.isInteger(1))
    return exec::ElementType::boolean;
  if (type.isUnsignedInteger(8))
    return exec::ElementType::u8;
  if (type.isInteger(8))
    return exec::ElementType::i8;
  if (type.isInteger(16))
    return exec::ElementType::i16;
  llvm_unreachable("the verifier of !nd.tensor admits no other element type");
}

ExecTypes::ExecTypes(layout::Mesh mesh, exec::ExecutableT &executable)
    : mesh(std::move(mesh)), executable(executable) {
  for (auto [number, scope] : llvm::enumerate(executable.scopes))
    scopes.try_emplace(std::tuple(scope->parent, scope->name, scope->iteration),
                       int(number));
}

std::vector<exec::AxisRef>
ExecTypes::getAxes(ArrayRef<layout::AxisRef> axes) const {
  std::vector<exec::AxisRef> result;
  for (layout::AxisRef axis : axes)
    result.emplace_back(axis.axis, axis.pre, axis.size);
  return result;
}

static exec::ReduceKind getReduceKind(layout::ReduceKind kind) {
  switch (kind) {
  case layout::ReduceKind::None:
    return exec::ReduceKind::none;
  case layout::ReduceKind::Sum:
    return exec::ReduceKind::sum;
  case layout::ReduceKind::Max:
    return exec::ReduceKind::max;
  case layout::ReduceKind::Min:
    return exec::ReduceKind::min;
  }
  llvm_unreachable("not a reduce kind");
}

std::unique_ptr<exec::TensorLayoutT>
ExecTypes::getLayout(nd::NamedTensorType type) const {
  layout::Sharding sharding = nd::getSharding(type, mesh);
  auto result = std::make_unique<exec::TensorLayoutT>();
  result->element = getElementType(type.getElementType());
  for (auto [number, dim] : llvm::enumerate(type.getDims())) {
    auto entry = std::make_unique<exec::DimShardingT>();
    entry->name = dim.getName().str();
    entry->size = dim.getSize();
    entry->axes = getAxes(sharding.dims[number]);
    if (const layout::Window *window = sharding.getWindow(number)) {
      entry->window = std::make_unique<exec::WindowT>();
      entry->window->loop = window->loop;
      entry->window->size = window->loopSize;
      entry->window->factor = window->factor;
      entry->window->low = window->low;
      entry->window->high = window->high;
      entry->window->divisor = window->divisor;
      entry->window->modulus = window->modulus;
    }
    result->dims.push_back(std::move(entry));
  }
  result->partial = getReduceKind(sharding.partialKind);
  result->partial_axes = getAxes(sharding.partialAxes);
  return result;
}

exec::Span ExecTypes::getSpan(Location loc) {
  std::optional<SourceSpan> span = meshc::getSpan(loc);
  if (!span)
    return exec::Span(-1, 0, 0, 0, 0);
  auto file = llvm::find(executable.files, span->file);
  int index = int(file - executable.files.begin());
  if (file == executable.files.end())
    executable.files.push_back(span->file);
  return exec::Span(index, int(span->line), int(span->column),
                    int(span->endLine), int(span->endColumn));
}

int ExecTypes::getScope(nd::ScopeAttr scope) {
  if (!scope)
    return -1;
  const int parent = getScope(scope.getParent());
  auto [known, isNew] = scopes.try_emplace(
      std::tuple(parent, scope.getName().str(), scope.getIteration()),
      int(executable.scopes.size()));
  if (isNew) {
    auto entry = std::make_unique<exec::ScopeT>();
    entry->parent = parent;
    entry->name = scope.getName().str();
    entry->iteration = scope.getIteration();
    executable.scopes.push_back(std::move(entry));
  }
  return known->second;
}

static exec::OriginKind getOriginKind(nd::OriginKind kind) {
  switch (kind) {
  case nd::OriginKind::Value:
    return exec::OriginKind::value;
  case nd::OriginKind::Gradient:
    return exec::OriginKind::gradient;
  case nd::OriginKind::Update:
    return exec::OriginKind::update;
  case nd::OriginKind::State:
    return exec::OriginKind::state;
  }
  llvm_unreachable("not a kind of origin");
}

static exec::OriginPart getOriginPart(nd::OriginPart part) {
  switch (part) {
  case nd::OriginPart::Itself:
    return exec::OriginPart::itself;
  case nd::OriginPart::Inside:
    return exec::OriginPart::inside;
  case nd::OriginPart::Copy:
    return exec::OriginPart::copy;
  case nd::OriginPart::Padded:
    return exec::OriginPart::padded;
  case nd::OriginPart::Sums:
    return exec::OriginPart::sums;
  case nd::OriginPart::Gathered:
    return exec::OriginPart::gathered;
  case nd::OriginPart::Order:
    return exec::OriginPart::order;
  }
  llvm_unreachable("not a part");
}

std::unique_ptr<exec::OriginT> ExecTypes::getOrigin(nd::OriginAttr origin) {
  if (!origin || !origin.hasName())
    return nullptr;
  auto result = std::make_unique<exec::OriginT>();
  result->scope = getScope(origin.getScope());
  result->name = origin.getName().str();
  result->kind = getOriginKind(origin.getKind());
  result->state = origin.getState().str();
  result->element = origin.getAs().str();
  result->part = getOriginPart(origin.getPart());
  return result;
}

std::string ExecTypes::getBufferName(nd::OriginAttr origin) {
  return runtime::getBufferName(executable, getOrigin(origin).get());
}

exec::Phase ExecTypes::getPhase(Location loc) {
  return getPhase(meshc::getPhase(loc));
}

exec::Phase ExecTypes::getPhase(nd::Phase phase) {
  switch (phase) {
  case nd::Phase::Forward:
    return exec::Phase::forward;
  case nd::Phase::Backward:
    return exec::Phase::backward;
  case nd::Phase::Update:
    return exec::Phase::update;
  }
  llvm_unreachable("not a phase");
}

static exec::CauseKind getCauseKind(nd::CauseKind kind) {
  switch (kind) {
  case nd::CauseKind::Contraction:
    return exec::CauseKind::contraction;
  case nd::CauseKind::Reduction:
    return exec::CauseKind::reduction;
  case nd::CauseKind::Constraint:
    return exec::CauseKind::constraint;
  case nd::CauseKind::Conflict:
    return exec::CauseKind::conflict;
  case nd::CauseKind::Window:
    return exec::CauseKind::window;
  case nd::CauseKind::Rule:
    return exec::CauseKind::rule;
  case nd::CauseKind::NoRule:
    return exec::CauseKind::no_rule;
  }
  llvm_unreachable("not a kind of cause");
}

std::unique_ptr<exec::CauseT> ExecTypes::getCause(nd::CauseAttr cause) {
  auto result = std::make_unique<exec::CauseT>();
  result->rule = cause.getRule().str();
  result->consumer = getOrigin(cause.getConsumer());
  result->operand = getOrigin(cause.getOperand());
  if (cause.getConsumerOperation())
    result->consumer_operation = cause.getConsumerOperation().str();
  if (cause.getOperandOperation())
    result->operand_operation = cause.getOperandOperation().str();
  result->needed = cause.getNeeded().str();
  result->had = cause.getHad().str();
  result->written = bool(cause.getWritten());
  result->kind = getCauseKind(cause.getKind());
  for (Attribute span : cause.getSpans())
    if (auto loc = dyn_cast<LocationAttr>(span)) {
      exec::Span entry = getSpan(Location(loc));
      bool isKnown = llvm::any_of(result->spans, [&](const exec::Span &known) {
        return known.file() == entry.file() && known.line() == entry.line() &&
               known.column() == entry.column() &&
               known.end_line() == entry.end_line() &&
               known.end_column() == entry.end_column();
      });
      if (entry.file() >= 0 && !isKnown)
        result->spans.push_back(entry);
    }
  if (cause.getAlternative()) {
    result->alternative = std::make_unique<exec::AlternativeT>();
    result->alternative->description = cause.getAlternative().str();
    if (cause.getAlternativeUs())
      result->alternative->cost_us =
          cause.getAlternativeUs().getValueAsDouble();
    if (cause.getChosenUs())
      result->alternative->chosen_cost_us =
          cause.getChosenUs().getValueAsDouble();
  }
  return result;
}

//===-- Tensors of the plan -----------------------------------------------===//

namespace {
class TensorCollector {
public:
  TensorCollector(ModuleOp module, exec::ExecutableT &executable)
      : variables(module), types(nd::getMesh(module), executable),
        executable(executable) {}

  void collect(nd::ProgramOp program) {
    for (Operation &op : *program.getBody().begin()) {
      if (auto input = dyn_cast<nd::InputOp>(op)) {
        if (!input.isOfRun())
          add(input.getName(), exec::BufferRole::input, input.getType(),
              input.getLoc());
      } else if (auto output = dyn_cast<nd::OutputOp>(op))
        add(output.getName(), exec::BufferRole::output,
            output.getValue().getType(), output.getLoc());
      else if (auto read = dyn_cast<nd::ReadOp>(op))
        addVariable(read);
      else if (op.getNumResults() == 1 && isValue(op))
        addComputed(op);
    }
    llvm::erase(executable.tensors, nullptr);
    findOwners();
  }

private:
  /// Whether what it gives is a value, and not the same one elsewhere: a
  /// gradient as rules make it, or one that has a name of its own.
  static bool isValue(Operation &op) {
    auto reshard = dyn_cast<nd::ReshardOp>(op);
    if (!reshard || reshard.getRole())
      return !reshard || reshard.getRole() == nd::LayoutRole::Gradients;
    const nd::OriginAttr own = getOrigin(op.getLoc());
    const nd::OriginAttr input = getOrigin(reshard.getInput().getLoc());
    return own && input && own.getPart() == nd::OriginPart::Itself &&
           !own.isOf(input);
  }

  /// Says of gradients, states and other element types which value they are
  /// of: a parameter, or else an input or what is computed.
  void findOwners() {
    using Role = exec::BufferRole;
    std::map<std::pair<int, std::string>, int> values;
    for (Role role :
         {Role::parameter, Role::model_state, Role::input, Role::activation})
      for (auto [number, tensor] : llvm::enumerate(executable.tensors))
        if (const exec::OriginT *origin = tensor->origin.get();
            origin && tensor->role == role &&
            origin->kind == exec::OriginKind::value && origin->element.empty())
          values.try_emplace({origin->scope, origin->name}, int(number));
    for (const auto &tensor : executable.tensors) {
      const exec::OriginT *origin = tensor->origin.get();
      if (!origin || origin->name.empty() ||
          (origin->kind == exec::OriginKind::value && origin->element.empty()))
        continue;
      if (auto value = values.find({origin->scope, origin->name});
          value != values.end())
        tensor->of = value->second;
    }
  }

  void addVariable(nd::ReadOp read) {
    auto variable = variables.lookup<nd::VariableOp>(read.getVariable());
    if (variable.getRole() == nd::VariableRole::InStep)
      return; // that is what is added up
    add(read.getVariable(), getBufferRole(variable.getRole()), read.getType(),
        variable.getLoc());
  }

  void addComputed(Operation &op) {
    const std::string name = getValueName(op.getLoc());
    auto type = dyn_cast<nd::NamedTensorType>(op.getResult(0).getType());
    if (name.empty() || !type || getPhase(op.getLoc()) == nd::Phase::Update)
      return;
    add(name,
        getPhase(op.getLoc()) == nd::Phase::Forward
            ? exec::BufferRole::activation
            : exec::BufferRole::gradient,
        type, op.getLoc());
  }

  /// Of several operations that make up one named value the last one is the
  /// value, one inside it only as long as there is no other.
  void add(StringRef name, exec::BufferRole role, nd::NamedTensorType type,
           Location loc) {
    auto &known = positions[{name.str(), role}];
    if (known && isInside(loc) && !executable.tensors[*known]->inside)
      return;
    // It stands where its last operation does; collect() closes the gap.
    if (known)
      executable.tensors[*known] = nullptr;
    known = executable.tensors.size();
    auto tensor = std::make_unique<exec::TensorT>();
    tensor->name = name.str();
    tensor->role = role;
    tensor->inside = isInside(loc);
    tensor->layout = types.getLayout(type);
    tensor->origin = types.getOrigin(getOrigin(loc, name));
    tensor->span = std::make_unique<exec::Span>(types.getSpan(loc));
    tensor->bytes_global =
        type.getNumElements() * getElementBytes(type.getElementType());
    tensor->bytes_per_device =
        getBytes(nd::getLocalType(type, types.getMesh()));
    executable.tensors.push_back(std::move(tensor));
  }

  SymbolTable variables;
  ExecTypes types;
  exec::ExecutableT &executable;
  std::map<std::pair<std::string, exec::BufferRole>, std::optional<size_t>>
      positions;
};
} // namespace

void meshc::codegen::collectTensors(ModuleOp module,
                                    exec::ExecutableT &executable) {
  auto program = module.lookupSymbol<nd::ProgramOp>("step");
  if (!program)
    program = module.lookupSymbol<nd::ProgramOp>("eval");
  if (program)
    TensorCollector(module, executable).collect(program);
}

TensorIndex::TensorIndex(const exec::ExecutableT &executable) {
  for (auto [position, tensor] : llvm::enumerate(executable.tensors))
    positions.try_emplace({tensor->name, tensor->role}, int(position));
}

int TensorIndex::find(StringRef name, ArrayRef<exec::BufferRole> roles) const {
  for (exec::BufferRole role : roles)
    if (auto known = positions.find({name.str(), role});
        known != positions.end())
      return known->second;
  return -1;
}

int TensorIndex::findVariable(StringRef name) const {
  return find(name, {exec::BufferRole::parameter, exec::BufferRole::model_state,
                     exec::BufferRole::state});
}

int TensorIndex::find(Value value) const {
  using Role = exec::BufferRole;
  if (auto read = value.getDefiningOp<spmd::ReadOp>())
    return findVariable(read.getVariable());
  if (auto input = value.getDefiningOp<spmd::InputOp>())
    return find(input.getName(), {Role::input});
  const Location loc = steps::getValueLoc(value);
  const std::string name = getValueName(loc);
  switch (getPhase(loc)) {
  case nd::Phase::Forward:
    return find(name, {Role::activation});
  case nd::Phase::Backward:
    return find(name, {Role::gradient});
  case nd::Phase::Update:
    for (Operation *user : value.getUsers())
      if (auto write = dyn_cast<spmd::WriteOp>(user))
        return findVariable(write.getVariable());
    return findVariable(name);
  }
  llvm_unreachable("not a phase");
}

int TensorIndex::findOwner(Value value) const {
  using Role = exec::BufferRole;
  if (int found = find(value); found >= 0)
    return found;
  return find(getValueName(steps::getValueLoc(value)),
              {Role::parameter, Role::model_state, Role::state, Role::input,
               Role::activation, Role::gradient, Role::output});
}
