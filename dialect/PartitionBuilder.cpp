#include "dialect/PartitionBuilder.h"

#include "layout/AxisParts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// Whether some device's block of dimension `dim` holds padding.
static bool hasPadding(NamedTensorType type, StringRef dim,
                       const layout::Mesh &mesh) {
  int64_t position = type.findDim(dim);
  return !layout::dividesEvenly(
      type.getSizes()[position],
      layout::joinParts(getSharding(type, mesh).dims[position]));
}

namespace {

/// One loop of a `linalg` operation: its name and a tensor with a dimension
/// that is it.
struct Loop {
  StringAttr name;
  NamedTensorType type; ///< its split says which part this device computes
  StringRef dimInType;
};

/// The loops of an operation: dimensions of the result, then those only
/// operands have, in the order in which they first occur.
class LoopNest {
public:
  LoopNest(NamedTensorType result,
           ArrayRef<PartitionBuilder::Operand> operands) {
    for (DimAttr dim : result.getDims())
      add(dim.getName(), result, dim.getName());
    numResultLoops = loops.size();
    for (const PartitionBuilder::Operand &operand : operands)
      for (auto [index, dim] : llvm::enumerate(operand.type.getDims()))
        if (StringAttr loop = operand.getLoop(index))
          add(loop, operand.type, dim.getName());
  }

  ArrayRef<Loop> getLoops() const { return loops; }
  ArrayRef<Loop> getReduced() const {
    return ArrayRef(loops).drop_front(numResultLoops);
  }
  std::optional<unsigned> find(StringRef name) const {
    for (auto [index, loop] : llvm::enumerate(loops))
      if (loop.name == name)
        return unsigned(index);
    return std::nullopt;
  }

  AffineMap getMap(const PartitionBuilder::Operand &operand,
                   MLIRContext *context) const {
    SmallVector<AffineExpr> exprs;
    for (size_t i = 0; i < operand.type.getDims().size(); ++i)
      if (StringAttr loop = operand.getLoop(i))
        exprs.push_back(getAffineDimExpr(*find(loop), context));
      else
        exprs.push_back(getExpr(operand.accesses[i], context));
    return AffineMap::get(loops.size(), 0, exprs, context);
  }
  SmallVector<utils::IteratorType> getIteratorTypes() const {
    SmallVector<utils::IteratorType> types(loops.size(),
                                           utils::IteratorType::reduction);
    std::fill_n(types.begin(), numResultLoops, utils::IteratorType::parallel);
    return types;
  }

private:
  AffineExpr getExpr(const DimAccess &access, MLIRContext *context) const {
    const layout::Access form = access.getForm();
    AffineExpr sum = getAffineConstantExpr(form.getOffset(), context);
    for (const layout::AccessTerm &term : form.getTerms())
      sum =
          sum + getAffineDimExpr(*find(access.getLoops()[term.loop]), context) *
                    term.factor;
    switch (form.getKind()) {
    case layout::Access::Kind::Exact:
      assert(form.getDivisor() == 1 && "not every position is whole");
      return sum;
    case layout::Access::Kind::Floor:
      return sum.floorDiv(form.getDivisor());
    case layout::Access::Kind::Modulo:
      return sum % form.getDivisor();
    case layout::Access::Kind::Indexed:
      break;
    }
    llvm_unreachable("a tensor says where");
  }

  void add(StringAttr name, NamedTensorType type, StringRef dimInType) {
    if (!find(name))
      loops.push_back({name, type, dimInType});
  }

  SmallVector<Loop> loops;
  size_t numResultLoops = 0;
};

/// Positions along the loops, inside the body of an operation. What depends on
/// the device alone is computed in front of the operation.
class Positions {
public:
  Positions(PartitionBuilder &outer, const LoopNest &nest)
      : outer(outer), nest(nest), ranges(nest.getLoops().size()) {}

  Value getGlobalIndex(OpBuilder &b, Location loc, StringRef name) {
    std::optional<unsigned> loop = nest.find(name);
    assert(loop && "a body asks for a loop the operation lacks");
    Value local = linalg::IndexOp::create(b, loc, *loop);
    const PartitionBuilder::OwnedRange &range = getRange(*loop);
    if (!range.offset)
      return local;
    return arith::AddIOp::create(b, loc, local, range.offset);
  }

