#include "codegen/exec/SlotPlan.h"

#include "codegen/ExecTypes.h"
#include "codegen/steps/StepPrice.h"

#include <map>

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::StepOpInterface;

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
    slot.buffer = lasting.variables.lookup(variable);
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
  slot.value = value;
  slots.push_back(std::move(slot));
  placeOf[value] = {int(slots.size()) - 1};
  return int(slots.size()) - 1;
}

int SlotPlan::addWorkspace(Value value, nd::OriginPart part, uint64_t bytes,
                           int64_t time) {
  Slot slot;
  slot.bytes = bytes;
  slot.first = slot.last = time;
  slot.role = exec::BufferRole::workspace;
  slot.value = value;
  slot.part = part;
  slots.push_back(std::move(slot));
  return int(slots.size()) - 1;
}

void SlotPlan::countSteps(Block &block) {
  for (StepOpInterface step : steps::getSteps(block)) {
    times[step].begin = end++;
    if (auto loop = dyn_cast<steps::LoopOp>(step.getOperation())) {
      countSteps(loop.getBody().front());
      times[step].end = end++;
    }
  }
}

/// What reads a slice reads the whole that it lies in.
void SlotPlan::setLastUse(Value value, int64_t time) {
  for (;;) {
    auto [known, isFirst] = lastUse.try_emplace(value, time);
    known->second = std::max(known->second, time);
    auto slice = value.getDefiningOp<steps::SliceOp>();
    if (!slice)
      return;
    value = slice.getInput();
  }
}

void SlotPlan::findUses(Block &block) {
  for (StepOpInterface step : steps::getSteps(block)) {
    for (OpResult output : step->getResults())
      if (auto mask = step.getMask(output.getResultNumber()))
        masks[output] = *mask;
    if (auto loop = dyn_cast<steps::LoopOp>(step.getOperation())) {
      findLoopUses(loop);
      continue;
    }
    for (Value input : step->getOperands())
      setLastUse(input, getTime(step));
  }
}

void SlotPlan::assignBorder() {
  findUses(source.getBody().front());
  for (auto output : source.getBody().getOps<spmd::OutputOp>())
    lastUse[output.getValue()] = getEnd();

  for (auto read : source.getBody().getOps<spmd::ReadOp>()) {
    placeOf[read] = {getVariableSlot(read.getVariable())};
    auto [last, isFirst] = lastVariableRead.try_emplace(read.getVariable(), -1);
    last->second = std::max(last->second, lastUse.lookup(read));
  }
  for (auto input : source.getBody().getOps<spmd::InputOp>()) {
    // The caller fills it once and may run the program again.
    lastUse[input] = getEnd();
    Slot &slot = slots[size_t(addSlot(input, -1, exec::BufferRole::input))];
    slot.isReusable = false;
    if (auto known = lasting.inputs.find(input.getName());
        known != lasting.inputs.end())
      slot.buffer = known->second;
  }
}

std::optional<int> SlotPlan::findWritableVariable(OpResult output,
                                                  ArrayRef<unsigned> sharing) {
  const int64_t time = getTime(output.getOwner());
  for (Operation *user : output.getUsers()) {
    auto write = dyn_cast<spmd::WriteOp>(user);
    if (!write)
      continue;
    auto lastRead = lastVariableRead.find(write.getVariable());
    int64_t last = lastRead == lastVariableRead.end() ? -1 : lastRead->second;
    if (last > time)
      continue;
    bool mayOverwrite =
        llvm::all_of(output.getOwner()->getOpOperands(), [&](OpOperand &input) {
          const Value whole = getWhole(input.get());
          auto read = whole.getDefiningOp<spmd::ReadOp>();
          return !read || read.getVariable() != write.getVariable() ||
                 (whole == input.get() &&
                  llvm::is_contained(sharing, input.getOperandNumber()));
        });
    if (mayOverwrite)
      return getVariableSlot(write.getVariable());
  }
  return std::nullopt;
}

