// The threads of a GPU kernel.
//
// Threads of a group (LaunchShape.h) take chunks of columns in turn, so that
// neighbours access neighbouring memory:
//
//   thread        0     1     2     3     0     1     2     3
//   columns     0..3  4..7  8..11 12..15 16..19 ...
//
// A thread has the same columns in every stage and every row. As long as a row
// is short enough for its threads' registers, what a stage has loaded or
// computed is still there in the next one: memory is read once and written
// once.

#include "codegen/gpu/GpuKernelEmitter.h"

#include "codegen/ExecTypes.h"
#include "codegen/gpu/GpuFunction.h"
#include "codegen/gpu/GpuTileEmitter.h"
#include "codegen/gpu/LaunchShape.h"
#include "codegen/kernels/BlockedSums.h"
#include "codegen/kernels/ElementBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Parts of a sum that a thread loads before it adds the first, and threads
/// that are wanted for that: of fewer elements several threads, up to a warp,
/// add the parts of each. A thread for each of 16384 elements would be 64
/// blocks for 132 multiprocessors, and four loads ahead, what ptxas makes of a
/// loop, 256 KiB on their way; to read parts from memory takes the product
/// of 4.8 TB/s and 0.8 us, 3.8 MB, and from the second-level cache no less.
/// 131072 threads with eight loads have 4 MiB.
static constexpr int64_t partLoads = 8;
static constexpr int64_t sumThreads = 131072;

static RankedTensorType getResultType(const Cluster::Member &member) {
  return cast<RankedTensorType>(member.op->getResult(0).getType());
}

namespace {
class GpuKernelBuilder {
public:
  GpuKernelBuilder(const KernelBody &kernel, StringRef name,
                   ArrayRef<bool> isShared, gpu::GPUModuleOp kernels);

  LogicalResult build(EmittedKernel &result);

private:
  /// Some consecutive columns of one thread.
  struct Chunk {
    SmallVector<Value> positions; ///< by column dimension
    Value isValid;                ///< null: always
    std::optional<ElementBuilder::Scope> scope;
  };
  /// What a reduction has so far, by thread: a vector of lanes, or a scalar
  /// where the terms have no columns.
  using Partials = SmallVector<Value>;

  ArrayRef<Cluster::Member> members() const { return cluster.getMembers(); }
  Value constant(int64_t value) { return elements->getConstant(value); }
  Type positionType() { return elements->getPositionType(); }
  bool isAccumulator(unsigned member) const {
    return llvm::is_contained(accumulators, member);
  }

  /// Whether a thread adds up in the accumulator's own memory, or that of its
  /// part: it has more columns than registers.
  bool isInMemory(unsigned member) const {
    return !shape.keepsChunks &&
           elements->hasColumns(cluster.getResultDims(members()[member]));
  }

  void createFunction(StringRef symbol, int64_t threads);
  Value getId(OpBuilder &builder, bool isBlock);
  std::pair<Value, Value> divide(OpBuilder &builder, Value value,
                                 int64_t divisor);
  void emitMain();
  void setIteration(OpBuilder &builder);
  void setChunks(OpBuilder &builder);
  Value add(OpBuilder &builder, Value value, int64_t addend);
  SmallVector<Value> getChunkPositions(OpBuilder &builder, Value number);
  Value getPart(OpBuilder &builder, size_t accumulator, Value split);
  Value both(OpBuilder &builder, Value a, Value b);
  bool overwritesRowInputs() const;
  Value mayStore(OpBuilder &builder, Value condition) {
    return both(builder, condition, both(builder, isActive, isRow));
  }
  void accumulate(OpBuilder &builder, unsigned member, size_t chunk,
                  ElementBuilder::Term term, Partials &accumulated);
  void ifAll(OpBuilder &builder, Value condition,
             llvm::function_ref<void(OpBuilder &)> body);

  Partials getNeutralAccumulators(OpBuilder &builder);
  void setRow(OpBuilder &builder, Value row, bool mayEnd);
  void emitRows(OpBuilder &builder, Value first, bool mayEnd,
                Partials &accumulators);
  Partials emitRow(OpBuilder &builder, Partials accumulators);
  void emitStage(OpBuilder &builder, unsigned stage, Partials &accumulators);
  void emitKeptStage(OpBuilder &builder, unsigned stage, Partials &partials,
                     Partials &accumulators);
  Chunk getChunk(OpBuilder &builder, Value number, bool mayEnd);
  void setChunkPositions(const Chunk &chunk);
  using PassBody =
      llvm::function_ref<void(OpBuilder &, MutableArrayRef<Chunk>, Partials &)>;
  Partials emitPasses(OpBuilder &builder, ArrayRef<unsigned> reductions,
                      Partials carried, PassBody body);
  CarriedSums getSums(ArrayRef<Value> carried,
                      std::function<std::optional<unsigned>(size_t)> getMember);
  void resumeToStore(OpBuilder &builder, Chunk &chunk, Value condition,
                     unsigned stage);
  void emitPass(OpBuilder &builder, unsigned stage, MutableArrayRef<Chunk> pass,
                Partials &partials);
  void emitMemoryAccumulators(
      OpBuilder &builder,
      llvm::function_ref<Value(OpBuilder &, unsigned member)> getValue);
  void emitTail(OpBuilder &builder, Partials &accumulators);
  void addTerms(OpBuilder &builder, unsigned stage, const Chunk &chunk,
                Partials &partials);
  SmallVector<Value> getStored(unsigned stage);
  void store(unsigned stage, ArrayRef<Value> values);
  void emitRowResults(OpBuilder &builder, Partials &accumulators);
  void storeAccumulators(OpBuilder &builder, ArrayRef<Value> accumulators);
  Value addParts(OpBuilder &builder, size_t accumulator, Value first,
                 int64_t step);
  void emitSum(EmittedKernel &result);
  void emitRowSum(EmittedKernel &result);

  Value getNeutral(OpBuilder &builder, unsigned member, int64_t lanes);
  Value combine(OpBuilder &builder, unsigned member, Value accumulator,
                ElementBuilder::Term term);
  Value combine(OpBuilder &builder, unsigned member, Value lhs, Value rhs) {
    return combine(builder, member, lhs, ElementBuilder::Term{rhs, {}});
  }
  Value reduceLanes(OpBuilder &builder, unsigned member, Value value);
  Value shuffle(OpBuilder &builder, Value value, int64_t mask);
  Value reduceWarp(OpBuilder &builder, unsigned member, Value value,
                   int64_t width, int64_t stride = 1);
  Partials reduceGroup(OpBuilder &builder, ArrayRef<unsigned> reductions,
                       Partials values);
  Value getSharedPlace(OpBuilder &builder, int64_t slot, Value warp);

