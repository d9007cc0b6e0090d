#include "codegen/tiling/TileLoops.h"

#include "codegen/exec/Exec.h"
#include "codegen/kernels/StructuredOps.h"
#include "codegen/tiling/TileDims.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

namespace {
/// Writes the loops of one group.
class LoopWriter {
public:
  LoopWriter(const TileGroup &group, OrderedValues &ordered)
      : group(group), ordered(ordered) {}

  SmallVector<Value> write();

private:
  /// A tensor that comes in or goes out, by the loops that its dimensions have
  /// in one operation, in the order in which it is stored for the loops. Two
  /// operations may read one tensor along different dimensions.
  struct Port {
    Value value;
    Operation *op;
    SmallVector<unsigned> order; ///< of its dimensions
    SmallVector<unsigned> loops; ///< in this order
  };

  Port makePort(Value value, Operation *op, ArrayRef<unsigned> loops) const;
  unsigned addInput(Port port);
  void findPorts();
  Value getOrdered(OpBuilder &builder, const Port &port);
  Value getOutput(OpBuilder &builder, const Port &port, Value result);
  bool isTiled(const Port &port, size_t depth) const;
  RankedTensorType getType(const Port &port, size_t depth) const;
  SmallVector<Value> writeLoop(size_t depth, OpBuilder &builder,
                               ArrayRef<Value> inputs, ArrayRef<Value> sums);
  SmallVector<Value> writeBody(OpBuilder &builder, ArrayRef<Value> tiles,
                               ArrayRef<Value> sums);
  bool isTileGathered(Operation *op, Value tensor, size_t dim) const;
  void usePositions(linalg::GenericOp op, Operation *source,
                    ArrayRef<Value> tiles);

  const TileGroup &group;
  OrderedValues &ordered;
  std::vector<Port> inputs, outputs;
  llvm::DenseMap<OpOperand *, unsigned> inputOf;
  /// Of tensors that bodies gather from.
  llvm::DenseMap<std::pair<Operation *, Value>, unsigned> gatheredOf;
  /// Of positions along the loops of an operation.
  llvm::DenseMap<std::pair<Operation *, unsigned>, unsigned> positionsOf;
};
} // namespace

/// A scalar that operations of a block compute from no tensor, computed where
/// `builder` is.
static Value cloneScalar(OpBuilder &builder, Value value, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    cloneScalar(builder, operand, mapping);
  builder.clone(*op, mapping);
  return mapping.lookup(value);
}

/// `value` with its dimensions in another order: dimension i is number
/// order[i].
static Value storeInOrder(OpBuilder &builder, Value value,
                          ArrayRef<unsigned> order) {
  auto type = cast<RankedTensorType>(value.getType());
  MLIRContext *context = builder.getContext();
  const unsigned rank = unsigned(order.size());
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> read(rank);
  for (auto [position, dim] : llvm::enumerate(order)) {
    shape.push_back(type.getDimSize(dim));
    read[dim] = getAffineDimExpr(unsigned(position), context);
  }
  const Location loc = value.getLoc();
  const Value empty =
      tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  const AffineMap maps[] = {AffineMap::get(rank, 0, read, context),
                            builder.getMultiDimIdentityMap(rank)};
  const SmallVector<utils::IteratorType> kinds(rank,
                                               utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, empty.getType(), value, empty, maps, kinds,
             [](OpBuilder &inside, Location loc, ValueRange arguments) {
               linalg::YieldOp::create(inside, loc, arguments.front());
             })
      .getResult(0);
}

/// Positions along a dimension.
static Value makePositions(OpBuilder &builder, Location loc, int64_t size) {
  const Value empty = tensor::EmptyOp::create(
      builder, loc, ArrayRef<int64_t>(size), builder.getI64Type());
  const AffineMap maps[] = {builder.getMultiDimIdentityMap(1)};
  const utils::IteratorType kinds[] = {utils::IteratorType::parallel};
  return linalg::GenericOp::create(
             builder, loc, empty.getType(), ValueRange(), empty, maps, kinds,
             [](OpBuilder &inside, Location loc, ValueRange) {
               const Value index = linalg::IndexOp::create(inside, loc, 0);
               const Value position = arith::IndexCastOp::create(
                   inside, loc, inside.getI64Type(), index);
               linalg::YieldOp::create(inside, loc, position);
             })
      .getResult(0);
}

