#include "passes/NarrowSums.h"

#include "dialect/Casts.h"
#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// Whether `value` has terms and no reader takes any of them.
static bool isCompleted(Value value, const TermFlow &flow) {
  return !flow.getTerms(value).empty() &&
         llvm::all_of(value.getUses(), [&](OpOperand &use) {
           return flow.getKept(use).empty();
         });
}

/// Whether `value` is the gradient that an update reads, which stays in f32
/// (ReverseSweep.cpp).
static bool isForUpdate(Value value) {
  return llvm::any_of(value.getUses(), entersUpdate);
}

bool meshc::narrowSums(ProgramOp program, const TermFlow &flow) {
  bool changed = false;
  for (Operation *op : getOperations(program)) {
    if (op->getNumResults() != 1 || getPhase(op->getLoc()) != Phase::Backward ||
        !isCompleted(op->getResult(0), flow) || isForUpdate(op->getResult(0)))
      continue;
    Value sum = op->getResult(0);
    FloatType narrow = getAddendType(sum);
    if (!narrow)
      continue;
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto type = cast<NamedTensorType>(sum.getType());
    Value rounded = CastOp::create(builder, op->getLoc(),
                                   type.withElementType(narrow), sum);
    Value widened = CastOp::create(builder, op->getLoc(), type, rounded);
    sum.replaceAllUsesExcept(widened, rounded.getDefiningOp());
    changed = true;
  }
  return changed;
}
