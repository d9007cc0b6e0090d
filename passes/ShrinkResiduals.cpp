#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "passes/ConstraintFlow.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_SHRINKRESIDUALS
#include "passes/Passes.h.inc"
} // namespace meshc

static bool isBackward(Operation *op) {
  return getPhase(op->getLoc()) == Phase::Backward;
}

/// The uses of `value` in the backward phase that `isWanted`, first user first.
static SmallVector<OpOperand *>
getBackwardUses(Value value, function_ref<bool(Operation *)> isWanted) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    if (isBackward(use.getOwner()) && isWanted(use.getOwner()))
      uses.push_back(&use);
  llvm::sort(uses, [](OpOperand *a, OpOperand *b) {
    return a->getOwner()->isBeforeInBlock(b->getOwner());
  });
  return uses;
}

/// Has `uses` read what `create` makes in front of the first of them.
static void redirect(ArrayRef<OpOperand *> uses,
                     function_ref<Value(OpBuilder &, Location)> create) {
  if (uses.empty())
    return;
  Operation *first = uses.front()->getOwner();
  OpBuilder builder(first);
  Value value = create(builder, asInside(first->getLoc()));
  for (OpOperand *use : uses)
    use->set(value);
}

/// Whether `quotient` is e / sum(e) of exponentials e: neither is negative, and
/// no e is larger than the sum.
static bool isSoftmax(DivOp quotient) {
  auto exponential = quotient.getLhs().getDefiningOp<ExpOp>();
  Value divisor = quotient.getRhs();
  if (auto broadcast = divisor.getDefiningOp<BroadcastOp>())
    divisor = broadcast.getInput();
  auto sum = divisor.getDefiningOp<ReduceOp>();
  return exponential && sum && sum.getKind() == Reduction::Sum &&
         sum.getInput() == exponential.getResult();
}

/// mul(e, g) -> mul(mul(p, s), g) in the backward phase, for p = e / s.
static void dropDividend(DivOp quotient) {
  if (!isSoftmax(quotient) || isBackward(quotient))
    return;
  ReshardOp constraint = findOnlyConstraint(quotient);
  Value kept = constraint ? constraint.getResult() : quotient.getResult();
  redirect(getBackwardUses(quotient.getLhs(), [](Operation *) { return true; }),
           [&](OpBuilder &builder, Location loc) -> Value {
             return MulOp::create(builder, loc, kept, quotient.getRhs());
           });
}

/// Has elementwise operations of the backward phase read the 16 bits of
/// `rounding` where a product of that phase keeps them alive.
static void dropRounded(CastOp rounding) {
  Value wide = rounding.getInput();
  auto isProduct = [](Operation *user) { return isa<EinsumOp>(user); };
  if (isBackward(rounding) || wide.getDefiningOp<BorderOpInterface>() ||
      !isa<Float32Type>(getTensorType(wide).getElementType()) ||
      !isa<BFloat16Type, Float16Type>(
          getTensorType(rounding).getElementType()) ||
      getBackwardUses(rounding, isProduct).empty())
    return;
  redirect(getBackwardUses(wide,
                           [](Operation *user) {
                             return isa<ElementwiseOpInterface>(user);
                           }),
           [&](OpBuilder &builder, Location loc) -> Value {
             return CastOp::create(builder, loc, rounding.getResult(),
                                   getTensorType(wide).getElementType());
           });
}

namespace {
struct ShrinkResiduals : meshc::impl::ShrinkResidualsBase<ShrinkResiduals> {
  using ShrinkResidualsBase::ShrinkResidualsBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      for (Block *block : getBlocks(program)) {
        for (auto quotient : block->getOps<DivOp>())
          dropDividend(quotient);
        // Second, so that the quotients just read are among what is narrowed.
        for (auto cast : block->getOps<CastOp>())
          dropRounded(cast);
      }
  }
};
} // namespace
