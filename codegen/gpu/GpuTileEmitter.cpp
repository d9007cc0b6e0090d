// Elementwise kernels in tiles of shared memory.
//
// A block takes one tile: `side` positions along the columns by `side` across.
// Memory is accessed along the dimension in which it is contiguous, shared
// memory in both directions:
//
//   1. staged inputs to their tiles            threads run along `across`
//   2. compute; staged outputs to their tiles  threads run along the columns
//   3. tiles of staged outputs to memory       threads run along `across`
//
// A row of a tile is followed by a gap of one 32-bit word (an element, if that
// is larger), so that a column's elements fall into different banks. With 4
// lanes of 32 bits the 32 threads of a warp touch 4 rows: row r, lane k of
// chunk c is word 33 r + 4 c + k, in bank (r + 4 c + k) mod 32, and for each k
// these are 32 different ones; so they are across, with rows and columns
// exchanged.

#include "codegen/gpu/GpuTileEmitter.h"

#include "codegen/ExecTypes.h"
#include "codegen/gpu/GpuFunction.h"
#include "codegen/gpu/LaunchShape.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Shared memory that every block may have without asking. Source: CUDA C++
/// Programming Guide, table of technical specifications.
static constexpr int64_t maxSharedBytes = 48 * 1024;
static constexpr int64_t bankBytes = 4;

static int64_t getPitch(int64_t side, int64_t elementBytes) {
  return side + std::max<int64_t>(bankBytes / elementBytes, 1);
}

static int64_t getTileBytes(int64_t side, Value tensor) {
  const int64_t bytes = getElementBytes(getElementTypeOrSelf(tensor));
  return int64_t(llvm::alignTo(uint64_t(side * getPitch(side, bytes) * bytes),
                               uint64_t(accessBytes)));
}

//===-- Tiling ------------------------------------------------------------===//

/// The dimension along which an access is contiguous; `unit` if it has none.
static unsigned getInnermost(const Cluster::Access &access) {
  for (unsigned dim : llvm::reverse(access.dims))
    if (dim != Cluster::unit)
      return dim;
  return Cluster::unit;
}

std::optional<Tiling> Tiling::find(const Cluster &cluster,
                                   const Schedule &schedule) {
  if (!schedule.canCutRows() || !schedule.getSummed().empty())
    return std::nullopt;
  Tiling tiling;
  tiling.column = schedule.getColumns().back();
  ArrayRef<int64_t> sizes = cluster.getSizes();
  SmallVector<int64_t> votes(cluster.getNumDims(), 0);
  int64_t widest = 1;
  for (const Cluster::Access &access : cluster.getAccesses()) {
    widest =
        std::max(widest, getElementBytes(getElementTypeOrSelf(access.tensor)));
    unsigned innermost = getInnermost(access);
    if (innermost != tiling.column &&
        llvm::is_contained(access.dims, tiling.column))
      votes[innermost] +=
          getBytes(cast<RankedTensorType>(access.tensor.getType()));
  }
  tiling.across = unsigned(llvm::max_element(votes) - votes.begin());
  if (votes[tiling.across] == 0)
    return std::nullopt;

  // As many lanes as keep every thread of a block busy in a tile.
  const int64_t columnSize = sizes[tiling.column];
  const int64_t acrossSize = sizes[tiling.across];
  const int64_t shorter = std::min(columnSize, acrossSize);
  int64_t lanes = std::min<int64_t>(accessBytes / widest, 8);
  tiling.side = 32;
  if (lanes == 8 && columnSize % 8 == 0 && acrossSize % 8 == 0 && shorter >= 64)
    tiling.side = 64;
  lanes = std::min(lanes, tiling.side * tiling.side / blockThreads);
  if (shorter < tiling.side / 2)
    return std::nullopt;
  tiling.columnLanes = tiling.acrossLanes = lanes;
  while (columnSize % tiling.columnLanes != 0)
    tiling.columnLanes /= 2;
  while (acrossSize % tiling.acrossLanes != 0)
    tiling.acrossLanes /= 2;

  int64_t bytes = 0;
  for (const Cluster::Access &access : cluster.getAccesses()) {
    if (getInnermost(access) != tiling.across ||
        !llvm::is_contained(access.dims, tiling.column))
      continue;
    auto &staged = access.isStore ? tiling.outputs : tiling.inputs;
    const bool isKnown = llvm::any_of(staged, [&](const auto &other) {
      return other.tensor == access.tensor && other.dims == access.dims;
    });
    const int64_t tileBytes = getTileBytes(tiling.side, access.tensor);
    // What does not fit is read across from memory.
    if (isKnown || bytes + tileBytes > maxSharedBytes)
      continue;
    bytes += tileBytes;
    staged.push_back(access);
  }
  return tiling;
}

