#include "codegen/gpu/MoveKernels.h"

#include "codegen/gpu/LaunchShape.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/GpuKernels.h"
#include "runtime/plans/MoveKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cstddef>

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using runtime::MovePiece;

namespace {
class MoveKernelBuilder {
public:
  MoveKernelBuilder(exec::ReduceKind kind, exec::ElementType element,
                    bool isWide, gpu::GPUModuleOp kernels);

private:
  using Body = llvm::function_ref<void(OpBuilder &, Value)>;

  Value constant(OpBuilder &builder, int64_t value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI64IntegerAttr(value));
  }
  Value getPosition(OpBuilder &builder, int64_t value) {
    return arith::ConstantOp::create(
        builder, loc, builder.getIntegerAttr(positionType, value));
  }
  Value getField(OpBuilder &builder, Value array, int64_t offset,
                 Value index = {}, Type type = {});
  Value getNumber(OpBuilder &builder, int64_t offset, Value index = {}) {
    return getField(builder, piece, offset, index, positionType);
  }
  Value widenNumber(OpBuilder &builder, Value number);
  Value toPointer(OpBuilder &builder, Value address) {
    return LLVM::IntToPtrOp::create(builder, loc, pointerType, address);
  }
  Value getAddress(OpBuilder &builder, Value list, Value number, Value offset);
  void loop(OpBuilder &builder, Value begin, Value end, Value step, Body body);
  Value isAligned(OpBuilder &builder);
  std::pair<Value, Value> divide(OpBuilder &builder, Value number, Value dim);
  std::pair<Value, Value> getOffsets(OpBuilder &builder, Value element);
  void move(OpBuilder &builder, Value from, Value to, int64_t lanes);
  Value combine(OpBuilder &builder, Value lhs, Value rhs);
  Value getIdentity(OpBuilder &builder, Type type);
  Value widen(OpBuilder &builder, Value value);
  Value narrow(OpBuilder &builder, Value value, Type type);
  Type withLanes(Type type, int64_t lanes) const {
    return lanes == 1 ? type : VectorType::get({lanes}, type);
  }

  exec::ReduceKind kind;
  Location loc;
  Type pointerType, elementType;
  Type positionType; ///< of the numbers of elements and of dimensions
  int64_t bytes;
  bool isBoolean; ///< a byte that is 0 or 1
  Value piece, numSources, numTargets, sources, targets;
};
} // namespace

static Type getType(MLIRContext *context, exec::ReduceKind kind,
                    exec::ElementType element) {
  if (kind == exec::ReduceKind::none)
    return IntegerType::get(context,
                            unsigned(8 * runtime::getElementBytes(element)));
  switch (element) {
  case exec::ElementType::f32:
    return Float32Type::get(context);
  case exec::ElementType::f64:
    return Float64Type::get(context);
  case exec::ElementType::bf16:
    return BFloat16Type::get(context);
  case exec::ElementType::f16:
    return Float16Type::get(context);
  case exec::ElementType::i32:
    return IntegerType::get(context, 32);
  case exec::ElementType::i64:
    return IntegerType::get(context, 64);
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
    return IntegerType::get(context, 8);
  case exec::ElementType::i16:
    return IntegerType::get(context, 16);
  }
  llvm_unreachable("not an element type");
}

