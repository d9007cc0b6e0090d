// The rows that a kernel sums: in parts, in blocks, several at a time.

#include "codegen/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace meshc::codegen;

//===-- Parts of sums -----------------------------------------------------===//

/// Address of one part of an accumulator's sums in the workspace.
Value KernelBuilder::getPart(OpBuilder &builder, size_t accumulator,
                             Value part) {
  Value offset = arith::AddIOp::create(
      builder, loc,
      arith::MulIOp::create(builder, loc, part, constant(parts.bytesPerPart)),
      constant(parts.offsets[accumulator]));
  return LLVM::GEPOp::create(builder, loc, workspace.getType(),
                             builder.getI8Type(), workspace,
                             ArrayRef<LLVM::GEPArg>{offset});
}

/// The sum of all parts of an accumulator, at the positions; 0 lanes: of one
/// that has no columns.
Value KernelBuilder::addParts(OpBuilder &builder, int64_t lanes,
                              size_t accumulator) {
  const unsigned index = parts.accumulators[accumulator];
  Value tensor = members()[index].op->getResult(0);
  Cluster::Dims dims = cluster.getResultDims(members()[index]);
  auto beginAt = [&](OpBuilder &place) {
    elements.beginRow(place);
    elements.beginChunk(place, lanes, 0);
  };
  auto load = [&](OpBuilder &place, Value part) {
    elements.setBase(tensor, getPart(place, accumulator, part));
    beginAt(place);
    return elements.load(tensor, dims);
  };
  const bool inBlocks = addsFloats(members()[index].op);
  CarriedSums sums(
      [&](OpBuilder &place, size_t) {
        return inBlocks ? getNeutral(place, index, lanes) : Value();
      },
      [&](OpBuilder &place, size_t, Value lhs, Value rhs) {
        return combine(place, index, lhs, rhs);
      });
  const int64_t others = parts.parts - 1;
  const SumLoops loops =
      inBlocks ? SumLoops::get(others) : SumLoops::getPlain(others);
  Value total = load(builder, constant(0));
  auto addPart = [&](OpBuilder &inner, Value part, ArrayRef<Value> carried) {
    Value next = load(inner, part);
    return SmallVector<Value>{combine(inner, index, carried[0], next)};
  };
  total = loops.loops.empty()
              ? addPart(builder, constant(1), total)[0]
              : emitSumLoops(builder, loc, loops.loops,
                             {constant(1), constant(parts.parts), 1, others},
                             total, sums, addPart)[0];
  // The sum goes to the output.
  elements.setBase(tensor, {});
  beginAt(builder);
  return total;
}

/// The rows of a part.
SumRange KernelBuilder::getRowsOfPart(OpBuilder &builder, Value part) {
  const bool isEven = parts.rows % parts.rowsPerPart == 0;
  Value first =
      arith::MulIOp::create(builder, loc, part, constant(parts.rowsPerPart));
  Value last =
      arith::AddIOp::create(builder, loc, first, constant(parts.rowsPerPart));
  if (!isEven)
    last = arith::MinUIOp::create(builder, loc, last, constant(parts.rows));
  return {first, last, 1, isEven ? parts.rowsPerPart : 0};
}

/// Sets the summed positions from the number of a row.
void KernelBuilder::setRowOfPart(OpBuilder &builder, Value rest) {
  ArrayRef<unsigned> summed = schedule.getSummed();
  for (unsigned dim : llvm::reverse(summed.drop_front())) {
    Value size = constant(cluster.getSizes()[dim]);
    elements.setPosition(dim, arith::RemUIOp::create(builder, loc, rest, size));
    rest = arith::DivUIOp::create(builder, loc, rest, size);
  }
  elements.setPosition(summed.front(), rest);
}

//===-- Rows in blocks ----------------------------------------------------===//

Value KernelBuilder::RowLevels::getTensor(size_t accumulator) const {
  const unsigned member = kernel.parts.accumulators[accumulator];
  return kernel.members()[member].op->getResult(0);
}

/// Where rows are summed from now on.
void KernelBuilder::RowLevels::setMemory(OpBuilder &builder) {
  const RowParts &parts = kernel.parts;
  for (auto [place, offset] : llvm::enumerate(parts.levelOffsets)) {
    if (!offset)
      continue;
    ElementBuilder::RowMemory memory;
    if (level > 0) {
      Value bytes =
          kernel.constant((level - 1) * parts.bytesPerLevel + *offset);
      memory.pointer = LLVM::GEPOp::create(
          builder, kernel.loc, kernel.levels.getType(), builder.getI8Type(),
          kernel.levels, ArrayRef<LLVM::GEPArg>{bytes});
      memory.firstColumn = kernel.blockStart;
    }
    kernel.elements.setRowMemory(getTensor(place), memory);
  }
}

/// The accumulators that are summed in blocks.
static SmallVector<size_t> getBlocked(const RowParts &parts) {
  SmallVector<size_t> places;
  for (auto [place, offset] : llvm::enumerate(parts.levelOffsets))
    if (offset)
      places.push_back(place);
  return places;
}

SmallVector<Value> KernelBuilder::RowLevels::begin(OpBuilder &builder,
                                                   ArrayRef<Value> outer) {
  ++level;
  setMemory(builder);
  kernel.emitAccumulators(
      builder, getBlocked(kernel.parts),
      [&](OpBuilder &inner, int64_t, size_t place) {
        const unsigned member = kernel.parts.accumulators[place];
        kernel.elements.store(
            kernel.getNeutral(inner, member, 0), getTensor(place),
            kernel.cluster.getResultDims(kernel.members()[member]));
      });
  return SmallVector<Value>(outer);
}

