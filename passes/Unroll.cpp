#include "dialect/Locations.h"
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_UNROLL
#include "passes/Passes.h.inc"
} // namespace meshc

/// How many operations `block` becomes; at most one more than `limit`.
static int64_t countOperations(Block &block, int64_t limit) {
  int64_t count = 0;
  for (Operation &op : block) {
    ++count;
    if (auto loop = dyn_cast<LoopOp>(op)) {
      int64_t inside = countOperations(loop.getBody().front(), limit);
      if (llvm::MulOverflow(inside, loop.getDim().getSize(), inside))
        return limit + 1;
      count += std::min(inside, limit + 1);
    }
    if (count > limit)
      return limit + 1;
  }
  return count;
}

/// The scope of what is in `loop`; null if the loop has no name.
static ScopeAttr getScopeOf(LoopOp loop) {
  OriginAttr origin = getOrigin(loop.getLoc());
  return origin && origin.hasName()
             ? ScopeAttr::get(origin.getScope(), origin.getName())
             : ScopeAttr();
}

namespace {
/// Writes one loop out, whose region has none.
class Unrolling {
public:
  explicit Unrolling(LoopOp loop)
      : loop(loop), builder(loop), scope(getScopeOf(loop)) {}

  void run() {
    SmallVector<UnstackOp> sliced;
    for (auto [operand, argument] :
         llvm::zip_equal(loop.getSliced(), loop.getSlices()))
      sliced.push_back(UnstackOp::create(builder,
                                         getLocOfSlices(argument.getLoc()),
                                         operand, loop.getDim().getName()));
    YieldOp yield = loop.getYield();
    carried.append(loop.getInitial().begin(), loop.getInitial().end());
    stacked.resize(yield.getStacked().size(),
                   SmallVector<Value>(loop.getDim().getSize()));
    summed.resize(yield.getSummed().size());
    for (int64_t n = 0; n < loop.getDim().getSize(); ++n) {
      int64_t i = loop.getPositionOf(n);
      IRMapping values;
      for (auto [argument, unstacked] :
           llvm::zip_equal(loop.getSlices(), sliced))
        values.map(argument, unstacked.getResult(unsigned(i)));
      writeIteration(i, values);
    }
    replace(loop.getCarriedResults(), carried);
    for (auto [result, parts, yielded] : llvm::zip_equal(
             loop.getStackedResults(), stacked, yield.getStacked())) {
      Value all = StackOp::create(builder, getLocOfAll(yielded),
                                  loop.getDim().getName(), parts);
      result.replaceAllUsesWith(all);
    }
    replace(loop.getSummedResults(), summed);
    loop.erase();
  }

private:
  /// The iteration at position `i`.
  void writeIteration(int64_t i, IRMapping &values) {
    for (auto [argument, value] :
         llvm::zip_equal(loop.getCarriedArguments(), carried))
      values.map(argument, value);
    BlockArgument position = loop.getPosition();
    if (!position.use_empty())
      values.map(position,
                 ConstantOp::create(builder, position.getLoc(),
                                    cast<NamedTensorType>(position.getType()),
                                    builder.getI32IntegerAttr(int32_t(i))));
    for (Operation &op : loop.getBody().front().without_terminator()) {
      Operation *copy = builder.clone(op, values);
      copy->setLoc(getLocOf(op.getLoc(), i));
    }
    YieldOp yield = loop.getYield();
    for (auto [value, yielded] : llvm::zip_equal(carried, yield.getCarried()))
      value = values.lookupOrDefault(yielded);
    for (auto [parts, yielded] : llvm::zip_equal(stacked, yield.getStacked()))
      parts[i] = values.lookupOrDefault(yielded);
    for (auto [sum, yielded] : llvm::zip_equal(summed, yield.getSummed())) {
      Value term = values.lookupOrDefault(yielded);
      sum =
          sum ? AddOp::create(builder, getLocOfAll(yielded), sum, term) : term;
    }
  }

  static void replace(ResultRange results, ArrayRef<Value> values) {
    for (auto [result, value] : llvm::zip_equal(results, values))
      result.replaceAllUsesWith(value);
  }

  /// The location in iteration `i` of what is at `loc` in the loop.
  Location getLocOf(Location loc, int64_t i) {
    OriginAttr origin = getOrigin(loc);
    if (!scope || !origin || !origin.getScope())
      return loc;
    return withOrigin(loc,
                      origin.inScope(origin.getScope().inIteration(scope, i)));
  }

  /// Slices are no values beside the whole: they are inside it.
  static Location getLocOfSlices(Location loc) { return asInside(loc); }

  /// The location of what all iterations make of `yielded`.
  Location getLocOfAll(Value yielded) {
    Location loc = yielded.getLoc();
    OriginAttr origin = getOrigin(loc);
    return origin ? withOrigin(loc, origin.withPart(OriginPart::Itself)) : loc;
  }

  LoopOp loop;
  OpBuilder builder;
  ScopeAttr scope; ///< of what is in the loop; null if it has no name
  SmallVector<Value> carried, summed;
  SmallVector<SmallVector<Value>> stacked;
};

struct Unroll : meshc::impl::UnrollBase<Unroll> {
  using UnrollBase::UnrollBase;

  void runOnOperation() override {
    SmallVector<LoopOp> loops; // inner ones first
    for (auto program : getOperation().getOps<ProgramOp>()) {
      if (failed(checkSize(program)))
        return signalPassFailure();
      program.walk([&](LoopOp loop) { loops.push_back(loop); });
    }
    if (loops.empty())
      return markAllAnalysesPreserved();
    for (LoopOp loop : loops)
      Unrolling(loop).run();
  }

  LogicalResult checkSize(ProgramOp program) {
    int64_t limit = maxOperations;
    for (auto loop : program.getOps<LoopOp>()) {
      int64_t inside = countOperations(loop.getBody().front(), limit);
      int64_t size = loop.getDim().getSize();
      int64_t slices = int64_t(loop.getSliced().size());
      if (size > limit || slices * size > limit || inside > limit / size)
        return loop.emitError()
               << "the loop over " << loop.getDim().getName()
               << " is written out, which makes more than " << limit
               << " operations: " << size << " iterations of "
               << (inside > limit ? "more than " : "")
               << std::min(inside, limit)
               << (inside == 1 ? " operation" : " operations")
               << "; loops that run as loops are not built yet";
    }
    return success();
  }
};
} // namespace