  const KernelBody &kernel;
  const Cluster &cluster;
  const Schedule &schedule;
  ArrayRef<bool> isShared;
  gpu::GPUModuleOp kernels;
  Location loc;
  std::string name;
  LaunchShape shape;
  unsigned positionBits = 32;

  /// Members that are summed across rows, or across the parts of a row.
  SmallVector<unsigned> accumulators;
  SmallVector<int64_t> accumulatorOffsets; ///< in the workspace, bytes
  int64_t workspaceBytes = 0;
  bool hasWorkspace() const { return shape.splits > 1; }

  std::optional<GpuFunction> function;
  std::optional<ElementBuilder> elements;
  Value thread;      ///< in its group
  Value split;       ///< null if there is one
  Value isActive;    ///< whether the group has an iteration; null: always
  Value isRow;       ///< whether it has the row; null: always
  Value columnBlock; ///< null if there is one
  SmallVector<Chunk> chunks;
  int64_t numSlots = 0; ///< of shared memory, one value per warp each
  int64_t getSharedBytes() const {
    return numSlots * (shape.groupThreads / warpThreads) * 8;
  }
};
} // namespace

GpuKernelBuilder::GpuKernelBuilder(const KernelBody &kernel, StringRef name,
                                   ArrayRef<bool> isShared,
                                   gpu::GPUModuleOp kernels)
    : kernel(kernel), cluster(kernel.cluster), schedule(kernel.schedule),
      isShared(isShared), kernels(kernels),
      loc(NameLoc::get(StringAttr::get(kernels.getContext(), name))),
      name(name) {
  for (unsigned member = 0; member < members().size(); ++member)
    if (schedule.getRole(member) == Schedule::Role::Accumulator)
      accumulators.push_back(member);
  shape = LaunchShape::get(cluster, schedule, accumulators);
  if (shape.cutsReductions)
    accumulators = schedule.getStages().front().reductions;

  int64_t largest = shape.iterations * shape.groupThreads;
  for (Value tensor : kernel.getOperands())
    largest = std::max(
        largest, cast<RankedTensorType>(tensor.getType()).getNumElements());
  // Of a loop in blocks the last step may end as far behind the last position
  // as the first one is in front of it.
  largest = std::max(largest, 2 * shape.summedRows);
  if (!shape.keepsChunks)
    largest = std::max(largest, 2 * shape.chunksPerRow);
  if (largest >= (int64_t(1) << 31))
    positionBits = 64;
  if (hasWorkspace())
    for (unsigned member : accumulators) {
      accumulatorOffsets.push_back(workspaceBytes);
      workspaceBytes +=
          llvm::alignTo(getBytes(getResultType(members()[member])),
                        uint64_t(accessBytes)) *
          shape.splits;
    }
}

//===-- Functions ---------------------------------------------------------===//

void GpuKernelBuilder::createFunction(StringRef symbol, int64_t threads) {
  function.emplace(GpuFunction::create(
      kernels, loc, symbol, threads,
      {kernel.inputs.size(), kernel.outputs.size(), isShared, hasWorkspace()},
      nd::getMesh(kernel.ops.front()).getAxes().size()));
  elements.emplace(kernel, loc, OpBuilder(function->getAnchor()), *function,
                   getElementOptions(positionBits, accessBytes));
  elements->setGrain(shape.lanes);
}

Value GpuKernelBuilder::getId(OpBuilder &builder, bool isBlock) {
  return function->getId(builder, positionType(), isBlock);
}

/// Quotient and remainder.
std::pair<Value, Value> GpuKernelBuilder::divide(OpBuilder &builder,
                                                 Value value, int64_t divisor) {
  if (divisor == 1)
    return {value, constant(0)};
  return {arith::DivUIOp::create(builder, loc, value, constant(divisor)),
          arith::RemUIOp::create(builder, loc, value, constant(divisor))};
}

Value GpuKernelBuilder::add(OpBuilder &builder, Value value, int64_t addend) {
  if (addend == 0)
    return value;
  return arith::AddIOp::create(builder, loc, value, constant(addend));
}

Value GpuKernelBuilder::both(OpBuilder &builder, Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(builder, loc, a, b);
}

/// Runs `body` where `condition` holds, which is null if it always does.
void GpuKernelBuilder::ifAll(OpBuilder &builder, Value condition,
                             llvm::function_ref<void(OpBuilder &)> body) {
  if (!condition) {
    body(builder);
    return;
  }
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElse=*/false);
  OpBuilder outer = elements->getRowBuilder();
  elements->setRowPoint(branch);
  OpBuilder inner(branch.thenBlock()->getTerminator());
  body(inner);
  elements->getRowBuilder() = outer;
}

//===-- Iterations --------------------------------------------------------===//

void GpuKernelBuilder::setIteration(OpBuilder &builder) {
  auto [group, inGroup] =
      divide(builder, getId(builder, /*isBlock=*/false), shape.groupThreads);
  thread = inGroup;
  if (shape.groupThreads == shape.getBlockThreads())
    thread = getId(builder, /*isBlock=*/false);
  Value iteration = getId(builder, /*isBlock=*/true);
  if (shape.groupsPerBlock > 1) {
    iteration = arith::MulIOp::create(builder, loc, iteration,
                                      constant(shape.groupsPerBlock));
    iteration = arith::AddIOp::create(builder, loc, iteration, group);
  }
  if (shape.iterations % shape.groupsPerBlock != 0) {
    // Its threads take part in what a warp does together.
    isActive = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                     iteration, constant(shape.iterations));
    iteration =
        arith::SelectOp::create(builder, loc, isActive, iteration, constant(0));
  }
  auto take = [&](int64_t size) {
    auto [rest, position] = divide(builder, iteration, size);
    iteration = rest;
    return position;
  };
  if (shape.columnBlocks > 1)
    columnBlock = take(shape.columnBlocks);
  for (unsigned dim : llvm::reverse(schedule.getParallel()))
    elements->setPosition(dim, take(cluster.getSizes()[dim]));
  if (shape.splits > 1)
    split = iteration;
}

