#include "codegen/ProgramBuilder.h"

#include "codegen/steps/CollectiveForm.h"
#include "codegen/steps/CommandWaits.h"
#include "codegen/steps/KernelGroups.h"
#include "codegen/steps/MatmulForm.h"
#include "codegen/steps/MergeCollectives.h"

#include "runtime/exec/ExecutableChecker.h"
#include "runtime/exec/MatmulOperands.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

static uint64_t getValueBytes(Value value) {
  return uint64_t(getBytes(cast<RankedTensorType>(value.getType())));
}

/// What the plan calls the memory of a value.
static std::string getBufferName(Value value) {
  std::string name = getValueName(value.getLoc()).str();
  return isInside(value.getLoc()) ? "inside " + name : name;
}

//===-- Slots -------------------------------------------------------------===//

int ProgramBuilder::getVariableSlot(StringRef variable) {
  auto [known, isFirst] = variableSlots.try_emplace(variable, slots.size());
  if (isFirst) {
    Slot slot;
    slot.buffer = variables.lookup(variable);
    slot.isReusable = false;
    slots.push_back(std::move(slot));
  }
  return known->second;
}

uint64_t ProgramBuilder::getStoredBytes(Value value) const {
  auto mask = masks.find(value);
  if (mask == masks.end())
    return getValueBytes(value);
  auto [rows, words] = mask->second;
  return uint64_t(rows * words) * sizeof(int32_t);
}

int ProgramBuilder::addSlot(Value value, int64_t first, exec::BufferRole role) {
  Slot slot;
  slot.bytes = std::max<uint64_t>(getStoredBytes(value), 1);
  slot.first = first;
  slot.last = std::max(first, lastUse.lookup(value));
  slot.role = role;
  slot.name = getBufferName(value);
  slots.push_back(std::move(slot));
  slotOf[value] = int(slots.size()) - 1;
  return slotOf[value];
}

void ProgramBuilder::assignBorderSlots() {
  int64_t end = int64_t(steps.size());
  for (auto [index, step] : llvm::enumerate(steps)) {
    for (Value input : step.inputs)
      lastUse[input] = int64_t(index);
    if (step.aux && step.activation == MatmulActivation::Relu) {
      auto product = cast<linalg::GenericOp>(step.ops.front());
      MatmulForm form = getMatmulForm(product);
      masks[step.aux] = {form.m.size, runtime::getMaskRowWords(form.n.size)};
    }
  }
  for (auto output : source.getBody().getOps<spmd::OutputOp>())
    lastUse[output.getValue()] = end;

  for (auto read : source.getBody().getOps<spmd::ReadOp>()) {
    slotOf[read] = getVariableSlot(read.getVariable());
    auto [last, isFirst] = lastVariableRead.try_emplace(read.getVariable(), -1);
    last->second = std::max(last->second, lastUse.lookup(read));
  }
  for (auto input : source.getBody().getOps<spmd::InputOp>()) {
    // The caller fills it once and may run the program again.
    lastUse[input] = end;
    slots[addSlot(input, -1, exec::BufferRole::input)].isReusable = false;
    slots.back().name = input.getName().str();
  }
}

std::optional<int> ProgramBuilder::findWritableVariable(Value value,
                                                        int64_t index) {
  const Step &step = steps[index];
  for (Operation *user : value.getUsers()) {
    auto write = dyn_cast<spmd::WriteOp>(user);
    if (!write)
      continue;
    auto lastRead = lastVariableRead.find(write.getVariable());
    int64_t last = lastRead == lastVariableRead.end() ? -1 : lastRead->second;
    if (last > index)
      continue;
    auto position = llvm::find(step.outputs, value) - step.outputs.begin();
    bool mayOverwrite =
        llvm::all_of(llvm::enumerate(step.inputs), [&](auto input) {
          auto read = input.value().template getDefiningOp<spmd::ReadOp>();
          return !read || read.getVariable() != write.getVariable() ||
                 llvm::is_contained(step.mayShare[position],
                                    unsigned(input.index()));
        });
    if (mayOverwrite)
      return getVariableSlot(write.getVariable());
  }
  return std::nullopt;
}

