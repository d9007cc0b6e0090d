// nd.gather and nd.put: what they must fulfil, partitioning, and puts on one
// device.

#include "dialect/ND.h"
#include "dialect/PartitionBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// What an element of an index says of a dimension of which this device owns a
/// range: whether that has the position, and where; anything if not.
static std::pair<Value, Value>
buildLocalPosition(OpBuilder &b, Location loc, Value element,
                   const PartitionBuilder::OwnedRange &range) {
  auto isBelow = [&](Value value, Value bound) -> Value {
    // An unsigned comparison also refuses what is negative.
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, value,
                                 bound);
  };
  Value global = arith::IndexCastOp::create(b, loc, b.getIndexType(), element);
  Value local = global;
  if (range.offset)
    local = arith::SubIOp::create(b, loc, global, range.offset);
  Value found =
      isBelow(local, arith::ConstantIndexOp::create(b, loc, range.blockSize));
  if (range.end)
    found = arith::AndIOp::create(b, loc, found, isBelow(global, range.end));
  return {found, local};
}

//===-- nd.gather ---------------------------------------------------------===//

LogicalResult GatherOp::verify() {
  NamedTensorType input = getInput().getType(), index = getIndex().getType();
  if (!input.hasDim(getDim()) || index.hasDim(getDim()))
    return emitOpError("(C1) the input, and not the index, needs a dimension "
                       "\"")
           << getDim() << "\"";
  for (DimAttr dim : index.getDims()) {
    int64_t position = input.findDim(dim.getName());
    if (position >= 0 && input.getDims()[position] != dim)
      return emitOpError("(C2) dimension ")
             << dim.getName() << " has two sizes";
  }
  size_t expected = 0;
  for (DimAttr dim : getUnionOfDims(*this))
    if (dim.getName() != getDimAttr()) {
      ++expected;
      if (!llvm::is_contained(getType().getDims(), dim))
        return emitOpError("(C3) the result lacks dimension ") << dim.getName();
    }
  if (expected != getType().getDims().size() ||
      getType().getElementType() != input.getElementType())
    return emitOpError("(C3) the result has the input's dimensions without \"")
           << getDim()
           << "\", united with the index's, and the input's element type";
  return success();
}

DimUse GatherOp::getDimUse(StringRef dim) {
  if (dim != getDim())
    return DimUse::parallel();
  // One device finds the element, the others 0 (false).
  return DimUse::reduced(getType().getElementType().isInteger(1)
                             ? ReduceKind::Max
                             : ReduceKind::Sum);
}

DimAccess GatherOp::getOperandAccess(unsigned, StringAttr dim) {
  return dim == getDimAttr() ? DimAccess::indexed(dim) : DimAccess::itself(dim);
}

PartialUse GatherOp::getPartialUse(unsigned operand, ReduceKind kind) {
  return operand == 0 && kind == ReduceKind::Sum ? PartialUse::Alone
                                                 : PartialUse::Complete;
}

LocalResults GatherOp::buildLocal(PartitionBuilder &builder,
                                  ValueRange shards) {
  NamedTensorType inputType = getInput().getType();
  PartitionBuilder::OwnedRange range =
      builder.buildOwnedRange(inputType, getDim());
  NamedTensorType result = getType();
  Value input = shards[0];
  Value picked = builder.buildPointwise(
      result, {builder.getOperands(*this, shards)[1]},
      [&](OpBuilder &b, Location loc, ValueRange x,
          PartitionBuilder::GlobalIndex) -> Value {
        auto [found, local] = buildLocalPosition(b, loc, x[0], range);
        Value position = arith::SelectOp::create(
            b, loc, found, local, arith::ConstantIndexOp::create(b, loc, 0));
        // Dimensions of the input are loops of the result, all but this one.
        SmallVector<Value> indices;
        for (DimAttr dim : inputType.getDims())
          indices.push_back(dim.getName() == getDimAttr()
                                ? position
                                : Value(linalg::IndexOp::create(
                                      b, loc, result.findDim(dim.getName()))));
        Value element = tensor::ExtractOp::create(b, loc, input, indices);
        TypedAttr zero = b.getZeroAttr(getSignless(result.getElementType()));
        return arith::SelectOp::create(b, loc, found, element,
                                       arith::ConstantOp::create(b, loc, zero));
      });
  return SmallVector{picked};
}

//===-- nd.put ------------------------------------------------------------===//