/// Where the chunk of this number in a row begins, by column dimension.
SmallVector<Value> GpuKernelBuilder::getChunkPositions(OpBuilder &builder,
                                                       Value number) {
  ArrayRef<unsigned> columns = schedule.getColumns();
  SmallVector<Value> positions(columns.size());
  for (size_t i = columns.size(); i-- > 0;) {
    const bool isLast = i + 1 == columns.size();
    // The first one has what is left.
    if (i == 0) {
      positions[i] = number;
    } else {
      auto [rest, position] =
          divide(builder, number,
                 isLast ? shape.lastDimChunks : cluster.getSizes()[columns[i]]);
      positions[i] = position;
      number = rest;
    }
    if (isLast)
      positions[i] = arith::MulIOp::create(builder, loc, positions[i],
                                           constant(shape.lanes));
  }
  return positions;
}

/// The chunk of this number, which may lie behind the end of the row.
GpuKernelBuilder::Chunk GpuKernelBuilder::getChunk(OpBuilder &builder,
                                                   Value number, bool mayEnd) {
  Chunk chunk;
  if (mayEnd) {
    chunk.isValid =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number,
                              constant(shape.chunksPerRow));
    number = arith::SelectOp::create(builder, loc, chunk.isValid, number,
                                     constant(0));
  }
  chunk.positions = getChunkPositions(builder, number);
  return chunk;
}

void GpuKernelBuilder::setChunkPositions(const Chunk &chunk) {
  for (auto [dim, position] :
       llvm::zip_equal(schedule.getColumns(), chunk.positions))
    elements->setPosition(dim, position);
}

/// The chunks that the thread keeps.
void GpuKernelBuilder::setChunks(OpBuilder &builder) {
  if (shape.chunksPerRow == 0 || !shape.keepsChunks)
    return;
  const int64_t blockChunks = shape.groupThreads * shape.chunksPerThread;
  Value first = thread;
  if (columnBlock)
    first =
        arith::AddIOp::create(builder, loc, thread,
                              arith::MulIOp::create(builder, loc, columnBlock,
                                                    constant(blockChunks)));
  for (int64_t i = 0; i < shape.chunksPerThread; ++i) {
    const int64_t end =
        (shape.columnBlocks - 1) * blockChunks + (i + 1) * shape.groupThreads;
    chunks.push_back(getChunk(builder,
                              add(builder, first, i * shape.groupThreads),
                              /*mayEnd=*/end > shape.chunksPerRow));
  }
}

//===-- Reductions --------------------------------------------------------===//

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

//===-- Rows --------------------------------------------------------------===//

/// Adds the stage's terms of one chunk to `partials`: of reductions, or of
/// updates.
void GpuKernelBuilder::addTerms(OpBuilder &builder, unsigned stage,
                                const Chunk &chunk, Partials &partials) {
  ArrayRef<unsigned> reductions = schedule.getStages()[stage].reductions;
  for (auto [member, partial] : llvm::zip_equal(reductions, partials)) {
    ElementBuilder::Term term =
        elements->broadcast(elements->getTerm(members()[member]));
    Value next = combine(builder, member, partial, term);
    partial = chunk.isValid ? Value(arith::SelectOp::create(
                                  builder, loc, chunk.isValid, next, partial))
                            : next;
  }
}

SmallVector<Value> GpuKernelBuilder::getStored(unsigned stage) {
  SmallVector<Value> values;
  for (unsigned index : schedule.getStages()[stage].stores)
    values.push_back(
        elements->getElement(members()[index].op->getResult(0),
                             cluster.getResultDims(members()[index])));
  return values;
}

void GpuKernelBuilder::store(unsigned stage, ArrayRef<Value> values) {
  for (auto [index, value] :
       llvm::zip_equal(schedule.getStages()[stage].stores, values))
    elements->store(value, members()[index].op->getResult(0),
                    cluster.getResultDims(members()[index]));
}

/// A stage whose chunks stay in registers. Everything is read before anything
/// is written: outputs may lie where inputs do.
void GpuKernelBuilder::emitKeptStage(OpBuilder &builder, unsigned stageIndex,
                                     Partials &partials,
                                     Partials &accumulated) {
  const Schedule::Stage &stage = schedule.getStages()[stageIndex];
  SmallVector<SmallVector<Value>> stored;
  for (auto [number, chunk] : llvm::enumerate(chunks)) {
    setChunkPositions(chunk);
    if (chunk.scope)
      elements->resumeChunk(std::move(*chunk.scope), builder, shape.lanes,
                            stageIndex);
    else
      elements->beginChunk(builder, shape.lanes, stageIndex);
    addTerms(builder, stageIndex, chunk, partials);
    for (unsigned member : stage.updates) {
      ElementBuilder::Term term =
          elements->broadcast(elements->getTerm(members()[member]));
      accumulate(builder, member, number, term, accumulated);
    }
    stored.push_back(getStored(stageIndex));
    chunk.scope = elements->leaveChunk();
  }
  if (stage.stores.empty())
    return;
  for (auto [chunk, values] : llvm::zip_equal(chunks, stored)) {
    setChunkPositions(chunk);
    ifAll(builder, mayStore(builder, chunk.isValid),
          [&, &chunk = chunk, &values = values](OpBuilder &inner) {
            elements->resumeChunk(std::move(*chunk.scope), inner, shape.lanes,
                                  stageIndex);
            store(stageIndex, values);
            chunk.scope = elements->leaveChunk();
          });
  }
}

