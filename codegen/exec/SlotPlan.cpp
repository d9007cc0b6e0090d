#include "codegen/exec/SlotPlan.h"

#include "codegen/ExecTypes.h"

#include <map>

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::StepOpInterface;

std::string meshc::codegen::getBufferName(Value value) {
  const Location loc = steps::getValueLoc(value);
  std::string name = getValueName(loc).str();
  return isInside(loc) ? "inside " + name : name;
}

static uint64_t getValueBytes(Value value) {
  return uint64_t(getBytes(cast<RankedTensorType>(value.getType())));
}

uint64_t SlotPlan::getStoredBytes(Value value) const {
  std::optional<steps::Mask> mask = findMask(value);
  if (!mask)
    return getValueBytes(value);
  auto [rows, words] = *mask;
  return uint64_t(rows * words) * sizeof(int32_t);
}

std::optional<steps::Mask> SlotPlan::findMask(Value value) const {
  auto mask = masks.find(value);
  return mask == masks.end() ? std::nullopt : std::optional(mask->second);
}

//===-- Slots -------------------------------------------------------------===//

int SlotPlan::getVariableSlot(StringRef variable) {
  auto [known, isFirst] = variableSlots.try_emplace(variable, slots.size());
  if (isFirst) {
    Slot slot;
    slot.buffer = variables.lookup(variable);
    slot.isReusable = false;
    slots.push_back(std::move(slot));
  }
  return known->second;
}

int SlotPlan::addSlot(Value value, int64_t first, exec::BufferRole role) {
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

int SlotPlan::addWorkspace(std::string name, uint64_t bytes, int64_t step) {
  Slot slot;
  slot.bytes = bytes;
  slot.first = slot.last = step;
  slot.role = exec::BufferRole::workspace;
  slot.name = std::move(name);
  slots.push_back(std::move(slot));
  return int(slots.size()) - 1;
}

void SlotPlan::assignBorder() {
  for (auto [index, step] : llvm::enumerate(stepList)) {
    for (Value input : step->getOperands())
      lastUse[input] = int64_t(index);
    for (OpResult output : step->getResults())
      if (auto mask = step.getMask(output.getResultNumber()))
        masks[output] = *mask;
  }
  for (auto output : source.getBody().getOps<spmd::OutputOp>())
    lastUse[output.getValue()] = getEnd();

  for (auto read : source.getBody().getOps<spmd::ReadOp>()) {
    slotOf[read] = getVariableSlot(read.getVariable());
    auto [last, isFirst] = lastVariableRead.try_emplace(read.getVariable(), -1);
    last->second = std::max(last->second, lastUse.lookup(read));
  }
  for (auto input : source.getBody().getOps<spmd::InputOp>()) {
    // The caller fills it once and may run the program again.
    lastUse[input] = getEnd();
    slots[size_t(addSlot(input, -1, exec::BufferRole::input))].isReusable =
        false;
    slots.back().name = input.getName().str();
  }
}

std::optional<int> SlotPlan::findWritableVariable(OpResult output,
                                                  ArrayRef<unsigned> sharing,
                                                  int64_t index) {
  for (Operation *user : output.getUsers()) {
    auto write = dyn_cast<spmd::WriteOp>(user);
    if (!write)
      continue;
    auto lastRead = lastVariableRead.find(write.getVariable());
    int64_t last = lastRead == lastVariableRead.end() ? -1 : lastRead->second;
    if (last > index)
      continue;
    bool mayOverwrite =
        llvm::all_of(output.getOwner()->getOpOperands(), [&](OpOperand &input) {
          auto read = input.get().getDefiningOp<spmd::ReadOp>();
          return !read || read.getVariable() != write.getVariable() ||
                 llvm::is_contained(sharing, input.getOperandNumber());
        });
    if (mayOverwrite)
      return getVariableSlot(write.getVariable());
  }
  return std::nullopt;
}

std::optional<int> SlotPlan::findTakeover(OpResult output,
                                          ArrayRef<unsigned> sharing,
                                          int64_t index) {
  for (unsigned candidate : sharing) {
    Value input = output.getOwner()->getOperand(candidate);
    Slot &slot = slots[size_t(slotOf.at(input))];
    if (slot.isReusable && slot.last == index &&
        slot.bytes == getValueBytes(output)) {
      slot.last = std::max(index, lastUse.lookup(output));
      return slotOf.at(input);
    }
  }
  return std::nullopt;
}

void SlotPlan::assignStep(int64_t index) {
  StepOpInterface step = stepList[size_t(index)];
  const steps::Sharing sharing = step.getSharing(bodies);
  for (OpResult output : step->getResults()) {
    ArrayRef<unsigned> shared = sharing[output.getResultNumber()];
    if (std::optional<int> variable =
            findWritableVariable(output, shared, index)) {
      slotOf[output] = *variable;
      continue;
    }
    if (llvm::any_of(output.getUsers(), llvm::IsaPred<spmd::WriteOp>))
      lastUse[output] = getEnd(); // copied at the end
    auto transfer = transferOf.find(output);
    if (transfer != transferOf.end() && !step.accumulates()) {
      Slot &slot =
          slots[size_t(addSlot(output, index, exec::BufferRole::gradient))];
      std::tie(slot.transfer, slot.member) = transfer->second;
      continue;
    }
    if (std::optional<int> taken = findTakeover(output, shared, index)) {
      slotOf[output] = *taken;
      continue;
    }
    exec::BufferRole role = exec::BufferRole::activation;
    if (step.communicates())
      role = exec::BufferRole::communication;
    else if (masks.contains(output))
      role = exec::BufferRole::activation; // kept for the backward pass
    else if (getPhase(steps::getValueLoc(output)) != nd::Phase::Forward)
      role = exec::BufferRole::gradient;
    addSlot(output, index, role);
  }
}

/// Finds the operands of transfers whose results take their memory.
void SlotPlan::findTransfers() {
  for (auto [index, step] : llvm::enumerate(stepList)) {
    if (!step.communicates() || step->getNumResults() < 2)
      continue;
    const steps::Sharing sharing = step.getSharing(bodies);
    for (auto [member, operand] : llvm::enumerate(step->getOperands()))
      if (!sharing[member].empty() && operand.hasOneUse())
        transferOf[operand] = {int64_t(index), member};
  }
}

LogicalResult SlotPlan::assignWrites() {
  for (auto write : source.getBody().getOps<spmd::WriteOp>()) {
    Slot &slot = slots[size_t(slotOf.at(write.getValue()))];
    if (slot.buffer == variables.lookup(write.getVariable()))
      continue;
    if (write.getValue().getDefiningOp<spmd::ReadOp>())
      return write.emitError("a variable set to another variable's old value "
                             "needs a temporary, which is not built yet");
    slot.last = getEnd();
    copies.push_back({write.getValue(), write.getVariable()});
  }
  return success();
}

LogicalResult SlotPlan::assign() {
  // A written value that no step computes is a variable's or an input's.
  for (auto write : source.getBody().getOps<spmd::WriteOp>())
    if (!write.getValue().getDefiningOp<StepOpInterface>())
      lastUse[write.getValue()] = getEnd();
  assignBorder();
  findTransfers();
  for (int64_t index = 0; index < getEnd(); ++index)
    assignStep(index);
  return assignWrites();
}

//===-- Places ------------------------------------------------------------===//

uint64_t SlotPlan::place(uint64_t arenaStart, exec::ExecutableT &executable) {
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
  return plan.bytes;
}
