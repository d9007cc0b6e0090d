// The iterations of a kernel, its columns and the stages of a row, as
// Schedule.h describes them.

#include "codegen/cpu/KernelEmitter.h"

#include "codegen/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc::codegen;

/// Columns computed at once: 16 32-bit lanes are one 512-bit register or two
/// 256-bit ones. Light bodies take two such groups, so that four additions are
/// on their way in a reduction with 256-bit registers; heavier ones would run
/// out of registers. Source: measured with bench/KernelBench.cpp.
static constexpr int64_t heavyLanes = 16;
static constexpr int64_t lightLanes = 32;
/// Where several rows are added to one chunk, whose position each of them finds
/// again: four 512-bit registers or eight 256-bit ones hold its sums. Source:
/// measured with bench/cliffs/depthwise.mesh, 0.75 ms where 32 take 0.98.
static constexpr int64_t rowsInsideLanes = 64;
/// A body heavier than three exponentials or divisions.
static constexpr unsigned heavyWork = 3 * costlyWork;

static LLVM::LLVMFuncOp createFunction(Location loc, StringRef name,
                                       ModuleOp kernels) {
  MLIRContext *context = kernels.getContext();
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  Type pointer = LLVM::LLVMPointerType::get(context);
  Type integer = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, pointer, integer, integer});
  auto function = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  Block *block = function.addEntryBlock(builder);
  builder.setInsertionPointToEnd(block);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return function;
}

/// Where the entry's code goes: before the return.
static OpBuilder atEnd(LLVM::LLVMFuncOp function) {
  return OpBuilder(function.getBody().front().getTerminator());
}

Operation *KernelBuilder::createAnchor(OpBuilder &builder, Location loc) {
  return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(0));
}

KernelBuilder::KernelBuilder(const KernelBody &kernel, const RowParts &parts,
                             StringRef name, ModuleOp kernels,
                             ArrayRef<unsigned> places)
    : kernel(kernel), cluster(kernel.cluster), schedule(kernel.schedule),
      parts(parts),
      loc(NameLoc::get(StringAttr::get(kernels.getContext(), name))),
      function(createFunction(loc, name, kernels)),
      frame(loc, function.getArgument(0), function.getArgument(1), places),
      elements(kernel, loc, atEnd(function), frame) {
  setSegments();
}

/// The loop over iterations: its body.
OpBuilder KernelBuilder::beginIterations(Value &iteration) {
  OpBuilder builder = atEnd(function);
  if (parts.parts > 1)
    workspace = frame.getOperand(builder, unsigned(kernel.countOperands()));
  if (const int64_t bytes = parts.getLevelBytes(); bytes > 0) {
    constexpr unsigned cacheLine = 64;
    levels =
        LLVM::AllocaOp::create(builder, loc, function.getArgument(0).getType(),
                               builder.getI8Type(), constant(bytes), cacheLine);
  }
  auto loop = scf::ForOp::create(builder, loc, function.getArgument(2),
                                 function.getArgument(3), constant(1));
  elements.setEntryPoint(loop);
  iteration = loop.getInductionVar();
  return OpBuilder(loop.getBody()->getTerminator());
}

void KernelBuilder::emitMain() {
  Value iteration;
  OpBuilder body = beginIterations(iteration);
  Value part;
  if (parts.parts > 1) {
    // Neighbouring iterations read the same rows.
    Value extent = constant(schedule.getExtent(cluster));
    part = arith::DivUIOp::create(body, loc, iteration, extent);
    iteration = arith::RemUIOp::create(body, loc, iteration, extent);
    for (auto [place, member] : llvm::enumerate(parts.accumulators))
      elements.setBase(members()[member].op->getResult(0),
                       getPart(body, place, part));
  }
  setParallelPositions(body, iteration);
  emitInits(body);
  emitRows(body, part);
}

void KernelBuilder::emitSum() {
  Value iteration;
  OpBuilder body = beginIterations(iteration);
  setParallelPositions(body, iteration);
  emitAccumulators(body, getAllAccumulators(),
                   [&](OpBuilder &builder, int64_t lanes, size_t accumulator) {
                     const unsigned index = parts.accumulators[accumulator];
                     const Cluster::Member &member = members()[index];
                     Value sum = addParts(builder, lanes, accumulator);
                     Value init = elements.getInit(member);
                     if (lanes > 0)
                       init = elements.broadcast(init);
                     elements.store(combine(builder, index, init, sum),
                                    member.op->getResult(0),
                                    cluster.getResultDims(member));
                   });
}