/// Runs `body` on the thread's chunks of a row too long for registers, or of
/// its part of one: a loop of passes of several chunks, and what is left of the
/// row. What `reductions` have so far is carried from pass to pass, sums in
/// blocks; all that a row has once is built in front of the loop.
GpuKernelBuilder::Partials
GpuKernelBuilder::emitPasses(OpBuilder &builder, ArrayRef<unsigned> reductions,
                             Partials carried, PassBody body) {
  const int64_t passChunks = shape.getPassChunks();
  const int64_t passes = shape.getPasses();
  const int64_t end = passes * passChunks;
  OpBuilder outer = elements->getRowBuilder();
  bool isRowPointSet = false;
  auto setRowPoint = [&](Operation *before) {
    if (!isRowPointSet)
      elements->setRowPoint(before);
    isRowPointSet = true;
  };
  if (passes > 0) {
    SumRange range{thread, constant(end), passChunks, passes};
    if (shape.cutsReductions) {
      const int64_t splitChunks = shape.passesPerSplit * passChunks;
      Value begin =
          arith::MulIOp::create(builder, loc, split, constant(splitChunks));
      range.first = arith::AddIOp::create(builder, loc, begin, thread);
      range.last = add(builder, begin, splitChunks);
      range.size = shape.passesPerSplit;
      if (passes % shape.passesPerSplit != 0) {
        range.last =
            arith::MinUIOp::create(builder, loc, range.last, constant(end));
        range.size = 0;
      }
    }
    const bool sumsFloats = llvm::any_of(reductions, [&](unsigned member) {
      return addsFloats(members()[member].op);
    });
    const int64_t turns = shape.cutsReductions ? shape.passesPerSplit : passes;
    SmallVector<SumLoop> loops{{0, 1, false}};
    if (sumsFloats && turns > 1)
      loops = SumLoops::get(turns, shape.chunksPerPass).loops;
    CarriedSums sums =
        getSums(carried, [&](size_t place) { return reductions[place]; });
    carried = emitSumLoops(
        builder, loc, loops, range, carried, sums,
        [&](OpBuilder &inner, Value position, ArrayRef<Value> values) {
          setRowPoint(builder.getBlock()->findAncestorOpInBlock(
              *inner.getBlock()->getParentOp()));
          SmallVector<Chunk> pass;
          for (int64_t i = 0; i < shape.chunksPerPass; ++i)
            pass.push_back(
                getChunk(inner, add(inner, position, i * shape.groupThreads),
                         /*mayEnd=*/false));
          Partials results(values);
          body(inner, pass, results);
          return results;
        });
  }
  if (end == shape.chunksPerRow) {
    elements->getRowBuilder() = outer;
    return carried;
  }

  auto emitRest = [&](OpBuilder &inner, Partials &results) {
    SmallVector<Chunk> pass;
    for (int64_t i = end; i < shape.chunksPerRow; i += shape.groupThreads)
      pass.push_back(
          getChunk(inner, add(inner, thread, i),
                   /*mayEnd=*/i + shape.groupThreads > shape.chunksPerRow));
    body(inner, pass, results);
  };
  if (!shape.cutsReductions) {
    emitRest(builder, carried);
  } else {
    Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         split, constant(shape.splits - 1));
    auto branch =
        scf::IfOp::create(builder, loc, ValueRange(carried).getTypes(), isLast,
                          /*addThenBlock=*/true,
                          /*addElseBlock=*/true);
    setRowPoint(branch);
    OpBuilder inner = OpBuilder::atBlockEnd(branch.thenBlock());
    Partials results = carried;
    emitRest(inner, results);
    scf::YieldOp::create(inner, loc, results);
    inner = OpBuilder::atBlockEnd(branch.elseBlock());
    scf::YieldOp::create(inner, loc, carried);
    carried = llvm::to_vector_of<Value>(branch.getResults());
  }
  elements->getRowBuilder() = outer;
  return carried;
}

/// Stores `getValue` in the accumulators that are in memory, pass by pass.
void GpuKernelBuilder::emitMemoryAccumulators(
    OpBuilder &builder,
    llvm::function_ref<Value(OpBuilder &, unsigned member)> getValue) {
  SmallVector<unsigned> inMemory = llvm::filter_to_vector(
      accumulators, [&](unsigned member) { return isInMemory(member); });
  if (inMemory.empty())
    return;
  elements->beginRow(builder);
  emitPasses(builder, {}, {},
             [&](OpBuilder &inner, MutableArrayRef<Chunk> pass, Partials &) {
               SmallVector<Value> values;
               for (Chunk &chunk : pass) {
                 setChunkPositions(chunk);
                 elements->beginChunk(inner, shape.lanes, 0);
                 for (unsigned member : inMemory)
                   values.push_back(getValue(inner, member));
                 chunk.scope = elements->leaveChunk();
               }
               auto value = values.begin();
               for (Chunk &chunk : pass) {
                 resumeToStore(inner, chunk, chunk.isValid, 0);
                 for (unsigned member : inMemory)
                   elements->store(*value++, members()[member].op->getResult(0),
                                   cluster.getResultDims(members()[member]));
               }
             });
}

/// Goes on with a chunk that was left, where `condition` holds, which is null
/// if it always does. What the row has is built where it was.
void GpuKernelBuilder::resumeToStore(OpBuilder &builder, Chunk &chunk,
                                     Value condition, unsigned stage) {
  setChunkPositions(chunk);
  OpBuilder inner = builder;
  if (condition) {
    auto branch =
        scf::IfOp::create(builder, loc, condition, /*withElse=*/false);
    inner = OpBuilder(branch.thenBlock()->getTerminator());
  }
  elements->resumeChunk(std::move(*chunk.scope), inner, shape.lanes, stage);
}

/// What a stage of rows too long for registers does with some chunks, each
/// computed again in the next stage. Everything is read before anything is
/// written: an output may lie where an input does, and a load behind its store
/// waits for it.
void GpuKernelBuilder::emitPass(OpBuilder &builder, unsigned stageIndex,
                                MutableArrayRef<Chunk> pass,
                                Partials &partials) {
  const Schedule::Stage &stage = schedule.getStages()[stageIndex];
  SmallVector<SmallVector<Value>> sums, stored;
  for (Chunk &chunk : pass) {
    setChunkPositions(chunk);
    elements->beginChunk(builder, shape.lanes, stageIndex);
    addTerms(builder, stageIndex, chunk, partials);
    SmallVector<Value> &added = sums.emplace_back();
    for (unsigned member : stage.updates) {
      ElementBuilder::Term term =
          elements->broadcast(elements->getTerm(members()[member]));
      Value sum = elements->load(members()[member].op->getResult(0),
                                 cluster.getResultDims(members()[member]));
      added.push_back(combine(builder, member, sum, term));
    }
    stored.push_back(getStored(stageIndex));
    chunk.scope = elements->leaveChunk();
  }
  assert((stage.updates.empty() || (!isRow && !isActive)) &&
         "a block has the row to itself");
  if (stage.updates.empty() && stage.stores.empty())
    return;
  for (auto [chunk, added, values] : llvm::zip_equal(pass, sums, stored)) {
    resumeToStore(builder, chunk, mayStore(builder, chunk.isValid), stageIndex);
    for (auto [member, sum] : llvm::zip_equal(stage.updates, added))
      elements->store(sum, members()[member].op->getResult(0),
                      cluster.getResultDims(members()[member]));
    store(stageIndex, values);
  }
}

