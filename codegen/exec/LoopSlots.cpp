/// Places of what goes in and out of loops.

#include "codegen/exec/SlotPlan.h"

#include "codegen/ExecTypes.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::LoopOp;

static size_t getDepth(LoopOp loop) {
  size_t depth = 0;
  for (auto outer = loop->getParentOfType<LoopOp>(); outer;
       outer = outer->getParentOfType<LoopOp>())
    ++depth;
  return depth;
}

void SlotPlan::findLoopUses(LoopOp loop) {
  const Time time = times.at(loop);
  for (Value value : loop.getInitial())
    setLastUse(value, time.begin);
  for (Value value : loop.getSliced())
    setLastUse(value, time.end);
  for (Value value : loop.getCaptured())
    setLastUse(value, time.end);
  for (Value value : loop.getYielded())
    setLastUse(value, time.end);
  findUses(loop.getBody().front());
}

SlotPlan::Place SlotPlan::getSlices(LoopOp loop, Value whole) const {
  Place place = placeOf.at(whole);
  place.steps.resize(getDepth(loop), 0);
  place.steps.push_back(getBytes(cast<RankedTensorType>(whole.getType())) /
                        int64_t(loop.getIterations()));
  return place;
}

std::optional<SlotPlan::Place> SlotPlan::findSlices(LoopOp loop,
                                                    Value whole) const {
  Place place = getSlices(loop, whole);
  if (place.steps.back() % int64_t(bufferAlignment) != 0)
    return std::nullopt;
  return place;
}

std::optional<SlotPlan::Place>
SlotPlan::findYieldPlace(OpResult output, ArrayRef<unsigned> sharing) const {
  Operation *step = output.getOwner();
  auto loop = dyn_cast<LoopOp>(step->getParentOp());
  if (!loop)
    return std::nullopt;
  for (OpOperand &use : output.getUses()) {
    if (use.getOwner() != loop.getBody().front().getTerminator())
      continue;
    const unsigned number = use.getOperandNumber();
    if (number >= loop.getInitial().size()) {
      if (auto place = findSlices(loop, loop.getResult(number)))
        return place;
      continue;
    }
    const BlockArgument old = loop.getCarriedArguments()[number];
    // Whether a later step reads the old value, or this one as it writes.
    if (lastUse.lookup(old) > getTime(step))
      continue;
    if (llvm::all_of(step->getOpOperands(), [&](OpOperand &input) {
          return getWhole(input.get()) != old ||
                 (input.get() == old &&
                  llvm::is_contained(sharing, input.getOperandNumber()));
        }))
      return placeOf.at(old);
  }
  return std::nullopt;
}

void SlotPlan::assignCarried(LoopOp loop, Moves &moves) {
  const Time time = times.at(loop);
  for (auto [initial, argument, result] :
       llvm::zip_equal(loop.getInitial(), loop.getCarriedArguments(),
                       loop.getCarriedResults())) {
    const int64_t last = std::max(time.end, lastUse.lookup(result));
    const Place from = placeOf.at(initial);
    Place place;
    Slot &slot = slots[size_t(from.slot)];
    if (slot.isReusable && slot.last == time.begin &&
        slot.bytes == getStoredBytes(argument) && from.steps.empty() &&
        from.offset == 0) {
      slot.last = last;
      place = from;
    } else {
      place = {addSlot(result, time.begin, getRole(result))};
      slots[size_t(place.slot)].last = last;
      moves.before.push_back({argument, from, place});
    }
    placeOf[argument] = place;
    placeOf[result] = place;
  }
}

void SlotPlan::assignSlices(LoopOp loop, Moves &moves) {
  for (auto [whole, argument] :
       llvm::zip_equal(loop.getSliced(), loop.getSlices())) {
    if (std::optional<Place> place = findSlices(loop, whole)) {
      placeOf[argument] = std::move(*place);
      continue;
    }
    addSlot(argument, times.at(loop).begin, getRole(argument));
    moves.first.push_back(
        {argument, getSlices(loop, whole), placeOf.at(argument)});
  }
  for (auto [value, argument] :
       llvm::zip_equal(loop.getCaptured(), loop.getCapturedArguments())) {
    Place place = placeOf.at(value);
    placeOf[argument] = std::move(place);
  }
}

void SlotPlan::assignStacked(LoopOp loop) {
  const Time time = times.at(loop);
  for (Value result : loop.getStackedResults()) {
    const int added = addSlot(result, time.begin, getRole(result));
    Slot &slot = slots[size_t(added)];
    slot.last = std::max(slot.last, time.end);
  }
}

/// Copies what the body yields and did not compute in its place.
void SlotPlan::addYieldMoves(LoopOp loop, Moves &moves) {
  const size_t carried = loop.getInitial().size();
  const int64_t end = times.at(loop).end;
  std::vector<Move> overwriting;
  for (auto [number, value] : llvm::enumerate(loop.getYielded())) {
    const Place from = placeOf.at(value);
    if (number >= carried) {
      const Place to = getSlices(loop, loop.getResult(unsigned(number)));
      if (from != to)
        moves.last.push_back({value, from, to});
      continue;
    }
    const Place &to = placeOf.at(loop.getCarriedArguments()[number]);
    if (from == to)
      continue;
    // A carried value, or a slice of one, that takes another place is saved
    // before any of them is overwritten.
    if (llvm::is_contained(loop.getCarriedArguments(), getWhole(value))) {
      const Place saved = {addWorkspace(value, nd::OriginPart::Copy,
                                        getStoredBytes(value), end)};
      moves.last.push_back({value, from, saved});
      overwriting.push_back({value, saved, to});
    } else {
      overwriting.push_back({value, from, to});
    }
  }
  moves.last.insert(moves.last.end(), overwriting.begin(), overwriting.end());
}

void SlotPlan::assignLoop(LoopOp loop) {
  Moves moves;
  for (Value result : loop.getResults())
    if (llvm::any_of(result.getUsers(), llvm::IsaPred<spmd::WriteOp>))
      lastUse[result] = getEnd(); // copied at the end
  assignCarried(loop, moves);
  assignSlices(loop, moves);
  assignStacked(loop);
  assignBlock(loop.getBody().front());
  addYieldMoves(loop, moves);
  movesOf[loop] = std::move(moves);
}