void KernelBuilder::setSegments() {
  unsigned work = 0;
  for (const Cluster::Member &member : members())
    work += getWork(member.op);
  if (schedule.getColumns().empty())
    return;
  const bool hasOneSum = schedule.getStages().front().updates.size() == 1;
  const int64_t widest = work > heavyWork                     ? heavyLanes
                         : parts.loopsInside > 0 && hasOneSum ? rowsInsideLanes
                                                              : lightLanes;
  const int64_t size = cluster.getSizes()[schedule.getColumns().back()];
  int64_t start = 0;
  auto addSegment = [&](int64_t lanes) {
    const int64_t chunks = lanes == 0 ? 0 : (size - start) / lanes;
    if (chunks == 0)
      return;
    segments.push_back({start, lanes, chunks});
    start += chunks * lanes;
  };
  for (int64_t lanes = widest; lanes >= heavyLanes; lanes /= 2)
    addSegment(lanes);
  addSegment(size % heavyLanes);
}

void KernelBuilder::setParallelPositions(OpBuilder &builder, Value iteration) {
  auto take = [&](int64_t size) {
    Value position =
        arith::RemUIOp::create(builder, loc, iteration, constant(size));
    iteration = arith::DivUIOp::create(builder, loc, iteration, constant(size));
    return position;
  };
  const int64_t block = schedule.getColumnBlock();
  ArrayRef<unsigned> dims = schedule.getParallel();
  // The last one taken has what is left of the iteration.
  auto takeBlock = [&](bool isLast) {
    int64_t size = cluster.getSizes()[schedule.getColumns().back()];
    Value index = isLast ? iteration : take((size + block - 1) / block);
    blockStart = arith::MulIOp::create(builder, loc, index, constant(block));
    blockEnd = arith::MinUIOp::create(
        builder, loc,
        arith::AddIOp::create(builder, loc, blockStart, constant(block)),
        constant(size));
  };
  const bool endsWithBlock = block != 0 && schedule.areBlocksOutermost();
  if (block != 0 && !endsWithBlock)
    takeBlock(dims.empty());
  for (size_t i = dims.size(); i-- > 0;)
    elements.setPosition(dims[i], i == 0 && !endsWithBlock
                                      ? iteration
                                      : take(cluster.getSizes()[dims[i]]));
  if (endsWithBlock)
    takeBlock(true);
}

//===-- Columns -----------------------------------------------------------===//

KernelBuilder::ColumnLoops
KernelBuilder::getColumnLoops(bool addsFloats) const {
  auto get = [&](ArrayRef<int64_t> sizes, int64_t terms) {
    return addsFloats ? SumLoops::get(sizes, terms) : SumLoops::getPlain(sizes);
  };
  ColumnLoops result;
  int64_t terms = 1; // of any segment
  for (const Segment &segment : segments) {
    result.chunks.push_back(get(segment.chunks, 1));
    terms = std::max(terms, result.chunks.back().terms);
  }
  SmallVector<int64_t> outer;
  for (unsigned dim : schedule.getColumns())
    outer.push_back(cluster.getSizes()[dim]);
  if (!outer.empty())
    outer.pop_back();
  result.outer = get(outer, terms);
  return result;
}

SmallVector<Value> KernelBuilder::emitSegment(OpBuilder &builder,
                                              const ColumnPass &pass,
                                              size_t number,
                                              ArrayRef<Value> accumulators) {
  const Segment &segment = segments[number];
  unsigned dim = schedule.getColumns().back();
  bool isCut = blockStart && segment.start == 0;
  if (segment.chunks == 1 && !isCut) {
    elements.setPosition(dim, constant(segment.start));
    return pass.body(builder, segment.lanes, accumulators);
  }
  int64_t end = segment.start + segment.chunks * segment.lanes;
  SumRange range{constant(segment.start), constant(end), segment.lanes,
                 segment.chunks};
  SmallVector<SumLoop> loops = pass.loops.chunks[number].loops;
  if (isCut) {
    range.first = blockStart;
    range.last = arith::MinUIOp::create(builder, loc, blockEnd, range.last);
    loops = {{0, 1, false}};
  }
  return emitSumLoops(
      builder, loc, loops, range, accumulators, pass.sums,
      [&](OpBuilder &inner, Value position, ArrayRef<Value> carried) {
        elements.setPosition(dim, position);
        return pass.body(inner, segment.lanes, carried);
      });
}

