#include "codegen/exec/CommandBuilder.h"

#include "codegen/exec/Remarks.h"
#include "runtime/exec/ExecutableChecker.h"
#include "runtime/exec/Loops.h"
#include "runtime/exec/Origins.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::StepOpInterface;

LogicalResult CommandBuilder::prepare(ArrayRef<StepOpInterface> steps) {
  for (StepOpInterface op : steps) {
    step = slots.getTime(op);
    if (failed(StepOpInterface(op).prepare(*this)))
      return failure();
  }
  return success();
}

LogicalResult CommandBuilder::addSteps(ArrayRef<StepOpInterface> steps) {
  for (StepOpInterface op : steps) {
    if (failed(op.addCommands(*this)))
      return failure();
    if (auto remark = op->getAttrOfType<nd::RemarkKindAttr>(
            nd::NDDialect::getRemarkAttrName()))
      addRemark(*program.commands.back(), op->getResult(0), remark.getValue());
  }
  return success();
}

//===-- Commands ----------------------------------------------------------===//

void CommandBuilder::setPlace(exec::OperandT &operand,
                              const SlotPlan::Place &place) const {
  operand.buffer = slots.getBuffer(place.slot);
  operand.offset = uint64_t(place.offset);
  operand.steps.assign(place.steps.begin(), place.steps.end());
  if (!operand.steps.empty())
    operand.steps.resize(depth, 0);
}

std::unique_ptr<exec::OperandT> CommandBuilder::getOperand(Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  auto operand = std::make_unique<exec::OperandT>();
  setPlace(*operand, slots.getPlace(value));
  if (std::optional<steps::Mask> mask = slots.findMask(value)) {
    auto [rows, words] = *mask;
    operand->element = exec::ElementType::i32;
    operand->shape = {rows, words};
    operand->strides = {words, 1};
    return operand;
  }
  operand->element = types.getElementType(type.getElementType());
  operand->shape.assign(type.getShape().begin(), type.getShape().end());
  auto slice = value.getDefiningOp<steps::SliceOp>();
  const SmallVector<int64_t> strides =
      slice ? slice.getResultStrides() : computeStrides(type.getShape());
  operand->strides.assign(strides.begin(), strides.end());
  operand->tensor = tensors.find(value);
  operand->inside = isInside(steps::getValueLoc(value));
  return operand;
}

exec::CommandT &CommandBuilder::addCommand(Location loc,
                                           ArrayRef<Value> operands,
                                           unsigned results) {
  auto command = std::make_unique<exec::CommandT>();
  command->name = getValueName(loc);
  command->phase = ExecTypes::getPhase(loc);
  command->span = std::make_unique<exec::Span>(types.getSpan(loc));
  command->origin = types.getOrigin(getOrigin(loc));
  command->results = int(results);
  for (Value value : operands) {
    command->operands.push_back(getOperand(value));
    command->bytes += int64_t(slots.getStoredBytes(value));
  }
  program.commands.push_back(std::move(command));
  return *program.commands.back();
}

LogicalResult CommandBuilder::addFlops(Location loc, exec::CommandT &command,
                                       ArrayRef<SmallVector<int64_t>> parts) {
  constexpr int64_t maxFlops = int64_t(1) << 56;
  for (ArrayRef<int64_t> factors : parts) {
    int64_t product = 1;
    for (int64_t factor : factors)
      if (llvm::MulOverflow(product, factor, product))
        product = maxFlops;
    command.flops += std::min(product, maxFlops);
    if (command.flops >= maxFlops)
      return emitError(loc, "this takes 2^56 operations or more on each device "
                            "in each step, which is more than meshc plans for");
  }
  int64_t total = 0;
  if (llvm::MulOverflow(command.flops, repeats, total) ||
      llvm::AddOverflow(flops, total, flops) || flops > runtime::maxTotal)
    return emitError(loc, "with this the program takes 2^62 operations or more "
                          "on each device in each step, which is more than "
                          "meshc plans for");
  return success();
}

//===-- Loops -------------------------------------------------------------===//

void CommandBuilder::addMoves(ArrayRef<SlotPlan::Move> moves) {
  for (const SlotPlan::Move &move : moves) {
    exec::CommandT &command =
        addCommand(steps::getValueLoc(move.value), {move.value, move.value}, 1);
    setPlace(*command.operands[0], move.from);
    setPlace(*command.operands[1], move.to);
    command.action.Set(exec::CopyT());
  }
}

