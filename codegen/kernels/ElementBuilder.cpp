#include "codegen/kernels/ElementBuilder.h"

#include "codegen/ExecTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

KernelFrame::~KernelFrame() = default;

ElementBuilder::ElementBuilder(const KernelBody &kernel, Location loc,
                               OpBuilder entry, KernelFrame &frame,
                               ElementOptions options)
    : kernel(kernel), cluster(kernel.cluster), schedule(kernel.schedule),
      loc(loc), entry(entry), frame(frame),
      options(options), row{entry, {}, {}}, chunk{entry, {}, {}} {}

Value ElementBuilder::getConstant(TypedAttr value) {
  Value &constant = constants[value];
  if (!constant)
    constant = arith::ConstantOp::create(entry, loc, value);
  return constant;
}

Value ElementBuilder::getConstant(int64_t value) {
  return getConstant(entry.getIntegerAttr(getPositionType(), value));
}

void ElementBuilder::beginRow(OpBuilder builder) {
  row = {builder, {}, {}};
  reduced.clear();
}

void ElementBuilder::beginChunk(OpBuilder builder, int64_t chunkLanes,
                                unsigned chunkStage) {
  chunk = {builder, {}, {}};
  lanes = chunkLanes;
  stage = chunkStage;
  steps.clear();
}

void ElementBuilder::resumeChunk(Scope left, OpBuilder builder,
                                 int64_t chunkLanes, unsigned chunkStage) {
  chunk = std::move(left);
  chunk.builder = builder;
  lanes = chunkLanes;
  stage = chunkStage;
  steps.clear();
}

bool ElementBuilder::hasColumns(ArrayRef<unsigned> dims) const {
  return llvm::any_of(dims, [&](unsigned dim) {
    return llvm::is_contained(schedule.getColumns(), dim);
  });
}

Value ElementBuilder::broadcast(Value value) {
  if (isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(
      chunk.builder, loc, VectorType::get({lanes}, value.getType()), value);
}

//===-- Elements ----------------------------------------------------------===//

Value ElementBuilder::getScalar(OpFoldResult splat) {
  if (auto attr = dyn_cast<Attribute>(splat))
    return getConstant(cast<TypedAttr>(attr));
  return getCaptured(cast<Value>(splat));
}

Value ElementBuilder::getElement(Value tensor, ArrayRef<unsigned> dims) {
  // What an element is computed from is built first, as deep as the kernel's
  // operations follow one another: not by recursion.
  SmallVector<std::pair<Value, Cluster::Dims>> open;
  open.emplace_back(tensor, Cluster::Dims(dims));
  while (true) {
    auto [next, nextDims] = open.back();
    if (std::optional<std::pair<Value, Cluster::Dims>> missing =
            findMissing(next, nextDims)) {
      open.push_back(std::move(*missing));
      continue;
    }
    Value element = buildElement(next, nextDims);
    open.pop_back();
    if (open.empty())
      return element;
  }
}

/// The element of `tensor` at `dims` as far as it is there.
Value ElementBuilder::findElement(Value tensor, ArrayRef<unsigned> dims) {
  if (OpFoldResult splat = getSplat(tensor))
    return getScalar(splat);
  const Scope &scope = hasColumns(dims) ? chunk : row;
  auto known = scope.elements.find(
      Key(tensor.getAsOpaquePointer(), Cluster::Dims(dims)));
  return known != scope.elements.end() ? known->second : Value();
}

/// The loops on which the body of the operation behind `tensor` is run for the
/// element at `dims`; none if it comes from somewhere else.
std::optional<Cluster::Dims>
ElementBuilder::getComputedLoops(Value tensor, ArrayRef<unsigned> dims) const {
  Operation *op = tensor.getDefiningOp();
  if (const Cluster::Member *producer = cluster.getProducer(tensor)) {
    bool inColumns = hasColumns(dims);
    const Schedule::Buffer *buffer =
        options.hasRowBuffers ? schedule.getBuffer(tensor) : nullptr;
    std::optional<unsigned> reload = schedule.getReloadStage(tensor);
    if (reduced.contains(op) ||
        (inColumns && buffer && stage > buffer->stage) ||
        (inColumns && reload && stage > *reload))
      return std::nullopt;
    return producer->loops;
  }
  if (op && isRecomputed(op))
    return getLoopsAt(op, dims);
  return std::nullopt;
}

/// The first element that has to be built before that of `tensor` at `dims`.
std::optional<std::pair<Value, Cluster::Dims>>
ElementBuilder::findMissing(Value tensor, ArrayRef<unsigned> dims) {
  if (findElement(tensor, dims))
    return std::nullopt;
  std::optional<Cluster::Dims> loops = getComputedLoops(tensor, dims);
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (!loops || !op)
    return std::nullopt;
  SmallVector<ReadOperand> reads = getReads(op);
  auto read = reads.begin();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!op.payloadUsesValueFromOperand(&operand))
      continue;
    if (!isa<RankedTensorType>(operand.get().getType())) {
      getCaptured(operand.get());
      continue;
    }
    Cluster::Dims readDims = getDimsOf(*read, *loops);
    if (!findElement(read->tensor, readDims))
      return std::pair(read->tensor, std::move(readDims));
    ++read;
  }
  return std::nullopt;
}