  /// Whether the position along `loop` is no padding; null if it never is.
  Value isOwned(OpBuilder &b, Location loc, const Loop &loop) {
    if (!hasPadding(loop.type, loop.dimInType, outer.getMesh()))
      return {};
    Value end = getRange(*nest.find(loop.name)).end;
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                 getGlobalIndex(b, loc, loop.name), end);
  }

  /// `value` where no reduced loop is in padding, else `otherwise`.
  Value mask(OpBuilder &b, Location loc, Value value, TypedAttr otherwise) {
    Value owned;
    for (const Loop &loop : nest.getReduced())
      if (Value here = isOwned(b, loc, loop))
        owned = owned ? arith::AndIOp::create(b, loc, owned, here) : here;
    if (!owned)
      return value;
    return arith::SelectOp::create(
        b, loc, owned, value, arith::ConstantOp::create(b, loc, otherwise));
  }

private:
  /// The range is built in front of the operation, whose builder is not the
  /// body's.
  const PartitionBuilder::OwnedRange &getRange(unsigned loop) {
    if (!ranges[loop]) {
      const Loop &info = nest.getLoops()[loop];
      ranges[loop] = outer.buildOwnedRange(info.type, info.dimInType);
    }
    return *ranges[loop];
  }

  PartitionBuilder &outer;
  const LoopNest &nest;
  SmallVector<std::optional<PartitionBuilder::OwnedRange>> ranges;
};

} // namespace

SmallVector<PartitionBuilder::Operand>
PartitionBuilder::getOperands(PartitionOpInterface op, ValueRange shards) {
  SmallVector<Operand> operands;
  for (auto [index, shard] : llvm::enumerate(shards)) {
    auto type = cast<NamedTensorType>(op->getOperand(index).getType());
    Operand operand{shard, type};
    for (DimAttr dim : type.getDims())
      operand.accesses.push_back(op.getOperandAccess(index, dim.getName()));
    operands.push_back(std::move(operand));
  }
  return operands;
}

PartitionBuilder::OwnedRange
PartitionBuilder::buildOwnedRange(NamedTensorType type, StringRef dim) {
  int64_t position = type.findDim(dim);
  int64_t size = type.getSizes()[position];
  layout::DimSplit split =
      layout::joinParts(getSharding(type, mesh).dims[position]);
  auto indexConstant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };

  OwnedRange range;
  range.blockSize = size;
  for (layout::AxisRef part : split) {
    // An uneven cut leaves padding behind the end of the block that was cut.
    if (range.blockSize % part.size) {
      Value end = indexConstant(range.blockSize);
      if (range.offset) {
        end = arith::AddIOp::create(builder, loc, range.offset, end);
        if (range.end)
          end = arith::MinSIOp::create(builder, loc, range.end, end);
      }
      range.end = end;
    }
    range.blockSize = llvm::divideCeil(range.blockSize, part.size);
    Value coordinate = spmd::AxisIndexOp::create(
        builder, loc, builder.getIndexType(),
        getAxisRefAttr(builder.getContext(), part, mesh));
    Value begin = arith::MulIOp::create(builder, loc, coordinate,
                                        indexConstant(range.blockSize));
    range.offset =
        range.offset ? arith::AddIOp::create(builder, loc, range.offset, begin)
                     : begin;
  }
  return range;
}

/// A tensor of the local shape of `type`, uninitialised.
static Value buildEmpty(OpBuilder &builder, Location loc, NamedTensorType type,
                        const layout::Mesh &mesh) {
  RankedTensorType local = getLocalType(type, mesh);
  return tensor::EmptyOp::create(builder, loc, local.getShape(),
                                 local.getElementType());
}

static Value buildFilled(OpBuilder &builder, Location loc, NamedTensorType type,
                         const layout::Mesh &mesh, TypedAttr value) {
  Value empty = buildEmpty(builder, loc, type, mesh);
  Value scalar = arith::ConstantOp::create(builder, loc, value);
  return linalg::FillOp::create(builder, loc, ValueRange(scalar),
                                ValueRange(empty))
      .getResult(0);
}

