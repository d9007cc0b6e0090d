#include "codegen/cpu/RowParts.h"

#include "codegen/ExecTypes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Iterations of a kernel that are enough for one device: pieces for each of 8
/// threads, shared by all devices, as many as the executor makes of other
/// kernels (piecesPerWorker in runtime/cpu/CommandList.cpp). From 8 devices
/// on every one has a thread at most, as for matmuls (getMatmulPieces in
/// runtime/cpu/Executor.cpp), and parts would only cost.
static int64_t getWantedIterations(int64_t devices) {
  constexpr int64_t usualThreads = 8;
  constexpr int64_t piecesPerThread = 4;
  const int64_t threads = llvm::divideCeil(usualThreads, devices);
  return threads == 1 ? 1 : threads * piecesPerThread;
}

/// Rows whose sums are in registers: all of a window of 3 x 3 or 4 x 4, and as
/// many streams as a processor prefetches.
static constexpr int64_t rowsInside = 16;

/// Sums written at the same time share no line of a cache.
static constexpr uint64_t cacheLine = 64;

static linalg::GenericOp getReduction(const Cluster &cluster, unsigned member) {
  return cast<linalg::GenericOp>(cluster.getMembers()[member].op);
}

static int64_t getElementBytesOf(Operation *op) {
  return getElementBytes(
      cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
}

/// Where the accumulators that are summed in blocks are in the row of a level.
void RowParts::placeLevels(const Cluster &cluster, const Schedule &schedule) {
  ArrayRef<unsigned> columns = schedule.getColumns();
  int64_t width = schedule.getColumnBlock();
  if (width == 0) {
    width = 1;
    for (unsigned dim : columns)
      width *= cluster.getSizes()[dim];
  }
  for (unsigned member : accumulators) {
    linalg::GenericOp op = getReduction(cluster, member);
    if (!addsFloats(op)) {
      levelOffsets.push_back(std::nullopt);
      continue;
    }
    const bool hasColumns = llvm::any_of(
        cluster.getResultDims(cluster.getMembers()[member]),
        [&](unsigned dim) { return llvm::is_contained(columns, dim); });
    levelOffsets.push_back(bytesPerLevel);
    bytesPerLevel += int64_t(llvm::alignTo(
        uint64_t(getElementBytesOf(op) * (hasColumns ? width : 1)), cacheLine));
  }
}

/// How many parts give threads enough to do; less than 2: none.
int64_t RowParts::getWantedParts(const KernelBody &kernel,
                                 const PartLimits &limits) const {
  int64_t bytes = 0;
  for (Value tensor : kernel.getOperands())
    bytes += getBytes(cast<RankedTensorType>(tensor.getType()));
  const int64_t iterations = std::min(
      getWantedIterations(nd::getMesh(kernel.ops.front()).getNumDevices()),
      bytes / limits.minBytes);
  return std::min(iterations / kernel.schedule.getExtent(kernel.cluster),
                  rows / limits.minRows);
}

/// Whether `rows` rows are added to the sums of one chunk of columns, then to
/// those of the next.
static bool addsRowsInside(const Cluster &cluster, const Schedule &schedule,
                           int64_t rows) {
  // Sums of 32 columns take four registers of 256 bits, of sixteen.
  constexpr size_t mostSums = 2;
  ArrayRef<Schedule::Stage> stages = schedule.getStages();
  const Schedule::Stage &first = stages.front();
  if (stages.size() != 1 || first.updates.empty() ||
      first.updates.size() > mostSums || !first.reductions.empty() ||
      !first.stores.empty() || !schedule.getRowStores().empty() ||
      !schedule.getRowUpdates().empty())
    return false;
  // Many whole rows come as one stream, which takes up to a third longer in
  // pieces (8 times 2048 rows of 300); of blocks of columns each row is a
  // stream of its own, and they take two thirds of the time (5000 columns).
  return rows <= rowsInside || !cluster.getGathered().empty() ||
         schedule.getColumnBlock() != 0;
}

void RowParts::setLoops(const Cluster &cluster, const Schedule &schedule) {
  SmallVector<int64_t> sizes{rowsPerPart};
  if (parts == 1) {
    sizes.clear();
    for (unsigned dim : schedule.getSummed())
      sizes.push_back(cluster.getSizes()[dim]);
  }
  loops = bytesPerLevel > 0 ? SumLoops::get(sizes) : SumLoops::getPlain(sizes);
  // The position of a part's row in several dimensions would be found again for
  // each chunk of columns.
  const bool areInside = parts == 1 && addsRowsInside(cluster, schedule, rows);
  loopsInside = areInside ? loops.cutInnermost(sizes, rowsInside) : 0;
}

RowParts RowParts::get(const KernelBody &kernel, const PartLimits &limits) {
  const Cluster &cluster = kernel.cluster;
  const Schedule &schedule = kernel.schedule;
  RowParts result;
  for (unsigned dim : schedule.getSummed())
    result.rows *= cluster.getSizes()[dim];
  result.rowsPerPart = result.rows;
  ArrayRef<Cluster::Member> members = cluster.getMembers();
  bool hasSplatInits = true;
  for (unsigned member = 0; member < members.size(); ++member) {
    if (schedule.getRole(member) != Schedule::Role::Accumulator)
      continue;
    linalg::GenericOp op = getReduction(cluster, member);
    hasSplatInits &= bool(getSplat(op.getDpsInitOperand(0)->get()));
    result.accumulators.push_back(member);
  }
  result.placeLevels(cluster, schedule);
  result.setLoops(cluster, schedule);
  // The second function reads nothing but the parts.
  if (result.accumulators.empty() || !hasSplatInits ||
      schedule.getExtent(cluster) == 0)
    return result;
  auto cut = [&](int64_t rowsPerPart) {
    result.rowsPerPart = rowsPerPart;
    result.parts = llvm::divideCeil(result.rows, rowsPerPart);
    result.setLoops(cluster, schedule);
  };
  if (const int64_t parts = result.getWantedParts(kernel, limits); parts >= 2)
    cut(llvm::divideCeil(result.rows, parts));
  if (result.getLevelBytes() > limits.maxLevelBytes)
    cut(sumBlock);
  if (result.parts == 1)
    return result;
  for (unsigned member : result.accumulators) {
    result.offsets.push_back(result.bytesPerPart);
    result.bytesPerPart +=
        int64_t(llvm::alignTo(uint64_t(getBytes(cast<RankedTensorType>(
                                  members[member].op->getResult(0).getType()))),
                              cacheLine));
  }
  return result;
}
