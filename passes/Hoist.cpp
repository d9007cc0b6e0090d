#include "dialect/ND.h"
#include "passes/LoopResiduals.h"
#include "passes/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_HOIST
#include "passes/Passes.h.inc"
} // namespace meshc

/// Moves what is the same in all iterations of `loop` in front of it.
static bool hoistInvariants(LoopOp loop) {
  return moveLoopInvariantCode(
      &loop.getBody(),
      [](Value value, Region *region) { return !isWithin(value, *region); },
      [](Operation *op, Region *) { return isPure(op); },
      [&](Operation *op, Region *) { op->moveBefore(loop); });
}

namespace {

/// Takes the sums of contractions out of one loop.
class SumHoisting {
public:
  explicit SumHoisting(LoopOp loop) : loop(loop), builder(loop) {
    builder.setInsertionPointAfter(loop);
  }

  bool run() {
    SmallVector<Value> kept;
    SmallVector<std::pair<OpResult, Value>> moved;
    SmallVector<OpResult> keptResults;
    for (auto [result, yielded] :
         llvm::zip_equal(loop.getSummedResults(), loop.getYield().getSummed()))
      if (isContraction(yielded)) {
        moved.push_back({result, yielded});
      } else {
        kept.push_back(yielded);
        keptResults.push_back(result);
      }
    if (moved.empty())
      return false;
    for (auto [result, yielded] : moved)
      findStacked(yielded);
    LoopOp smaller = rebuild(kept, keptResults);
    builder.setInsertionPointAfter(smaller);
    for (auto [result, yielded] : moved)
      result.replaceAllUsesWith(buildSum(yielded, smaller));
    SmallVector<Operation *> unused;
    for (auto [result, yielded] : moved)
      unused.push_back(yielded.getDefiningOp());
    loop.erase();
    for (Operation *op : unused)
      eraseUnused(op);
    if (smaller.use_empty())
      smaller.erase();
    return true;
  }

private:
  bool isInside(Value value) { return isWithin(value, loop.getBody()); }

  bool hasDim(Value value) {
    return getTensorType(value).hasDim(loop.getDim().getName().getValue());
  }

  /// Whether the sum over the iterations of `value` is a contraction of values
  /// of all iterations: it is an einsum, or a sum of some, that nothing else
  /// reads.
  bool isContraction(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isInside(value) || !value.hasOneUse() || hasDim(value))
      return false;
    if (auto add = dyn_cast<AddOp>(op))
      return llvm::all_of(add->getOperands(), [&](Value term) {
        return term.getType() == value.getType() && isContraction(term);
      });
    auto einsum = dyn_cast<EinsumOp>(op);
    return einsum && llvm::none_of(einsum.getInputs(), [&](Value input) {
             return hasDim(input) || makesPatches(input);
           });
  }

  /// A window of all iterations would be stored as what it sees.
  bool makesPatches(Value input) {
    return isInside(input) && input.getDefiningOp<ViewOp>();
  }

  bool isSlice(Value value) {
    return llvm::is_contained(loop.getSlices(), value);
  }

  /// Notes the inputs of `value`, isContraction, that the loop has to stack.
  void findStacked(Value value) {
    for (Value input : value.getDefiningOp()->getOperands())
      if (value.getDefiningOp<AddOp>())
        findStacked(input);
      else if (isInside(input) && !isSlice(input) &&
               !llvm::is_contained(loop.getYield().getStacked(), input))
        stacked.insert(input);
  }

  /// The loop with the stacked values in addition and the sums that are left.
  LoopOp rebuild(ArrayRef<Value> kept, MutableArrayRef<OpResult> keptResults) {
    SmallVector<Type> types(loop.getCarriedResults().getTypes());
    llvm::append_range(types, loop.getStackedResults().getTypes());
    const size_t before = types.size();
    for (Value value : stacked)
      types.push_back(withDimFirst(getTensorType(value), loop.getDim()));
    for (OpResult result : keptResults)
      types.push_back(result.getType());
    OpBuilder front(loop);
    auto smaller =
        LoopOp::create(front, loop.getLoc(), types, loop.getDim(),
                       loop.getInitial(), loop.getSliced(), loop.getReverse());
    for (size_t i = 0; i < before; ++i)
      loop.getResult(i).replaceAllUsesWith(smaller.getResult(i));
    for (auto [i, result] : llvm::enumerate(keptResults))
      result.replaceAllUsesWith(smaller.getResult(before + stacked.size() + i));
    for (auto [argument, value] :
         llvm::zip_equal(loop.getSlices(), loop.getSliced()))
      sliced[argument] = value;
    smaller.getBody().takeBody(loop.getBody());
    YieldOp yield = smaller.getYield();
    yield.getStackedMutable().append(stacked.getArrayRef());
    yield.getSummedMutable().assign(kept);
    return smaller;
  }

  /// The sum over all iterations of `value`, isContraction.
  Value buildSum(Value value, LoopOp smaller) {
    Operation *op = value.getDefiningOp();
    if (isa<AddOp>(op))
      return AddOp::create(builder, op->getLoc(), value.getType(),
                           buildSum(op->getOperand(0), smaller),
                           buildSum(op->getOperand(1), smaller));
    SmallVector<Value> inputs;
    for (Value input : op->getOperands())
      inputs.push_back(getAll(input, smaller));
    return EinsumOp::create(builder, op->getLoc(), value.getType(), inputs);
  }

  /// `input` in all iterations: with the dimension, or the same in each.
  Value getAll(Value input, LoopOp smaller) {
    if (Value whole = sliced.lookup(input))
      return whole;
    OperandRange all = smaller.getYield().getStacked();
    auto found = llvm::find(all, input);
    return found == all.end()
               ? input
               : smaller.getStackedResults()[size_t(found - all.begin())];
  }

  /// Erases contractions that are yielded no more.
  static void eraseUnused(Operation *op) {
    SmallVector<Value> terms;
    if (isa<AddOp>(op))
      terms.append(op->operand_begin(), op->operand_end());
    op->erase();
    for (Value term : terms)
      eraseUnused(term.getDefiningOp());
  }

  LoopOp loop;
  OpBuilder builder;
  SetVector<Value> stacked;
  DenseMap<Value, Value> sliced; ///< slices, and what they are of
};

struct Hoist : meshc::impl::HoistBase<Hoist> {
  void runOnOperation() override {
    SmallVector<LoopOp> loops; // inner ones first
    getOperation().walk([&](LoopOp loop) { loops.push_back(loop); });
    bool changed = false;
    for (LoopOp loop : loops) {
      changed |= hoistInvariants(loop);
      changed |= SumHoisting(loop).run();
    }
    if (!changed)
      markAllAnalysesPreserved();
  }
};

} // namespace