Value PartitionBuilder::buildPointwise(NamedTensorType result,
                                       ArrayRef<Operand> operands, Body body) {
  Value init = buildEmpty(builder, loc, result, mesh);
  return buildGeneric(result, operands, std::nullopt, init, body);
}

Value PartitionBuilder::buildReduction(NamedTensorType result,
                                       ArrayRef<Operand> operands,
                                       ReduceKind kind, Body body) {
  Value init = buildFilled(builder, loc, result, mesh,
                           getIdentity(kind, result.getElementType()));
  return buildGeneric(result, operands, kind, init, body);
}

Value PartitionBuilder::buildGeneric(NamedTensorType result,
                                     ArrayRef<Operand> operands,
                                     std::optional<ReduceKind> kind, Value init,
                                     Body body) {
  LoopNest nest(result, operands);
  assert((kind || nest.getReduced().empty()) &&
         "a pointwise result has every dimension of its operands");
  SmallVector<AffineMap> maps;
  SmallVector<Value> shards;
  for (const Operand &operand : operands) {
    maps.push_back(nest.getMap(operand, builder.getContext()));
    shards.push_back(operand.shard);
  }
  maps.push_back(nest.getMap({init, result}, builder.getContext()));

  Positions positions(*this, nest);
  // The operation is built first so that ranges can be put in front of it while
  // its body is filled.
  auto op = linalg::GenericOp::create(builder, loc, init.getType(), shards,
                                      init, maps, nest.getIteratorTypes());
  Block *block = builder.createBlock(&op.getRegion());
  for (Value value : op->getOperands())
    block->addArgument(cast<RankedTensorType>(value.getType()).getElementType(),
                       loc);
  OpBuilder inner = OpBuilder::atBlockEnd(block);
  builder.setInsertionPoint(op);
  auto globalIndex = [&](StringRef dim) {
    return positions.getGlobalIndex(inner, loc, dim);
  };
  Value scalar =
      body(inner, loc, block->getArguments().drop_back(), globalIndex);
  if (kind) {
    scalar = positions.mask(inner, loc, scalar,
                            getIdentity(*kind, result.getElementType()));
    scalar = combine(inner, loc, *kind, block->getArguments().back(), scalar);
  }
  linalg::YieldOp::create(inner, loc, scalar);
  builder.setInsertionPointAfter(op);
  return op.getResult(0);
}

/// `operand` with zeros where dimensions that `result` lacks are padding.
static PartitionBuilder::Operand
clearPadding(PartitionBuilder &builder, NamedTensorType result,
             const PartitionBuilder::Operand &operand) {
  SmallVector<StringRef> uneven;
  for (auto [index, dim] : llvm::enumerate(operand.type.getDims()))
    if (StringAttr loop = operand.getLoop(index);
        loop && !result.hasDim(loop) &&
        hasPadding(operand.type, dim.getName(), builder.getMesh()))
      uneven.push_back(dim.getName());
  if (uneven.empty())
    return operand;

  SmallVector<Value> ends;
  for (StringRef dim : uneven)
    ends.push_back(builder.buildOwnedRange(operand.type, dim).end);
  TypedAttr zero = PartitionBuilder::getIdentity(ReduceKind::Sum,
                                                 operand.type.getElementType());
  Value cleared = builder.buildPointwise(
      operand.type, {{operand.shard, operand.type}},
      [&](OpBuilder &b, Location loc, ValueRange x,
          PartitionBuilder::GlobalIndex globalIndex) -> Value {
        Value owned;
        for (auto [dim, end] : llvm::zip_equal(uneven, ends)) {
          Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                             globalIndex(dim), end);
          owned = owned ? arith::AndIOp::create(b, loc, owned, here) : here;
        }
        return arith::SelectOp::create(b, loc, owned, x[0],
                                       arith::ConstantOp::create(b, loc, zero));
      });
  return {cleared, operand.type, operand.accesses};
}

