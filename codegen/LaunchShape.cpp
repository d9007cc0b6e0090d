#include "codegen/LaunchShape.h"

#include "codegen/ExecTypes.h"

using namespace mlir;
using namespace meshc::codegen;

/// Chunks of one warp before a row gets several warps.
static constexpr int64_t maxWarpChunks = 8 * warpThreads;
/// Accesses on their way at once in an elementwise kernel.
static constexpr int64_t elementwiseChunks = 2;
/// Groups that fill a large GPU: 132 multiprocessors with 2048 threads each
/// have room for 1056 blocks of 256.
static constexpr int64_t wantedBlocks = 1056;
static constexpr int64_t maxSplits = 256;
static constexpr int64_t maxWorkspaceBytes = int64_t(16) << 20;
static int64_t getProduct(const Cluster &cluster, ArrayRef<unsigned> dims) {
  int64_t product = 1;
  for (unsigned dim : dims)
    product *= cluster.getSizes()[dim];
  return product;
}

static int64_t powerOfTwoCeil(int64_t value) {
  return int64_t(llvm::PowerOf2Ceil(uint64_t(std::max<int64_t>(value, 1))));
}

int64_t meshc::codegen::getAccessLanes(const Cluster &cluster) {
  int64_t bytes = 1;
  for (const Cluster::Access &access : cluster.getAccesses())
    bytes = std::max(
        bytes,
        getElementBytes(
            cast<RankedTensorType>(access.tensor.getType()).getElementType()));
  return accessBytes / bytes;
}

LaunchShape LaunchShape::get(const Cluster &cluster, const Schedule &schedule,
                             ArrayRef<unsigned> accumulators) {
  LaunchShape shape;
  const bool isCut = schedule.canCutRows();
  if (ArrayRef<unsigned> columns = schedule.getColumns(); !columns.empty()) {
    const int64_t size = cluster.getSizes()[columns.back()];
    // Rows start aligned only if their length is a multiple of the lanes; a
    // single row has a tail.
    const bool isOneRow =
        isCut && schedule.getParallel().empty() && schedule.getSummed().empty();
    shape.lanes = getAccessLanes(cluster);
    while (isOneRow ? shape.lanes > size : size % shape.lanes != 0)
      shape.lanes /= 2;
    shape.lastDimChunks = size / shape.lanes;
    shape.tailLanes = size % shape.lanes;
    shape.chunksPerRow =
        getProduct(cluster, columns.drop_back()) * shape.lastDimChunks;
  }

  const int64_t chunks = shape.chunksPerRow;
  if (isCut && !accumulators.empty()) {
    // A warp reads 512 bytes of a row; more warps take other rows.
    shape.groupThreads = std::min(powerOfTwoCeil(chunks), warpThreads);
    shape.chunksPerThread = 1;
  } else if (isCut) {
    shape.groupThreads = std::min(powerOfTwoCeil(chunks), blockThreads);
    shape.chunksPerThread =
        std::min(elementwiseChunks,
                 int64_t(llvm::divideCeil(chunks, shape.groupThreads)));
  } else {
    if (chunks <= maxWarpChunks)
      shape.groupThreads = std::min(powerOfTwoCeil(chunks), warpThreads);
    else
      shape.groupThreads =
          std::min(powerOfTwoCeil(chunks / 4), maxBlockThreads);
    shape.chunksPerThread = llvm::divideCeil(chunks, shape.groupThreads);
    shape.keepsChunks = shape.chunksPerThread <= maxKeptChunks;
  }
  if (isCut)
    shape.columnBlocks =
        llvm::divideCeil(chunks, shape.groupThreads * shape.chunksPerThread);
  // Groups of several warps meet at barriers, which are the block's.
  shape.groupsPerBlock =
      isCut || shape.groupThreads <= warpThreads
          ? std::max<int64_t>(blockThreads / shape.groupThreads, 1)
          : 1;

  shape.iterations =
      getProduct(cluster, schedule.getParallel()) * shape.columnBlocks;
  shape.summedRows = getProduct(cluster, schedule.getSummed());
  int64_t bytes = 0;
  for (unsigned member : accumulators)
    bytes += getBytes(cast<RankedTensorType>(
        cluster.getMembers()[member].op->getResult(0).getType()));
  int64_t splits = wantedBlocks * shape.groupsPerBlock / shape.iterations;
  splits = std::min({splits, maxSplits, shape.summedRows / 4,
                     maxWorkspaceBytes / std::max<int64_t>(bytes, 1)});
  shape.rowsPerSplit =
      llvm::divideCeil(shape.summedRows, std::max<int64_t>(splits, 1));
  shape.splits = llvm::divideCeil(shape.summedRows, shape.rowsPerSplit);
  shape.iterations *= shape.splits;
  return shape;
}
