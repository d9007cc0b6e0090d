#include "codegen/kernels/NarrowFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

/// The 16-bit float that `type` has as elements; null if none.
static FloatType getNarrow(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() == 16 ? element : FloatType();
}

/// `type` with other elements.
static Type withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

namespace {
/// Arithmetic on the bits of f32 values of one shape.
class Bits {
public:
  Bits(OpBuilder &builder, Location loc, Type shape)
      : builder(builder), loc(loc),
        word(withElement(shape, builder.getI32Type())) {}

  Value get(Value number) {
    return arith::BitcastOp::create(builder, loc, word, number);
  }
  Value toFloat(Value bits) {
    return arith::BitcastOp::create(
        builder, loc, withElement(word, builder.getF32Type()), bits);
  }
  Value constant(int32_t value) {
    TypedAttr attr = builder.getI32IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(word))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(builder, loc, attr);
  }
  Value add(Value a, Value b) { return create<arith::AddIOp>(a, b); }
  Value conjoin(Value a, int32_t mask) {
    return create<arith::AndIOp>(a, constant(mask));
  }
  Value disjoin(Value a, int32_t mask) {
    return create<arith::OrIOp>(a, constant(mask));
  }
  Value shiftLeft(Value a, int32_t count) {
    return create<arith::ShLIOp>(a, constant(count));
  }
  Value shiftRight(Value a, int32_t count) {
    return create<arith::ShRUIOp>(a, constant(count));
  }

private:
  template <class Op> Value create(Value a, Value b) {
    return Op::create(builder, loc, a, b);
  }

  OpBuilder &builder;
  Location loc;
  Type word;
};

class Narrowing {
public:
  Narrowing(MLIRContext *context, bool hasConversions)
      : wide(Float32Type::get(context)), half(IntegerType::get(context, 16)),
        hasConversions(hasConversions) {}

  LogicalResult run(Operation *root);

private:
  void rewrite(Operation *op);
  void rewriteAccess(Operation *op);
  void rewriteConstant(arith::ConstantOp op);
  void rewriteTruncation(arith::TruncFOp op);

  /// The nearest number of `format`, as f32.
  Value round(OpBuilder &builder, Location loc, Value number, FloatType format);
  /// Bits of a number of `format` from and to the f32 of equal value.
  Value fromBits(OpBuilder &builder, Location loc, Value bits,
                 FloatType format);
  Value toBits(OpBuilder &builder, Location loc, Value number,
               FloatType format);

  FloatType wide;
  IntegerType half;
  bool hasConversions;
  /// Of the operands that operations take as bits, before they became f32.
  llvm::DenseMap<OpOperand *, FloatType> formats;
};
} // namespace

//===-- Conversions -------------------------------------------------------===//

Value Narrowing::round(OpBuilder &builder, Location loc, Value number,
                       FloatType format) {
  Type type = number.getType();
  if (!format.isBF16() || hasConversions) {
    Value rounded = arith::TruncFOp::create(builder, loc,
                                            withElement(type, format), number);
    return arith::ExtFOp::create(builder, loc, type, rounded);
  }
  // Half of the last place less one, and one more where that place is odd,
  // carries into it exactly where the number is rounded up; infinities stay,
  // and the largest finite numbers become infinite. A NaN could become
  // infinite; it is made quiet instead.
  Bits bits(builder, loc, type);
  Value word = bits.get(number);
  Value odd = bits.conjoin(bits.shiftRight(word, 16), 1);
  Value carried = bits.add(bits.add(word, bits.constant(0x7fff)), odd);
  Value isNan = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO,
                                      number, number);
  Value chosen = arith::SelectOp::create(builder, loc, isNan,
                                         bits.disjoin(word, 0x400000), carried);
  return bits.toFloat(bits.conjoin(chosen, int32_t(0xffff0000)));
}

Value Narrowing::fromBits(OpBuilder &builder, Location loc, Value value,
                          FloatType format) {
  Type type = value.getType();
  if (!format.isBF16()) {
    Value number = arith::BitcastOp::create(builder, loc,
                                            withElement(type, format), value);
    return arith::ExtFOp::create(builder, loc, withElement(type, wide), number);
  }
  Bits bits(builder, loc, type);
  Value word = arith::ExtUIOp::create(
      builder, loc, withElement(type, builder.getI32Type()), value);
  return bits.toFloat(bits.shiftLeft(word, 16));
}