std::optional<int> SlotPlan::findTakeover(OpResult output,
                                          ArrayRef<unsigned> sharing) {
  const int64_t time = getTime(output.getOwner());
  for (unsigned candidate : sharing) {
    Value input = output.getOwner()->getOperand(candidate);
    Slot &slot = slots[size_t(getSlot(input))];
    // Nothing else in the slot is read meanwhile, such as a slice of it.
    auto isElsewhere = [&](Value other) {
      return other == input || getSlot(other) != getSlot(input);
    };
    if (slot.isReusable && slot.last == time && getPlace(input).offset == 0 &&
        slot.bytes == getStoredBytes(input) &&
        slot.bytes == getValueBytes(output) &&
        llvm::all_of(output.getOwner()->getOperands(), isElsewhere)) {
      slot.last = std::max(time, lastUse.lookup(output));
      return getSlot(input);
    }
  }
  return std::nullopt;
}

exec::BufferRole SlotPlan::getRole(Value value) const {
  if (auto step = value.getDefiningOp<StepOpInterface>();
      step && step.communicates())
    return exec::BufferRole::communication;
  // Masks are kept for the backward pass.
  if (!masks.contains(value) &&
      getPhase(steps::getValueLoc(value)) != nd::Phase::Forward)
    return exec::BufferRole::gradient;
  return exec::BufferRole::activation;
}

void SlotPlan::assignOutput(OpResult output, ArrayRef<unsigned> sharing) {
  auto step = cast<StepOpInterface>(output.getOwner());
  const int64_t time = getTime(step);
  if (std::optional<int> variable = findWritableVariable(output, sharing)) {
    placeOf[output] = {*variable};
    return;
  }
  if (std::optional<Place> place = findYieldPlace(output, sharing)) {
    placeOf[output] = std::move(*place);
    return;
  }
  if (llvm::any_of(output.getUsers(), llvm::IsaPred<spmd::WriteOp>))
    lastUse[output] = getEnd(); // copied at the end
  // A step that accumulates does so where its addend lies.
  if (!step.accumulates()) {
    if (transferOf.contains(output))
      return addTransferSlot(output, time);
    if (std::optional<Place> place = findPartPlace(output, time)) {
      placeOf[output] = std::move(*place);
      return;
    }
  }
  if (std::optional<int> taken = findTakeover(output, sharing)) {
    placeOf[output] = {*taken};
    return;
  }
  addSlot(output, time, getRole(output));
}

void SlotPlan::addTransferSlot(Value value, int64_t first) {
  Slot &slot = slots[size_t(addSlot(value, first, exec::BufferRole::gradient))];
  std::tie(slot.transfer, slot.member) = transferOf.at(value);
}

void SlotPlan::assignStep(StepOpInterface step) {
  const steps::Sharing sharing = step.getSharing(bodies);
  for (OpResult output : step->getResults())
    assignOutput(output, sharing[output.getResultNumber()]);
}

void SlotPlan::assignBlock(Block &block) {
  for (StepOpInterface step : steps::getSteps(block)) {
    Operation *op = step;
    if (auto loop = dyn_cast<steps::LoopOp>(op))
      assignLoop(loop);
    else if (auto slice = dyn_cast<steps::SliceOp>(op))
      assignSlice(slice);
    else if (auto stack = dyn_cast<steps::StackOp>(op))
      addPartMoves(stack);
    else
      assignStep(step);
  }
}

/// Finds the operands of transfers whose results take their memory.
void SlotPlan::findTransfers() {
  source.walk([&](StepOpInterface step) {
    if (!times.contains(step) || !step.communicates() ||
        step->getNumResults() < 2)
      return; // a member of a step; or no transfer of several
    const steps::Sharing sharing = step.getSharing(bodies);
    for (auto [member, operand] : llvm::enumerate(step->getOperands()))
      if (!sharing[member].empty() && operand.hasOneUse() &&
          !findStacking(step->getResult(unsigned(member))))
        transferOf[operand] = {getTime(step), member};
  });
}

void SlotPlan::assignWrites() {
  for (auto write : source.getBody().getOps<spmd::WriteOp>()) {
    Slot &slot = slots[size_t(getSlot(write.getValue()))];
    if (slot.buffer == lasting.variables.lookup(write.getVariable()))
      continue;
    Copy &copy =
        copies.emplace_back(Copy{write.getValue(), write.getVariable()});
    if (slot.buffer >= 0) // another variable's
      copy.through = addWorkspace(write.getValue(), nd::OriginPart::Copy,
                                  getStoredBytes(write.getValue()), getEnd());
    else
      slot.last = getEnd();
  }
}

