// Memory of kernels: pointers, loads, stores, gathers.

#include "codegen/kernels/ElementBuilder.h"

#include "codegen/ExecTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;
using namespace meshc::codegen;

static Type getElementType(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

/// Type of an element in memory: a boolean takes a byte.
static Type getMemoryType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  return element;
}

static unsigned getAlignment(Type element) {
  return unsigned(getElementBytes(element));
}

static SmallVector<int64_t> getDenseStrides(Value tensor) {
  return computeStrides(cast<RankedTensorType>(tensor.getType()).getShape());
}

Value ElementBuilder::offsetPointer(OpBuilder &builder, Value pointer,
                                    Type element, Value offset) {
  Type type = pointer.getType();
  if (auto vector = dyn_cast<VectorType>(offset.getType()))
    type = VectorType::get(vector.getShape(), type);
  return LLVM::GEPOp::create(builder, loc, type, getMemoryType(element),
                             pointer, ArrayRef<LLVM::GEPArg>{offset});
}

/// Sum of position * stride over those of `dims` that `isWanted` takes; null if
/// there are none.
static Value
getOffset(OpBuilder &builder, Location loc, ArrayRef<unsigned> dims,
          ArrayRef<int64_t> strides,
          llvm::function_ref<bool(unsigned)> isWanted,
          llvm::function_ref<Value(unsigned dim, int64_t stride)> getTerm) {
  Value offset;
  for (auto [dim, stride] : llvm::zip_equal(dims, strides)) {
    if (dim == Cluster::unit || !isWanted(dim))
      continue;
    Value term = getTerm(dim, stride);
    offset = offset ? arith::AddIOp::create(builder, loc, offset, term) : term;
  }
  return offset;
}

ElementBuilder::Place ElementBuilder::getPlace(Value tensor,
                                               ArrayRef<unsigned> dims) {
  Type element = getElementType(tensor);
  if (RowMemory memory = rowMemory.lookup(tensor); memory.pointer) {
    if (hasColumns(dims))
      return getRowPlace(tensor, memory);
    return {memory.pointer, 0, getAlignment(element)};
  }
  Value &base = bases[tensor];
  if (!base) {
    auto position = llvm::find(kernel.inputs, tensor) - kernel.inputs.begin();
    if (position == ptrdiff_t(kernel.inputs.size()))
      position += llvm::find(kernel.outputs, tensor) - kernel.outputs.begin();
    base = frame.getOperand(entry, unsigned(position));
  }

  SmallVector<int64_t> strides = getDenseStrides(tensor);
  ArrayRef<unsigned> columns = schedule.getColumns();
  auto isColumn = [&](unsigned dim) {
    return llvm::is_contained(columns, dim);
  };
  auto isRow = [&](unsigned dim) { return !isColumn(dim); };
  auto scaled = [&](OpBuilder &builder) {
    return [&](unsigned dim, int64_t stride) -> Value {
      Value position = positions.at(dim);
      if (stride == 1)
        return position;
      return arith::MulIOp::create(builder, loc, position, getConstant(stride));
    };
  };

  Key key(tensor.getAsOpaquePointer(), Cluster::Dims(dims));
  Value &rowPointer = row.pointers[key];
  if (!rowPointer) {
    rowPointer = base;
    if (Value offset = getOffset(row.builder, loc, dims, strides, isRow,
                                 scaled(row.builder)))
      rowPointer = offsetPointer(row.builder, base, element, offset);
  }
  Place place{rowPointer, 0, getAlignment(element)};
  if (!hasColumns(dims))
    return place;
  if (Value offset = getOffset(chunk.builder, loc, dims, strides, isColumn,
                               scaled(chunk.builder)))
    place.pointer = offsetPointer(chunk.builder, rowPointer, element, offset);
  for (auto [dim, stride] : llvm::zip_equal(dims, strides))
    if (dim == columns.back())
      place.stride = stride;
  place.alignment = getVectorAlignment(tensor, dims);
  return place;
}

/// The largest power of two, up to the target's vectors, that divides every
/// offset of a chunk's first element.
unsigned ElementBuilder::getVectorAlignment(Value tensor,
                                            ArrayRef<unsigned> dims) const {
  Type element = getElementType(tensor);
  if (options.vectorBytes == 0)
    return getAlignment(element);
  uint64_t common = uint64_t(options.vectorBytes);
  for (auto [dim, stride] : llvm::zip_equal(dims, getDenseStrides(tensor))) {
    if (dim == Cluster::unit)
      continue;
    uint64_t step = uint64_t(stride) * uint64_t(getElementBytes(element));
    if (dim == schedule.getColumns().back())
      step *= uint64_t(grain);
    common = std::gcd(common, step);
  }
  return std::max<unsigned>(unsigned(common & -common), getAlignment(element));
}

