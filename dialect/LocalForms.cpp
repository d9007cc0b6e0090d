// PartitionOpInterface of everything that is not elementwise: how an operation
// uses its loops, and its form on one device's blocks.

#include "dialect/ND.h"
#include "dialect/PartitionBuilder.h"
#include "dialect/SPMD.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

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
/// Writes the numbers of nd.random.
struct RandomNumber {
  OpBuilder &b;
  Location loc;
  FloatType type; ///< in which they are computed

  Value number(double value) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  }
  Value multiply(Value x, Value y) {
    return arith::MulFOp::create(b, loc, x, y);
  }
  Value multiplyAdd(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }

  /// A word as a number in (0, 1): its upper 24 bits and a half.
  Value toUnit(Value bits, unsigned word) {
    Value shift = arith::ConstantOp::create(
        b, loc, b.getI64IntegerAttr(int64_t(word) * 32 + 8));
    Value upper = arith::ShRUIOp::create(b, loc, bits, shift);
    upper = arith::TruncIOp::create(b, loc, b.getI32Type(), upper);
    Value mask =
        arith::ConstantOp::create(b, loc, b.getI32IntegerAttr((1 << 24) - 1));
    upper = arith::AndIOp::create(b, loc, upper, mask);
    // The upper bits are below 2^24, so a signed conversion is exact.
    return multiplyAdd(arith::SIToFPOp::create(b, loc, type, upper),
                       number(0x1p-24), number(0x1p-25));
  }

  Value build(Value bits, Distribution distribution, double first,
              double second) {
    Value unit = toUnit(bits, 0);
    switch (distribution) {
    case Distribution::Uniform:
      return multiplyAdd(number(second - first), unit, number(first));
    case Distribution::Normal: {
      Value radius = math::SqrtOp::create(
          b, loc, multiply(number(-2), math::LogOp::create(b, loc, unit)));
      // Angles of one turn need no reduction that is exact for large ones: the
      // approximation is the one that initial values have been drawn with.
      Value angle = multiply(number(2 * llvm::numbers::pi), toUnit(bits, 1));
      Value cosine =
          math::CosOp::create(b, loc, angle, arith::FastMathFlags::afn);
      return multiplyAdd(number(second), multiply(radius, cosine),
                         number(first));
    }
    case Distribution::TruncatedNormal: {
      const double bound = std::erf(llvm::numbers::sqrt2);
      Value within = multiplyAdd(number(2 * bound), unit, number(-bound));
      return multiplyAdd(number(second * llvm::numbers::sqrt2),
                         spmd::ErfInvOp::create(b, loc, within), number(first));
    }
    }
    llvm_unreachable("not a distribution");
  }
};
} // namespace

LocalResults RandomOp::buildLocal(PartitionBuilder &builder,
                                  ValueRange shards) {
  NamedTensorType type = getType();
  auto elementType = cast<FloatType>(type.getElementType());
  // Half precision has too few bits for the transforms; it is rounded at the
  // end.
  FloatType computeType = elementType.getWidth() < 32
                              ? FloatType(builder.getBuilder().getF32Type())
                              : elementType;
  Value result = builder.buildPointwise(
      type, builder.getOperands(*this, shards),
      [&](OpBuilder &b, Location loc, ValueRange x,
          PartitionBuilder::GlobalIndex globalIndex) -> Value {
        Value counter = arith::ConstantIndexOp::create(b, loc, 0);
        for (DimAttr dim : getCountedDims()) {
          auto scale = [&](Value position, int64_t factor) -> Value {
            return arith::MulIOp::create(
                b, loc, position,
                arith::ConstantIndexOp::create(b, loc, factor));
          };
          counter = arith::AddIOp::create(b, loc, scale(counter, dim.getSize()),
                                          globalIndex(dim.getName()));
          if (isParted(dim.getName()))
            counter = arith::AddIOp::create(
                b, loc, scale(counter, int64_t(getParts())),
                arith::IndexCastOp::create(b, loc, b.getIndexType(), x[1]));
        }
        counter = arith::IndexCastOp::create(b, loc, b.getI64Type(), counter);
        Value key = arith::XOrIOp::create(
            b, loc, x[0],
            arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(getKey())));
        Value bits = spmd::RandomBitsOp::create(b, loc, key, counter);
        Value result = RandomNumber{b, loc, computeType}.build(
            bits, getDistribution(), getFirst().convertToDouble(),
            getSecond().convertToDouble());
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