LoopWriter::Port LoopWriter::makePort(Value value, Operation *op,
                                      ArrayRef<unsigned> loops) const {
  Port port = {value, op, group.getTiledOrder(op, loops), {}};
  for (unsigned dim : port.order)
    port.loops.push_back(loops[dim]);
  return port;
}

/// The number of an input. Read by several operations along the same
/// dimensions, it is one.
unsigned LoopWriter::addInput(Port port) {
  auto known = llvm::find_if(inputs, [&](const Port &other) {
    if (other.value != port.value || other.order != port.order)
      return false;
    for (size_t depth = 0; depth < group.dims.size(); ++depth)
      if (isTiled(other, depth) != isTiled(port, depth) ||
          getType(other, depth + 1) != getType(port, depth + 1))
        return false;
    return true;
  });
  const auto number = unsigned(known - inputs.begin());
  if (known == inputs.end())
    inputs.push_back(std::move(port));
  return number;
}

static SmallVector<unsigned> getLoops(linalg::GenericOp op,
                                      OpOperand &operand) {
  const AffineMap map = op.getMatchingIndexingMap(&operand);
  return llvm::map_to_vector(llvm::seq(map.getNumResults()), [&](unsigned dim) {
    return map.getDimPosition(dim);
  });
}

void LoopWriter::findPorts() {
  OpBuilder builder(group.ops.back()->getContext());
  builder.setInsertionPointAfter(group.ops.back());
  llvm::DenseMap<int64_t, Value> positions;
  for (Operation *op : group.ops) {
    auto generic = cast<linalg::GenericOp>(op);
    for (OpOperand &operand : op->getOpOperands())
      if (const Value value = operand.get();
          generic.payloadUsesValueFromOperand(&operand) &&
          isa<RankedTensorType>(value.getType()) &&
          !group.contains(value.getDefiningOp()) && !getSplat(value))
        inputOf[&operand] =
            addInput(makePort(value, op, getLoops(generic, operand)));
    for (Value gathered : getGatheredTensors(op)) {
      if (group.contains(gathered.getDefiningOp()))
        continue;
      Port port = makePort(gathered, op, getGatheringLoops(op, gathered));
      // Bodies say in which order they index it.
      if (!llvm::is_sorted(port.order))
        port = {gathered, op, {}, {}};
      gatheredOf[{op, gathered}] = addInput(std::move(port));
    }
    for (const TiledDim &dim : group.dims) {
      auto loop = dim.loopOf.find(op);
      if (loop == dim.loopOf.end() || !usesIndex(op, loop->second))
        continue;
      Value &all = positions[dim.size];
      if (!all)
        all = makePositions(builder, op->getLoc(), dim.size);
      positionsOf[{op, loop->second}] =
          addInput(makePort(all, op, loop->second));
    }
  }
  for (Value output : group.outputs)
    outputs.push_back(makePort(output, output.getDefiningOp(),
                               getResultLoops(output.getDefiningOp())));
}

/// What an input is outside of the loops.
Value LoopWriter::getOrdered(OpBuilder &builder, const Port &port) {
  if (llvm::is_sorted(port.order))
    return port.value;
  for (const auto &[order, value] : ordered[port.value])
    if (order == port.order)
      return value;
  const Value copy = storeInOrder(builder, port.value, port.order);
  ordered[port.value].push_back({port.order, copy});
  return copy;
}

/// What stands for an output outside of the loops.
Value LoopWriter::getOutput(OpBuilder &builder, const Port &port,
                            Value result) {
  if (llvm::is_sorted(port.order))
    return result;
  ordered[port.value].push_back({port.order, result});
  SmallVector<unsigned> inverse(port.order.size());
  for (auto [position, dim] : llvm::enumerate(port.order))
    inverse[dim] = unsigned(position);
  return storeInOrder(builder, result, inverse);
}