KernelBuilder::Accumulators
KernelBuilder::emitLastColumns(OpBuilder &builder, const ColumnPass &pass,
                               ArrayRef<Value> accumulators) {
  Accumulators results;
  OpBuilder at = builder;
  for (auto [index, segment] : llvm::enumerate(segments)) {
    if (blockStart && segment.start > 0 && index == 1) {
      // The columns after the last whole chunk belong to the last block.
      int64_t size = cluster.getSizes()[schedule.getColumns().back()];
      Value isLast = arith::CmpIOp::create(at, loc, arith::CmpIPredicate::eq,
                                           blockEnd, constant(size));
      auto last = scf::IfOp::create(at, loc, isLast, /*withElse=*/false);
      at = OpBuilder(last.thenBlock()->getTerminator());
    }
    llvm::append_range(results,
                       emitSegment(at, pass, index,
                                   accumulators.slice(index * pass.perSegment,
                                                      pass.perSegment)));
  }
  return results;
}

KernelBuilder::Accumulators
KernelBuilder::emitColumns(OpBuilder &builder, const ColumnPass &pass,
                           ArrayRef<SumLoop> outer,
                           ArrayRef<Value> accumulators) {
  if (outer.empty())
    return emitLastColumns(builder, pass, accumulators);
  ArrayRef<SumLoop> loops = SumLoops::getFirstDim(outer);
  const unsigned dim = schedule.getColumns()[loops.front().dim];
  const int64_t size = cluster.getSizes()[dim];
  return emitSumLoops(
      builder, loc, loops, {constant(0), constant(size), 1, size}, accumulators,
      pass.sums,
      [&](OpBuilder &inner, Value position, ArrayRef<Value> carried) {
        elements.setPosition(dim, position);
        return emitColumns(inner, pass, outer.drop_front(loops.size()),
                           carried);
      });
}

//===-- Rows --------------------------------------------------------------===//

/// What changes nothing that `member` is combined with, in each of `lanes`; 0:
/// a scalar.
Value KernelBuilder::getNeutral(OpBuilder &builder, unsigned member,
                                int64_t lanes) {
  TypedAttr neutral = *arith::getNeutralElement(
      getCombiner(cast<linalg::GenericOp>(members()[member].op)));
  if (lanes == 0)
    return elements.getConstant(neutral);
  auto type = VectorType::get({lanes}, neutral.getType());
  return arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, Attribute(neutral)));
}

Value KernelBuilder::combine(OpBuilder &builder, unsigned member,
                             Value accumulator, ElementBuilder::Term term) {
  return elements.combine(builder, members()[member], accumulator, term);
}

/// Combines `term` with the element of the accumulator at the positions.
void KernelBuilder::accumulate(OpBuilder &builder, unsigned member,
                               ElementBuilder::Term term) {
  Value tensor = members()[member].op->getResult(0);
  Cluster::Dims dims = cluster.getResultDims(members()[member]);
  Value old = elements.load(tensor, dims);
  if (isa<VectorType>(old.getType()))
    term = elements.broadcast(term);
  elements.store(combine(builder, member, old, term), tensor, dims);
}

/// Runs `body` for all elements of `accumulators` at the parallel position.
void KernelBuilder::emitAccumulators(OpBuilder builder,
                                     ArrayRef<size_t> accumulators,
                                     AccumulatorBody body) {
  SmallVector<size_t> scalars, vectors;
  for (size_t place : accumulators) {
    bool hasColumns = elements.hasColumns(
        cluster.getResultDims(members()[parts.accumulators[place]]));
    (hasColumns ? vectors : scalars).push_back(place);
  }
  if (scalars.empty() && vectors.empty())
    return;
  Operation *anchor = createAnchor(builder, loc);
  elements.beginRow(OpBuilder(anchor));
  if (!vectors.empty()) {
    CarriedSums none({}, {});
    auto runBody = [&](OpBuilder &inner, int64_t lanes, ArrayRef<Value>) {
      elements.beginChunk(inner, lanes, 0);
      for (size_t place : vectors)
        body(inner, lanes, place);
      return SmallVector<Value>();
    };
    const ColumnPass pass{getColumnLoops(/*addsFloats=*/false), 0, none,
                          runBody};
    emitColumns(builder, pass, pass.loops.outer.loops, {});
  }
  for (size_t place : scalars) {
    OpBuilder inRow(anchor);
    elements.beginRow(inRow);
    body(inRow, 0, place);
  }
  anchor->erase();
}