void GpuKernelBuilder::emitStage(OpBuilder &builder, unsigned stageIndex,
                                 Partials &accumulated) {
  const Schedule::Stage &stage = schedule.getStages()[stageIndex];
  if (stage.reductions.empty() && stage.updates.empty() && stage.stores.empty())
    return;
  Partials partials;
  for (unsigned member : stage.reductions)
    partials.push_back(getNeutral(builder, member, shape.lanes));
  if (shape.keepsChunks)
    emitKeptStage(builder, stageIndex, partials, accumulated);
  else
    partials = emitPasses(
        builder, stage.reductions, partials,
        [&](OpBuilder &inner, MutableArrayRef<Chunk> pass, Partials &results) {
          emitPass(inner, stageIndex, pass, results);
        });

  SmallVector<unsigned> finished;
  Partials totals;
  for (auto [member, partial] : llvm::zip_equal(stage.reductions, partials)) {
    Value total = reduceLanes(builder, member, partial);
    if (isAccumulator(member)) {
      // Threads are combined once, after all rows.
      accumulate(builder, member, 0, {total, {}}, accumulated);
      continue;
    }
    finished.push_back(member);
    totals.push_back(total);
  }
  totals = reduceGroup(builder, finished, totals);
  for (auto [member, total] : llvm::zip_equal(finished, totals))
    elements->setReduced(
        members()[member],
        combine(builder, member, elements->getInit(members()[member]), total));
}

/// Adds `term` to an accumulator: one per chunk, in the order of
/// getNeutralAccumulators.
void GpuKernelBuilder::accumulate(OpBuilder &builder, unsigned member,
                                  size_t chunk, ElementBuilder::Term term,
                                  Partials &accumulated) {
  const size_t place =
      size_t(llvm::find(accumulators, member) - accumulators.begin());
  Value &accumulator =
      accumulated[place * std::max<size_t>(chunks.size(), 1) + chunk];
  Value sum = combine(builder, member, accumulator, term);
  accumulator = isRow ? Value(arith::SelectOp::create(builder, loc, isRow, sum,
                                                      accumulator))
                      : sum;
}

/// Whether what a row has once may be stored where its threads read.
bool GpuKernelBuilder::overwritesRowInputs() const {
  return shape.groupThreads > 1 &&
         llvm::any_of(schedule.getRowStores(), [&](unsigned member) {
           auto output =
               llvm::find(kernel.outputs, members()[member].op->getResult(0)) -
               kernel.outputs.begin();
           return isShared[kernel.inputs.size() + size_t(output)];
         });
}

void GpuKernelBuilder::emitRowResults(OpBuilder &builder,
                                      Partials &accumulated) {
  for (unsigned member : schedule.getRowUpdates())
    accumulate(builder, member, 0, elements->getTerm(members()[member]),
               accumulated);
  if (schedule.getRowStores().empty())
    return;
  SmallVector<Value> values;
  for (unsigned index : schedule.getRowStores())
    values.push_back(
        elements->getElement(members()[index].op->getResult(0),
                             cluster.getResultDims(members()[index])));
  // All threads have read before the first one writes.
  if (overwritesRowInputs())
    gpu::BarrierOp::create(builder, loc);
  Value isFirst;
  if (shape.groupThreads > 1)
    isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                    thread, constant(0));
  ifAll(builder, mayStore(builder, isFirst), [&](OpBuilder &inner) {
    OpBuilder outer = elements->getRowBuilder();
    elements->getRowBuilder() = inner;
    for (auto [index, value] : llvm::zip_equal(schedule.getRowStores(), values))
      elements->store(value, members()[index].op->getResult(0),
                      cluster.getResultDims(members()[index]));
    elements->getRowBuilder() = outer;
  });
}

/// By accumulator, one per chunk: a vector where the result has columns, else a
/// scalar, of which only the first counts, and none if it is in memory.
GpuKernelBuilder::Partials
GpuKernelBuilder::getNeutralAccumulators(OpBuilder &builder) {
  Partials neutral;
  for (unsigned member : accumulators) {
    const bool hasColumns =
        elements->hasColumns(cluster.getResultDims(members()[member]));
    const bool hasLanes = hasColumns && !isInMemory(member);
    for (size_t i = 0; i < std::max<size_t>(chunks.size(), 1); ++i)
      neutral.push_back(
          getNeutral(builder, member, hasLanes ? shape.lanes : 0));
  }
  return neutral;
}

GpuKernelBuilder::Partials GpuKernelBuilder::emitRow(OpBuilder &builder,
                                                     Partials accumulated) {
  elements->beginRow(builder);
  for (Chunk &chunk : chunks)
    chunk.scope.reset();
  for (unsigned stage = 0; stage < schedule.getStages().size(); ++stage)
    emitStage(builder, stage, accumulated);
  // Of a row that is cut, the second kernel has the whole.
  if (!shape.cutsReductions)
    emitRowResults(builder, accumulated);
  return accumulated;
}

/// Sets the positions of a summed row, which may not be there.
void GpuKernelBuilder::setRow(OpBuilder &builder, Value row, bool mayEnd) {
  isRow = {};
  if (mayEnd) {
    isRow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, row,
                                  constant(shape.summedRows));
    row = arith::SelectOp::create(builder, loc, isRow, row, constant(0));
  }
  ArrayRef<unsigned> summed = schedule.getSummed();
  for (unsigned dim : llvm::reverse(summed)) {
    auto [quotient, position] = divide(builder, row, cluster.getSizes()[dim]);
    elements->setPosition(dim, dim == summed.front() ? row : position);
    row = quotient;
  }
}

