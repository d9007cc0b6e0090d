// The iterations of a GPU kernel's threads, and its functions as a whole.

#include "codegen/gpu/GpuKernelEmitter.h"

#include "codegen/gpu/GpuKernelBuilder.h"
#include "codegen/gpu/GpuTileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Of the machine that a program is for.
static int64_t getMultiprocessors(Operation *op) {
  const layout::Machine::Constants *gpu = nd::getMachine(op).getGpuConstants();
  if (!gpu)
    gpu = layout::getAssumedGpu().getGpuConstants();
  return int64_t(gpu->multiprocessors.value);
}

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
  shape = LaunchShape::get(cluster, schedule, accumulators,
                           getMultiprocessors(members().front().op));
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