/// A slice that is copied is a view that is stored.
void CommandBuilder::addCopies(StepOpInterface step) {
  addMoves(slots.getMoves(step).before);
  if (auto slice = dyn_cast<steps::SliceOp>(step.getOperation());
      slice && !slots.getMoves(step).before.empty())
    addRemark(*program.commands.back(), slice.getResult(),
              nd::RemarkKind::StoredView);
}

//===-- Remarks -----------------------------------------------------------===//

static exec::RemarkKind getRemarkKind(nd::RemarkKind kind) {
  switch (kind) {
  case nd::RemarkKind::LibraryCopy:
    return exec::RemarkKind::library_copy;
  case nd::RemarkKind::StoredView:
    return exec::RemarkKind::stored_view;
  case nd::RemarkKind::ReadWhole:
    return exec::RemarkKind::read_whole;
  case nd::RemarkKind::ComputedAgain:
    return exec::RemarkKind::computed_again;
  case nd::RemarkKind::Uncut:
    return exec::RemarkKind::uncut;
  }
  llvm_unreachable("not a kind of remark");
}

/// Notes that `command` stores a value, if that is large enough to be told.
void CommandBuilder::addRemark(exec::CommandT &command, Value stored,
                               nd::RemarkKind kind) const {
  const int64_t bytes = getStoredBytes(stored);
  if (bytes <= runtime::remarkBytes)
    return;
  const Location loc = steps::getValueLoc(stored);
  auto remark = std::make_unique<exec::RemarkT>();
  remark->kind = getRemarkKind(kind);
  remark->bytes = bytes;
  remark->origin = types.getOrigin(getOrigin(loc));
  remark->purpose = types.getOrigin(findPurpose(stored));
  remark->span = std::make_unique<exec::Span>(types.getSpan(loc));
  command.remarks.push_back(std::move(remark));
}

/// Commands of `program` with all iterations of its loops, or more than
/// maxLoopCommands.
static int64_t countCommands(const exec::ProgramT &program) {
  std::vector<int64_t> repeats(program.commands.size(), 1);
  constexpr int64_t limit = runtime::maxLoopCommands + 1;
  for (const auto &loop : program.loops)
    for (int i = loop->first; i < loop->first + loop->commands; ++i)
      repeats[size_t(i)] = std::min(
          limit, repeats[size_t(i)] * std::min(limit, loop->iterations));
  int64_t count = 0;
  for (int64_t each : repeats)
    count = std::min(limit, count + each);
  return count;
}

LogicalResult CommandBuilder::addLoop(steps::LoopOp loop) {
  if (depth == runtime::maxLoopDepth)
    return loop.emitError("more than ")
           << runtime::maxLoopDepth
           << " loops inside of one another are not built yet";
  const SlotPlan::Moves &moves = slots.getMoves(loop);
  addMoves(moves.before);
  const size_t number = program.loops.size();
  program.loops.push_back(std::make_unique<exec::LoopT>());
  exec::LoopT &entry = *program.loops.back();
  entry.name = loop.getDim().str();
  entry.first = int(program.commands.size());
  entry.iterations = int64_t(loop.getIterations());
  entry.is_reversed = loop.getReverse();
  const int64_t outside = repeats;
  if (llvm::MulOverflow(repeats, entry.iterations, repeats))
    repeats = runtime::maxTotal; // too many commands: refused below
  ++depth;
  addMoves(moves.first);
  if (failed(addSteps(loop.getSteps())))
    return failure();
  addMoves(moves.last);
  --depth;
  repeats = outside;
  entry.commands = int(program.commands.size()) - entry.first;
  if (entry.commands == 0)
    program.loops.erase(program.loops.begin() + std::ptrdiff_t(number));
  if (depth == 0 && countCommands(program) > runtime::maxLoopCommands)
    return loop.emitError("with all iterations of this loop the program has "
                          "more than ")
           << runtime::maxLoopCommands
           << " commands, which is more than meshc plans for";
  return success();
}

//===-- Kernels -----------------------------------------------------------===//