/// Consecutive rows of which columns are only summed and stored, from `first`
/// on: all of them are read before anything is written.
void GpuKernelBuilder::emitRows(OpBuilder &builder, Value first, bool mayEnd,
                                Partials &accumulated) {
  const Schedule::Stage &stage = schedule.getStages().front();
  auto beginRow = [&](int64_t i) {
    // The last pass may lack its last rows.
    setRow(builder, add(builder, first, i),
           mayEnd || (i > 0 && shape.summedRows % shape.rowsPerPass != 0));
    elements->beginRow(builder);
  };
  SmallVector<std::pair<ElementBuilder::Scope, SmallVector<Value>>> left;
  for (int64_t i = 0; i < shape.rowsPerPass; ++i) {
    beginRow(i);
    for (auto [number, chunk] : llvm::enumerate(chunks)) {
      setChunkPositions(chunk);
      elements->beginChunk(builder, shape.lanes, 0);
      for (unsigned member : stage.updates) {
        ElementBuilder::Term term =
            elements->broadcast(elements->getTerm(members()[member]));
        accumulate(builder, member, number, term, accumulated);
      }
      SmallVector<Value> values = getStored(0);
      left.emplace_back(elements->leaveChunk(), std::move(values));
    }
  }
  auto next = left.begin();
  for (int64_t i = 0; i < shape.rowsPerPass; ++i) {
    beginRow(i);
    for (const Chunk &chunk : chunks) {
      setChunkPositions(chunk);
      auto &[scope, values] = *next++;
      ifAll(builder, mayStore(builder, chunk.isValid),
            [&, &scope = scope, &values = values](OpBuilder &inner) {
              elements->resumeChunk(std::move(scope), inner, shape.lanes, 0);
              store(0, values);
            });
    }
  }
}

/// Columns after the last whole chunk of the only row, by the first thread.
void GpuKernelBuilder::emitTail(OpBuilder &builder, Partials &accumulated) {
  if (shape.tailLanes == 0)
    return;
  Value zero = constant(0);
  Value isFirst =
      both(builder,
           arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                 getId(builder, /*isBlock=*/true), zero),
           arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                 getId(builder, /*isBlock=*/false), zero));
  auto branch = scf::IfOp::create(
      builder, loc, ValueRange(accumulated).getTypes(), isFirst,
      /*addThenBlock=*/true, /*addElseBlock=*/!accumulated.empty());
  OpBuilder outer = elements->getRowBuilder();
  elements->setRowPoint(branch);
  OpBuilder inner = OpBuilder::atBlockEnd(branch.thenBlock());
  elements->setPosition(schedule.getColumns().back(),
                        constant(shape.lastDimChunks * shape.lanes));
  Partials sums = accumulated;
  for (auto [index, stage] : llvm::enumerate(schedule.getStages())) {
    elements->beginChunk(inner, shape.tailLanes, unsigned(index));
    for (unsigned member : stage.reductions) {
      ElementBuilder::Term term =
          elements->broadcast(elements->getTerm(members()[member]));
      Value total = reduceLanes(inner, member, elements->getValue(inner, term));
      accumulate(inner, member, 0, {total, {}}, sums);
    }
    store(unsigned(index), getStored(unsigned(index)));
  }
  scf::YieldOp::create(inner, loc, sums);
  if (!accumulated.empty()) {
    inner = OpBuilder::atBlockEnd(branch.elseBlock());
    scf::YieldOp::create(inner, loc, accumulated);
    accumulated = llvm::to_vector_of<Value>(branch.getResults());
  }
  elements->getRowBuilder() = outer;
}

//===-- Accumulators ------------------------------------------------------===//

/// Address of one part of an accumulator's sums in the workspace.
Value GpuKernelBuilder::getPart(OpBuilder &builder, size_t accumulator,
                                Value part) {
  Value workspace =
      function->getOperand(builder, unsigned(kernel.countOperands()));
  Type i64 = builder.getI64Type();
  auto getI64 = [&](int64_t value) {
    return elements->getConstant(builder.getI64IntegerAttr(value));
  };
  if (part.getType() != i64)
    part = arith::ExtUIOp::create(builder, loc, i64, part);
  const int64_t bytes = int64_t(llvm::alignTo(
      getBytes(getResultType(members()[accumulators[accumulator]])),
      uint64_t(accessBytes)));
  Value offset = arith::AddIOp::create(
      builder, loc, arith::MulIOp::create(builder, loc, part, getI64(bytes)),
      getI64(accumulatorOffsets[accumulator]));
  return LLVM::GEPOp::create(builder, loc, workspace.getType(),
                             builder.getI8Type(), workspace,
                             ArrayRef<LLVM::GEPArg>{offset});
}

/// Stores what the group has accumulated: the results, or its part of them in
/// the workspace.
void GpuKernelBuilder::storeAccumulators(OpBuilder &builder,
                                         ArrayRef<Value> accumulated) {
  const size_t perMember = std::max<size_t>(chunks.size(), 1);
  SmallVector<unsigned> scalars;
  Partials totals;
  if (!hasWorkspace())
    emitMemoryAccumulators(builder, [&](OpBuilder &inner, unsigned member) {
      Value sum = elements->load(members()[member].op->getResult(0),
                                 cluster.getResultDims(members()[member]));
      Value init = elements->broadcast(elements->getInit(members()[member]));
      return combine(inner, member, init, sum);
    });
  elements->beginRow(builder);
  for (auto [place, member] : llvm::enumerate(accumulators))
    if (!elements->hasColumns(cluster.getResultDims(members()[member]))) {
      scalars.push_back(member);
      totals.push_back(accumulated[place * perMember]);
    }
  // Sums over columns differ by thread, those of whole rows do not.
  SmallVector<unsigned> differing;
  Partials parts;
  for (auto [member, total] : llvm::zip_equal(scalars, totals))
    if (!llvm::is_contained(schedule.getRowUpdates(), member)) {
      differing.push_back(member);
      parts.push_back(total);
    }
  parts = reduceGroup(builder, differing, parts);
  for (auto [member, part] : llvm::zip_equal(differing, parts))
    totals[size_t(llvm::find(scalars, member) - scalars.begin())] = part;

  auto finish = [&](OpBuilder &inner, unsigned member, Value value) {
    if (hasWorkspace())
      return value;
    Value init = elements->getInit(members()[member]);
    if (isa<VectorType>(value.getType()))
      init = elements->broadcast(init);
    return combine(inner, member, init, value);
  };

  if (hasWorkspace())
    for (auto [place, member] : llvm::enumerate(accumulators))
      elements->setBase(members()[member].op->getResult(0),
                        getPart(builder, place, split));
  // Nothing has been built for the places since they were set.
  elements->beginRow(builder);
  for (auto [number, chunk] : llvm::enumerate(chunks)) {
    setChunkPositions(chunk);
    ifAll(builder, both(builder, chunk.isValid, isActive),
          [&, number = number](OpBuilder &inner) {
            elements->beginChunk(inner, shape.lanes, 0);
            for (auto [place, member] : llvm::enumerate(accumulators)) {
              Cluster::Dims dims = cluster.getResultDims(members()[member]);
              if (!elements->hasColumns(dims))
                continue;
              Value value = accumulated[place * perMember + number];
              elements->store(finish(inner, member, value),
                              members()[member].op->getResult(0), dims);
            }
          });
  }
  if (scalars.empty())
    return;
  Value isFirst;
  if (shape.groupThreads > 1)
    isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                    thread, constant(0));
  ifAll(builder, both(builder, isFirst, isActive), [&](OpBuilder &inner) {
    OpBuilder outer = elements->getRowBuilder();
    elements->getRowBuilder() = inner;
    for (auto [member, total] : llvm::zip_equal(scalars, totals))
      elements->store(finish(inner, member, total),
                      members()[member].op->getResult(0),
                      cluster.getResultDims(members()[member]));
    elements->getRowBuilder() = outer;
  });
}