LogicalResult PutOp::verify() {
  NamedTensorType input = getInput().getType(), index = getIndex().getType(),
                  result = getType();
  if (!result.hasDim(getDim()) || input.hasDim(getDim()) ||
      index.hasDim(getDim()))
    return emitOpError("(C1) the result alone needs a dimension \"")
           << getDim() << "\"";
  for (NamedTensorType type : {index, result})
    for (DimAttr dim : type.getDims()) {
      if (dim.getName() == getDimAttr())
        continue;
      int64_t position = input.findDim(dim.getName());
      if (position < 0)
        return emitOpError("(C3) the input lacks dimension ") << dim.getName();
      if (input.getDims()[position] != dim)
        return emitOpError("(C2) dimension ")
               << dim.getName() << " has two sizes";
    }
  for (DimAttr dim : input.getDims())
    if (!index.hasDim(dim.getName()) && !result.hasDim(dim.getName()))
      return emitOpError("(C3) neither the index nor the result has dimension ")
             << dim.getName();
  auto element = cast<FloatType>(input.getElementType());
  if (result.getElementType() != element &&
      (!result.getElementType().isF32() || element.getWidth() >= 32))
    return emitOpError("(C4) adds ")
           << element << " up to " << result.getElementType();
  return success();
}

DimUse PutOp::getDimUse(StringRef dim) {
  return getType().hasDim(dim) ? DimUse::parallel()
                               : DimUse::reduced(ReduceKind::Sum);
}

PartialUse PutOp::getPartialUse(unsigned operand, ReduceKind kind) {
  return operand == 0 && kind == ReduceKind::Sum ? PartialUse::Alone
                                                 : PartialUse::Complete;
}

/// The block of the index by positions of this device's block of the result; -1
/// is none, and so is what lies in padding of a dimension that is summed.
static Value buildLocalIndex(PutOp op, PartitionBuilder &builder, Value shard) {
  NamedTensorType type = op.getIndex().getType(), result = op.getType();
  const PartitionBuilder::OwnedRange range =
      builder.buildOwnedRange(result, op.getDim());
  SmallVector<std::pair<StringRef, Value>> ends;
  for (DimAttr dim : type.getDims())
    if (!result.hasDim(dim.getName()))
      if (Value end = builder.buildOwnedRange(type, dim.getName()).end)
        ends.emplace_back(dim.getName(), end);
  if (!range.offset && ends.empty())
    return shard;
  return builder.buildPointwise(
      type, {{shard, type}},
      [&](OpBuilder &b, Location loc, ValueRange x,
          PartitionBuilder::GlobalIndex globalIndex) -> Value {
        auto [found, local] = buildLocalPosition(b, loc, x[0], range);
        for (auto [dim, end] : ends)
          found = arith::AndIOp::create(
              b, loc, found,
              arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                    globalIndex(dim), end));
        Type element = x[0].getType();
        Value position = arith::IndexCastOp::create(b, loc, element, local);
        Value none =
            arith::ConstantOp::create(b, loc, b.getIntegerAttr(element, -1));
        return arith::SelectOp::create(b, loc, found, position, none);
      });
}

LocalResults PutOp::buildLocal(PartitionBuilder &builder, ValueRange shards) {
  Value index = buildLocalIndex(*this, builder, shards[1]);
  OpBuilder &b = builder.getBuilder();
  const SmallVector<DimAttr> loops = getIterationDims();
  SmallVector<AffineMap> maps;
  for (NamedTensorType type :
       {getInput().getType(), getIndex().getType(), getType()}) {
    SmallVector<AffineExpr> dims;
    for (DimAttr dim : type.getDims())
      dims.push_back(
          b.getAffineDimExpr(unsigned(llvm::find(loops, dim) - loops.begin())));
    maps.push_back(
        AffineMap::get(unsigned(loops.size()), 0, dims, b.getContext()));
  }
  return SmallVector<Value>{spmd::PutOp::create(
      b, builder.getLoc(), getLocalType(getType(), builder.getMesh()),
      shards[0], index, b.getAffineMapArrayAttr(maps))};
}

//===-- spmd.put ----------------------------------------------------------===//

