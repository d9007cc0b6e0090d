// Sums across the rows of a GPU kernel: in parts, and the parts of them.

#include "codegen/gpu/GpuKernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
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