/// Builds an element from others that are there.
Value ElementBuilder::buildElement(Value tensor, ArrayRef<unsigned> dims) {
  if (Value known = findElement(tensor, dims))
    return known;
  bool inColumns = hasColumns(dims);
  Scope &scope = inColumns ? chunk : row;
  Operation *op = tensor.getDefiningOp();
  const Schedule::Buffer *buffer =
      options.hasRowBuffers ? schedule.getBuffer(tensor) : nullptr;
  Type type = cast<RankedTensorType>(tensor.getType()).getElementType();
  Value element;
  if (std::optional<Cluster::Dims> loops = getComputedLoops(tensor, dims)) {
    element = compute(op, *loops, scope);
    if (cluster.getProducer(tensor) && inColumns && buffer)
      storeTo(chunk.builder, broadcast(element),
              getBufferPlace(tensor, buffer->offset));
  } else if (cluster.getProducer(tensor) && reduced.contains(op)) {
    element = reduced.lookup(op);
  } else if (cluster.getProducer(tensor) && inColumns && buffer &&
             stage > buffer->stage) {
    element =
        loadFrom(chunk.builder, getBufferPlace(tensor, buffer->offset), type);
  } else {
    element = load(tensor, dims);
  }
  scope.elements[Key(tensor.getAsOpaquePointer(), Cluster::Dims(dims))] =
      element;
  return element;
}

Value ElementBuilder::compute(Operation *op, ArrayRef<unsigned> loops,
                              Scope &scope) {
  if (OpFoldResult splat = getSplat(op->getResult(0)))
    return getScalar(splat);
  auto generic = cast<linalg::GenericOp>(op);
  Operation *yield = generic.getBody()->getTerminator();
  Values values = computeBody(generic, loops, scope, yield);
  Value result = yield->getOperand(0);
  auto known = values.find(result);
  return known != values.end() ? known->second : getCaptured(result);
}

ElementBuilder::Term ElementBuilder::getTerm(const Cluster::Member &member) {
  auto generic = cast<linalg::GenericOp>(member.op);
  Operation *combiner = getCombiner(generic);
  arith::MulFOp product = getSummedProduct(generic);
  Scope &scope = hasColumns(member.loops) ? chunk : row;
  Values values =
      computeBody(generic, member.loops, scope, product ? product : combiner);
  auto get = [&](Value value) {
    auto known = values.find(value);
    return known != values.end() ? known->second : getCaptured(value);
  };
  if (!product)
    return {get(codegen::getTerm(generic, combiner)), {}};
  Value lhs = get(product.getLhs()), rhs = get(product.getRhs());
  if (isa<VectorType>(lhs.getType()) != isa<VectorType>(rhs.getType()))
    return {broadcast(lhs), broadcast(rhs)};
  return {lhs, rhs};
}

ElementBuilder::Term ElementBuilder::broadcast(Term term) {
  return {broadcast(term.value),
          term.factor ? broadcast(term.factor) : term.factor};
}

Value ElementBuilder::combine(OpBuilder &builder, const Cluster::Member &member,
                              Value accumulator, Term term) {
  if (term.factor)
    return math::FmaOp::create(builder, loc, term.value, term.factor,
                               accumulator);
  return createCombination(builder, loc, cast<linalg::GenericOp>(member.op),
                           accumulator, term.value);
}

Value ElementBuilder::getValue(OpBuilder &builder, Term term) {
  if (term.factor)
    return arith::MulFOp::create(builder, loc, term.value, term.factor);
  return term.value;
}

Value ElementBuilder::getInit(const Cluster::Member &member) {
  auto generic = cast<linalg::GenericOp>(member.op);
  return getElement(generic.getDpsInitOperand(0)->get(),
                    cluster.getResultDims(member));
}

void ElementBuilder::setReduced(const Cluster::Member &member, Value result) {
  reduced[member.op] = result;
}

/// Computes the body up to `end`. Of the accumulator only a body without
/// iterations to reduce sees the value.
ElementBuilder::Values ElementBuilder::computeBody(linalg::GenericOp op,
                                                   ArrayRef<unsigned> loops,
                                                   Scope &scope,
                                                   Operation *end) {
  Values values;
  bool reduces = !isa<linalg::YieldOp>(end);
  SmallVector<ReadOperand> reads = getReads(op);
  auto read = reads.begin();
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (!op.payloadUsesValueFromOperand(&operand))
      continue;
    if (!isa<RankedTensorType>(operand.get().getType())) {
      values[argument] = getCaptured(operand.get());
      continue;
    }
    if (!(reduces && op.isDpsInit(&operand)))
      values[argument] = getElement(read->tensor, getDimsOf(*read, loops));
    ++read;
  }
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (&inner == end)
      break;
    computeScalar(inner, loops, scope, values);
  }
  return values;
}