/// The sum of every `step`th part from `first` on, which is below `step`, of
/// the accumulator's element at the current positions.
Value GpuKernelBuilder::addParts(OpBuilder &builder, size_t accumulator,
                                 Value first, int64_t step) {
  const unsigned member = accumulators[accumulator];
  Value tensor = members()[member].op->getResult(0);
  Cluster::Dims dims = cluster.getResultDims(members()[member]);
  Value neutral =
      getNeutral(builder, member, elements->hasColumns(dims) ? 1 : 0);
  // Terms are loaded before they are added.
  auto add = [&](OpBuilder &inner, Value total, Value from, int64_t begin,
                 int64_t end) {
    SmallVector<Value> terms;
    for (int64_t i = begin; i < end; i += step) {
      Value part = this->add(inner, from, i), isPart;
      if (i + step > end) {
        isPart = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::ult,
                                       part, constant(end));
        part = arith::SelectOp::create(inner, loc, isPart, part, constant(0));
      }
      elements->setBase(tensor, getPart(inner, accumulator, part));
      elements->beginRow(inner);
      elements->beginChunk(inner, 1, 0);
      terms.push_back(elements->load(tensor, dims));
      if (isPart)
        terms.back() =
            arith::SelectOp::create(inner, loc, isPart, terms.back(), neutral);
    }
    for (Value term : terms)
      total = combine(inner, member, total, term);
    return total;
  };
  const int64_t pass = partLoads * step;
  const int64_t end = shape.splits / pass * pass;
  Value total = neutral;
  if (end > 0) {
    const int64_t turns = end / pass;
    SmallVector<SumLoop> loops{{0, 1, false}};
    if (turns > 1 && addsFloats(members()[member].op))
      loops = SumLoops::get(turns, partLoads).loops;
    CarriedSums sums = getSums(total, [&](size_t) { return member; });
    total = emitSumLoops(
        builder, loc, loops, {first, constant(end), pass, turns}, total, sums,
        [&](OpBuilder &inner, Value position, ArrayRef<Value> values) {
          return Partials{add(inner, values[0], position, 0, pass)};
        })[0];
  }
  return add(builder, total, first, end, shape.splits);
}

/// A second kernel that adds up the parts, in their order.
void GpuKernelBuilder::emitSum(EmittedKernel &result) {
  std::string symbol = name + "_sum";
  createFunction(symbol, blockThreads);
  elements->setGrain(1);
  OpBuilder builder = function->atEnd();
  Value block = getId(builder, /*isBlock=*/true);
  Value threadInBlock = getId(builder, /*isBlock=*/false);
  int64_t firstBlock = 0;
  for (auto [place, member] : llvm::enumerate(accumulators)) {
    const Cluster::Member &info = members()[member];
    RankedTensorType type = getResultType(info);
    const int64_t numElements = type.getNumElements();
    const int64_t width = std::clamp<int64_t>(
        int64_t(llvm::bit_floor(uint64_t(sumThreads / numElements))), 1,
        warpThreads);
    // Neighbouring threads load neighbouring elements.
    const int64_t perWarp = warpThreads / width;
    const int64_t perBlock = blockThreads / width;
    const int64_t numBlocks = llvm::divideCeil(numElements, perBlock);
    Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge,
                                        block, constant(firstBlock));
    Value last = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                       block, constant(firstBlock + numBlocks));
    auto branch = scf::IfOp::create(builder, loc, both(builder, first, last),
                                    /*withElse=*/false);
    OpBuilder body(branch.thenBlock()->getTerminator());
    Value number = arith::MulIOp::create(
        body, loc,
        arith::SubIOp::create(body, loc, block, constant(firstBlock)),
        constant(perBlock));
    auto [warp, inWarp] = divide(body, threadInBlock, warpThreads);
    auto [lane, inLane] = divide(body, inWarp, perWarp);
    number = arith::AddIOp::create(
        body, loc, number,
        arith::AddIOp::create(
            body, loc,
            arith::MulIOp::create(body, loc, warp, constant(perWarp)), inLane));
    Value isValid = arith::CmpIOp::create(body, loc, arith::CmpIPredicate::ult,
                                          number, constant(numElements));
    Value rest =
        arith::SelectOp::create(body, loc, isValid, number, constant(0));
    Cluster::Dims dims = cluster.getResultDims(info);
    // Dimensions that are one have one position.
    for (unsigned dim : llvm::reverse(dims)) {
      if (dim == Cluster::unit)
        continue;
      auto [quotient, position] = divide(body, rest, cluster.getSizes()[dim]);
      elements->setPosition(dim, position);
      rest = quotient;
    }

    const bool hasColumns = elements->hasColumns(dims);
    Value tensor = info.op->getResult(0);
    Value total = addParts(body, place, lane, width);
    if (width > 1) {
      total = reduceLanes(body, member, total);
      total = reduceWarp(body, member, total, width, perWarp);
      Value isFirst = arith::CmpIOp::create(body, loc, arith::CmpIPredicate::eq,
                                            lane, constant(0));
      isValid = both(body, isValid, isFirst);
    }
    elements->setBase(tensor,
                      function->getOperand(
                          body, unsigned(kernel.inputs.size() +
                                         (llvm::find(kernel.outputs, tensor) -
                                          kernel.outputs.begin()))));
    auto guarded = scf::IfOp::create(body, loc, isValid, /*withElse=*/false);
    OpBuilder storing(guarded.thenBlock()->getTerminator());
    elements->beginRow(storing);
    elements->beginChunk(storing, 1, 0);
    Value init = elements->getInit(info);
    if (hasColumns) {
      init = elements->broadcast(init);
      total = elements->broadcast(total);
    }
    elements->store(combine(storing, member, init, total), tensor, dims);
    firstBlock += numBlocks;
  }
  result.launches.push_back({symbol, firstBlock, blockThreads, 0});
}