Value PartitionBuilder::buildContraction(NamedTensorType result,
                                         const Operand &lhs,
                                         const Operand &rhs) {
  Operand cleared[] = {clearPadding(*this, result, lhs),
                       clearPadding(*this, result, rhs)};
  LoopNest nest(result, cleared);
  MLIRContext *context = builder.getContext();
  // 16-bit products are added up in f32 and rounded at the end.
  Type elementType = result.getElementType();
  Type sumType = elementType.getIntOrFloatBitWidth() < 32
                     ? Type(builder.getF32Type())
                     : elementType;
  Value init = buildFilled(builder, loc, result.withElementType(sumType), mesh,
                           getIdentity(ReduceKind::Sum, sumType));
  SmallVector<AffineMap> maps = {nest.getMap(cleared[0], context),
                                 nest.getMap(cleared[1], context),
                                 nest.getMap({init, result}, context)};
  auto op = linalg::GenericOp::create(
      builder, loc, init.getType(),
      ValueRange{cleared[0].shard, cleared[1].shard}, init, maps,
      nest.getIteratorTypes(), [&](OpBuilder &b, Location loc, ValueRange x) {
        auto widen = [&](Value factor) -> Value {
          if (factor.getType() == sumType)
            return factor;
          return arith::ExtFOp::create(b, loc, sumType, factor);
        };
        Value lhs = widen(x[0]), rhs = widen(x[1]);
        Value product = arith::MulFOp::create(b, loc, lhs, rhs);
        Value sum = arith::AddFOp::create(b, loc, x[2], product);
        linalg::YieldOp::create(b, loc, sum);
      });
  if (sumType == elementType)
    return op.getResult(0);
  return buildPointwise(
      result, {{op.getResult(0), result.withElementType(sumType)}},
      [&](OpBuilder &b, Location loc, ValueRange x, GlobalIndex) -> Value {
        return arith::TruncFOp::create(b, loc, elementType, x[0]);
      });
}

TypedAttr PartitionBuilder::getIdentity(ReduceKind kind, Type elementType) {
  elementType = getSignless(elementType);
  if (auto type = dyn_cast<FloatType>(elementType)) {
    const llvm::fltSemantics &semantics = type.getFloatSemantics();
    switch (kind) {
    case ReduceKind::Sum:
      return FloatAttr::get(type, APFloat::getZero(semantics));
    case ReduceKind::Max:
      return FloatAttr::get(type, APFloat::getInf(semantics, true));
    case ReduceKind::Min:
      return FloatAttr::get(type, APFloat::getInf(semantics));
    }
    llvm_unreachable("not a reduce kind");
  }
  unsigned width = elementType.getIntOrFloatBitWidth();
  bool isBoolean = width == 1;
  switch (kind) {
  case ReduceKind::Sum:
    return IntegerAttr::get(elementType, APInt(width, 0));
  case ReduceKind::Max:
    return IntegerAttr::get(
        elementType, isBoolean ? APInt(1, 0) : APInt::getSignedMinValue(width));
  case ReduceKind::Min:
    return IntegerAttr::get(
        elementType, isBoolean ? APInt(1, 1) : APInt::getSignedMaxValue(width));
  }
  llvm_unreachable("not a reduce kind");
}

Value PartitionBuilder::combine(OpBuilder &b, Location loc, ReduceKind kind,
                                Value lhs, Value rhs) {
  bool isFloat = isa<FloatType>(lhs.getType());
  bool isBoolean = lhs.getType().isInteger(1);
  switch (kind) {
  case ReduceKind::Sum:
    if (isFloat)
      return arith::AddFOp::create(b, loc, lhs, rhs);
    return arith::AddIOp::create(b, loc, lhs, rhs);
  case ReduceKind::Max:
    if (isFloat)
      return arith::MaximumFOp::create(b, loc, lhs, rhs);
    if (isBoolean)
      return arith::OrIOp::create(b, loc, lhs, rhs);
    return arith::MaxSIOp::create(b, loc, lhs, rhs);
  case ReduceKind::Min:
    if (isFloat)
      return arith::MinimumFOp::create(b, loc, lhs, rhs);
    if (isBoolean)
      return arith::AndIOp::create(b, loc, lhs, rhs);
    return arith::MinSIOp::create(b, loc, lhs, rhs);
  }
  llvm_unreachable("not a reduce kind");
}