/// Sets the accumulators of the parallel position, those of a part to what
/// changes no sum.
void KernelBuilder::emitInits(OpBuilder builder) {
  emitAccumulators(builder, getAllAccumulators(),
                   [&](OpBuilder &inner, int64_t, size_t accumulator) {
                     const unsigned index = parts.accumulators[accumulator];
                     const Cluster::Member &member = members()[index];
                     Value init = parts.parts > 1 ? getNeutral(inner, index, 0)
                                                  : elements.getInit(member);
                     elements.store(init, member.op->getResult(0),
                                    cluster.getResultDims(member));
                   });
}

//===-- Stages ------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::emitStageChunk(OpBuilder &builder,
                                                 unsigned stageIndex,
                                                 int64_t lanes,
                                                 ArrayRef<Value> accumulators) {
  const Schedule::Stage &stage = schedule.getStages()[stageIndex];
  elements.beginChunk(builder, lanes, stageIndex);
  SmallVector<Value> results;
  for (auto [index, accumulator] :
       llvm::zip_equal(stage.reductions, accumulators)) {
    ElementBuilder::Term term =
        elements.broadcast(elements.getTerm(members()[index]));
    results.push_back(
        combine(elements.getChunkBuilder(), index, accumulator, term));
  }
  // Everything is read before anything is written: outputs may lie where
  // inputs do.
  SmallVector<ElementBuilder::Term> terms;
  SmallVector<Value> values;
  for (unsigned index : stage.updates)
    terms.push_back(elements.getTerm(members()[index]));
  for (unsigned index : stage.stores)
    values.push_back(
        elements.getElement(members()[index].op->getResult(0),
                            cluster.getResultDims(members()[index])));
  for (auto [index, term] : llvm::zip_equal(stage.updates, terms))
    accumulate(elements.getChunkBuilder(), index, term);
  for (auto [index, value] : llvm::zip_equal(stage.stores, values))
    elements.store(value, members()[index].op->getResult(0),
                   cluster.getResultDims(members()[index]));
  return results;
}

void KernelBuilder::emitStage(OpBuilder &builder, unsigned stageIndex) {
  const Schedule::Stage &stage = schedule.getStages()[stageIndex];
  if (stage.reductions.empty() && stage.updates.empty() && stage.stores.empty())
    return;
  Operation *anchor = createAnchor(builder, loc);
  elements.setRowPoint(anchor);
  auto getReduction = [&](size_t place) {
    return stage.reductions[place % stage.reductions.size()];
  };
  SmallVector<Value> accumulators;
  for (const Segment &segment : segments)
    for (unsigned index : stage.reductions)
      accumulators.push_back(getNeutral(builder, index, segment.lanes));
  auto inBlocks = [&](unsigned index) {
    return addsFloats(members()[index].op);
  };
  CarriedSums sums(
      [&](OpBuilder &inner, size_t place) {
        const unsigned index = getReduction(place);
        auto type = cast<VectorType>(accumulators[place].getType());
        return inBlocks(index) ? getNeutral(inner, index, type.getDimSize(0))
                               : Value();
      },
      [&](OpBuilder &inner, size_t place, Value lhs, Value rhs) {
        return combine(inner, getReduction(place), lhs, rhs);
      });
  auto runChunk = [&](OpBuilder &inner, int64_t lanes, ArrayRef<Value> values) {
    return emitStageChunk(inner, stageIndex, lanes, values);
  };
  const ColumnPass pass{
      getColumnLoops(llvm::any_of(stage.reductions, inBlocks)),
      stage.reductions.size(), sums, runChunk};
  accumulators =
      emitColumns(builder, pass, pass.loops.outer.loops, accumulators);
  finishReductions(builder, stageIndex, accumulators);
  anchor->erase();
}