//===-- Threads -----------------------------------------------------------===//

namespace {
class TileBuilder {
public:
  TileBuilder(const KernelBody &kernel, const Tiling &tiling, StringRef name,
              ArrayRef<bool> isShared, gpu::GPUModuleOp kernels);

  FailureOr<EmittedKernel> build(StringRef name);

private:
  /// Some consecutive positions of a tile: in memory, where those that are not
  /// there are 0, and in the tile.
  struct Chunk {
    Value column, across;
    Value tileColumn, tileAcross;
    Value isValid; ///< null: always
  };

  Value constant(int64_t value) { return elements.getConstant(value); }
  std::pair<Value, Value> divide(Value value, int64_t divisor);
  Value add(Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b);
  }
  Value multiply(Value a, int64_t factor) {
    return factor == 1
               ? a
               : arith::MulIOp::create(builder, loc, a, constant(factor));
  }
  static unsigned getPositionBits(const KernelBody &kernel);
  int64_t countTiles(unsigned dim) const {
    return int64_t(llvm::divideCeil(cluster.getSizes()[dim], tiling.side));
  }
  int64_t getGrid() const;
  void setTile();
  int64_t countChunks(int64_t lanes) const {
    return tiling.side * tiling.side / (lanes * blockThreads);
  }
  Chunk getChunk(int64_t number, bool isAlongColumns);
  void setPositions(const Chunk &chunk);
  void ifValid(const Chunk &chunk, llvm::function_ref<void()> body);

  IntegerType getBits(Value tensor) {
    return builder.getIntegerType(
        unsigned(8 * getElementBytes(getElementTypeOrSelf(tensor))));
  }
  Value getAddress(const Cluster::Access &access);
  /// Address in the tile of the first position of `chunk`.
  Value getTilePlace(const Cluster::Access &access, const Chunk &chunk);
  Value getLanePlace(Value place, const Cluster::Access &access, int64_t lane,
                     bool isAlongColumns);
  Value loadTile(const Cluster::Access &access, const Chunk &chunk,
                 bool isAlongColumns);
  void storeTile(const Cluster::Access &access, const Chunk &chunk, Value value,
                 bool isAlongColumns);
  Value fromBits(Value bits, Type element);
  Value toBits(Value value, const Cluster::Access &access);

  void stageInputs();
  void compute();
  void storeOutputs();
  const Cluster::Access *getStaged(Value output) const;

  const KernelBody &kernel;
  const Cluster &cluster;
  const Schedule &schedule;
  const Tiling &tiling;
  gpu::GPUModuleOp kernels;
  Location loc;
  GpuFunction function;
  ElementBuilder elements;
  OpBuilder builder;
  Value thread;
  llvm::DenseMap<unsigned, Value> positions; ///< of the tile's first element
  llvm::DenseMap<unsigned, Value> current;   ///< of the chunk's
  int64_t sharedBytes = 0;
  SmallVector<int64_t> inputTiles, outputTiles; ///< offsets in shared memory
};
} // namespace

unsigned TileBuilder::getPositionBits(const KernelBody &kernel) {
  int64_t largest = 0;
  for (Value tensor : kernel.getOperands())
    largest = std::max(
        largest, cast<RankedTensorType>(tensor.getType()).getNumElements());
  return largest < (int64_t(1) << 30) ? 32 : 64;
}

TileBuilder::TileBuilder(const KernelBody &kernel, const Tiling &tiling,
                         StringRef name, ArrayRef<bool> isShared,
                         gpu::GPUModuleOp kernels)
    : kernel(kernel), cluster(kernel.cluster), schedule(kernel.schedule),
      tiling(tiling), kernels(kernels),
      loc(NameLoc::get(StringAttr::get(kernels.getContext(), name))),
      function(GpuFunction::create(
          kernels, loc, name, blockThreads,
          {kernel.inputs.size(), kernel.outputs.size(), isShared},
          nd::getMesh(kernel.ops.front()).getAxes().size())),
      elements(kernel, loc, OpBuilder(function.getAnchor()), function,
               getElementOptions(getPositionBits(kernel), accessBytes)),
      builder(function.atEnd()) {
  elements.setGrain(tiling.columnLanes);
  for (auto [accesses, tiles] : {std::pair(&tiling.inputs, &inputTiles),
                                 std::pair(&tiling.outputs, &outputTiles)})
    for (const Cluster::Access &access : *accesses) {
      tiles->push_back(sharedBytes);
      sharedBytes += getTileBytes(tiling.side, access.tensor);
    }
}