LogicalResult spmd::verifyPut(Operation *op, Value inputValue, Value indexValue,
                              ArrayAttr indexingMaps, Value resultValue) {
  auto maps = llvm::to_vector(indexingMaps.getAsValueRange<AffineMapAttr>());
  if (maps.size() != 3)
    return op->emitOpError("(C1) needs three indexing maps");
  auto input = cast<RankedTensorType>(inputValue.getType());
  auto index = cast<RankedTensorType>(indexValue.getType());
  auto result = cast<RankedTensorType>(resultValue.getType());
  RankedTensorType types[] = {input, index, result};
  const unsigned numLoops = maps[0].getNumDims();
  SmallVector<int64_t> sizes(numLoops, -1);
  for (auto [map, type] : llvm::zip_equal(maps, types)) {
    if (map.getNumDims() != numLoops || map.getNumSymbols() != 0 ||
        !map.isProjectedPermutation() || map.getNumResults() != type.getRank())
      return op->emitOpError("(C1) has the indexing map ")
             << AffineMapAttr::get(map) << " of " << type;
    for (auto [position, size] : llvm::enumerate(type.getShape())) {
      int64_t &known = sizes[map.getDimPosition(unsigned(position))];
      if (known >= 0 && known != size)
        return op->emitOpError("(C1) has a loop of the sizes ")
               << known << " and " << size;
      known = size;
    }
  }
  unsigned numPositions = 0;
  for (unsigned loop = 0; loop < numLoops; ++loop) {
    const bool isRead = maps[0].isFunctionOfDim(loop);
    const bool isIndexed = maps[1].isFunctionOfDim(loop);
    const bool isKept = maps[2].isFunctionOfDim(loop);
    if (!isRead && !isIndexed && isKept)
      ++numPositions;
    else if (!isRead || (!isIndexed && !isKept))
      return op->emitOpError("(C2) does not say what loop ") << loop << " is";
  }
  if (numPositions != 1)
    return op->emitOpError("(C2) has ")
           << numPositions << " loops of the result alone, expected 1";
  auto element = dyn_cast<FloatType>(input.getElementType());
  Type sum = result.getElementType();
  if (!element || !(sum.isF32() ? element.getWidth() <= 32
                                : sum == element && element.getWidth() > 32))
    return op->emitOpError("(C3) adds ")
           << input.getElementType() << " up to " << sum;
  if (!index.getElementType().isInteger(32) &&
      !index.getElementType().isInteger(64))
    return op->emitOpError("(C3) has an index of ") << index.getElementType();
  return success();
}

LogicalResult spmd::PutOp::verify() {
  return verifyPut(*this, getInput(), getIndex(), getIndexingMaps(),
                   getResult());
}

/// Whether each element of the index is each position, along a new first
/// dimension: once, and not for each element of the input.
static Value buildIsHere(spmd::PutOp put, OpBuilder &builder,
                         int64_t numPositions) {
  Location loc = put.getLoc();
  auto type = cast<RankedTensorType>(put.getIndex().getType());
  // There may be more positions than the index can name.
  Type element = type.getElementType();
  if (element.isInteger(32) && !llvm::isInt<32>(numPositions - 1))
    element = builder.getI64Type();
  SmallVector<int64_t> shape = {numPositions};
  llvm::append_range(shape, type.getShape());
  const auto rank = unsigned(shape.size());
  AffineMap all = builder.getMultiDimIdentityMap(rank);
  Value empty =
      tensor::EmptyOp::create(builder, loc, shape, builder.getI1Type());
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, empty.getType(), put.getIndex(), empty,
             {all.dropResult(0), all}, iterators,
             [&](OpBuilder &b, Location loc, ValueRange x) {
               Value position = arith::IndexCastOp::create(
                   b, loc, element, linalg::IndexOp::create(b, loc, 0));
               Value index = x[0];
               if (index.getType() != element)
                 index = arith::ExtSIOp::create(b, loc, element, index);
               Value isHere = arith::CmpIOp::create(
                   b, loc, arith::CmpIPredicate::eq, position, index);
               linalg::YieldOp::create(b, loc, isHere);
             })
      .getResult(0);
}

Value spmd::PutOp::buildGeneric(OpBuilder &builder) {
  Location loc = getLoc();
  auto maps =
      llvm::to_vector(getIndexingMaps().getAsValueRange<AffineMapAttr>());
  unsigned positions = 0; // the loop
  SmallVector<utils::IteratorType> iterators;
  for (unsigned loop = 0; loop < maps[0].getNumDims(); ++loop) {
    const bool isKept = maps[2].isFunctionOfDim(loop);
    if (isKept && !maps[0].isFunctionOfDim(loop))
      positions = loop;
    iterators.push_back(isKept ? utils::IteratorType::parallel
                               : utils::IteratorType::reduction);
  }
  AffineExpr position = builder.getAffineDimExpr(positions);
  const int64_t numPositions =
      getType().getDimSize(*maps[2].getResultPosition(position));
  Value isHere = buildIsHere(*this, builder, numPositions);
  maps[1] = maps[1].insertResult(position, 0);
  Type sumType = getType().getElementType();
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sumType));
  Value empty =
      tensor::EmptyOp::create(builder, loc, getType().getShape(), sumType);
  Value init =
      linalg::FillOp::create(builder, loc, ValueRange(zero), ValueRange(empty))
          .getResult(0);
  return linalg::GenericOp::create(
             builder, loc, getType(), ValueRange{getInput(), isHere}, init,
             maps, iterators,
             [&](OpBuilder &b, Location loc, ValueRange x) {
               Value term = x[0];
               if (term.getType() != sumType)
                 term = arith::ExtFOp::create(b, loc, sumType, term);
               Value none =
                   arith::ConstantOp::create(b, loc, b.getZeroAttr(sumType));
               term = arith::SelectOp::create(b, loc, x[1], term, none);
               Value sum = arith::AddFOp::create(b, loc, x[2], term);
               linalg::YieldOp::create(b, loc, sum);
             })
      .getResult(0);
}
