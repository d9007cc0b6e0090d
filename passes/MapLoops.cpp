#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_MAPLOOPS
#include "passes/Passes.h.inc"
} // namespace meshc

namespace {

/// Writes one loop that carries nothing as one computation along its dimension.
///
/// A value in the region varies if it depends on the position or on a slice.
/// What varies gets the dimension, before its others; operations take operands
/// by the names of their dimensions, so that each computes on all positions
/// what it computed on one.
class Mapping {
public:
  explicit Mapping(LoopOp loop)
      : loop(loop), dim(loop.getDim()), builder(loop) {}

  /// Finds what varies. Whether the loop is a map of operations to which the
  /// dimension can be added.
  bool isPossible() {
    if (!loop.getInitial().empty())
      return false;
    varying.insert(loop.getPosition());
    varying.insert_range(loop.getSlices());
    return canAddDim(loop.getBody().front());
  }

  void run() {
    IRMapping values;
    BlockArgument position = loop.getPosition();
    if (!position.use_empty())
      values.map(position, IotaOp::create(builder, position.getLoc(),
                                          withDim(getTensorType(position))));
    for (auto [argument, whole] :
         llvm::zip_equal(loop.getSlices(), loop.getSliced()))
      values.map(argument, store(whole, withDim(getTensorType(argument))));
    writeBlock(loop.getBody().front(), values);
    YieldOp yield = loop.getYield();
    for (auto [result, yielded] :
         llvm::zip_equal(loop.getStackedResults(), yield.getStacked()))
      result.replaceAllUsesWith(getVarying(yielded, values));
    for (auto [result, yielded] :
         llvm::zip_equal(loop.getSummedResults(), yield.getSummed()))
      result.replaceAllUsesWith(
          ReduceOp::create(builder, yielded.getLoc(), getTensorType(result),
                           Reduction::Sum, getVarying(yielded, values)));
    loop.erase();
  }

private:
  NamedTensorType withDim(NamedTensorType type) const {
    return withDimFirst(type, dim);
  }

  bool hasDim(Value value) const {
    return getTensorType(value).hasDim(dim.getName().getValue());
  }

  /// Marks what varies in `block`. Whether each such operation would be, with
  /// the dimension, what it is at each position.
  bool canAddDim(Block &block) {
    for (Operation &op : block.without_terminator()) {
      auto inner = dyn_cast<LoopOp>(op);
      if (!varies(op))
        continue;
      // What is constrained to one sharding says nothing of the dimension.
      if (isa<ReshardOp>(op) ||
          llvm::any_of(op.getOperands(), [&](Value x) { return hasDim(x); }) ||
          llvm::any_of(op.getResults(), [&](Value y) { return hasDim(y); }))
        return false;
      varying.insert_range(op.getResults());
      if (!inner)
        continue;
      if (inner.getDim().getName() == dim.getName())
        return false;
      varying.insert_range(inner.getCarriedArguments());
      for (auto [slice, whole] :
           llvm::zip_equal(inner.getSlices(), inner.getSliced()))
        if (varying.contains(whole))
          varying.insert(slice);
      if (!canAddDim(inner.getBody().front()))
        return false;
      // A loop all of whose values get the dimension yields no other.
      if (llvm::any_of(inner.getYield()->getOperands(),
                       [&](Value value) { return hasDim(value); }))
        return false;
    }
    return true;
  }