std::pair<Value, Value> TileBuilder::divide(Value value, int64_t divisor) {
  if (divisor == 1)
    return {value, constant(0)};
  return {arith::DivUIOp::create(builder, loc, value, constant(divisor)),
          arith::RemUIOp::create(builder, loc, value, constant(divisor))};
}

int64_t TileBuilder::getGrid() const {
  int64_t grid = 1;
  for (unsigned dim = 0; dim < cluster.getNumDims(); ++dim)
    grid *= dim == tiling.column || dim == tiling.across
                ? countTiles(dim)
                : cluster.getSizes()[dim];
  return grid;
}

/// Finds the block's tile.
void TileBuilder::setTile() {
  Type type = elements.getPositionType();
  thread = function.getId(builder, type, /*isBlock=*/false);
  Value rest = function.getId(builder, type, /*isBlock=*/true);
  auto take = [&](int64_t size) {
    auto [quotient, position] = divide(rest, size);
    rest = quotient;
    return position;
  };
  for (unsigned dim : {tiling.column, tiling.across})
    positions[dim] = multiply(take(countTiles(dim)), tiling.side);
  for (unsigned dim : llvm::reverse(schedule.getParallel()))
    if (dim != tiling.across) {
      positions[dim] = take(cluster.getSizes()[dim]);
      elements.setPosition(dim, positions[dim]);
    }
}

/// Chunk `number` of the thread. Neighbouring threads have neighbouring chunks
/// along the columns or across.
TileBuilder::Chunk TileBuilder::getChunk(int64_t number, bool isAlongColumns) {
  const int64_t lanes =
      isAlongColumns ? tiling.columnLanes : tiling.acrossLanes;
  auto [row, place] =
      divide(add(thread, constant(number * blockThreads)), tiling.side / lanes);
  Value offset = multiply(place, lanes);
  Chunk chunk;
  chunk.tileColumn = isAlongColumns ? offset : row;
  chunk.tileAcross = isAlongColumns ? row : offset;
  auto locate = [&](unsigned dim, Value inTile) {
    Value position = add(positions.at(dim), inTile);
    const int64_t size = cluster.getSizes()[dim];
    if (size % tiling.side == 0)
      return position;
    Value isThere = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::ult, position, constant(size));
    chunk.isValid =
        chunk.isValid
            ? Value(arith::AndIOp::create(builder, loc, chunk.isValid, isThere))
            : isThere;
    return position;
  };
  chunk.column = locate(tiling.column, chunk.tileColumn);
  chunk.across = locate(tiling.across, chunk.tileAcross);
  if (chunk.isValid)
    for (Value *position : {&chunk.column, &chunk.across})
      *position = arith::SelectOp::create(builder, loc, chunk.isValid,
                                          *position, constant(0));
  return chunk;
}

void TileBuilder::setPositions(const Chunk &chunk) {
  current = positions;
  current[tiling.column] = chunk.column;
  current[tiling.across] = chunk.across;
  elements.setPosition(tiling.column, chunk.column);
  elements.setPosition(tiling.across, chunk.across);
}

/// Runs `body`, whose code goes to `builder`, if the chunk is there.
void TileBuilder::ifValid(const Chunk &chunk, llvm::function_ref<void()> body) {
  if (!chunk.isValid)
    return body();
  auto branch =
      scf::IfOp::create(builder, loc, chunk.isValid, /*withElse=*/false);
  OpBuilder outer = builder;
  builder = branch.getThenBodyBuilder();
  body();
  builder = outer;
}

//===-- Memory ------------------------------------------------------------===//