/// Whether the tensor has the dimension of the loop at `depth`.
bool LoopWriter::isTiled(const Port &port, size_t depth) const {
  auto loop = group.dims[depth].loopOf.find(port.op);
  return loop != group.dims[depth].loopOf.end() &&
         llvm::is_contained(port.loops, loop->second);
}

/// Of the tensor within `depth` loops; what is gathered from is whole.
RankedTensorType LoopWriter::getType(const Port &port, size_t depth) const {
  if (port.loops.empty())
    return cast<RankedTensorType>(port.value.getType());
  const SmallVector<int64_t> sizes = group.getTileLoops(port.op, depth);
  SmallVector<int64_t> shape;
  for (auto [position, loop] : llvm::enumerate(port.loops))
    shape.push_back(loop == wholeDim
                        ? cast<RankedTensorType>(port.value.getType())
                              .getDimSize(port.order[position])
                        : sizes[loop]);
  return RankedTensorType::get(shape, getElementTypeOrSelf(port.value));
}

static Value createEmpty(OpBuilder &builder, Value value,
                         RankedTensorType type) {
  return tensor::EmptyOp::create(builder, value.getLoc(), type, ValueRange());
}

/// `splat`, a constant or what is filled, in another size.
static Value createSplat(OpBuilder &builder, Value splat,
                         RankedTensorType type) {
  const Location loc = splat.getLoc();
  if (auto constant = splat.getDefiningOp<arith::ConstantOp>())
    return arith::ConstantOp::create(
        builder, loc,
        cast<SplatElementsAttr>(constant.getValue()).resizeSplat(type));
  auto fill = splat.getDefiningOp<linalg::FillOp>();
  IRMapping mapping;
  const Value scalar = cloneScalar(builder, fill.value(), mapping);
  return linalg::FillOp::create(builder, loc, scalar,
                                createEmpty(builder, splat, type))
      .getResult(0);
}

/// Whether `op` has a tile of what its body gathers from, along this dimension.
bool LoopWriter::isTileGathered(Operation *op, Value tensor, size_t dim) const {
  Operation *producer = tensor.getDefiningOp();
  const auto isLoopOf = [&](Operation *owner, unsigned loop) {
    return llvm::any_of(group.dims, [&](const TiledDim &tiled) {
      auto found = tiled.loopOf.find(owner);
      return found != tiled.loopOf.end() && found->second == loop;
    });
  };
  if (group.contains(producer))
    return isLoopOf(producer, getResultLoops(producer)[dim]);
  const Port &port = inputs[gatheredOf.at({op, tensor})];
  return !port.loops.empty() && isLoopOf(port.op, port.loops[dim]);
}

/// Has `op`, a tile of `source`, read positions along tiled loops.
void LoopWriter::usePositions(linalg::GenericOp op, Operation *source,
                              ArrayRef<Value> tiles) {
  OpBuilder builder(op);
  // A tile is read where it is.
  llvm::DenseSet<OpOperand *> inTile;
  for (auto [whole, tile] :
       llvm::zip_equal(cast<linalg::GenericOp>(source)
                           .getBody()
                           ->getOps<tensor::ExtractOp>(),
                       op.getBody()->getOps<tensor::ExtractOp>()))
    for (auto [dim, operand] : llvm::enumerate(tile.getIndicesMutable()))
      if (isTileGathered(source, whole.getTensor(), dim))
        inTile.insert(&operand);
  SmallVector<linalg::IndexOp> indices(op.getBody()->getOps<linalg::IndexOp>());
  llvm::DenseMap<unsigned, Value> arguments;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (linalg::IndexOp index : indices) {
    const auto loop = unsigned(index.getDim());
    auto input = positionsOf.find({source, loop});
    if (input == positionsOf.end())
      continue;
    Value &argument = arguments[loop];
    if (!argument) {
      const unsigned number = unsigned(op.getInputs().size());
      op.getInputsMutable().append(tiles[input->second]);
      argument = op.getBody()->insertArgument(number, builder.getI64Type(),
                                              index.getLoc());
      maps.insert(
          maps.begin() + number,
          AffineMap::get(op.getNumLoops(), 0, builder.getAffineDimExpr(loop)));
      op.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
    }
    builder.setInsertionPoint(index);
    const Value position = arith::IndexCastOp::create(
        builder, index.getLoc(), builder.getIndexType(), argument);
    index.getResult().replaceUsesWithIf(
        position, [&](OpOperand &use) { return !inTile.contains(&use); });
    if (index->use_empty())
      index.erase();
  }
}