std::optional<int>
ProgramBuilder::findTakeover(const Step &step, unsigned output, int64_t index) {
  Value value = step.outputs[output];
  for (unsigned candidate : step.mayShare[output]) {
    Value input = step.inputs[candidate];
    Slot &slot = slots[slotOf.at(input)];
    if (slot.isReusable && slot.last == index &&
        slot.bytes == getValueBytes(value)) {
      slot.last = std::max(index, lastUse.lookup(value));
      return slotOf.at(input);
    }
  }
  return std::nullopt;
}

void ProgramBuilder::assignStepSlots(int64_t index) {
  const Step &step = steps[index];
  for (auto [position, value] : llvm::enumerate(step.outputs)) {
    if (std::optional<int> variable = findWritableVariable(value, index)) {
      slotOf[value] = *variable;
      continue;
    }
    if (llvm::any_of(value.getUsers(), llvm::IsaPred<spmd::WriteOp>))
      lastUse[value] = int64_t(steps.size()); // copied at the end
    // A matmul that adds to a value goes on where that lies.
    auto transfer = transferOf.find(value);
    if (transfer != transferOf.end() && !step.addend) {
      Slot &slot = slots[addSlot(value, index, exec::BufferRole::gradient)];
      std::tie(slot.transfer, slot.member) = transfer->second;
      continue;
    }
    if (std::optional<int> taken = findTakeover(step, position, index)) {
      slotOf[value] = *taken;
      continue;
    }
    exec::BufferRole role = exec::BufferRole::activation;
    if (step.kind == Step::Kind::Collective)
      role = exec::BufferRole::communication;
    else if (masks.contains(value))
      role = exec::BufferRole::activation; // kept for the backward pass
    else if (getPhase(value.getLoc()) != nd::Phase::Forward)
      role = exec::BufferRole::gradient;
    addSlot(value, index, role);
  }
}

void ProgramBuilder::findTransfers() {
  for (auto [index, step] : llvm::enumerate(steps)) {
    if (step.kind != Step::Kind::Collective || step.ops.size() < 2)
      continue;
    for (auto [member, operand] : llvm::enumerate(step.inputs))
      if (!step.mayShare[member].empty() && operand.hasOneUse())
        transferOf[operand] = {int64_t(index), member};
  }
}

void ProgramBuilder::place(uint64_t arenaStart) {
  // The slots of a transfer are placed as one, in the order of its members.
  std::map<std::pair<int64_t, size_t>, Slot *> members;
  for (Slot &slot : slots)
    if (slot.transfer >= 0)
      members[{slot.transfer, slot.member}] = &slot;
  std::vector<Lifetime> lifetimes;
  std::map<int64_t, size_t> lifetimeOf; // by transfer
  for (auto [key, slot] : members) {
    auto [known, isFirst] = lifetimeOf.try_emplace(key.first, lifetimes.size());
    if (isFirst)
      lifetimes.push_back({0, slot->first, slot->last});
    Lifetime &whole = lifetimes[known->second];
    slot->offset = llvm::alignTo(whole.bytes, bufferAlignment);
    whole.bytes = slot->offset + slot->bytes;
    whole.first = std::min(whole.first, slot->first);
    whole.last = std::max(whole.last, slot->last);
  }
  std::vector<std::pair<Slot *, size_t>> placed; // with its lifetime
  for (Slot &slot : slots) {
    if (slot.buffer >= 0)
      continue;
    if (slot.transfer >= 0) {
      placed.emplace_back(&slot, lifetimeOf.at(slot.transfer));
      continue;
    }
    placed.emplace_back(&slot, lifetimes.size());
    lifetimes.push_back({slot.bytes, slot.first, slot.last});
  }
  ArenaPlan plan = planArena(lifetimes, arenaStart);
  for (auto [slot, lifetime] : placed) {
    auto buffer = std::make_unique<exec::BufferT>();
    buffer->name = slot->name;
    buffer->role = slot->role;
    buffer->offset = plan.offsets[lifetime] + slot->offset;
    buffer->bytes = slot->bytes;
    slot->buffer = int(executable.buffers.size());
    executable.buffers.push_back(std::move(buffer));
  }
  program->arena_bytes = plan.bytes;
}