/// Address of an access at the current positions.
Value TileBuilder::getAddress(const Cluster::Access &access) {
  auto shape = cast<RankedTensorType>(access.tensor.getType()).getShape();
  Value offset = constant(0);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    if (access.dims[i] != Cluster::unit)
      offset = add(offset, multiply(current.at(access.dims[i]), stride));
  auto input = llvm::find(kernel.inputs, access.tensor);
  auto index = input - kernel.inputs.begin();
  if (input == kernel.inputs.end())
    index += llvm::find(kernel.outputs, access.tensor) - kernel.outputs.begin();
  Value base = function.getOperand(builder, unsigned(index));
  return LLVM::GEPOp::create(builder, loc, base.getType(),
                             getBits(access.tensor), base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value TileBuilder::getTilePlace(const Cluster::Access &access,
                                const Chunk &chunk) {
  const auto &staged = access.isStore ? tiling.outputs : tiling.inputs;
  const int64_t tile =
      (access.isStore ? outputTiles
                      : inputTiles)[size_t(&access - staged.begin())];
  const int64_t bytes = getElementBytes(getElementTypeOrSelf(access.tensor));
  Value index = add(multiply(chunk.tileColumn, getPitch(tiling.side, bytes)),
                    chunk.tileAcross);
  Value shared = getSharedMemory(builder, loc, kernels);
  Value base =
      LLVM::GEPOp::create(builder, loc, shared.getType(), builder.getI8Type(),
                          shared, ArrayRef<LLVM::GEPArg>{int32_t(tile)});
  return LLVM::GEPOp::create(builder, loc, shared.getType(),
                             getBits(access.tensor), base,
                             ArrayRef<LLVM::GEPArg>{index});
}

Value TileBuilder::getLanePlace(Value place, const Cluster::Access &access,
                                int64_t lane, bool isAlongColumns) {
  const int64_t bytes = getElementBytes(getElementTypeOrSelf(access.tensor));
  const int64_t step = isAlongColumns ? getPitch(tiling.side, bytes) : 1;
  return LLVM::GEPOp::create(builder, loc, place.getType(),
                             getBits(access.tensor), place,
                             ArrayRef<LLVM::GEPArg>{int32_t(lane * step)});
}

/// The bits of a chunk's elements.
Value TileBuilder::loadTile(const Cluster::Access &access, const Chunk &chunk,
                            bool isAlongColumns) {
  const int64_t lanes =
      isAlongColumns ? tiling.columnLanes : tiling.acrossLanes;
  IntegerType bits = getBits(access.tensor);
  Value place = getTilePlace(access, chunk);
  SmallVector<Value> values;
  for (int64_t lane = 0; lane < lanes; ++lane)
    values.push_back(LLVM::LoadOp::create(
        builder, loc, bits, getLanePlace(place, access, lane, isAlongColumns),
        bits.getWidth() / 8));
  return vector::FromElementsOp::create(builder, loc,
                                        VectorType::get({lanes}, bits), values);
}

void TileBuilder::storeTile(const Cluster::Access &access, const Chunk &chunk,
                            Value value, bool isAlongColumns) {
  Value place = getTilePlace(access, chunk);
  const int64_t lanes = cast<VectorType>(value.getType()).getNumElements();
  for (int64_t lane = 0; lane < lanes; ++lane)
    LLVM::StoreOp::create(builder, loc,
                          vector::ExtractOp::create(builder, loc, value, lane),
                          getLanePlace(place, access, lane, isAlongColumns),
                          getBits(access.tensor).getWidth() / 8);
}

/// A boolean is a byte in memory.
Value TileBuilder::fromBits(Value bits, Type element) {
  if (element.isInteger(1)) {
    Value zero = arith::ConstantOp::create(builder, loc,
                                           builder.getZeroAttr(bits.getType()));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bits,
                                 zero);
  }
  if (isa<IntegerType>(element))
    return bits;
  auto type = cast<VectorType>(bits.getType()).clone(element);
  return arith::BitcastOp::create(builder, loc, type, bits);
}

Value TileBuilder::toBits(Value value, const Cluster::Access &access) {
  auto type = cast<VectorType>(value.getType()).clone(getBits(access.tensor));
  Type element = getElementTypeOrSelf(access.tensor);
  if (element.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, type, value);
  if (isa<IntegerType>(element))
    return value;
  return arith::BitcastOp::create(builder, loc, type, value);
}

//===-- Phases ------------------------------------------------------------===//

/// Everything is on its way before anything is waited for.
void TileBuilder::stageInputs() {
  if (tiling.inputs.empty())
    return;
  SmallVector<std::tuple<const Cluster::Access *, Chunk, Value>> loaded;
  for (int64_t i = 0; i < countChunks(tiling.acrossLanes); ++i) {
    Chunk chunk = getChunk(i, /*isAlongColumns=*/false);
    setPositions(chunk);
    for (const Cluster::Access &access : tiling.inputs) {
      IntegerType bits = getBits(access.tensor);
      auto type = VectorType::get({tiling.acrossLanes}, bits);
      Value value = LLVM::LoadOp::create(
          builder, loc, type, getAddress(access),
          unsigned(tiling.acrossLanes * bits.getWidth() / 8));
      loaded.push_back({&access, chunk, value});
    }
  }
  for (auto &[access, chunk, value] : loaded)
    storeTile(*access, chunk, value, /*isAlongColumns=*/false);
  gpu::BarrierOp::create(builder, loc);
}

const Cluster::Access *TileBuilder::getStaged(Value output) const {
  for (const Cluster::Access &access : tiling.outputs)
    if (access.tensor == output)
      return &access;
  return nullptr;
}

/// Everything is read before anything is written: outputs may lie where inputs
/// do.
void TileBuilder::compute() {
  SmallVector<Chunk> chunks;
  SmallVector<SmallVector<Value>> results;
  auto begin = [&](const Chunk &chunk) {
    setPositions(chunk);
    elements.beginRow(builder);
    elements.beginChunk(builder, tiling.columnLanes, 0);
  };
  for (int64_t i = 0; i < countChunks(tiling.columnLanes); ++i) {
    Chunk chunk = getChunk(i, /*isAlongColumns=*/true);
    begin(chunk);
    for (const Cluster::Access &access : tiling.inputs)
      elements.setElement(access.tensor, access.dims,
                          fromBits(loadTile(access, chunk, true),
                                   getElementTypeOrSelf(access.tensor)));
    results.emplace_back();
    for (Value output : kernel.outputs) {
      Value value = elements.getElement(output, cluster.getOutputDims(output));
      results.back().push_back(getStaged(output) ? elements.broadcast(value)
                                                 : value);
    }
    chunks.push_back(chunk);
  }
  for (auto [chunk, values] : llvm::zip_equal(chunks, results)) {
    for (auto [output, value] : llvm::zip_equal(kernel.outputs, values))
      if (const Cluster::Access *access = getStaged(output))
        storeTile(*access, chunk, toBits(value, *access),
                  /*isAlongColumns=*/true);
    ifValid(chunk, [&, &chunk = chunk, &values = values] {
      begin(chunk);
      for (auto [output, value] : llvm::zip_equal(kernel.outputs, values))
        if (!getStaged(output))
          elements.store(value, output, cluster.getOutputDims(output));
    });
  }
}

void TileBuilder::storeOutputs() {
  if (tiling.outputs.empty())
    return;
  gpu::BarrierOp::create(builder, loc);
  for (int64_t i = 0; i < countChunks(tiling.acrossLanes); ++i) {
    Chunk chunk = getChunk(i, /*isAlongColumns=*/false);
    setPositions(chunk);
    SmallVector<Value> values;
    for (const Cluster::Access &access : tiling.outputs)
      values.push_back(loadTile(access, chunk, /*isAlongColumns=*/false));
    ifValid(chunk, [&] {
      for (auto [access, value] : llvm::zip_equal(tiling.outputs, values))
        LLVM::StoreOp::create(builder, loc, value, getAddress(access),
                              unsigned(tiling.acrossLanes *
                                       getBits(access.tensor).getWidth() / 8));
    });
  }
}

FailureOr<EmittedKernel> TileBuilder::build(StringRef name) {
  if (failed(checkGrid(kernel.ops.front(), getGrid())))
    return failure();
  setTile();
  stageInputs();
  compute();
  storeOutputs();
  EmittedKernel result;
  result.symbol = name;
  result.extent = getGrid();
  result.launches.push_back({name.str(), getGrid(), blockThreads, sharedBytes});
  return result;
}

FailureOr<EmittedKernel>
meshc::codegen::emitTiledKernel(const KernelBody &kernel, const Tiling &tiling,
                                StringRef name, ArrayRef<bool> isShared,
                                gpu::GPUModuleOp kernels) {
  return TileBuilder(kernel, tiling, name, isShared, kernels).build(name);
}
