// What the threads of a GPU kernel reduce together.

#include "codegen/gpu/GpuKernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

static Operation *getCombinerOf(const Cluster::Member &member) {
  return getCombiner(cast<linalg::GenericOp>(member.op));
}

/// `lanes` of 0: a scalar.
Value GpuKernelBuilder::getNeutral(OpBuilder &builder, unsigned member,
                                   int64_t lanes) {
  TypedAttr neutral =
      *arith::getNeutralElement(getCombinerOf(members()[member]));
  if (lanes == 0)
    return arith::ConstantOp::create(builder, loc, neutral);
  auto type = VectorType::get({lanes}, neutral.getType());
  return arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, Attribute(neutral)));
}

Value GpuKernelBuilder::combine(OpBuilder &builder, unsigned member,
                                Value accumulator, ElementBuilder::Term term) {
  return elements->combine(builder, members()[member], accumulator, term);
}

/// What loops carry, of which `getMember` tells whose sum is at a place; none
/// if it is no reduction.
CarriedSums GpuKernelBuilder::getSums(
    ArrayRef<Value> carried,
    std::function<std::optional<unsigned>(size_t)> getMember) {
  SmallVector<int64_t> lanes;
  for (Value value : carried) {
    auto type = dyn_cast<VectorType>(value.getType());
    lanes.push_back(type ? type.getDimSize(0) : 0);
  }
  return CarriedSums(
      [this, lanes, getMember](OpBuilder &builder, size_t place) {
        std::optional<unsigned> member = getMember(place);
        return member && addsFloats(members()[*member].op)
                   ? getNeutral(builder, *member, lanes[place])
                   : Value();
      },
      [this, getMember](OpBuilder &builder, size_t place, Value lhs,
                        Value rhs) {
        return combine(builder, *getMember(place), lhs, rhs);
      });
}

Value GpuKernelBuilder::reduceLanes(OpBuilder &builder, unsigned member,
                                    Value value) {
  if (!isa<VectorType>(value.getType()))
    return value;
  return vector::ReductionOp::create(
      builder, loc,
      *linalg::getCombinerOpKind(getCombinerOf(members()[member])), value,
      arith::FastMathFlags::reassoc);
}

/// `value` of the thread whose number differs in `mask`.
Value GpuKernelBuilder::shuffle(OpBuilder &builder, Value value, int64_t mask) {
  Type type = value.getType();
  const unsigned bits = type.getIntOrFloatBitWidth();
  Type integer = builder.getIntegerType(bits);
  Type word = builder.getI32Type();
  auto exchange = [&](Value bitsOf) -> Value {
    return gpu::ShuffleOp::create(builder, loc, bitsOf, int32_t(mask),
                                  int32_t(warpThreads), gpu::ShuffleMode::XOR)
        .getShuffleResult();
  };
  Value raw = value;
  if (type != integer)
    raw = arith::BitcastOp::create(builder, loc, integer, raw);
  if (bits < 32) {
    raw = exchange(arith::ExtUIOp::create(builder, loc, word, raw));
    raw = arith::TruncIOp::create(builder, loc, integer, raw);
  } else if (bits == 32) {
    raw = exchange(raw);
  } else {
    Value half = arith::ConstantOp::create(builder, loc,
                                           builder.getIntegerAttr(integer, 32));
    Value high = arith::ShRUIOp::create(builder, loc, raw, half);
    Value low = exchange(arith::TruncIOp::create(builder, loc, word, raw));
    high = exchange(arith::TruncIOp::create(builder, loc, word, high));
    raw = arith::OrIOp::create(
        builder, loc, arith::ExtUIOp::create(builder, loc, integer, low),
        arith::ShLIOp::create(
            builder, loc, arith::ExtUIOp::create(builder, loc, integer, high),
            half));
  }
  return type == integer ? raw
                         : arith::BitcastOp::create(builder, loc, type, raw);
}

/// Combines the values of `width` threads that are `stride` apart; all get the
/// same bits, since every step combines two values in both threads.
Value GpuKernelBuilder::reduceWarp(OpBuilder &builder, unsigned member,
                                   Value value, int64_t width, int64_t stride) {
  for (int64_t mask = width / 2 * stride; mask >= stride; mask /= 2)
    value = combine(builder, member, value, shuffle(builder, value, mask));
  return value;
}

/// A place for one value of `warp` in the block's shared memory.
Value GpuKernelBuilder::getSharedPlace(OpBuilder &builder, int64_t slot,
                                       Value warp) {
  Value base = getSharedMemory(builder, loc, kernels);
  const int64_t numWarps = shape.groupThreads / warpThreads;
  Value index =
      arith::AddIOp::create(builder, loc, warp, constant(slot * numWarps));
  return LLVM::GEPOp::create(builder, loc, base.getType(), builder.getI64Type(),
                             base, ArrayRef<LLVM::GEPArg>{index});
}

/// Combines scalars over the threads of the group.
GpuKernelBuilder::Partials
GpuKernelBuilder::reduceGroup(OpBuilder &builder, ArrayRef<unsigned> reductions,
                              Partials values) {
  const int64_t width = std::min(shape.groupThreads, warpThreads);
  for (auto [member, value] : llvm::zip_equal(reductions, values))
    value = reduceWarp(builder, member, value, width);
  const int64_t numWarps = shape.groupThreads / warpThreads;
  if (numWarps <= 1 || reductions.empty())
    return values;
  auto [warp, lane] = divide(builder, thread, warpThreads);
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        lane, constant(0));
  const int64_t firstSlot = numSlots;
  numSlots += int64_t(reductions.size());
  auto branch = scf::IfOp::create(builder, loc, isFirst, /*withElse=*/false);
  OpBuilder inner(branch.thenBlock()->getTerminator());
  for (auto [index, value] : llvm::enumerate(values))
    LLVM::StoreOp::create(
        inner, loc, value,
        getSharedPlace(inner, firstSlot + int64_t(index), warp), 8);
  gpu::BarrierOp::create(builder, loc);
  Value other = arith::RemUIOp::create(builder, loc, lane, constant(numWarps));
  for (auto [index, member, value] : llvm::enumerate(reductions, values)) {
    Value loaded = LLVM::LoadOp::create(
        builder, loc, value.getType(),
        getSharedPlace(builder, firstSlot + int64_t(index), other), 8);
    value = reduceWarp(builder, member, loaded, numWarps);
  }
  return values;
}