/// The operations on one tile; returns their outputs.
SmallVector<Value> LoopWriter::writeBody(OpBuilder &builder,
                                         ArrayRef<Value> tiles,
                                         ArrayRef<Value> sums) {
  llvm::DenseMap<Value, std::pair<Value, const Port *>> made;
  const size_t depth = group.dims.size();
  for (Operation *op : group.ops) {
    auto source = cast<linalg::GenericOp>(op);
    IRMapping mapping;
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    for (Value value : captured) {
      if (auto gathered = gatheredOf.find({op, value});
          gathered != gatheredOf.end())
        mapping.map(value, tiles[gathered->second]);
      else if (auto inside = made.find(value); inside != made.end())
        mapping.map(value, inside->second.first);
      else
        cloneScalar(builder, value, mapping);
    }
    auto copy = cast<linalg::GenericOp>(builder.clone(*op, mapping));
    if (group.again.contains(op))
      copy->setLoc(
          withPhase(op->getLoc(), getPhase(group.outputs.back().getLoc())));
    builder.setInsertionPoint(copy);
    SmallVector<AffineMap> maps = source.getIndexingMapsArray();
    auto permute = [&](unsigned operand, ArrayRef<unsigned> order) {
      maps[operand] = maps[operand].getSubMap(order);
    };
    for (OpOperand &operand : op->getOpOperands()) {
      const unsigned number = operand.getOperandNumber();
      const Value value = operand.get();
      const bool isUsed = source.payloadUsesValueFromOperand(&operand);
      if (auto input = inputOf.find(&operand); input != inputOf.end()) {
        copy->setOperand(number, tiles[input->second]);
        permute(number, inputs[input->second].order);
        continue;
      }
      if (auto inside = made.find(value); isUsed && inside != made.end()) {
        copy->setOperand(number, inside->second.first);
        if (const Port *port = inside->second.second)
          permute(number, port->order);
        continue;
      }
      if (!isa<RankedTensorType>(value.getType())) {
        copy->setOperand(number, cloneScalar(builder, value, mapping));
        continue;
      }
      const RankedTensorType type =
          getType({value, op, {}, getLoops(source, operand)}, depth);
      copy->setOperand(number, isUsed ? createSplat(builder, value, type)
                                      : createEmpty(builder, value, type));
    }
    const Value result = op->getResult(0);
    const unsigned init = op->getNumOperands() - 1;
    const Port *port = nullptr;
    if (const auto *output = llvm::find(group.outputs, result);
        output != group.outputs.end()) {
      const auto number = size_t(output - group.outputs.begin());
      port = &outputs[number];
      permute(init, port->order);
      const RankedTensorType type = getType(*port, depth);
      const Value start = source.getDpsInits().front();
      if (sums[number])
        copy->setOperand(init, sums[number]);
      else
        copy->setOperand(init, getSplat(start)
                                   ? createSplat(builder, start, type)
                                   : createEmpty(builder, start, type));
    }
    copy.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
    copy->getResult(0).setType(copy->getOperand(init).getType());
    usePositions(copy, op, tiles);
    builder.setInsertionPointAfter(copy);
    made[result] = {copy->getResult(0), port};
  }
  return llvm::map_to_vector(
      group.outputs, [&](Value output) { return made.at(output).first; });
}