Value Narrowing::toBits(OpBuilder &builder, Location loc, Value number,
                        FloatType format) {
  Type type = number.getType();
  Type narrow = withElement(type, half);
  if (!format.isBF16()) {
    // It is a number of this format: nothing is rounded.
    Value exact = arith::TruncFOp::create(builder, loc,
                                          withElement(type, format), number);
    return arith::BitcastOp::create(builder, loc, narrow, exact);
  }
  Bits bits(builder, loc, type);
  return arith::TruncIOp::create(builder, loc, narrow,
                                 bits.shiftRight(bits.get(number), 16));
}

//===-- Operations --------------------------------------------------------===//

/// Whether `op` is between registers and memory, which has the 16 bits.
static bool isAccess(Operation *op) {
  return isa<LLVM::LoadOp, LLVM::StoreOp, LLVM::MaskedLoadOp,
             LLVM::MaskedStoreOp, LLVM::masked_gather, LLVM::masked_scatter>(
      op);
}

/// Whether `op` does to f32 what it does to 16-bit floats: it computes, or
/// hands on what it is given.
static bool isOfAnyFloat(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
         isa<scf::ForOp, scf::IfOp, scf::YieldOp, vector::BroadcastOp,
             vector::ExtractOp, vector::FromElementsOp, vector::ReductionOp,
             vector::ShuffleOp>(op);
}

/// Whether a 16-bit float goes into `op`, comes out of it, or enters a block
/// within it.
static bool hasNarrow(Operation *op) {
  auto isNarrow = [](Type type) { return bool(getNarrow(type)); };
  return llvm::any_of(op->getOperandTypes(), isNarrow) ||
         llvm::any_of(op->getResultTypes(), isNarrow) ||
         llvm::any_of(op->getRegions(), [&](Region &region) {
           return llvm::any_of(region, [&](Block &block) {
             return llvm::any_of(block.getArgumentTypes(), isNarrow);
           });
         });
}

/// Whether the result of `op` may lie between two numbers of its type, its
/// operands being numbers of it.
static bool mustRound(Operation *op) {
  if (auto reduction = dyn_cast<vector::ReductionOp>(op))
    return reduction.getKind() == vector::CombiningKind::ADD ||
           reduction.getKind() == vector::CombiningKind::MUL;
  if (isa<arith::MaximumFOp, arith::MinimumFOp, arith::SelectOp, arith::NegFOp,
          math::AbsFOp>(op))
    return false;
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
}

/// Gives what uses `value` after `replacement` that instead.
static void replaceAfter(Value value, Value replacement) {
  Operation *last = replacement.getDefiningOp();
  value.replaceUsesWithIf(replacement, [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return user->getBlock() != last->getBlock() || last->isBeforeInBlock(user);
  });
}