void ElementBuilder::computeScalar(Operation &op, ArrayRef<unsigned> loops,
                                   Scope &scope, Values &values) {
  OpBuilder &builder = scope.builder;
  auto lookUp = [&](Value value) {
    auto known = values.find(value);
    return known != values.end() ? known->second : getCaptured(value);
  };
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    const unsigned dim = loops[index.getDim()];
    Value position = getPosition(dim, scope);
    values[index] = position;
    if (isa<VectorType>(position.getType()))
      steps[position] = {arith::IndexCastOp::create(chunk.builder, loc,
                                                    builder.getIndexType(),
                                                    positions.at(dim)),
                         1,
                         {}};
    return;
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    values[constant] = getConstant(constant.getValue());
    return;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    values[extract] =
        gather(extract.getTensor(),
               llvm::map_to_vector(extract.getIndices(), lookUp), scope);
    return;
  }
  SmallVector<Value> arguments = llvm::map_to_vector(op.getOperands(), lookUp);
  bool isVector = llvm::any_of(
      arguments, [](Value value) { return isa<VectorType>(value.getType()); });
  if (auto comparison = dyn_cast<arith::CmpIOp>(op); comparison && isVector)
    if (Value result = compareSteps(comparison, arguments)) {
      values[comparison.getResult()] = result;
      return;
    }
  IRMapping mapping;
  for (auto [operand, argument] : llvm::zip_equal(op.getOperands(), arguments))
    mapping.map(operand, isVector ? broadcast(argument) : argument);
  Operation *copy = builder.clone(op, mapping);
  copy->setLoc(loc);
  for (auto [result, built] :
       llvm::zip_equal(op.getResults(), copy->getResults())) {
    if (isVector)
      built.setType(VectorType::get({lanes}, built.getType()));
    values[result] = built;
  }
  if (isVector && op.getNumResults() == 1)
    noteSteps(op, arguments, values[op.getResult(0)]);
}

/// `value` as steps; of a scalar, by 0.
std::optional<ElementBuilder::Steps>
ElementBuilder::findSteps(Value value) const {
  if (!isa<VectorType>(value.getType()))
    return Steps{value, 0, {}};
  auto known = steps.find(value);
  return known == steps.end() ? std::nullopt : std::optional(known->second);
}

/// Where a comparison of two indices holds, of which it is known how they go
/// from lane to lane; null if it is not. The lanes are compared as numbers of
/// 32 bits: positions have 64, of which a register holds half as many. What
/// lane 0 has is clamped to twice maxLaneDistance, which changes no answer:
/// from there no lane comes back.
Value ElementBuilder::compareSteps(arith::CmpIOp op,
                                   ArrayRef<Value> arguments) {
  using Predicate = arith::CmpIPredicate;
  const auto lhs = findSteps(arguments[0]), rhs = findSteps(arguments[1]);
  if (!lhs || !rhs || lhs->mask || rhs->mask)
    return {};
  const int64_t step = lhs->step - rhs->step;
  if (std::abs(step) * lanes >= maxLaneDistance)
    return {};
  OpBuilder &builder = chunk.builder;
  const Type wide = builder.getI64Type(), narrow = builder.getI32Type();
  auto widen = [&](Value first) -> Value {
    if (isa<IndexType>(first.getType()))
      return arith::IndexCastOp::create(builder, loc, wide, first);
    if (first.getType() == wide)
      return first;
    return arith::ExtSIOp::create(builder, loc, wide, first);
  };
  auto getNarrow = [&](Value number) -> Value {
    auto getLimit = [&](int64_t limit) {
      return getConstant(builder.getI64IntegerAttr(limit));
    };
    number = arith::MaxSIOp::create(builder, loc, number,
                                    getLimit(-2 * maxLaneDistance));
    number = arith::MinSIOp::create(builder, loc, number,
                                    getLimit(2 * maxLaneDistance));
    return broadcast(arith::TruncIOp::create(builder, loc, narrow, number));
  };
  const Value left = widen(lhs->first), right = widen(rhs->first);
  const Value ofLanes = getLaneOffsets(builder, narrow, step);
  llvm::APInt bound;
  switch (op.getPredicate()) {
  case Predicate::eq:
  case Predicate::ne:
  case Predicate::slt:
  case Predicate::sle:
  case Predicate::sgt:
  case Predicate::sge:
    return arith::CmpIOp::create(
        builder, loc, op.getPredicate(), ofLanes,
        getNarrow(arith::SubIOp::create(builder, loc, right, left)));
  case Predicate::ult:
  case Predicate::uge:
    // From 0 on and below a bound: one comparison, as masks of two would be
    // packed into bytes.
    if (rhs->step != 0 || !matchPattern(rhs->first, m_ConstantInt(&bound)) ||
        bound.isNegative() || bound.sgt(maxLaneDistance))
      return {};
    return arith::CmpIOp::create(
        builder, loc, op.getPredicate(),
        arith::AddIOp::create(builder, loc, getNarrow(left), ofLanes),
        getNarrow(right));
  case Predicate::ule:
  case Predicate::ugt:
    return {};
  }
  llvm_unreachable("not a predicate");
}