/// A second kernel, a block for each row, that adds up the row's parts, always
/// in the same order, and computes what the row has once.
void GpuKernelBuilder::emitRowSum(EmittedKernel &result) {
  std::string symbol = name + "_sum";
  createFunction(symbol, shape.groupThreads);
  numSlots = 0;
  OpBuilder builder = function->atEnd();
  thread = getId(builder, /*isBlock=*/false);
  Value rest = getId(builder, /*isBlock=*/true);
  for (unsigned dim : llvm::reverse(schedule.getParallel())) {
    auto [quotient, position] = divide(builder, rest, cluster.getSizes()[dim]);
    elements->setPosition(dim, position);
    rest = quotient;
  }
  Partials totals;
  for (auto [place, member] : llvm::enumerate(accumulators)) {
    Value tensor = members()[member].op->getResult(0);
    totals.push_back(addParts(builder, place, thread, shape.groupThreads));
    if (auto output = llvm::find(kernel.outputs, tensor);
        output != kernel.outputs.end())
      elements->setBase(
          tensor, function->getOperand(
                      builder, unsigned(kernel.inputs.size() +
                                        (output - kernel.outputs.begin()))));
  }
  elements->beginRow(builder);
  totals = reduceGroup(builder, accumulators, totals);
  for (auto [member, total] : llvm::zip_equal(accumulators, totals)) {
    const Cluster::Member &info = members()[member];
    elements->setReduced(
        info, combine(builder, member, elements->getInit(info), total));
  }
  Partials none;
  emitRowResults(builder, none);
  result.launches.push_back({symbol, shape.iterations / shape.splits,
                             shape.groupThreads, getSharedBytes()});
}

//===-- The whole ---------------------------------------------------------===//

void GpuKernelBuilder::emitMain() {
  createFunction(name, shape.getBlockThreads());
  OpBuilder builder = function->atEnd();
  setIteration(builder);
  setChunks(builder);
  if (hasWorkspace())
    for (auto [place, member] : llvm::enumerate(accumulators))
      if (isInMemory(member))
        elements->setBase(members()[member].op->getResult(0),
                          getPart(builder, place, split));
  emitMemoryAccumulators(builder, [&](OpBuilder &inner, unsigned member) {
    return getNeutral(inner, member, shape.lanes);
  });
  Partials accumulated = getNeutralAccumulators(builder);
  if (shape.summedRows == 1) {
    accumulated = emitRow(builder, accumulated);
  } else {
    SumRange range{constant(0), constant(shape.summedRows), shape.rowsPerPass,
                   0};
    // What threads of a warp or block do together all of them have to reach, so
    // that groups of the same one go through as many rows, the last one also
    // through some that are not there.
    const bool isEven = shape.summedRows % shape.rowsPerSplit == 0;
    const bool meets =
        shape.groupThreads < warpThreads || overwritesRowInputs();
    const bool masksRows = !isEven && meets && shape.groupsPerBlock > 1;
    const int64_t turns =
        llvm::divideCeil(shape.rowsPerSplit, shape.rowsPerPass);
    if (isEven || masksRows)
      range.size = turns;
    if (split) {
      range.first = arith::MulIOp::create(builder, loc, split,
                                          constant(shape.rowsPerSplit));
      range.last = arith::AddIOp::create(builder, loc, range.first,
                                         constant(shape.rowsPerSplit));
      if (!isEven && !masksRows)
        range.last = arith::MinUIOp::create(builder, loc, range.last,
                                            constant(shape.summedRows));
    }
    auto inRegisters = [&](unsigned member) {
      return addsFloats(members()[member].op) && !isInMemory(member);
    };
    SmallVector<SumLoop> loops{{0, 1, false}};
    if (turns > 1 && llvm::any_of(accumulators, inRegisters))
      loops = SumLoops::get(turns, shape.rowsPerPass).loops;
    const size_t perMember = std::max<size_t>(chunks.size(), 1);
    CarriedSums sums = getSums(accumulated, [&](size_t place) {
      const unsigned member = accumulators[place / perMember];
      return inRegisters(member) ? std::optional(member) : std::nullopt;
    });
    accumulated =
        emitSumLoops(builder, loc, loops, range, accumulated, sums,
                     [&](OpBuilder &inner, Value row, ArrayRef<Value> carried) {
                       OpBuilder body = inner;
                       Operation *end = arith::ConstantOp::create(
                           body, loc, body.getI32IntegerAttr(0));
                       body.setInsertionPoint(end);
                       Partials results(carried);
                       const int64_t slotsBefore = numSlots;
                       if (shape.rowsPerPass > 1) {
                         emitRows(body, row, masksRows, results);
                       } else {
                         setRow(body, row, masksRows);
                         results = emitRow(body, results);
                       }
                       // The next row writes where slower warps may still be
                       // reading.
                       if (numSlots > slotsBefore)
                         gpu::BarrierOp::create(body, loc);
                       end->erase();
                       isRow = {};
                       return results;
                     });
  }
  emitTail(builder, accumulated);
  if (!accumulators.empty())
    storeAccumulators(builder, accumulated);
}

LogicalResult GpuKernelBuilder::build(EmittedKernel &result) {
  if (failed(checkGrid(kernel.ops.front(), shape.getGrid())))
    return failure();
  emitMain();
  result.symbol = name;
  result.extent = shape.iterations;
  result.launches.push_back(
      {name, shape.getGrid(), shape.getBlockThreads(), getSharedBytes()});
  if (hasWorkspace()) {
    result.workspaceBytes = uint64_t(workspaceBytes);
    if (shape.cutsReductions)
      emitRowSum(result);
    else
      emitSum(result);
  }
  return success();
}

FailureOr<EmittedKernel>
meshc::codegen::emitGpuKernel(const KernelBody &kernel, StringRef name,
                              ArrayRef<bool> isShared,
                              gpu::GPUModuleOp kernels) {
  if (std::optional<Tiling> tiling =
          Tiling::find(kernel.cluster, kernel.schedule))
    return emitTiledKernel(kernel, *tiling, name, isShared, kernels);
  EmittedKernel result;
  if (failed(GpuKernelBuilder(kernel, name, isShared, kernels).build(result)))
    return failure();
  return result;
}