void Narrowing::rewriteConstant(arith::ConstantOp op) {
  auto widen = [&](const APFloat &number) {
    APFloat widened = number;
    bool losesInfo;
    widened.convert(wide.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
    return widened;
  };
  TypedAttr attr;
  if (auto number = dyn_cast<FloatAttr>(op.getValue()))
    attr = FloatAttr::get(wide, widen(number.getValue()));
  else
    attr = cast<DenseFPElementsAttr>(op.getValue())
               .mapValues(wide, [&](const APFloat &number) {
                 return widen(number).bitcastToAPInt();
               });
  OpBuilder builder(op);
  op.replaceAllUsesWith(
      arith::ConstantOp::create(builder, op.getLoc(), attr).getResult());
  op.erase();
}

void Narrowing::rewriteTruncation(arith::TruncFOp op) {
  FloatType format = getNarrow(op.getType());
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value number = op.getIn();
  Type from = number.getType();
  Type type = withElement(from, wide);
  if (from != type) {
    // Rounded to odd on the way, so that rounding twice is rounding once
    // (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", 2008):
    // where f32 is inexact, its last bit is set, after a step back towards 0 if
    // it was rounded away from 0.
    Value nearest = arith::TruncFOp::create(builder, loc, type, number);
    Value back = arith::ExtFOp::create(builder, loc, from, nearest);
    auto compare = [&](arith::CmpFPredicate predicate, Value a,
                       Value b) -> Value {
      return arith::CmpFOp::create(builder, loc, predicate, a, b);
    };
    Value isInexact = compare(arith::CmpFPredicate::ONE, back, number);
    Value isAway = compare(arith::CmpFPredicate::OGT,
                           math::AbsFOp::create(builder, loc, back),
                           math::AbsFOp::create(builder, loc, number));
    Bits bits(builder, loc, type);
    Value word = bits.get(nearest);
    Value towards = arith::SelectOp::create(
        builder, loc, isAway, bits.add(word, bits.constant(-1)), word);
    Value odd = arith::SelectOp::create(builder, loc, isInexact,
                                        bits.disjoin(towards, 1), word);
    number = bits.toFloat(odd);
  }
  op.replaceAllUsesWith(round(builder, loc, number, format));
  op.erase();
}

/// Whatever an access writes, and what a masked load gives in place of what it
/// does not read, goes in as bits; what it reads comes out as bits.
void Narrowing::rewriteAccess(Operation *op) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  for (OpOperand &operand : op->getOpOperands())
    if (FloatType format = formats.lookup(&operand))
      operand.set(toBits(builder, loc, operand.get(), format));
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults())
    if (FloatType format = getNarrow(result.getType())) {
      result.setType(withElement(result.getType(), half));
      replaceAfter(result, fromBits(builder, loc, result, format));
    }
}

void Narrowing::rewrite(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op);
      constant && getNarrow(constant.getType()))
    return rewriteConstant(constant);
  if (auto truncation = dyn_cast<arith::TruncFOp>(op);
      truncation && getNarrow(truncation.getType()))
    return rewriteTruncation(truncation);
  if (auto extension = dyn_cast<arith::ExtFOp>(op);
      extension && extension.getType() == extension.getIn().getType()) {
    extension.replaceAllUsesWith(extension.getIn());
    extension.erase();
    return;
  }
  if (isAccess(op))
    return rewriteAccess(op);
  OpBuilder builder(op);
  Location loc = op->getLoc();
  if (auto bitcast = dyn_cast<arith::BitcastOp>(op)) {
    Value from = bitcast.getIn(), made;
    if (FloatType format = formats.lookup(&op->getOpOperand(0)))
      made = toBits(builder, loc, from, format);
    else if (FloatType format = getNarrow(bitcast.getType()))
      made = fromBits(builder, loc, from, format);
    else
      return;
    bitcast.replaceAllUsesWith(made);
    bitcast.erase();
    return;
  }
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults()) {
    FloatType format = getNarrow(result.getType());
    if (!format)
      continue;
    Type type = result.getType();
    result.setType(withElement(type, wide));
    if (mustRound(op))
      replaceAfter(result, round(builder, loc, result, format));
  }
}

LogicalResult Narrowing::run(Operation *root) {
  SmallVector<Operation *> ops;
  WalkResult found = root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == root)
      return WalkResult::advance();
    ops.push_back(op);
    if (!hasNarrow(op))
      return WalkResult::advance();
    if (!isAccess(op) && !isOfAnyFloat(op)) {
      op->emitError("'") << op->getName() << "' is not built for "
                         << "floats of 16 bits yet";
      return WalkResult::interrupt();
    }
    if (isAccess(op) || isa<arith::BitcastOp>(op))
      for (OpOperand &operand : op->getOpOperands())
        if (FloatType format = getNarrow(operand.get().getType()))
          formats[&operand] = format;
    return WalkResult::advance();
  });
  if (found.wasInterrupted())
    return failure();
  for (Operation *op : ops) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          if (getNarrow(argument.getType()))
            argument.setType(withElement(argument.getType(), wide));
    rewrite(op);
  }
  return success();
}

LogicalResult meshc::codegen::narrowFloats(Operation *kernels,
                                           bool hasConversions) {
  return Narrowing(kernels->getContext(), hasConversions).run(kernels);
}