SmallVector<Value> KernelBuilder::RowLevels::end(OpBuilder &builder,
                                                 ArrayRef<Value> outer,
                                                 ArrayRef<Value> own) {
  const int64_t ownLevel = level;
  kernel.emitAccumulators(
      builder, getBlocked(kernel.parts),
      [&](OpBuilder &inner, int64_t, size_t place) {
        const unsigned member = kernel.parts.accumulators[place];
        level = ownLevel;
        setMemory(inner);
        Value sum = kernel.elements.load(
            getTensor(place),
            kernel.cluster.getResultDims(kernel.members()[member]));
        level = ownLevel - 1;
        setMemory(inner);
        kernel.accumulate(inner, member, {sum, {}});
      });
  return SmallVector<Value>(own);
}

//===-- Loops over rows ---------------------------------------------------===//

/// The loops over summed positions, those of `part` if it is not null.
void KernelBuilder::emitRows(OpBuilder &builder, Value part) {
  std::optional<SumRange> range;
  if (part) {
    range = getRowsOfPart(builder, part);
    if (parts.loops.loops.empty())
      setRowOfPart(builder, range->first);
  }
  ArrayRef<SumLoop> loops(parts.loops.loops);
  emitRowLoops(builder, loops.drop_back(parts.loopsInside), range, {},
               rowLevels,
               [&](OpBuilder &inner, std::optional<SumRange> rest,
                   ArrayRef<Value>) -> SmallVector<Value> {
                 if (parts.loopsInside == 0)
                   emitRow(inner);
                 else
                   emitRowsInside(inner, rest);
                 return {};
               });
}

/// Runs `body` for the positions of `loops`. `range`: of the first of them, if
/// that is not a whole dimension; `rest` of the body: of the loops of the same
/// dimension that are not among them.
SmallVector<Value> KernelBuilder::emitRowLoops(OpBuilder &builder,
                                               ArrayRef<SumLoop> loops,
                                               std::optional<SumRange> range,
                                               ArrayRef<Value> carried,
                                               SumBlocks &sums, RowBody body) {
  if (loops.empty())
    return body(builder, range, carried);
  ArrayRef<SumLoop> own = SumLoops::getFirstDim(loops);
  const unsigned dim = own.front().dim;
  if (!range) {
    const int64_t size = cluster.getSizes()[schedule.getSummed()[dim]];
    range = {constant(0), constant(size), 1, size};
  }
  return emitSumLoops(
      builder, loc, own, *range, carried, sums,
      [&](OpBuilder &inner, Value position, ArrayRef<Value> values) {
        const int64_t step = own.back().step;
        std::optional<SumRange> rest;
        if (step > 1) {
          const bool isWhole = range->size != 0 && range->size % step == 0;
          Value end =
              arith::AddIOp::create(inner, loc, position, constant(step));
          if (!isWhole)
            end = arith::MinUIOp::create(inner, loc, end, range->last);
          rest = {position, end, 1, isWhole ? step : 0};
        } else if (parts.parts > 1) {
          setRowOfPart(inner, position);
        } else {
          elements.setPosition(schedule.getSummed()[dim], position);
        }
        return emitRowLoops(inner, loops.drop_front(own.size()), rest, values,
                            sums, body);
      });
}

/// The rows of the innermost loops, from `range` on: their sums are in
/// registers while these run, and in memory before and after.
void KernelBuilder::emitRowsInside(OpBuilder &builder,
                                   std::optional<SumRange> range) {
  ArrayRef<unsigned> updates = schedule.getStages().front().updates;
  ArrayRef<SumLoop> loops =
      ArrayRef(parts.loops.loops).take_back(parts.loopsInside);
  CarriedSums none({}, {});
  int64_t lanes = 0;
  auto beginAt = [&](OpBuilder &place) {
    elements.beginRow(place);
    elements.beginChunk(place, lanes, 0);
  };
  auto addRow = [&](OpBuilder &place, std::optional<SumRange>,
                    ArrayRef<Value> carried) {
    beginAt(place);
    SmallVector<Value> sums;
    for (auto [index, sum] : llvm::zip_equal(updates, carried)) {
      ElementBuilder::Term term =
          elements.broadcast(elements.getTerm(members()[index]));
      sums.push_back(combine(place, index, sum, term));
    }
    return sums;
  };
  auto runChunk = [&](OpBuilder &inner, int64_t chunkLanes,
                      ArrayRef<Value>) -> SmallVector<Value> {
    lanes = chunkLanes;
    auto getSum = [&](unsigned index) {
      const Cluster::Member &member = members()[index];
      return std::pair(member.op->getResult(0), cluster.getResultDims(member));
    };
    beginAt(inner);
    SmallVector<Value> sums;
    for (unsigned index : updates) {
      auto [tensor, dims] = getSum(index);
      sums.push_back(elements.load(tensor, dims));
    }
    sums = emitRowLoops(inner, loops, range, sums, none, addRow);
    beginAt(inner);
    for (auto [index, sum] : llvm::zip_equal(updates, sums)) {
      auto [tensor, dims] = getSum(index);
      elements.store(sum, tensor, dims);
    }
    return {};
  };
  const ColumnPass pass{getColumnLoops(/*addsFloats=*/false), 0, none,
                        runChunk};
  emitColumns(builder, pass, pass.loops.outer.loops, {});
}
