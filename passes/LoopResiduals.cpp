#include "passes/LoopResiduals.h"

#include "dialect/Locations.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

bool meshc::isWithin(Value value, const Region &region) {
  Region *around = value.getParentRegion();
  while (around && around != &region) {
    Operation *op = around->getParentOp();
    around = op ? op->getParentRegion() : nullptr;
  }
  return around != nullptr;
}

namespace {
class Residuals {
public:
  Residuals(LoopOp loop, Block &body, SmallVectorImpl<Value> &sliced)
      : loop(loop), body(body), sliced(sliced) {}

  LoopOp run() {
    findRemade();
    body.walk([&](Operation *op) {
      for (OpOperand &use : op->getOpOperands())
        if (isWithin(use.get(), loop.getBody()))
          use.set(get(use.get()));
    });
    LoopOp stacking = stacked.empty() ? loop : addStacked();
    for (auto [place, result] : slicesOfResults)
      sliced[place] = stacking.getResult(result);
    return stacking;
  }

private:
  /// Finds what `body` makes again: random numbers, and what a few elementwise
  /// operations make of numbers, random ones too, and of the position. All else
  /// that differs from one iteration to the next is read as it was.
  void findRemade() {
    remade[loop.getPosition()] = 0;
    for (Operation &op : loop.getBody().front()) {
      if (op.getNumRegions() > 0 || op.getNumResults() != 1 ||
          (op.getNumOperands() > 0 &&
           !isa<RandomOp, ElementwiseOpInterface>(op)))
        continue;
      unsigned length = 1;
      for (Value operand : op.getOperands())
        if (isWithin(operand, loop.getBody())) {
          auto known = remade.find(operand);
          length = std::max(length, known == remade.end() ? maxRemade + 1
                                                          : known->second + 1);
        }
      if (length <= maxRemade)
        remade[op.getResult(0)] = length;
    }
  }

  /// What `body` reads for `value` of the region.
  Value get(Value value) {
    if (Value read = known.lookup(value))
      return read;
    Value read = find(value);
    known[value] = read;
    return read;
  }

  Value find(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (value == loop.getPosition())
      return body.getArgument(0);
    if (argument && llvm::is_contained(loop.getSlices(), argument)) {
      Value read = body.addArgument(value.getType(), value.getLoc());
      sliced.push_back(loop.getSlicedOperand(argument));
      return read;
    }
    return remade.contains(value) ? makeAgain(value.getDefiningOp())
                                  : sliceStacked(value);
  }

  Value makeAgain(Operation *op) {
    IRMapping operands;
    for (Value operand : op->getOperands())
      if (isWithin(operand, loop.getBody()))
        operands.map(operand, get(operand));
    // The block is in no operation yet.
    OpBuilder builder(loop.getContext());
    if (lastRemade)
      builder.setInsertionPointAfter(lastRemade);
    else
      builder.setInsertionPointToStart(&body);
    lastRemade = builder.clone(*op, operands);
    if (op->getNumOperands() > 0)
      lastRemade->setLoc(withPhase(asInside(op->getLoc()), Phase::Backward));
    return lastRemade->getResult(0);
  }

  Value sliceStacked(Value value) {
    StringRef dim = loop.getDim().getName().getValue();
    auto type = cast<NamedTensorType>(value.getType());
    if (!type.hasDim(dim))
      return slice(value);
    std::string name = (dim + " kept").str();
    while (type.hasDim(name))
      name += "'";
    OpBuilder builder(loop.getYield());
    Value renamed = RenameOp::create(builder, value.getLoc(), value, dim, name);
    builder.setInsertionPointToStart(&body);
    return RenameOp::create(builder, value.getLoc(), slice(renamed), name, dim);
  }

  /// A slice of `value` as the loop stacks it.
  Value slice(Value value) {
    OperandRange yielded = loop.getYield().getStacked();
    size_t number = llvm::find(yielded, value) - yielded.begin();
    if (number == yielded.size()) {
      number += stacked.size();
      stacked.push_back(value);
    }
    slicesOfResults.push_back(
        {sliced.size(), unsigned(loop.getInitial().size() + number)});
    sliced.push_back(nullptr);
    // A constraint on the value is none on what is stacked.
    auto type = cast<NamedTensorType>(value.getType());
    return body.addArgument(type.withoutSharding(), value.getLoc());
  }

  /// The loop, with results for all that is stacked in addition.
  LoopOp addStacked() {
    SmallVector<Type> types(loop.getCarriedResults().getTypes());
    llvm::append_range(types, loop.getStackedResults().getTypes());
    size_t numBefore = types.size();
    for (Value value : stacked)
      types.push_back(
          withDimFirst(cast<NamedTensorType>(value.getType()), loop.getDim()));
    llvm::append_range(types, loop.getSummedResults().getTypes());
    OpBuilder builder(loop);
    auto stacking =
        LoopOp::create(builder, loop.getLoc(), types, loop.getDim(),
                       loop.getInitial(), loop.getSliced(), loop.getReverse());
    for (auto [i, result] : llvm::enumerate(loop.getResults()))
      result.replaceAllUsesWith(
          stacking.getResult(i < numBefore ? i : i + stacked.size()));
    stacking.getBody().takeBody(loop.getBody());
    stacking.getYield().getStackedMutable().append(stacked);
    return stacking;
  }

  LoopOp loop;
  Block &body;
  SmallVectorImpl<Value> &sliced;
  /// Operations in a row, at most, that make what is made again.
  static constexpr unsigned maxRemade = 32;
  /// Of values, how many operations in a row make them.
  DenseMap<Value, unsigned> remade;
  Operation *lastRemade = nullptr;
  DenseMap<Value, Value> known;
  SmallVector<Value> stacked; ///< by the loop, in addition
  /// Places in `sliced`, and the results of the loop that come there.
  SmallVector<std::pair<size_t, unsigned>> slicesOfResults;
};
} // namespace

LoopOp meshc::keepResiduals(LoopOp loop, Block &body,
                            SmallVectorImpl<Value> &sliced) {
  return Residuals(loop, body, sliced).run();
}
