// PartitionOpInterface of everything that is not elementwise: how an operation
// uses its loops, and its form on one device's blocks.

#include "dialect/ND.h"
#include "dialect/PartitionBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// `value`, an index, as `type`: a position as an element of a tensor.
static Value castIndex(OpBuilder &b, Location loc, Value value, Type type) {
  if (isa<IntegerType>(type))
    return arith::IndexCastOp::create(b, loc, type, value);
  Value integer = arith::IndexCastOp::create(b, loc, b.getI64Type(), value);
  return arith::SIToFPOp::create(b, loc, type, integer);
}

//===-- Sources -----------------------------------------------------------===//

DimUse ConstantOp::getDimUse(StringRef) { return DimUse::parallel(); }

LocalResults ConstantOp::buildLocal(PartitionBuilder &builder, ValueRange) {
  RankedTensorType local = getLocalType(getType(), builder.getMesh());
  TypedAttr value = getValue();
  if (auto integer = dyn_cast<IntegerAttr>(value))
    value = IntegerAttr::get(local.getElementType(), integer.getValue());
  auto splat = DenseElementsAttr::get(local, ArrayRef(Attribute(value)));
  return SmallVector<Value>{
      arith::ConstantOp::create(builder.getBuilder(), builder.getLoc(), splat)};
}

DimUse IotaOp::getDimUse(StringRef) { return DimUse::parallel(); }

LocalResults IotaOp::buildLocal(PartitionBuilder &builder, ValueRange) {
  NamedTensorType type = getType();
  StringRef dim = type.getDims().front().getName();
  Value result = builder.buildPointwise(
      type, {},
      [&](OpBuilder &b, Location loc, ValueRange,
          PartitionBuilder::GlobalIndex globalIndex) {
        return castIndex(b, loc, globalIndex(dim), type.getElementType());
      });
  return SmallVector{result};
}

DimUse RandomOp::getDimUse(StringRef) { return DimUse::parallel(); }

namespace {
/// One block of Philox4x32-10 on i32 scalars. Source: Salmon, Moraes, Dror,
/// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, and its
/// constants.
struct Philox {
  OpBuilder &b;
  Location loc;

  Value constant(uint32_t value) {
    return arith::ConstantOp::create(b, loc,
                                     b.getI32IntegerAttr(int32_t(value)));
  }
  /// Low and high word of a 64-bit value.
  std::pair<Value, Value> getWords(Value value) {
    Value shift = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(32));
    Value high = arith::ShRUIOp::create(b, loc, value, shift);
    return {arith::TruncIOp::create(b, loc, b.getI32Type(), value),
            arith::TruncIOp::create(b, loc, b.getI32Type(), high)};
  }
  /// Low and high word of `factor` times `value`.
  std::pair<Value, Value> multiply(uint32_t factor, Value value) {
    Value wide = arith::ExtUIOp::create(b, loc, b.getI64Type(), value);
    Value product = arith::MulIOp::create(
        b, loc, wide,
        arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(factor)));
    return getWords(product);
  }
  Value exclusiveOr(Value x, Value y, Value z) {
    return arith::XOrIOp::create(b, loc, arith::XOrIOp::create(b, loc, x, y),
                                 z);
  }

  /// The first two words of the block for a 64-bit key and counter.
  std::pair<Value, Value> generate(Value key, Value counter) {
    auto [key0, key1] = getWords(key);
    auto [c0, c1] = getWords(counter);
    Value c2 = constant(0), c3 = constant(0);
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        key0 = arith::AddIOp::create(b, loc, key0, constant(0x9E3779B9));
        key1 = arith::AddIOp::create(b, loc, key1, constant(0xBB67AE85));
      }
      auto [low0, high0] = multiply(0xD2511F53, c0);
      auto [low1, high1] = multiply(0xCD9E8D57, c2);
      c0 = exclusiveOr(high1, c1, key0);
      c1 = low1;
      c2 = exclusiveOr(high0, c3, key1);
      c3 = low0;
    }
    return {c0, c1};
  }

  /// A word as a number in (0, 1): its upper 24 bits and a half.
  Value toUnit(Value word, FloatType type) {
    Value upper = arith::ShRUIOp::create(b, loc, word, constant(8));
    // The upper bits are below 2^24, so a signed conversion is exact.
    Value number = arith::SIToFPOp::create(b, loc, type, upper);
    return math::FmaOp::create(b, loc, number, toFloat(0x1p-24, type),
                               toFloat(0x1p-25, type));
  }
  Value toFloat(double value, FloatType type) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  }
};
} // namespace