LogicalResult CommandBuilder::emitKernel(
    StepOpInterface op,
    llvm::function_ref<FailureOr<EmittedKernel>(StringRef, ArrayRef<bool>)>
        emit) {
  SmallVector<Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  const SmallVector<bool> isShared = slots.findShared(values);
  StepKernel &kernel = kernels[op];
  if (const EmittedKernel *known = emitted.find(op, isShared)) {
    kernel.code = *known;
  } else {
    FailureOr<EmittedKernel> code =
        emit((source.getSymName() + "_" + Twine(step)).str(), isShared);
    if (failed(code))
      return failure();
    emitted.add(op, isShared, *code);
    kernel.code = std::move(*code);
  }
  if (kernel.code.workspaceBytes == 0)
    return success();
  const std::optional<PartSum> &sum = kernel.code.sum;
  Value named =
      op->getResult(sum ? sum->outputs.back() : op->getNumResults() - 1);
  kernel.workspace = slots.addWorkspace(named, kernel.code.workspaceContent,
                                        kernel.code.workspaceBytes, step);
  return success();
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

/// What a kernel is called after: of what others read, the last result of the
/// earliest phase.
static Location getNamingLoc(StepOpInterface op) {
  Location naming = op.getLoc();
  std::optional<exec::Phase> earliest;
  for (unsigned result = 0; result < op->getNumResults(); ++result) {
    const Location loc = op.getResultLoc(result);
    const exec::Phase phase = ExecTypes::getPhase(loc);
    if (earliest && phase > *earliest)
      continue;
    earliest = phase;
    naming = loc;
  }
  return naming;
}

LogicalResult CommandBuilder::addKernel(StepOpInterface op,
                                        ArrayRef<linalg::LinalgOp> ops,
                                        size_t others) {
  std::vector<SmallVector<int64_t>> work;
  for (linalg::LinalgOp structured : ops) {
    work.push_back(getLoopSizes(structured));
    work.back().push_back(countScalarOps(structured));
  }
  const Location last =
      ops.empty() ? op.getLoc() : linalg::LinalgOp(ops.back()).getLoc();
  FailureOr<exec::CommandT *> command = addKernel(op, last, work);
  if (failed(command))
    return failure();
  if (others > 0)
    (*command)->name += " and " + std::to_string(others) + " more";
  if (const auto fused = llvm::count_if(
          ops, [](linalg::LinalgOp op) { return !isRecomputed(op); });
      fused > 1)
    (*command)->action.AsKernel()->fused = int32_t(fused);
  return success();
}

FailureOr<exec::CommandT *>
CommandBuilder::addKernel(StepOpInterface op, Location loc,
                          ArrayRef<SmallVector<int64_t>> work) {
  const StepKernel &kernel = kernels.at(op);
  const std::optional<PartSum> &sum = kernel.code.sum;
  auto operands = llvm::to_vector_of<Value>(op->getOperands());
  for (OpResult output : op->getResults())
    if (!sum || !llvm::is_contained(sum->outputs, output.getResultNumber()))
      operands.push_back(output);
  exec::CommandT &command =
      addCommand(getNamingLoc(op), operands,
                 unsigned(operands.size() - op->getNumOperands()));
  command.phase = std::min(command.phase, ExecTypes::getPhase(readers.get(op)));
  if (failed(addFlops(loc, command, work)))
    return failure();
  for (OpResult output : op->getResults())
    if (std::optional<nd::RemarkKind> remark = findRemark(output))
      addRemark(command, output, *remark);
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
  if (sum && failed(addPartSum(op, kernel)))
    return failure();
  return &command;
}

std::unique_ptr<exec::OperandT>
CommandBuilder::getWorkspace(const StepKernel &kernel) const {
  auto operand = std::make_unique<exec::OperandT>();
  operand->buffer = slots.getBuffer(kernel.workspace);
  operand->element = exec::ElementType::f32;
  operand->shape = {int64_t(kernel.code.workspaceBytes / sizeof(float))};
  operand->strides = {1};
  return operand;
}

/// The command behind a kernel that adds up the parts it has summed.
LogicalResult CommandBuilder::addPartSum(StepOpInterface op,
                                         const StepKernel &kernel) {
  const PartSum &sum = *kernel.code.sum;
  SmallVector<Value> outputs;
  std::vector<SmallVector<int64_t>> work;
  for (unsigned number : sum.outputs) {
    outputs.push_back(op->getResult(number));
    work.push_back(
        {sum.parts,
         cast<RankedTensorType>(outputs.back().getType()).getNumElements()});
  }
  exec::CommandT &command =
      addCommand(getNamingLoc(op), outputs, unsigned(outputs.size()));
  command.name =
      "sum of parts of " +
      types.getBufferName(getOrigin(steps::getValueLoc(outputs.back())));
  command.operands.insert(command.operands.begin(), getWorkspace(kernel));
  command.bytes += int64_t(kernel.code.workspaceBytes);
  exec::KernelT action;
  action.symbol = sum.symbol;
  action.extent = sum.extent;
  command.action.Set(std::move(action));
  return addFlops(op.getLoc(), command, work);
}
