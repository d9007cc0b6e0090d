/// Places of slices and of what is stacked.

#include "codegen/exec/SlotPlan.h"

#include "codegen/ExecTypes.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::SliceOp;
using steps::StackOp;
using steps::StepOpInterface;

/// Whether what takes `value` takes the whole of a buffer.
bool SlotPlan::needsOwnMemory(Value value) const {
  return transferOf.contains(value) ||
         llvm::any_of(value.getUsers(),
                      llvm::IsaPred<spmd::OutputOp, spmd::WriteOp>);
}

/// The place `bytes` behind `place`.
static SlotPlan::Place behind(SlotPlan::Place place, int64_t bytes) {
  place.offset += bytes;
  return place;
}

Value SlotPlan::getWhole(Value value) {
  while (auto slice = value.getDefiningOp<SliceOp>())
    value = slice.getInput();
  return value;
}

SmallVector<bool> SlotPlan::findShared(ArrayRef<Value> values) const {
  SmallVector<const Place *> places;
  for (Value value : values)
    places.push_back(&getPlace(value));
  auto overlap = [&](size_t x, size_t y) {
    const Place &at = *places[x], &other = *places[y];
    if (at.slot != other.slot)
      return false;
    // Places that move are known by iteration alone.
    return !at.steps.empty() || !other.steps.empty() ||
           (at.offset < other.offset + int64_t(getStoredBytes(values[y])) &&
            other.offset < at.offset + int64_t(getStoredBytes(values[x])));
  };
  SmallVector<bool> isShared(values.size(), false);
  for (size_t x = 0; x < values.size(); ++x)
    for (size_t y = x + 1; y < values.size(); ++y)
      if (overlap(x, y))
        isShared[x] = isShared[y] = true;
  return isShared;
}

void SlotPlan::assignSlice(SliceOp slice) {
  const Value result = slice.getResult();
  const int64_t bytes =
      int64_t(slice.getOffset()) *
      getElementBytes(
          cast<RankedTensorType>(result.getType()).getElementType());
  Place place = behind(getPlace(slice.getInput()), bytes);
  Moves &moves = movesOf[slice];
  const bool liesWell = place.offset % alignment == 0 ||
                        llvm::all_of(result.getUsers(), [](Operation *user) {
                          auto step = dyn_cast<StepOpInterface>(user);
                          return step && step.readsAnywhere();
                        });
  if (liesWell && !needsOwnMemory(result)) {
    placeOf[result] = std::move(place);
    return;
  }
  const int64_t time = getTime(slice);
  if (transferOf.contains(result))
    addTransferSlot(result, time);
  else
    addSlot(result, time, getRole(result));
  moves.before.push_back({result, place, getPlace(result)});
}

/// Where `value` is stacked beside where it is made, if it may lie there.
OpOperand *SlotPlan::findStacking(Value value) const {
  const bool isAligned = int64_t(getStoredBytes(value)) % alignment == 0;
  if (masks.contains(value) || needsOwnMemory(value) || !isAligned)
    return nullptr;
  for (OpOperand &use : value.getUses())
    if (isa<StackOp>(use.getOwner()) &&
        use.getOwner()->getBlock() == value.getParentBlock())
      return &use;
  return nullptr;
}

/// The sum over devices of the terms `value`, which is made where they lie;
/// null if there is none.
Value SlotPlan::getSumInPlace(Value value) {
  if (!value.hasOneUse())
    return {};
  OpOperand &use = *value.use_begin();
  auto step = dyn_cast<StepOpInterface>(use.getOwner());
  if (!step || !step.communicates() ||
      step.getSharing(bodies)[use.getOperandNumber()].empty())
    return {};
  return step->getResult(use.getOperandNumber());
}

std::optional<SlotPlan::Place> SlotPlan::findPartPlace(OpResult output,
                                                       int64_t time) {
  OpOperand *use = findStacking(output);
  // The terms of a sum that is stacked: it is made in the stack, in place.
  if (Value sum = getSumInPlace(output);
      !use && sum && !masks.contains(output) && !needsOwnMemory(output))
    use = findStacking(sum);
  if (!use)
    return std::nullopt;
  const Place &whole = assignStack(cast<StackOp>(use->getOwner()), time);
  // Other steps may read it when nothing reads the stack any more.
  Slot &slot = slots[size_t(whole.slot)];
  slot.last = std::max(slot.last, lastUse.lookup(output));
  return behind(whole,
                int64_t(getStoredBytes(output)) * use->getOperandNumber());
}

const SlotPlan::Place &SlotPlan::assignStack(StackOp stack, int64_t time) {
  OpResult result = cast<OpResult>(stack.getResult());
  if (auto known = placeOf.find(result); known != placeOf.end())
    return known->second;
  if (llvm::any_of(result.getUsers(), llvm::IsaPred<spmd::WriteOp>))
    lastUse[result] = getEnd(); // copied at the end
  if (transferOf.contains(result))
    addTransferSlot(result, time);
  else if (std::optional<Place> place = findPartPlace(result, time))
    placeOf[result] = std::move(*place);
  else
    addSlot(result, time, getRole(result));
  return placeOf.at(result);
}

/// Copies the parts that were not computed in their places.
void SlotPlan::addPartMoves(StackOp stack) {
  const Place whole = assignStack(stack, getTime(stack));
  Moves &moves = movesOf[stack];
  for (auto [number, part] : llvm::enumerate(stack.getParts())) {
    const Place from = getPlace(part);
    const Place to =
        behind(whole, int64_t(number) * int64_t(getStoredBytes(part)));
    if (from != to)
      moves.before.push_back({part, from, to});
  }
}