/// Notes how `built`, what became of `op` for a chunk, goes from lane to lane,
/// if it is an index of which that is known.
void ElementBuilder::noteSteps(Operation &op, ArrayRef<Value> arguments,
                               Value built) {
  /// The same operation of what lane 0 has.
  auto ofFirst = [&](ArrayRef<Value> operands) {
    Operation *copy = chunk.builder.clone(op);
    copy->setLoc(loc);
    copy->setOperands(operands);
    return copy->getResult(0);
  };
  if (isa<arith::AddIOp, arith::SubIOp>(op)) {
    const auto lhs = findSteps(arguments[0]), rhs = findSteps(arguments[1]);
    if (!lhs || !rhs || lhs->mask || rhs->mask)
      return;
    const int64_t step =
        isa<arith::AddIOp>(op) ? lhs->step + rhs->step : lhs->step - rhs->step;
    steps[built] = {ofFirst({lhs->first, rhs->first}), step, {}};
  } else if (isa<arith::IndexCastOp>(op)) {
    const auto given = findSteps(arguments[0]);
    if (given && !given->mask)
      steps[built] = {ofFirst({given->first}), given->step, {}};
  } else if (isa<arith::SelectOp>(op) &&
             matchPattern(op.getOperand(2), m_Zero())) {
    const auto given = findSteps(arguments[1]);
    if (given && !given->mask && isa<VectorType>(arguments[1].getType()))
      steps[built] = {given->first, given->step, broadcast(arguments[0])};
  }
}

//===-- Values from outside the body --------------------------------------===//

Value ElementBuilder::getCaptured(Value value) {
  if (Value known = captured.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (isa<spmd::AxisIndexOp>(op)) {
    Value coordinate = getCoordinate(op);
    captured[value] = coordinate;
    return coordinate;
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, getCaptured(operand));
  Operation *copy = entry.clone(*op, mapping);
  copy->setLoc(loc);
  for (auto [result, built] :
       llvm::zip_equal(op->getResults(), copy->getResults()))
    captured[result] = built;
  return captured[value];
}

/// The coordinate on part {pre, size} of an axis of size n, with coordinate c
/// on the whole axis, is (c / (n / (pre * size))) mod size (layout/Mesh.h).
Value ElementBuilder::getCoordinate(Operation *op) {
  nd::AxisRefAttr part = cast<spmd::AxisIndexOp>(op).getAxis();
  layout::Mesh mesh = nd::getMesh(op);
  int32_t axis = *mesh.findAxis(part.getName().getValue());
  Value coordinate = frame.getCoordinate(entry, unsigned(axis));
  auto getI64 = [&](int64_t value) {
    return getConstant(entry.getI64IntegerAttr(value));
  };
  if (part.getSize() != 0) {
    int64_t inner = mesh.getAxisSize(axis) / (part.getPre() * part.getSize());
    coordinate = arith::RemUIOp::create(
        entry, loc,
        arith::DivUIOp::create(entry, loc, coordinate, getI64(inner)),
        getI64(part.getSize()));
  }
  return arith::IndexCastOp::create(entry, loc, entry.getIndexType(),
                                    coordinate);
}

/// Position along `dim` as index, one per lane along the last column dimension.
Value ElementBuilder::getPosition(unsigned dim, Scope &scope) {
  if (dim == Cluster::unit)
    return getConstant(entry.getIndexAttr(0));
  OpBuilder &builder = llvm::is_contained(schedule.getColumns(), dim)
                           ? chunk.builder
                           : scope.builder;
  Value position = arith::IndexCastOp::create(
      builder, loc, builder.getIndexType(), positions.at(dim));
  if (schedule.getColumns().empty() || dim != schedule.getColumns().back())
    return position;
  auto type = VectorType::get({lanes}, builder.getIndexType());
  SmallVector<APInt> lanePositions;
  for (int64_t lane = 0; lane < lanes; ++lane)
    lanePositions.emplace_back(64, uint64_t(lane));
  Value steps = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, lanePositions));
  return arith::AddIOp::create(builder, loc, broadcast(position), steps);
}