  /// Whether `op` reads what varies, its region included.
  bool varies(Operation &op) const {
    return op
        .walk([&](Operation *reader) {
          return llvm::any_of(reader->getOperands(),
                              [&](Value x) { return varying.contains(x); })
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  }

  void writeBlock(Block &block, IRMapping &values) {
    for (Operation &op : block.without_terminator())
      if (!varies(op))
        builder.clone(op, values);
      else if (auto inner = dyn_cast<LoopOp>(op))
        writeLoop(inner, values);
      else
        write(op, values);
  }

  void write(Operation &op, IRMapping &values) {
    Operation *copy = builder.clone(op, values);
    for (OpResult result : copy->getResults())
      result.setType(withDim(getTensorType(result)));
    // Operands of a stack are of one shape, and what a put adds up has the
    // dimensions of its index.
    if (!isa<StackOp, PutOp>(op))
      return;
    builder.setInsertionPoint(copy);
    for (auto [operand, input] :
         llvm::zip_equal(copy->getOpOperands(), op.getOperands()))
      if (isa<StackOp>(op) || operand.getOperandNumber() == 0)
        operand.set(getVarying(input, values));
    builder.setInsertionPointAfter(copy);
  }

  /// A loop whose values vary, those it carries and all results included.
  void writeLoop(LoopOp inner, IRMapping &values) {
    SmallVector<Value> initial, sliced;
    for (Value value : inner.getInitial())
      initial.push_back(getVarying(value, values));
    for (Value value : inner.getSliced())
      sliced.push_back(values.lookupOrDefault(value));
    YieldOp yield = inner.getYield();
    SmallVector<Type> types;
    for (Value value : yield.getCarried())
      types.push_back(withDim(getTensorType(value)));
    for (Value value : yield.getStacked())
      types.push_back(
          withDimFirst(withDim(getTensorType(value)), inner.getDim()));
    for (Value value : yield.getSummed())
      types.push_back(withDim(getTensorType(value)));
    auto mapped = LoopOp::create(builder, inner.getLoc(), types, inner.getDim(),
                                 initial, sliced, inner.getReverse());

    Block &block = mapped.getBody().emplaceBlock();
    auto addArgument = [&](BlockArgument old, Type type) {
      values.map(old, block.addArgument(type, old.getLoc()));
    };
    addArgument(inner.getPosition(), inner.getPosition().getType());
    for (auto [old, value] :
         llvm::zip_equal(inner.getCarriedArguments(), initial))
      addArgument(old, value.getType());
    for (auto [old, whole] : llvm::zip_equal(inner.getSlices(), sliced))
      addArgument(old, withoutDim(getTensorType(whole),
                                  inner.getDim().getName().getValue()));
    builder.setInsertionPointToStart(&block);
    writeBlock(inner.getBody().front(), values);
    auto getAll = [&](OperandRange yielded) {
      SmallVector<Value> all;
      for (Value value : yielded)
        all.push_back(getVarying(value, values));
      return all;
    };
    SmallVector<Value> carried = getAll(yield.getCarried()),
                       stacked = getAll(yield.getStacked()),
                       summed = getAll(yield.getSummed());
    YieldOp::create(builder, yield.getLoc(), carried, stacked, summed);
    builder.setInsertionPointAfter(mapped);
    for (auto [old, result] :
         llvm::zip_equal(inner.getResults(), mapped.getResults()))
      values.map(old, store(result, withDim(getTensorType(old))));
  }

  /// What `value` of the region is at all positions: repeated if it is the
  /// same.
  Value getVarying(Value value, const IRMapping &values) {
    Value known = values.lookupOrDefault(value);
    if (varying.contains(value))
      return known;
    return BroadcastOp::create(builder, value.getLoc(),
                               withDim(getTensorType(value)), known);
  }

  /// `value` stored in the order of `type`.
  Value store(Value value, NamedTensorType type) {
    if (value.getType() == type)
      return value;
    if (isForData(type.getElementType())) // which is not reduced
      return BroadcastOp::create(builder, value.getLoc(), type, value);
    // Nothing is reduced; booleans have no sum.
    Reduction kind =
        type.getElementType().isInteger(1) ? Reduction::Max : Reduction::Sum;
    return ReduceOp::create(builder, value.getLoc(), type, kind, value);
  }

  LoopOp loop;
  DimAttr dim;
  OpBuilder builder;
  /// Values of the region that differ from position to position.
  DenseSet<Value> varying;
};

struct MapLoops : meshc::impl::MapLoopsBase<MapLoops> {
  void runOnOperation() override {
    SmallVector<LoopOp> loops; // inner ones first
    getOperation().walk([&](LoopOp loop) { loops.push_back(loop); });
    bool changed = false;
    for (LoopOp loop : loops) {
      Mapping mapping(loop);
      if (!mapping.isPossible())
        continue;
      mapping.run();
      changed = true;
    }
    if (!changed)
      markAllAnalysesPreserved();
  }
};

} // namespace
