// The stages of a row of a GPU kernel.

#include "codegen/gpu/GpuKernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

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