LocalResults RandomOp::buildLocal(PartitionBuilder &builder,
                                  ValueRange shards) {
  NamedTensorType type = getType();
  auto elementType = cast<FloatType>(type.getElementType());
  // Half precision has too few bits for the transform; it is rounded at the
  // end.
  FloatType computeType = elementType.getWidth() < 32
                              ? FloatType(builder.getBuilder().getF32Type())
                              : elementType;
  Value result = builder.buildPointwise(
      type, builder.getOperands(*this, shards),
      [&](OpBuilder &b, Location loc, ValueRange x,
          PartitionBuilder::GlobalIndex globalIndex) -> Value {
        Value counter = arith::ConstantIndexOp::create(b, loc, 0);
        for (DimAttr dim : type.getDims()) {
          Value size = arith::ConstantIndexOp::create(b, loc, dim.getSize());
          counter = arith::AddIOp::create(
              b, loc, arith::MulIOp::create(b, loc, counter, size),
              globalIndex(dim.getName()));
        }
        counter = arith::IndexCastOp::create(b, loc, b.getI64Type(), counter);
        Philox philox{b, loc};
        Value key = arith::XOrIOp::create(
            b, loc, x[0],
            arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(getKey())));
        auto [word0, word1] = philox.generate(key, counter);
        auto number = [&](double value) {
          return philox.toFloat(value, computeType);
        };
        double first = getFirst().convertToDouble();
        double second = getSecond().convertToDouble();
        Value unit = philox.toUnit(word0, computeType);
        Value scale;
        switch (getDistribution()) {
        case Distribution::Uniform:
          scale = number(second - first);
          break;
        case Distribution::Normal: {
          Value radius = math::SqrtOp::create(
              b, loc,
              arith::MulFOp::create(b, loc, number(-2),
                                    math::LogOp::create(b, loc, unit)));
          Value angle =
              arith::MulFOp::create(b, loc, number(2 * llvm::numbers::pi),
                                    philox.toUnit(word1, computeType));
          unit = arith::MulFOp::create(b, loc, radius,
                                       math::CosOp::create(b, loc, angle));
          scale = number(second);
          break;
        }
        }
        Value result = math::FmaOp::create(b, loc, scale, unit, number(first));
        if (computeType != elementType)
          result = arith::TruncFOp::create(b, loc, elementType, result);
        return result;
      });
  return SmallVector{result};
}

//===-- Contractions and reductions ---------------------------------------===//

DimUse EinsumOp::getDimUse(StringRef dim) {
  return getType().hasDim(dim) ? DimUse::parallel()
                               : DimUse::reduced(ReduceKind::Sum);
}

PartialUse EinsumOp::getPartialUse(unsigned, ReduceKind kind) {
  return kind == ReduceKind::Sum ? PartialUse::Alone : PartialUse::Complete;
}

LocalResults EinsumOp::buildLocal(PartitionBuilder &builder,
                                  ValueRange shards) {
  auto getInputType = [&](unsigned input) {
    return cast<NamedTensorType>(getInputs()[input].getType());
  };
  auto isInBoth = [&](DimAttr dim) {
    return getType().hasDim(dim.getName()) ||
           (getInputType(0).hasDim(dim.getName()) &&
            getInputType(1).hasDim(dim.getName()));
  };
  if (getInputs().size() != 2 || !llvm::all_of(getUnionOfDims(*this), isInBoth))
    return emitOpError("cannot be partitioned: expected two inputs that both "
                       "have every summed dimension (nd-decompose makes them)");
  SmallVector<PartitionBuilder::Operand> operands =
      builder.getOperands(*this, shards);
  return SmallVector{
      builder.buildContraction(getType(), operands[0], operands[1])};
}

/// How the terms of a reduction combine; nothing for a mean, whose terms do
/// not.
static std::optional<ReduceKind> getReduceKind(Reduction kind) {
  switch (kind) {
  case Reduction::Sum:
    return ReduceKind::Sum;
  case Reduction::Max:
    return ReduceKind::Max;
  case Reduction::Min:
    return ReduceKind::Min;
  case Reduction::Mean:
    return std::nullopt;
  }
  llvm_unreachable("not a reduction");
}

DimUse ReduceOp::getDimUse(StringRef dim) {
  if (getType().hasDim(dim))
    return DimUse::parallel();
  std::optional<ReduceKind> kind = getReduceKind(getKind());
  return kind ? DimUse::reduced(*kind) : DimUse::whole();
}

PartialUse ReduceOp::getPartialUse(unsigned, ReduceKind kind) {
  return getReduceKind(getKind()) == kind ? PartialUse::Joint
                                          : PartialUse::Complete;
}

LocalResults ReduceOp::buildLocal(PartitionBuilder &builder,
                                  ValueRange shards) {
  std::optional<ReduceKind> kind = getReduceKind(getKind());
  if (!kind)
    return emitOpError("cannot be partitioned: a mean must be a sum and a "
                       "product (nd-decompose makes them)");
  SmallVector<PartitionBuilder::Operand> operands =
      builder.getOperands(*this, shards);
  auto body = [](OpBuilder &, Location, ValueRange x,
                 PartitionBuilder::GlobalIndex) { return x[0]; };
  // Without a reduced dimension it permutes.
  bool permutes = getType().getRank() == getInput().getType().getRank();
  return SmallVector{
      permutes ? builder.buildPointwise(getType(), operands, body)
               : builder.buildReduction(getType(), operands, *kind, body)};
}

//===-- Operations that move elements -------------------------------------===//

DimUse BroadcastOp::getDimUse(StringRef) { return DimUse::parallel(); }

PartialUse BroadcastOp::getPartialUse(unsigned, ReduceKind) {
  return PartialUse::Joint;
}

LocalResults BroadcastOp::buildLocal(PartitionBuilder &builder,
                                     ValueRange shards) {
  return SmallVector{builder.buildPointwise(
      getType(), builder.getOperands(*this, shards),
      [](OpBuilder &, Location, ValueRange x, PartitionBuilder::GlobalIndex) {
        return x[0];
      })};
}

SmallVector<DimAttr> RenameOp::getIterationDims() {
  return SmallVector<DimAttr>(getType().getDims());
}

DimUse RenameOp::getDimUse(StringRef) { return DimUse::parallel(); }

DimAccess RenameOp::getOperandAccess(unsigned, StringAttr dim) {
  return DimAccess::itself(getNewName(dim));
}

PartialUse RenameOp::getPartialUse(unsigned, ReduceKind) {
  return PartialUse::Joint;
}

LocalResults RenameOp::buildLocal(PartitionBuilder &, ValueRange shards) {
  // Below this level dimensions have no names.
  return SmallVector<Value>{shards[0]};
}
