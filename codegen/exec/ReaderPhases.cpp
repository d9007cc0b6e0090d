#include "codegen/exec/ReaderPhases.h"

#include "mlir/IR/Iterators.h"

#include <utility>

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Of a result; of what only passes a value on, the latest.
static nd::Phase getOwnPhase(OpResult result) {
  auto step = dyn_cast<steps::StepOpInterface>(result.getOwner());
  return step ? getPhase(step.getResultLoc(result.getResultNumber()))
              : nd::Phase::Update;
}

ReaderPhases::ReaderPhases(steps::ProgramOp program) {
  // Readers stand behind what they read, or in an operation that does, but for
  // those in the next iteration of a loop: until nothing changes.
  bool hasChanged = true;
  auto update = [&](Value value, nd::Phase phase) {
    const auto [known, isNew] = phases.try_emplace(value, phase);
    if (!isNew && phase >= known->second)
      return;
    hasChanged |= isNew ? isa<BlockArgument>(value) : true;
    known->second = phase;
  };
  while (std::exchange(hasChanged, false))
    program->walk<WalkOrder::PreOrder, ReverseIterator>([&](Operation *op) {
      for (OpResult result : op->getResults())
        update(result, std::min(getOwnPhase(result), getOfReaders(result)));
      if (auto loop = dyn_cast<steps::LoopOp>(op))
        for (BlockArgument argument : loop.getBody().getArguments())
          update(argument, getOfReaders(argument));
      const bool hasSteps = isa<steps::ProgramOp, steps::LoopOp>(op);
      return hasSteps ? WalkResult::advance() : WalkResult::skip();
    });
}

nd::Phase ReaderPhases::get(Operation *op) const {
  nd::Phase earliest = nd::Phase::Update;
  for (Value result : op->getResults())
    earliest = std::min(earliest, getKnown(result));
  return earliest;
}

/// The latest of what was not looked at yet.
nd::Phase ReaderPhases::getKnown(Value value) const {
  const auto known = phases.find(value);
  return known == phases.end() ? nd::Phase::Update : known->second;
}

nd::Phase ReaderPhases::getOfReaders(Value value) const {
  nd::Phase earliest = nd::Phase::Update;
  const auto add = [&](nd::Phase phase) {
    earliest = std::min(earliest, phase);
  };
  for (OpOperand &use : value.getUses()) {
    const unsigned number = use.getOperandNumber();
    auto loop = dyn_cast<steps::LoopOp>(use.getOwner());
    const bool isHandedOn =
        !loop && use.getOwner()->hasTrait<OpTrait::IsTerminator>();
    if (isHandedOn)
      loop = dyn_cast<steps::LoopOp>(use.getOwner()->getParentOp());
    if (!loop) {
      add(get(use.getOwner()));
      continue;
    }
    // What is carried is read in the body and behind the loop, what is stacked
    // behind it alone; slices and what all iterations share in the body alone.
    const bool isCarried = number < loop.getInitial().size();
    if (isHandedOn || isCarried)
      add(getKnown(loop.getResult(number)));
    if (!isHandedOn || isCarried)
      add(getKnown(loop.getBody().getArgument(number)));
  }
  return earliest;
}