/// The chunk's columns in a row buffer.
ElementBuilder::Place ElementBuilder::getBufferPlace(Value tensor,
                                                     int64_t offset) {
  Type byte = entry.getI8Type();
  if (!scratch)
    scratch = LLVM::AllocaOp::create(
        entry, loc, LLVM::LLVMPointerType::get(loc.getContext()), byte,
        getConstant(schedule.getScratchBytes()), 64);
  return getRowPlace(
      tensor,
      {offsetPointer(row.builder, scratch, byte, getConstant(offset)), {}});
}

/// The chunk's columns in memory that is dense over the columns.
ElementBuilder::Place ElementBuilder::getRowPlace(Value tensor,
                                                  RowMemory memory) {
  Type element = getElementType(tensor);
  ArrayRef<unsigned> columns = schedule.getColumns();
  SmallVector<int64_t> strides;
  int64_t stride = 1;
  for (unsigned dim : llvm::reverse(columns)) {
    strides.insert(strides.begin(), stride);
    stride *= cluster.getSizes()[dim];
  }
  Value position = getOffset(
      chunk.builder, loc, columns, strides, [](unsigned) { return true; },
      [&](unsigned dim, int64_t dimStride) -> Value {
        return arith::MulIOp::create(chunk.builder, loc, positions.at(dim),
                                     getConstant(dimStride));
      });
  if (memory.firstColumn)
    position =
        arith::SubIOp::create(chunk.builder, loc, position, memory.firstColumn);
  return {offsetPointer(chunk.builder, memory.pointer, element, position), 1,
          getAlignment(element)};
}

Value ElementBuilder::getLaneOffsets(OpBuilder &builder, Type position,
                                     int64_t stride) {
  SmallVector<Attribute> offsets;
  for (int64_t lane = 0; lane < lanes; ++lane)
    offsets.push_back(builder.getIntegerAttr(position, lane * stride));
  auto type = VectorType::get({lanes}, position);
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(type, offsets));
}

static Value getFullMask(OpBuilder &builder, Location loc, int64_t lanes) {
  auto type = VectorType::get({lanes}, builder.getI1Type());
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(type, true));
}

/// Converts between a boolean and the byte that holds it.
static Value fromMemory(OpBuilder &builder, Location loc, Value value,
                        Type element) {
  if (!element.isInteger(1))
    return value;
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value,
                               zero);
}
static Value toMemory(OpBuilder &builder, Location loc, Value value) {
  if (!getElementTypeOrSelf(value).isInteger(1))
    return value;
  Type byte = builder.getI8Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    byte = vector.clone(byte);
  return arith::ExtUIOp::create(builder, loc, byte, value);
}

Value ElementBuilder::loadFrom(OpBuilder &builder, Place place, Type element) {
  Type type = getMemoryType(element);
  const unsigned alignment = getAlignment(element);
  Value value;
  if (place.stride == 0) {
    value = LLVM::LoadOp::create(builder, loc, type, place.pointer, alignment);
  } else {
    auto vector = VectorType::get({lanes}, type);
    if (place.stride == 1) {
      value = LLVM::LoadOp::create(builder, loc, vector, place.pointer,
                                   place.alignment);
    } else {
      Value pointers = offsetPointer(
          builder, place.pointer, element,
          getLaneOffsets(builder, getPositionType(), place.stride));
      value = LLVM::masked_gather::create(
          builder, loc, vector, pointers, getFullMask(builder, loc, lanes),
          ValueRange(), builder.getI32IntegerAttr(alignment));
    }
  }
  return fromMemory(builder, loc, value, element);
}

void ElementBuilder::storeTo(OpBuilder &builder, Value value, Place place) {
  Type element = getElementTypeOrSelf(value);
  value = toMemory(builder, loc, value);
  if (place.stride < 2) {
    LLVM::StoreOp::create(builder, loc, value, place.pointer, place.alignment);
    return;
  }
  Value pointers =
      offsetPointer(builder, place.pointer, element,
                    getLaneOffsets(builder, getPositionType(), place.stride));
  LLVM::masked_scatter::create(builder, loc, value, pointers,
                               getFullMask(builder, loc, lanes),
                               builder.getI32IntegerAttr(place.alignment));
}