//===-- Commands ----------------------------------------------------------===//

static std::vector<int64_t> getDenseStrides(ArrayRef<int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

std::unique_ptr<exec::OperandT> ProgramBuilder::getOperand(Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  auto operand = std::make_unique<exec::OperandT>();
  operand->buffer = slots[slotOf.at(value)].buffer;
  if (auto mask = masks.find(value); mask != masks.end()) {
    auto [rows, words] = mask->second;
    operand->element = exec::ElementType::i32;
    operand->shape = {rows, words};
    operand->strides = {words, 1};
    return operand;
  }
  operand->element = types.getElementType(type.getElementType());
  operand->shape.assign(type.getShape().begin(), type.getShape().end());
  operand->strides = getDenseStrides(type.getShape());
  operand->tensor = tensors.find(value);
  operand->inside = isInside(value.getLoc());
  return operand;
}

exec::CommandT &ProgramBuilder::addCommand(Operation *op,
                                           ArrayRef<Value> operands,
                                           unsigned results) {
  auto command = std::make_unique<exec::CommandT>();
  command->name = getValueName(op->getLoc()).str();
  command->phase = ExecTypes::getPhase(op->getLoc());
  command->span = std::make_unique<exec::Span>(types.getSpan(op->getLoc()));
  command->results = int(results);
  for (Value value : operands) {
    command->operands.push_back(getOperand(value));
    command->bytes += int64_t(getStoredBytes(value));
  }
  program->commands.push_back(std::move(command));
  return *program->commands.back();
}

/// Arithmetic of one element of a `linalg` body.
static int64_t countScalarOps(linalg::LinalgOp op) {
  int64_t count = 0;
  for (Operation &inner : *op.getBlock()) {
    StringRef dialect = inner.getName().getDialectNamespace();
    if ((dialect == "arith" || dialect == "math") &&
        !isa<arith::ConstantOp>(inner) && !isSignOfFma(&inner))
      count += isa<math::FmaOp>(inner) ? 2 : 1;
  }
  return count;
}

LogicalResult ProgramBuilder::setFlops(Operation *op, exec::CommandT &command,
                                       ArrayRef<SmallVector<int64_t>> parts) {
  constexpr int64_t maxFlops = int64_t(1) << 56;
  for (ArrayRef<int64_t> factors : parts) {
    int64_t product = 1;
    for (int64_t factor : factors)
      if (llvm::MulOverflow(product, factor, product))
        product = maxFlops;
    command.flops += std::min(product, maxFlops);
    if (command.flops >= maxFlops)
      return op->emitError("this takes 2^56 operations or more on each device "
                           "in each step, which is more than meshc plans for");
  }
  flops += command.flops;
  if (flops > runtime::maxTotal)
    return op->emitError("with this the program takes 2^62 operations or more "
                         "on each device in each step, which is more than "
                         "meshc plans for");
  return success();
}

/// The operation that a kernel is called after: of what others read, the last
/// result of the earliest phase.
static Operation *getNamingOp(const Step &step) {
  Operation *naming = step.ops.back();
  std::optional<exec::Phase> earliest;
  for (Value output : step.outputs) {
    exec::Phase phase = ExecTypes::getPhase(output.getLoc());
    if (earliest && phase > *earliest)
      continue;
    earliest = phase;
    naming = output.getDefiningOp();
  }
  return naming;
}

/// Emits the kernels, which tells what workspace they need.
LogicalResult ProgramBuilder::emitKernels() {
  stepKernels.resize(steps.size());
  for (auto [index, step] : llvm::enumerate(steps)) {
    if (step.kind != Step::Kind::Kernel)
      continue;
    std::string symbol = (source.getSymName() + "_" + Twine(index)).str();
    auto operands = llvm::concat<const Value>(step.inputs, step.outputs);
    SmallVector<bool> isShared;
    for (Value operand : operands)
      isShared.push_back(llvm::count_if(operands, [&](Value other) {
                           return slotOf.at(other) == slotOf.at(operand);
                         }) > 1);
    FailureOr<EmittedKernel> kernel = target.emitKernel(step, symbol, isShared);
    if (failed(kernel))
      return failure();
    stepKernels[index].code = std::move(*kernel);
    uint64_t bytes = stepKernels[index].code.workspaceBytes;
    if (bytes == 0)
      continue;
    Slot slot;
    slot.bytes = bytes;
    slot.first = slot.last = int64_t(index);
    slot.role = exec::BufferRole::workspace;
    const std::optional<PartSum> &sum = stepKernels[index].code.sum;
    slot.name =
        "parts of " + getBufferName(sum ? step.outputs[sum->outputs.back()]
                                        : step.outputs.back());
    stepKernels[index].workspace = int(slots.size());
    slots.push_back(std::move(slot));
  }
  return success();
}

LogicalResult ProgramBuilder::addKernel(size_t index) {
  const Step &step = steps[index];
  const StepKernel &kernel = stepKernels[index];
  const std::optional<PartSum> &sum = kernel.code.sum;
  SmallVector<Value> operands = llvm::to_vector(step.inputs);
  for (auto [number, output] : llvm::enumerate(step.outputs))
    if (!sum || !llvm::is_contained(sum->outputs, number))
      operands.push_back(output);
  exec::CommandT &command =
      addCommand(getNamingOp(step), operands,
                 unsigned(operands.size() - step.inputs.size()));
  if (!step.members.empty())
    command.name += " and " + std::to_string(step.members.size() - 1) + " more";
  std::vector<SmallVector<int64_t>> work;
  for (Operation *op : step.ops)
    if (auto structured = dyn_cast<linalg::LinalgOp>(op)) {
      work.push_back(structured.getStaticLoopRanges());
      work.back().push_back(countScalarOps(structured));
    }
  if (failed(setFlops(step.ops.back(), command, work)))
    return failure();
  if (kernel.workspace >= 0) {
    command.operands.push_back(getWorkspace(kernel));
    ++command.results;
    const auto bytes = int64_t(kernel.code.workspaceBytes);
    command.bytes += sum ? bytes : 2 * bytes; // written, then read
  }
  exec::KernelT action;
  action.symbol = kernel.code.symbol;
  action.extent = kernel.code.extent;
  for (const KernelLaunch &launch : kernel.code.launches) {
    auto entry = std::make_unique<exec::LaunchT>();
    entry->symbol = launch.symbol;
    entry->grid = launch.grid;
    entry->block = int32_t(launch.block);
    entry->shared_bytes = int32_t(launch.sharedBytes);
    action.launches.push_back(std::move(entry));
  }
  command.action.Set(std::move(action));
  return sum ? addPartSum(step, kernel) : success();
}

std::unique_ptr<exec::OperandT>
ProgramBuilder::getWorkspace(const StepKernel &kernel) const {
  const Slot &slot = slots[kernel.workspace];
  auto operand = std::make_unique<exec::OperandT>();
  operand->buffer = slot.buffer;
  operand->element = exec::ElementType::f32;
  operand->shape = {int64_t(slot.bytes / sizeof(float))};
  operand->strides = {1};
  return operand;
}

/// The command behind a kernel that adds up the parts it has summed.
LogicalResult ProgramBuilder::addPartSum(const Step &step,
                                         const StepKernel &kernel) {
  const PartSum &sum = *kernel.code.sum;
  SmallVector<Value> outputs;
  std::vector<SmallVector<int64_t>> work;
  for (unsigned number : sum.outputs) {
    outputs.push_back(step.outputs[number]);
    work.push_back(
        {sum.parts,
         cast<RankedTensorType>(outputs.back().getType()).getNumElements()});
  }
  exec::CommandT &command =
      addCommand(getNamingOp(step), outputs, unsigned(outputs.size()));
  command.name = "sum of " + slots[kernel.workspace].name;
  command.operands.insert(command.operands.begin(), getWorkspace(kernel));
  command.bytes += int64_t(kernel.code.workspaceBytes);
  exec::KernelT action;
  action.symbol = sum.symbol;
  action.extent = sum.extent;
  command.action.Set(std::move(action));
  return setFlops(step.ops.back(), command, work);
}

static exec::Activation getActivation(MatmulActivation activation) {
  switch (activation) {
  case MatmulActivation::None:
    return exec::Activation::none;
  case MatmulActivation::Relu:
    return exec::Activation::relu;
  case MatmulActivation::GeluErf:
    return exec::Activation::gelu_erf;
  case MatmulActivation::GeluTanh:
    return exec::Activation::gelu_tanh;
  }
  llvm_unreachable("not an activation");
}

/// The sum in the words of a command whose factors are swapped or not.
static exec::ColumnSum getColumnSum(ColumnSum of, bool swapped) {
  switch (of) {
  case ColumnSum::None:
    return exec::ColumnSum::none;
  case ColumnSum::Result:
    return exec::ColumnSum::c;
  case ColumnSum::FirstFactor:
    return swapped ? exec::ColumnSum::b : exec::ColumnSum::a;
  case ColumnSum::SecondFactor:
    return swapped ? exec::ColumnSum::a : exec::ColumnSum::b;
  }
  llvm_unreachable("not a column sum");
}

LogicalResult ProgramBuilder::emitMatmul(const Step &step) {
  auto contraction = cast<linalg::GenericOp>(step.ops.front());
  MatmulForm form = getMatmulForm(contraction);
  Value a = contraction.getDpsInputs()[form.swapped ? 1 : 0];
  Value b = contraction.getDpsInputs()[form.swapped ? 0 : 1];
  Value result = step.outputs.front();
  Operation *naming = result.getDefiningOp();
  SmallVector<Value> operands = {a, b}; // as getOperandOrder() says
  if (step.bias)
    operands.push_back(step.bias);
  // What lies elsewhere is added by the first call, or copied to the result.
  bool isElsewhere = step.addend && slotOf.at(step.addend) != slotOf.at(result);
  bool hasAddend =
      isElsewhere && target.getMatmulLibrary() == MatmulLibrary::CublasLt;
  SmallVector<Value> first = operands;
  if (hasAddend)
    first.push_back(step.addend);
  SmallVector<Value> ends;
  if (step.aux && step.isGradient)
    ends.push_back(step.aux);
  if (step.columnSum)
    ends.push_back(step.columnSum);
  if (step.aux && !step.isGradient)
    ends.push_back(step.aux);
  ends.push_back(result);
  first.append(ends);
  operands.append(ends);
  if (isElsewhere && !hasAddend)
    addCommand(naming, {step.addend, result}, 1).action.Set(exec::CopyT());

  // One call per position of the loops over k that the library does not take;
  // all but the first accumulate, the last one applies bias and activation.
  int64_t calls = 1;
  for (const MatmulForm::Loop &loop : form.outerK)
    calls *= loop.size;
  if (calls > 1 && (step.bias || step.activation != MatmulActivation::None))
    return step.ops.front()->emitError(
        "a matmul over several strided contracted dimensions takes no bias or "
        "activation in its library call");
  int64_t elementBytes =
      getElementBytes(cast<RankedTensorType>(a.getType()).getElementType());
  for (int64_t call = 0; call < calls; ++call) {
    exec::CommandT &command = addCommand(naming, call == 0 ? first : operands,
                                         unsigned(step.outputs.size()));
    int64_t rest = call, aOffset = 0, bOffset = 0;
    for (const MatmulForm::Loop &loop : llvm::reverse(form.outerK)) {
      aOffset += rest % loop.size * loop.a;
      bOffset += rest % loop.size * loop.b;
      rest /= loop.size;
    }
    command.operands[0]->offset = uint64_t(aOffset * elementBytes);
    command.operands[1]->offset = uint64_t(bOffset * elementBytes);

    exec::MatmulT action;
    for (const MatmulForm::Loop &loop : form.batch) {
      action.batch.push_back(loop.size);
      action.a_strides.push_back(loop.a);
      action.b_strides.push_back(loop.b);
      action.c_strides.push_back(loop.c);
    }
    action.m = form.m.size;
    action.n = form.n.size;
    action.k = form.k.size;
    for (auto [strides, rows, columns] :
         {std::tuple(&action.a_strides, form.m.a, form.k.a),
          std::tuple(&action.b_strides, form.k.b, form.n.b),
          std::tuple(&action.c_strides, form.m.c, form.n.c)}) {
      strides->push_back(rows);
      strides->push_back(columns);
    }
    action.has_addend = call == 0 && hasAddend;
    action.accumulate = call > 0 || (step.addend && !hasAddend);
    action.has_bias = bool(step.bias);
    action.activation = getActivation(step.activation);
    action.has_aux = bool(step.aux);
    action.is_gradient = step.isGradient;
    action.column_sum = getColumnSum(step.columnSumOf, form.swapped);
    SmallVector<int64_t> factors = {2, action.m, action.n, action.k};
    factors.append(action.batch.begin(), action.batch.end());
    if (failed(setFlops(naming, command, factors)))
      return failure();
    command.action.Set(std::move(action));
  }
  return success();
}

static exec::CollectiveKind getCollectiveKind(layout::CollectiveKind kind) {
  switch (kind) {
  case layout::CollectiveKind::AllReduce:
    return exec::CollectiveKind::all_reduce;
  case layout::CollectiveKind::ReduceScatter:
    return exec::CollectiveKind::reduce_scatter;
  case layout::CollectiveKind::AllGather:
    return exec::CollectiveKind::all_gather;
  case layout::CollectiveKind::AllToAll:
    return exec::CollectiveKind::all_to_all;
  case layout::CollectiveKind::Permute:
    return exec::CollectiveKind::permute;
  case layout::CollectiveKind::Exchange:
    return exec::CollectiveKind::exchange;
  case layout::CollectiveKind::Slice:
    return exec::CollectiveKind::slice;
  }
  llvm_unreachable("not a collective kind");
}

exec::CollectiveT
ProgramBuilder::getCollective(spmd::CollectiveOpInterface op) {
  CollectiveForm form = getCollectiveForm(op, types.getMesh());
  exec::CollectiveT action;
  action.kind = getCollectiveKind(form.kind);
  action.source = types.getLayout(op.getSourceType());
  action.target = types.getLayout(op.getTargetType());
  action.axes = types.getAxes(form.axes);
  action.group_size = form.groupSize;
  action.payload_elements = form.payloadElements;
  action.payload_bytes = form.payloadBytes;
  action.wire_bytes = form.wireBytes;
  if (form.kind != layout::CollectiveKind::Slice)
    action.id = "c" + std::to_string(nextCollective++);
  if (ArrayAttr causes = op.getCausesAttr())
    for (auto cause : causes.getAsRange<nd::CauseAttr>())
      action.causes.push_back(types.getCause(cause));
  return action;
}

void ProgramBuilder::emitCollective(const Step &step) {
  SmallVector<Value> operands =
      llvm::to_vector(llvm::concat<const Value>(step.inputs, step.outputs));
  exec::CommandT &command =
      addCommand(step.ops.front(), operands, step.outputs.size());
  exec::CollectiveT action =
      getCollective(cast<spmd::CollectiveOpInterface>(step.ops.front()));
  for (Operation *op : llvm::drop_begin(step.ops))
    action.merged.push_back(std::make_unique<exec::CollectiveT>(
        getCollective(cast<spmd::CollectiveOpInterface>(op))));
  if (!action.merged.empty())
    command.name += " and " + std::to_string(action.merged.size()) + " more";
  if (action.kind != exec::CollectiveKind::slice)
    command.queue = exec::Queue::communication;
  command.action.Set(std::move(action));
}

LogicalResult ProgramBuilder::emitStep(size_t index) {
  const Step &step = steps[index];
  switch (step.kind) {
  case Step::Kind::Kernel:
    return addKernel(index);
  case Step::Kind::Matmul:
    return emitMatmul(step);
  case Step::Kind::Collective:
    emitCollective(step);
    return success();
  }
  llvm_unreachable("not a kind of step");
}

/// Copies new values of variables that could not be computed in place. None of
/// them lies in another variable's memory, so their order does not matter.
void ProgramBuilder::emitCopies() {
  for (const PendingCopy &copy : copies) {
    exec::CommandT &command =
        addCommand(copy.value.getDefiningOp(), {copy.value, copy.value}, 1);
    command.name = copy.variable.str();
    command.phase = exec::Phase::update;
    command.operands[1]->buffer = variables.lookup(copy.variable);
    command.action.Set(exec::CopyT());
  }
}

//===-- Dependencies and ports --------------------------------------------===//

void ProgramBuilder::addWaits() {
  std::vector<std::vector<MemoryAccess>> accesses;
  for (const auto &command : program->commands) {
    accesses.emplace_back();
    for (auto [position, operand] : llvm::enumerate(command->operands)) {
      const exec::BufferT &buffer = *executable.buffers[operand->buffer];
      bool isWrite = position + command->results >= command->operands.size();
      accesses.back().push_back(
          {buffer.offset, buffer.offset + buffer.bytes, isWrite});
    }
  }
  for (auto [command, waits] :
       llvm::zip_equal(program->commands, findWaits(accesses)))
    command->waits = std::move(waits);
}

void ProgramBuilder::addPorts() {
  auto makePort = [&](StringRef name, Type global, Value value) {
    auto port = std::make_unique<exec::PortT>();
    port->name = name.str();
    port->layout = types.getLayout(cast<nd::NamedTensorType>(global));
    port->buffer = slots[slotOf.at(value)].buffer;
    return port;
  };
  for (auto input : source.getBody().getOps<spmd::InputOp>()) {
    auto port = makePort(input.getName(), input.getGlobal(), input);
    port->index_bound = input.getIndexBound();
    program->inputs.push_back(std::move(port));
  }
  for (auto output : source.getBody().getOps<spmd::OutputOp>())
    program->outputs.push_back(
        makePort(output.getName(), output.getGlobal(), output.getValue()));
}

LogicalResult ProgramBuilder::build(uint64_t arenaStart) {
  FailureOr<std::vector<Step>> formed =
      formSteps(source, target.getMatmulLibrary(), target.getMatmulEpilogues());
  if (failed(formed))
    return failure();
  steps = std::move(*formed);
  if (target.groupsKernels())
    groupKernels(steps, types.getMesh().getAxes().size());
  steps = mergeCollectives(std::move(steps), types.getMesh(), bucketBytes);
  program = std::make_unique<exec::ProgramT>();
  program->name = source.getSymName().str();

  // A written value that no step computes is a variable's or an input's.
  int64_t end = int64_t(steps.size());
  for (auto write : source.getBody().getOps<spmd::WriteOp>())
    if (isa_and_nonnull<spmd::ReadOp, spmd::InputOp>(
            write.getValue().getDefiningOp()))
      lastUse[write.getValue()] = end;
  assignBorderSlots();
  findTransfers();
  for (size_t index = 0; index < steps.size(); ++index)
    assignStepSlots(int64_t(index));
  for (auto write : source.getBody().getOps<spmd::WriteOp>()) {
    auto slot = slotOf.find(write.getValue());
    if (slot == slotOf.end())
      return write.emitError("no step computes the new value of ")
             << write.getVariableAttr();
    if (slots[slot->second].buffer == variables.lookup(write.getVariable()))
      continue;
    if (write.getValue().getDefiningOp<spmd::ReadOp>())
      return write.emitError("a variable set to another variable's old value "
                             "needs a temporary, which is not built yet");
    slots[slot->second].last = end;
    copies.push_back({write.getValue(), write.getVariable()});
  }
  for (auto output : source.getBody().getOps<spmd::OutputOp>()) {
    if (!slotOf.contains(output.getValue()))
      return output.emitError("no step computes the output '")
             << output.getName() << "'";
  }
  if (failed(emitKernels()))
    return failure();
  place(arenaStart);
  for (size_t index = 0; index < steps.size(); ++index)
    if (failed(emitStep(index)))
      return failure();
  emitCopies();
  addWaits();
  addPorts();
  executable.arena_bytes =
      std::max(executable.arena_bytes, program->arena_bytes);
  executable.programs.push_back(std::move(program));
  return success();
}