/// Adds up the lanes of the stage's reductions, segments in order.
void KernelBuilder::finishReductions(OpBuilder &builder, unsigned stageIndex,
                                     ArrayRef<Value> accumulators) {
  ArrayRef<unsigned> reductions = schedule.getStages()[stageIndex].reductions;
  elements.getRowBuilder() = builder;
  for (auto [position, index] : llvm::enumerate(reductions)) {
    const Cluster::Member &member = members()[index];
    Operation *combiner = getCombiner(cast<linalg::GenericOp>(member.op));
    vector::CombiningKind kind = *linalg::getCombinerOpKind(combiner);
    // The order of the lanes is ours to choose: pairwise.
    arith::FastMathFlags flags = arith::FastMathFlags::reassoc;
    Value total;
    for (size_t segment = 0; segment < segments.size(); ++segment) {
      Value lanes = accumulators[segment * reductions.size() + position];
      Value sum = vector::ReductionOp::create(builder, loc, kind, lanes, flags);
      total = total ? combine(builder, index, total, sum) : sum;
    }
    if (schedule.getRole(index) == Schedule::Role::Accumulator) {
      accumulate(builder, index, {total, {}});
      continue;
    }
    Value init = elements.getInit(member);
    elements.setReduced(member, combine(builder, index, init, total));
  }
}

void KernelBuilder::emitRowResults(OpBuilder &builder) {
  elements.getRowBuilder() = builder;
  SmallVector<ElementBuilder::Term> terms;
  SmallVector<Value> values;
  for (unsigned index : schedule.getRowUpdates())
    terms.push_back(elements.getTerm(members()[index]));
  for (unsigned index : schedule.getRowStores())
    values.push_back(
        elements.getElement(members()[index].op->getResult(0),
                            cluster.getResultDims(members()[index])));
  for (auto [index, term] : llvm::zip_equal(schedule.getRowUpdates(), terms))
    accumulate(builder, index, term);
  for (auto [index, value] : llvm::zip_equal(schedule.getRowStores(), values))
    elements.store(value, members()[index].op->getResult(0),
                   cluster.getResultDims(members()[index]));
}

void KernelBuilder::emitRow(OpBuilder builder) {
  elements.beginRow(builder);
  for (unsigned stage = 0; stage < schedule.getStages().size(); ++stage)
    emitStage(builder, stage);
  emitRowResults(builder);
}

/// Emits a kernel whose sums across rows are made in parts.
static EmittedKernel emitInParts(const KernelBody &kernel,
                                 const RowParts &parts, StringRef name,
                                 ModuleOp kernels) {
  const size_t numInputs = kernel.inputs.size();
  PartSum sum{name.str() + "_sum",
              kernel.schedule.getExtent(kernel.cluster),
              parts.parts,
              {}};
  // By number of the operand; the workspace is the last one of all.
  SmallVector<unsigned> mainPlaces(numInputs + kernel.outputs.size() + 1);
  SmallVector<unsigned> sumPlaces(mainPlaces.size());
  for (unsigned input = 0; input < numInputs; ++input)
    mainPlaces[input] = input;
  unsigned place = unsigned(numInputs);
  for (auto [number, output] : llvm::enumerate(kernel.outputs)) {
    const bool isSum = llvm::any_of(parts.accumulators, [&](unsigned member) {
      return kernel.cluster.getMembers()[member].op->getResult(0) == output;
    });
    if (isSum) {
      sum.outputs.push_back(unsigned(number));
      sumPlaces[numInputs + number] = unsigned(sum.outputs.size());
    } else {
      mainPlaces[numInputs + number] = place++;
    }
  }
  mainPlaces.back() = place;
  KernelBuilder(kernel, parts, name, kernels, mainPlaces).emitMain();
  KernelBuilder(kernel, parts, sum.symbol, kernels, sumPlaces).emitSum();
  EmittedKernel result;
  result.symbol = name.str();
  result.extent = sum.extent * parts.parts;
  result.workspaceBytes = uint64_t(parts.parts * parts.bytesPerPart);
  result.sum = std::move(sum);
  return result;
}

FailureOr<EmittedKernel>
meshc::codegen::emitCpuKernel(const KernelBody &kernel, StringRef name,
                              ModuleOp kernels, const PartLimits &limits) {
  kernels.getContext()
      ->loadDialect<LLVM::LLVMDialect, arith::ArithDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  const RowParts parts = RowParts::get(kernel, limits);
  if (parts.parts > 1)
    return emitInParts(kernel, parts, name, kernels);
  auto places =
      llvm::to_vector(llvm::seq<unsigned>(0, unsigned(kernel.countOperands())));
  KernelBuilder(kernel, parts, name, kernels, places).emitMain();
  EmittedKernel result;
  result.symbol = name.str();
  result.extent = kernel.schedule.getExtent(kernel.cluster);
  return result;
}