void SlotPlan::assign() {
  countSteps(source.getBody().front());
  // A written value that no step computes is a variable's or an input's.
  for (auto write : source.getBody().getOps<spmd::WriteOp>())
    if (!write.getValue().getDefiningOp<StepOpInterface>())
      lastUse[write.getValue()] = getEnd();
  assignBorder();
  findTransfers();
  assignBlock(source.getBody().front());
  assignWrites();
}

//===-- Places ------------------------------------------------------------===//

/// What a value is called after; of an input, what that is called.
static nd::OriginAttr getOriginOf(Value value) {
  const Location loc = steps::getValueLoc(value);
  if (auto input = value.getDefiningOp<spmd::InputOp>())
    return getOrigin(loc, input.getName());
  return getOrigin(loc);
}

std::vector<int64_t> SlotPlan::findLandings() {
  const layout::Machine &machine = nd::getMachine(source);
  const layout::Mesh mesh = nd::getMesh(source);
  std::vector<int64_t> landings(slots.size(), -1);
  // Threads of a host send while they would compute.
  if (!machine.getGpuConstants())
    return landings;
  struct Flight {
    StepOpInterface step;
    double landsUs;
    int64_t needed; ///< when something computed waits for it anyway
  };
  std::vector<Flight> flights; // one behind the other
  auto land = [&](const Flight &flight, int64_t time) {
    for (Value operand : flight.step->getOperands())
      if (auto place = placeOf.find(operand); place != placeOf.end())
        landings[size_t(place->second.slot)] =
            std::max(landings[size_t(place->second.slot)],
                     std::min(time, flight.needed));
  };
  double nowUs = 0, freeUs = 0;
  for (StepOpInterface step : steps::getSteps(source.getBody().front())) {
    const int64_t time = getTime(step);
    nowUs += getComputationUs(step, machine);
    llvm::erase_if(flights, [&](const Flight &flight) {
      const bool isThrough = flight.landsUs <= nowUs || flight.needed <= time;
      if (isThrough)
        land(flight, time);
      return isThrough;
    });
    if (!step.communicates())
      continue;
    int64_t needed = getEnd(); // another transfer makes nobody wait
    for (Operation *user : step->getUsers())
      if (auto reader = dyn_cast<StepOpInterface>(user);
          reader && times.contains(user) && !reader.communicates())
        needed = std::min(needed, getTime(user));
    freeUs = std::max(freeUs, nowUs) + getTransferUs(step, mesh, machine);
    flights.push_back({step, freeUs, needed});
  }
  for (const Flight &flight : flights)
    land(flight, getEnd());
  return landings;
}

uint64_t SlotPlan::place(uint64_t arenaStart, ExecTypes &types,
                         exec::ExecutableT &executable) {
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
  const std::vector<int64_t> landings = findLandings();
  for (auto [slot, lifetime] : placed)
    lifetimes[lifetime].last = std::max(lifetimes[lifetime].last,
                                        landings[size_t(slot - slots.data())]);
  if (std::optional<int64_t> memory = nd::getMachine(source).getMemoryBytes();
      memory && llvm::any_of(landings, [](int64_t time) { return time >= 0; }))
    if (ArenaPlan apart = planArena(lifetimes, arenaStart);
        apart.bytes <= uint64_t(*memory))
      plan = std::move(apart);
  const TensorIndex tensors(executable);
  for (auto [slot, lifetime] : placed) {
    auto buffer = std::make_unique<exec::BufferT>();
    nd::OriginAttr origin = getOriginOf(slot->value);
    if (slot->part && origin && origin.hasName())
      origin = origin.withPart(*slot->part);
    buffer->name = types.getBufferName(origin);
    buffer->origin = types.getOrigin(origin);
    buffer->tensor = tensors.findOwner(slot->value);
    buffer->role = slot->role;
    buffer->offset = plan.offsets[lifetime] + slot->offset;
    buffer->bytes = slot->bytes;
    slot->buffer = int(executable.buffers.size());
    executable.buffers.push_back(std::move(buffer));
  }
  return plan.bytes;
}