/// A word of 64 bits, or its low part as a narrower `type`.
Value MoveKernelBuilder::getField(OpBuilder &builder, Value array,
                                  int64_t offset, Value index, Type type) {
  Value place =
      LLVM::GEPOp::create(builder, loc, pointerType, builder.getI8Type(), array,
                          ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  if (index)
    place = LLVM::GEPOp::create(builder, loc, pointerType, builder.getI64Type(),
                                place, ArrayRef<LLVM::GEPArg>{index});
  if (!type)
    type = builder.getI64Type();
  return LLVM::LoadOp::create(builder, loc, type, place,
                              type.getIntOrFloatBitWidth() / 8);
}

/// A number that is not negative, with 64 bits.
Value MoveKernelBuilder::widenNumber(OpBuilder &builder, Value number) {
  Type i64 = builder.getI64Type();
  return number.getType() == i64
             ? number
             : Value(arith::ExtUIOp::create(builder, loc, i64, number));
}

void MoveKernelBuilder::loop(OpBuilder &builder, Value begin, Value end,
                             Value step, Body body) {
  auto made = scf::ForOp::create(builder, loc, begin, end, step);
  OpBuilder inner(made.getBody()->getTerminator());
  body(inner, made.getInductionVar());
}

/// Address of element `offset` of box `number` in `list`.
Value MoveKernelBuilder::getAddress(OpBuilder &builder, Value list,
                                    Value number, Value offset) {
  Value base = toPointer(builder, getField(builder, list, 0, number));
  Value byte =
      arith::MulIOp::create(builder, loc, offset, constant(builder, bytes));
  return LLVM::GEPOp::create(builder, loc, pointerType, builder.getI8Type(),
                             base, ArrayRef<LLVM::GEPArg>{byte});
}

/// Whether the piece is one run of elements that starts at a multiple of the
/// widest access wherever it is.
Value MoveKernelBuilder::isAligned(OpBuilder &builder) {
  Value begin = arith::MulIOp::create(
      builder, loc, getField(builder, piece, offsetof(MovePiece, begin)),
      constant(builder, bytes));
  Value bits = begin;
  for (auto [list, count] :
       {std::pair(sources, numSources), std::pair(targets, numTargets)}) {
    auto made = scf::ForOp::create(
        builder, loc, constant(builder, 0), count, constant(builder, 1),
        ValueRange{bits}, [](OpBuilder &, Location, Value, ValueRange) {});
    OpBuilder inner = OpBuilder::atBlockEnd(made.getBody());
    Value address = getField(inner, list, 0, made.getInductionVar());
    scf::YieldOp::create(
        inner, loc,
        ValueRange{arith::OrIOp::create(inner, loc, made.getRegionIterArgs()[0],
                                        address)});
    bits = made.getResult(0);
  }
  Value rest = arith::AndIOp::create(builder, loc, bits,
                                     constant(builder, accessBytes - 1));
  auto isEqual = [&](Value value, int64_t expected) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, value,
                                 constant(builder, expected));
  };
  Value result = isEqual(rest, 0);
  for (auto [offset, expected] :
       {std::pair(offsetof(MovePiece, rank), 1),
        std::pair(offsetof(MovePiece, fromStrides), 1),
        std::pair(offsetof(MovePiece, toStrides), 1)})
    result = arith::AndIOp::create(
        builder, loc, result,
        isEqual(getField(builder, piece, int64_t(offset)), expected));
  return result;
}

/// Quotient and remainder by the size of a dimension.
std::pair<Value, Value> MoveKernelBuilder::divide(OpBuilder &builder,
                                                  Value number, Value dim) {
  Value size = getNumber(builder, offsetof(MovePiece, sizes), dim);
  if (positionType.isInteger(64))
    return {arith::DivUIOp::create(builder, loc, number, size),
            arith::RemUIOp::create(builder, loc, number, size)};
  constexpr int64_t divisors = offsetof(MovePiece, divisors);
  static_assert(sizeof(runtime::MoveDivisor) == sizeof(int64_t));
  Value multiplier = getNumber(
      builder, divisors + int64_t(offsetof(runtime::MoveDivisor, multiplier)),
      dim);
  Value shift = getNumber(
      builder, divisors + int64_t(offsetof(runtime::MoveDivisor, shift)), dim);
  Value product =
      arith::MulIOp::create(builder, loc, widenNumber(builder, number),
                            widenNumber(builder, multiplier));
  Value quotient = arith::TruncIOp::create(
      builder, loc, positionType,
      arith::ShRUIOp::create(builder, loc, product,
                             widenNumber(builder, shift)));
  Value whole = arith::MulIOp::create(builder, loc, quotient, size);
  return {quotient, arith::SubIOp::create(builder, loc, number, whole)};
}