Value ElementBuilder::load(Value tensor, ArrayRef<unsigned> dims) {
  Place place = getPlace(tensor, dims);
  return loadFrom(hasColumns(dims) ? chunk.builder : row.builder, place,
                  getElementType(tensor));
}

void ElementBuilder::store(Value value, Value tensor, ArrayRef<unsigned> dims) {
  Place place = getPlace(tensor, dims);
  if (hasColumns(dims))
    storeTo(chunk.builder, place.stride == 0 ? value : broadcast(value), place);
  else
    storeTo(row.builder, value, place);
}

/// Elements of `tensor` at `indices` where all lanes but masked ones, which are
/// at 0 of one dimension, follow one another in memory; null where they may
/// not.
Value ElementBuilder::loadSteps(Value tensor, ArrayRef<Value> indices) {
  SmallVector<Value> first(indices), masked(indices);
  const SmallVector<int64_t> strides = getDenseStrides(tensor);
  OpBuilder &builder = chunk.builder;
  int64_t stride = 0;
  unsigned numSteps = 0;
  Value mask;
  for (auto [position, index] : llvm::enumerate(indices)) {
    if (!isa<VectorType>(index.getType()))
      continue;
    auto known = steps.find(index);
    if (known == steps.end())
      return {};
    ++numSteps;
    stride += known->second.step * strides[position];
    first[position] = known->second.first;
    if (known->second.mask) {
      mask = known->second.mask;
      masked[position] = getConstant(entry.getIndexAttr(0));
    }
  }
  if (stride != 1 || (mask && (numSteps > 1 || !options.hasMaskedLoads)))
    return {};
  const Type element = getElementType(tensor);
  Value base =
      getPlace(tensor, Cluster::Dims(indices.size(), Cluster::unit)).pointer;
  auto getPointer = [&](ArrayRef<Value> places) {
    Value offset;
    for (auto [place, dimStride] : llvm::zip_equal(places, strides)) {
      Value term = arith::MulIOp::create(
          builder, loc,
          arith::IndexCastOp::create(builder, loc, getPositionType(), place),
          getConstant(dimStride));
      offset =
          offset ? arith::AddIOp::create(builder, loc, offset, term) : term;
    }
    return offsetPointer(builder, base, element, offset);
  };
  const unsigned alignment = getAlignment(element);
  if (!mask)
    return loadFrom(builder, {getPointer(first), 1, alignment}, element);
  const Type memory = getMemoryType(element);
  Value other = broadcast(LLVM::LoadOp::create(builder, loc, memory,
                                               getPointer(masked), alignment));
  Value loaded = LLVM::MaskedLoadOp::create(
      builder, loc, other.getType(), getPointer(first), mask, other,
      builder.getI32IntegerAttr(alignment));
  return fromMemory(builder, loc, loaded, element);
}

/// Elements of `tensor` at `indices` (scalars or one per lane, of type index).
Value ElementBuilder::gather(Value tensor, ArrayRef<Value> indices,
                             Scope &scope) {
  Type element = getElementType(tensor);
  OpBuilder &builder = scope.builder;
  bool isVector = llvm::any_of(
      indices, [](Value index) { return isa<VectorType>(index.getType()); });
  if (OpFoldResult splat = getSplat(tensor))
    return getScalar(splat);
  if (Value loaded = isVector ? loadSteps(tensor, indices) : Value())
    return loaded;
  Value pointer =
      getPlace(tensor, Cluster::Dims(indices.size(), Cluster::unit)).pointer;
  Value offset;
  for (auto [index, stride] :
       llvm::zip_equal(indices, getDenseStrides(tensor))) {
    Value position = isVector ? broadcast(index) : index;
    Type type = getPositionType();
    Type same = type;
    if (isVector)
      same = VectorType::get({lanes}, type);
    position = arith::IndexCastOp::create(builder, loc, same, position);
    Value step = getConstant(stride);
    Value term = arith::MulIOp::create(builder, loc, position,
                                       isVector ? broadcast(step) : step);
    offset = offset ? arith::AddIOp::create(builder, loc, offset, term) : term;
  }
  if (!offset)
    return loadFrom(builder, {pointer, 0, getAlignment(element)}, element);
  Value pointers = offsetPointer(builder, pointer, element, offset);
  if (!isVector)
    return loadFrom(builder, {pointers, 0, getAlignment(element)}, element);
  Value loaded = LLVM::masked_gather::create(
      builder, loc, VectorType::get({lanes}, getMemoryType(element)), pointers,
      getFullMask(builder, loc, lanes), ValueRange(),
      builder.getI32IntegerAttr(getAlignment(element)));
  return fromMemory(builder, loc, loaded, element);
}