/// The loops from `depth` on. `sums` are what outputs add to, or null.
SmallVector<Value> LoopWriter::writeLoop(size_t depth, OpBuilder &builder,
                                         ArrayRef<Value> inputs,
                                         ArrayRef<Value> sums) {
  if (depth == group.dims.size())
    return writeBody(builder, inputs, sums);
  SmallVector<Value> initial, sliced, captured;
  SmallVector<Type> carriedTypes, stackedTypes;
  // Where each stands among the operands of its kind, then among arguments.
  SmallVector<unsigned> inputAt(inputs.size()), sumAt(outputs.size());
  for (auto [port, input, at] :
       llvm::zip_equal(this->inputs, inputs, inputAt)) {
    SmallVector<Value> &list = isTiled(port, depth) ? sliced : captured;
    at = unsigned(list.size());
    list.push_back(input);
  }
  for (auto [port, sum, at] : llvm::zip_equal(outputs, sums, sumAt)) {
    const RankedTensorType type = getType(port, depth);
    if (isTiled(port, depth)) {
      stackedTypes.push_back(type);
      at = unsigned(sliced.size());
      if (sum)
        sliced.push_back(sum);
      continue;
    }
    carriedTypes.push_back(type);
    at = unsigned(initial.size());
    const Value start = cast<linalg::GenericOp>(port.op).getDpsInits().front();
    initial.push_back(sum ? sum : createSplat(builder, start, type));
  }
  SmallVector<Type> types = carriedTypes;
  types.append(stackedTypes);
  const Location loc = group.outputs.back().getLoc();
  auto loop = steps::LoopOp::create(builder, loc, types, "tile",
                                    uint64_t(group.dims[depth].tiles), initial,
                                    sliced, captured, /*reverse=*/false);
  Block &body = loop.getBody().emplaceBlock();
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  for (Value value : initial)
    body.addArgument(value.getType(), value.getLoc());
  SmallVector<Value> tiles(inputs.size()), tileSums(outputs.size());
  SmallVector<Type> sliceTypes(sliced.size());
  for (auto [port, at] : llvm::zip_equal(this->inputs, inputAt))
    if (isTiled(port, depth))
      sliceTypes[at] = getType(port, depth + 1);
  for (auto [port, sum, at] : llvm::zip_equal(outputs, sums, sumAt))
    if (isTiled(port, depth) && sum)
      sliceTypes[at] = getType(port, depth + 1);
  for (auto [value, type] : llvm::zip_equal(sliced, sliceTypes))
    body.addArgument(type, value.getLoc());
  for (Value value : captured)
    body.addArgument(value.getType(), value.getLoc());
  for (auto [port, at, tile] : llvm::zip_equal(this->inputs, inputAt, tiles))
    tile = isTiled(port, depth) ? loop.getSlices()[at]
                                : loop.getCapturedArguments()[at];
  for (auto [port, sum, at, tile] :
       llvm::zip_equal(outputs, sums, sumAt, tileSums)) {
    if (!isTiled(port, depth))
      tile = loop.getCarriedArguments()[at];
    else if (sum)
      tile = loop.getSlices()[at];
  }
  const SmallVector<Value> made = writeLoop(depth + 1, inside, tiles, tileSums);
  SmallVector<Value> yielded, results(outputs.size());
  for (bool stacked : {false, true})
    for (auto [port, value, result] : llvm::zip_equal(outputs, made, results))
      if (isTiled(port, depth) == stacked) {
        result = loop.getResult(unsigned(yielded.size()));
        yielded.push_back(value);
      }
  steps::YieldOp::create(inside, loc, yielded);
  return results;
}

SmallVector<Value> LoopWriter::write() {
  findPorts();
  OpBuilder builder(group.ops.back()->getContext());
  builder.setInsertionPointAfter(group.ops.back());
  const auto values = llvm::map_to_vector(
      inputs, [&](const Port &port) { return getOrdered(builder, port); });
  SmallVector<Value> made =
      writeLoop(0, builder, values, SmallVector<Value>(outputs.size()));
  for (auto [port, value] : llvm::zip_equal(outputs, made))
    value = getOutput(builder, port, value);
  return made;
}

SmallVector<Value> meshc::codegen::writeTileLoops(const TileGroup &group,
                                                  OrderedValues &ordered) {
  return LoopWriter(group, ordered).write();
}