/// Where an element of the box lies, in elements from its starts.
std::pair<Value, Value> MoveKernelBuilder::getOffsets(OpBuilder &builder,
                                                      Value element) {
  Value zero = getPosition(builder, 0), one = getPosition(builder, 1);
  Value rank = getNumber(builder, offsetof(MovePiece, rank));
  auto addTerm = [&](OpBuilder &inner, Value offset, int64_t strides,
                     Value position, Value dim) -> Value {
    Value stride = getNumber(inner, strides, dim);
    return arith::AddIOp::create(
        inner, loc, offset,
        arith::MulIOp::create(inner, loc, position, stride));
  };
  constexpr int64_t from = offsetof(MovePiece, fromStrides);
  constexpr int64_t to = offsetof(MovePiece, toStrides);
  // From the minor dimension on; the major one has what is left.
  auto made = scf::ForOp::create(
      builder, loc, one, rank, one, ValueRange{element, zero, zero},
      [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder inner = OpBuilder::atBlockEnd(made.getBody());
  Value dim = arith::SubIOp::create(inner, loc, rank, made.getInductionVar());
  auto [rest, position] = divide(inner, made.getRegionIterArgs()[0], dim);
  Value next[] = {
      rest, addTerm(inner, made.getRegionIterArgs()[1], from, position, dim),
      addTerm(inner, made.getRegionIterArgs()[2], to, position, dim)};
  scf::YieldOp::create(inner, loc, ValueRange(next));
  auto finish = [&](unsigned number, int64_t strides) {
    return widenNumber(builder, addTerm(builder, made.getResult(number),
                                        strides, made.getResult(0), zero));
  };
  return {finish(1, from), finish(2, to)};
}

/// 16-bit floats are combined in f32.
Value MoveKernelBuilder::widen(OpBuilder &builder, Value value) {
  Type type = getElementTypeOrSelf(value);
  if (kind == exec::ReduceKind::none || !(type.isBF16() || type.isF16()))
    return value;
  Type wide = builder.getF32Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    wide = vector.clone(wide);
  return arith::ExtFOp::create(builder, loc, wide, value);
}

Value MoveKernelBuilder::narrow(OpBuilder &builder, Value value, Type type) {
  return value.getType() == type
             ? value
             : Value(arith::TruncFOp::create(builder, loc, type, value));
}

Value MoveKernelBuilder::combine(OpBuilder &builder, Value lhs, Value rhs) {
  const bool isFloat = isa<FloatType>(getElementTypeOrSelf(lhs));
  switch (kind) {
  case exec::ReduceKind::none:
    return lhs;
  case exec::ReduceKind::sum:
    return isFloat ? Value(arith::AddFOp::create(builder, loc, lhs, rhs))
                   : Value(arith::AddIOp::create(builder, loc, lhs, rhs));
  case exec::ReduceKind::max:
    return isFloat ? Value(arith::MaximumFOp::create(builder, loc, lhs, rhs))
                   : Value(arith::MaxSIOp::create(builder, loc, lhs, rhs));
  case exec::ReduceKind::min:
    return isFloat ? Value(arith::MinimumFOp::create(builder, loc, lhs, rhs))
                   : Value(arith::MinSIOp::create(builder, loc, lhs, rhs));
  }
  llvm_unreachable("not a way to combine");
}

Value MoveKernelBuilder::getIdentity(OpBuilder &builder, Type type) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr scalar = builder.getZeroAttr(element);
  const bool isMax = kind == exec::ReduceKind::max;
  if (isMax || kind == exec::ReduceKind::min) {
    if (isBoolean)
      scalar = builder.getIntegerAttr(element, isMax ? 0 : 1);
    else if (auto real = dyn_cast<FloatType>(element))
      scalar = builder.getFloatAttr(
          element, llvm::APFloat::getInf(real.getFloatSemantics(), isMax));
    else
      scalar = builder.getIntegerAttr(
          element, isMax ? llvm::APInt::getSignedMinValue(
                               element.getIntOrFloatBitWidth())
                         : llvm::APInt::getSignedMaxValue(
                               element.getIntOrFloatBitWidth()));
  }
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(vector, Attribute(scalar)));
  return arith::ConstantOp::create(builder, loc, scalar);
}

/// Combines `lanes` elements of all sources, in order, into all targets.
void MoveKernelBuilder::move(OpBuilder &builder, Value from, Value to,
                             int64_t lanes) {
  Type memory = withLanes(elementType, lanes);
  const unsigned alignment = unsigned(lanes * bytes);
  Value zero = constant(builder, 0), one = constant(builder, 1);
  auto load = [&](OpBuilder &inner, Value number) {
    return widen(inner,
                 LLVM::LoadOp::create(inner, loc, memory,
                                      getAddress(inner, sources, number, from),
                                      alignment));
  };
  Value hasSource = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::ne, numSources, zero);
  Type wide = memory;
  if (kind != exec::ReduceKind::none &&
      (elementType.isBF16() || elementType.isF16()))
    wide = withLanes(builder.getF32Type(), lanes);
  auto branch = scf::IfOp::create(builder, loc, TypeRange{wide}, hasSource,
                                  /*withElse=*/true);
  OpBuilder some = OpBuilder::atBlockEnd(branch.thenBlock());
  Value total = load(some, zero);
  if (kind != exec::ReduceKind::none) {
    auto sum =
        scf::ForOp::create(some, loc, one, numSources, one, ValueRange{total},
                           [](OpBuilder &, Location, Value, ValueRange) {});
    OpBuilder inner = OpBuilder::atBlockEnd(sum.getBody());
    Value next = load(inner, sum.getInductionVar());
    scf::YieldOp::create(
        inner, loc,
        ValueRange{combine(inner, sum.getRegionIterArgs()[0], next)});
    total = sum.getResult(0);
  }
  scf::YieldOp::create(some, loc, ValueRange{total});
  OpBuilder none = OpBuilder::atBlockEnd(branch.elseBlock());
  scf::YieldOp::create(none, loc, ValueRange{getIdentity(none, wide)});
  Value result = narrow(builder, branch.getResult(0), memory);
  loop(builder, zero, numTargets, one, [&](OpBuilder &inner, Value number) {
    LLVM::StoreOp::create(inner, loc, result,
                          getAddress(inner, targets, number, to), alignment);
  });
}

