#include "codegen/exec/ReaderPhases.h"

#include "mlir/IR/Iterators.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Of its results; of what only passes a value on, the latest.
static nd::Phase getOwnPhase(Operation *op) {
  nd::Phase earliest = nd::Phase::Update;
  if (auto step = dyn_cast<steps::StepOpInterface>(op))
    for (unsigned result = 0; result < op->getNumResults(); ++result)
      earliest = std::min(earliest, getPhase(step.getResultLoc(result)));
  return earliest;
}

ReaderPhases::ReaderPhases(steps::ProgramOp program) {
  // Readers stand behind what they read, or in an operation that does.
  program->walk<WalkOrder::PreOrder, ReverseIterator>([&](Operation *op) {
    nd::Phase earliest = getOwnPhase(op);
    // What a body hands on is what its loop computes.
    if (auto loop = dyn_cast_or_null<steps::LoopOp>(op->getParentOp());
        loop && op->hasTrait<OpTrait::IsTerminator>())
      earliest = phases.at(loop);
    for (Operation *reader : op->getUsers())
      if (auto known = phases.find(reader); known != phases.end())
        earliest = std::min(earliest, known->second);
    phases[op] = earliest;
    const bool hasSteps = isa<steps::ProgramOp, steps::LoopOp>(op);
    return hasSteps ? WalkResult::advance() : WalkResult::skip();
  });
}