MoveKernelBuilder::MoveKernelBuilder(exec::ReduceKind kind,
                                     exec::ElementType element, bool isWide,
                                     gpu::GPUModuleOp kernels)
    : kind(kind), loc(kernels.getLoc()),
      pointerType(LLVM::LLVMPointerType::get(kernels.getContext(), 1)),
      elementType(getType(kernels.getContext(), kind, element)),
      positionType(IntegerType::get(kernels.getContext(), isWide ? 64 : 32)),
      bytes(runtime::getElementBytes(element)),
      isBoolean(element == exec::ElementType::boolean) {
  OpBuilder top = OpBuilder::atBlockEnd(kernels.getBody());
  auto function = gpu::GPUFuncOp::create(
      top, loc, runtime::getMoveKernelName(kind, element, isWide),
      top.getFunctionType({pointerType}, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                    top.getUnitAttr());
  function.setKnownBlockSize(
      ArrayRef<int32_t>{runtime::moveKernelThreads, 1, 1});
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  gpu::ReturnOp end = gpu::ReturnOp::create(builder, loc);
  builder.setInsertionPoint(end);

  Type i64 = builder.getI64Type();
  Value thread = arith::IndexCastOp::create(
      builder, loc, positionType,
      gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x));
  Value block = arith::IndexCastOp::create(
      builder, loc, i64,
      gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x));
  Value offset = arith::MulIOp::create(
      builder, loc, block, constant(builder, int64_t(sizeof(MovePiece))));
  piece = LLVM::GEPOp::create(builder, loc, pointerType, builder.getI8Type(),
                              function.getArgument(0),
                              ArrayRef<LLVM::GEPArg>{offset});
  numSources = getField(builder, piece, offsetof(MovePiece, numSources));
  numTargets = getField(builder, piece, offsetof(MovePiece, numTargets));
  sources = toPointer(builder,
                      getField(builder, piece, offsetof(MovePiece, sources)));
  targets = toPointer(builder,
                      getField(builder, piece, offsetof(MovePiece, targets)));
  Value begin = getNumber(builder, offsetof(MovePiece, begin));
  Value last = getNumber(builder, offsetof(MovePiece, end));

  // A run of elements by the widest accesses, then what is left of it, or any
  // box, one by one.
  const int64_t lanes = accessBytes / bytes;
  Value isRun = isAligned(builder);
  auto branch = scf::IfOp::create(builder, loc, TypeRange{positionType}, isRun,
                                  /*withElse=*/true);
  OpBuilder run = OpBuilder::atBlockEnd(branch.thenBlock());
  Value count = arith::SubIOp::create(run, loc, last, begin);
  Value rest = arith::RemUIOp::create(run, loc, count, getPosition(run, lanes));
  Value wideEnd = arith::SubIOp::create(run, loc, last, rest);
  Value first = arith::AddIOp::create(
      run, loc, begin,
      arith::MulIOp::create(run, loc, thread, getPosition(run, lanes)));
  loop(run, first, wideEnd,
       getPosition(run, lanes * runtime::moveKernelThreads),
       [&](OpBuilder &inner, Value at) {
         Value offset = widenNumber(inner, at);
         move(inner, offset, offset, lanes);
       });
  scf::YieldOp::create(run, loc, ValueRange{wideEnd});
  OpBuilder single = OpBuilder::atBlockEnd(branch.elseBlock());
  scf::YieldOp::create(single, loc, ValueRange{begin});
  Value start =
      arith::AddIOp::create(builder, loc, branch.getResult(0), thread);
  loop(builder, start, last, getPosition(builder, runtime::moveKernelThreads),
       [&](OpBuilder &inner, Value at) {
         auto [from, to] = getOffsets(inner, at);
         move(inner, from, to, 1);
       });
}

void meshc::codegen::emitMoveKernel(exec::ReduceKind kind,
                                    exec::ElementType element, bool isWide,
                                    gpu::GPUModuleOp kernels) {
  kernels.getContext()
      ->loadDialect<LLVM::LLVMDialect, arith::ArithDialect, gpu::GPUDialect,
                    scf::SCFDialect, vector::VectorDialect>();
  if (!kernels.lookupSymbol(runtime::getMoveKernelName(kind, element, isWide)))
    MoveKernelBuilder(kind, element, isWide, kernels);
}

void meshc::codegen::emitMoveKernels(const exec::ExecutableT &executable,
                                     const layout::Mesh &mesh,
                                     gpu::GPUModuleOp kernels) {
  for (auto [reduce, element, isWide] :
       runtime::cuda::findMoveKernels(executable, mesh))
    emitMoveKernel(reduce, element, isWide, kernels);
}
