#include "codegen/gpu/LaunchShape.h"

#include "codegen/ExecTypes.h"
#include "codegen/kernels/BlockedSums.h"

using namespace mlir;
using namespace meshc::codegen;

/// Columns of a thread of a row that one warp takes; of how many 32-bit words
/// in registers; chunks of a thread of longer rows.
///
/// What a kernel of rows is limited by are bytes on their way from memory: rows
/// that a multiprocessor has room for, times what is read of each. More columns
/// for each thread share the registers that hold none, 25 to 35; fewer warps
/// are left then to compute while others wait.
/// Source: ptxas 13.0 for sm_90, KiB of rows of 2048 for a multiprocessor of
/// 65536 registers, and its warps, by chunks of a thread:
///
///                                        1        2        4        8
///   softmax in f32, 4 columns a chunk  32 64    64 64   128 64   144 36
///   softmax in bf16, 8 columns         32 64    48 48    84 42    64 16
///   a norm's gradient in f32           48 48    64 32    80 20    96 12
///
/// Eight chunks of bf16 are a warp's own row. The gradient keeps two operands
/// and two sums: 16 columns take 96 registers, 32 take 168, and 190 in a warp's
/// own row, of which a multiprocessor has no more than eight then.
static constexpr int64_t maxWarpColumns = 32;
static constexpr int64_t maxWords = 64;
static constexpr int64_t longRowChunks = 4;
/// Source: CUDA C++ Programming Guide, technical specifications of compute
/// capability 7.0 and later; of a thread's registers, those above. With more
/// words than are left ptxas spills (a norm's gradient of 16384 columns).
static constexpr int64_t blockRegisters = 65536, maxThreadRegisters = 255;
static constexpr int64_t otherRegisters = 32;
/// Chunks of a thread that are read before the first one is written where rows
/// are read again by every stage, and their words, as for other registers: what
/// is written may lie where the next chunk is read, so that no assembler reads
/// it ahead. Rows where these are summed and written.
static constexpr int64_t loopedChunks = 4, loopedWords = 32;
static constexpr int64_t storedRows = 2;
/// Chunks on their way at once in an elementwise kernel, and their words: with
/// more operands these are as many bytes, and registers are left for other
/// blocks.
static constexpr int64_t elementwiseChunks = 2, elementwiseWords = 32;
/// Groups that fill a multiprocessor: 2048 threads are 8 blocks of 256.
static constexpr int64_t wantedBlocks = 8;
static constexpr int64_t maxSplits = 256;
/// Rows on their way at once for a multiprocessor where short ones are summed
/// in parts: twice the product of 4.8 TB/s and the 0.8 us that memory of a busy
/// H200 takes, by its 132, as half of the rows wait for their sums.
static constexpr int64_t wantedBytes = int64_t(64) << 10;
/// Rows of a part: of two f32 sums, written and read again, are a sixth of the
/// bytes of these rows' two operands and one result.
static constexpr int64_t minPartRows = 8;
/// Partial sums take no more of the arena than this, unless multiprocessors
/// would be left without a block: then each has one part. A part has four rows
/// or more: two sums, written and read again, are half of the bytes of these
/// rows' two operands at most.
static constexpr int64_t maxWorkspaceBytes = int64_t(16) << 20;
static constexpr int64_t minRowsOfSplit = 4;
/// Blocks of 256 threads that add up parts of few long rows: four for each
/// multiprocessor, which has room for as many with 64 registers a thread, so
/// that all of them run at once and none is left for a second turn. Chunks
/// of a thread that are on their way together, and their 32-bit words: 256
/// threads with four accesses of 16 bytes are 64 KiB for a multiprocessor, as
/// above for wantedBytes.
static constexpr int64_t reductionBlocks = 4;
static constexpr int64_t reductionChunks = 4, reductionWords = 32;

static int64_t getProduct(const Cluster &cluster, ArrayRef<unsigned> dims) {
  int64_t product = 1;
  for (unsigned dim : dims)
    product *= cluster.getSizes()[dim];
  return product;
}

static int64_t powerOfTwoCeil(int64_t value) {
  return int64_t(llvm::PowerOf2Ceil(uint64_t(std::max<int64_t>(value, 1))));
}

int64_t meshc::codegen::getAccessLanes(const Cluster &cluster,
                                       const Schedule &schedule) {
  int64_t widest = 0;
  bool hasHalves = false;
  for (const Cluster::Access &access : cluster.getAccesses()) {
    // What a row has once is no matter of width.
    if (llvm::none_of(access.dims, [&](unsigned dim) {
          return llvm::is_contained(schedule.getColumns(), dim);
        }))
      continue;
    auto type = cast<RankedTensorType>(access.tensor.getType());
    const int64_t bytes = getElementBytes(type.getElementType());
    widest = std::max(widest, bytes);
    hasHalves |= bytes == 2;
  }
  // What is gathered or computed is 32 bits in registers, mostly.
  const int64_t lanes = accessBytes / (widest == 0 ? 4 : widest);
  return hasHalves ? std::min(2 * lanes, accessBytes / 2) : lanes;
}

namespace {
/// What the threads of a row have of each of its columns.
struct RowContent {
  int64_t words = 0; ///< in registers, of 32 bits
  int64_t bytes = 0; ///< read from memory
};
} // namespace

/// Operands that differ between rows, and sums across rows. What the columns of
/// all rows share is in a cache.
static RowContent getRowContent(const Cluster &cluster,
                                const Schedule &schedule,
                                ArrayRef<unsigned> accumulators) {
  auto isColumn = [&](unsigned dim) {
    return llvm::is_contained(schedule.getColumns(), dim);
  };
  auto getBytesOf = [](Value tensor) {
    return getElementBytes(
        cast<RankedTensorType>(tensor.getType()).getElementType());
  };
  // Narrow elements are f32 in registers.
  auto getWords = [](int64_t bytes) { return llvm::divideCeil(bytes, 4); };
  RowContent content;
  SmallPtrSet<Value, 4> seen;
  for (const Cluster::Access &access : cluster.getAccesses()) {
    const bool differs =
        llvm::any_of(access.dims,
                     [&](unsigned dim) {
                       return dim != Cluster::unit && !isColumn(dim);
                     }) ||
        (schedule.getParallel().empty() && schedule.getSummed().empty());
    if (access.isStore || !differs || llvm::none_of(access.dims, isColumn) ||
        !seen.insert(access.tensor).second)
      continue;
    content.bytes += getBytesOf(access.tensor);
    content.words += int64_t(getWords(getBytesOf(access.tensor)));
  }
  for (unsigned member : accumulators) {
    const Cluster::Member &info = cluster.getMembers()[member];
    if (llvm::any_of(cluster.getResultDims(info), isColumn))
      content.words += int64_t(getWords(getBytesOf(info.op->getResult(0))));
  }
  content.words = std::max<int64_t>(content.words, 1);
  return content;
}

int64_t meshc::codegen::getElementwiseChunks(const Cluster &cluster,
                                             const Schedule &schedule,
                                             int64_t lanes) {
  const int64_t words = getRowContent(cluster, schedule, {}).words * lanes;
  return std::clamp<int64_t>(elementwiseWords / words, 1, elementwiseChunks);
}

/// Lanes, chunks and tail of a row. Rows start aligned only if their length is
/// a multiple of the lanes; a single one may have a tail.
void LaunchShape::setLanes(const Cluster &cluster, const Schedule &schedule,
                           bool mayHaveTail) {
  ArrayRef<unsigned> columns = schedule.getColumns();
  if (columns.empty())
    return;
  const int64_t size = cluster.getSizes()[columns.back()];
  const bool hasTail = mayHaveTail && columns.size() == 1 &&
                       schedule.getParallel().empty() &&
                       schedule.getSummed().empty();
  lanes = getAccessLanes(cluster, schedule);
  while (hasTail ? lanes > size : size % lanes != 0)
    lanes /= 2;
  lastDimChunks = size / lanes;
  tailLanes = size % lanes;
  chunksPerRow = getProduct(cluster, columns.drop_back()) * lastDimChunks;
}

/// Of a thread, for columns.
int64_t LaunchShape::getFreeRegisters() const {
  return std::min(blockRegisters / std::max(groupThreads, blockThreads),
                  maxThreadRegisters) -
         otherRegisters;
}

/// Whether sums across rows that are made in blocks have their accumulators in
/// registers, those of a block beside those of all: `words` are what a column
/// takes with one of each. If not, a part is one block: its sums are a 64th of
/// the bytes that are read. Source: ptxas 13.0 for sm_90 spills where they fit
/// exactly, since loops in blocks count twice, too (a norm's gradient of 8192
/// columns).
bool LaunchShape::holdsSumsTwice(const Cluster &cluster,
                                 const Schedule &schedule, int64_t words,
                                 ArrayRef<unsigned> accumulators) const {
  bool hasSums = false;
  for (unsigned member : accumulators) {
    const Cluster::Member &info = cluster.getMembers()[member];
    if (!addsFloats(info.op) ||
        llvm::none_of(cluster.getResultDims(info), [&](unsigned dim) {
          return llvm::is_contained(schedule.getColumns(), dim);
        }))
      continue;
    hasSums = true;
    words += llvm::divideCeil(
        getElementBytes(cast<RankedTensorType>(info.op->getResult(0).getType())
                            .getElementType()),
        4);
  }
  if (!hasSums)
    return true;
  return keepsChunks && chunksPerThread * lanes * words < getFreeRegisters();
}

/// Whether parts of a row can be reduced apart: nothing that has columns waits
/// for a reduction, and no row for another.
static bool canCutReductions(const Schedule &schedule) {
  ArrayRef<Schedule::Stage> stages = schedule.getStages();
  return schedule.getSummed().empty() && !stages.front().reductions.empty() &&
         llvm::all_of(stages.drop_front(), [](const Schedule::Stage &stage) {
           return stage.reductions.empty() && stage.updates.empty() &&
                  stage.stores.empty();
         });
}

/// Cuts rows that would leave most of a GPU idle.
void LaunchShape::cutReductions(const Cluster &cluster,
                                const Schedule &schedule, int64_t words,
                                int64_t multiprocessors) {
  LaunchShape cut;
  cut.setLanes(cluster, schedule, /*mayHaveTail=*/true);
  cut.groupThreads = blockThreads;
  cut.keepsChunks = false;
  cut.chunksPerPass = std::clamp<int64_t>(reductionWords / (words * cut.lanes),
                                          1, reductionChunks);
  const int64_t rows = getProduct(cluster, schedule.getParallel());
  const int64_t passes = cut.getPasses();
  const int64_t wanted =
      std::min(reductionBlocks * multiprocessors / rows, passes);
  if (wanted < 2)
    return;
  cut.cutsReductions = true;
  cut.passesPerSplit = llvm::divideCeil(passes, wanted);
  cut.splits = llvm::divideCeil(passes, cut.passesPerSplit);
  cut.iterations = rows * cut.splits;
  *this = cut;
}

LaunchShape LaunchShape::get(const Cluster &cluster, const Schedule &schedule,
                             ArrayRef<unsigned> accumulators,
                             int64_t multiprocessors) {
  LaunchShape shape;
  const bool isCut = schedule.canCutRows();
  shape.setLanes(cluster, schedule, /*mayHaveTail=*/isCut);
  const int64_t chunks = shape.chunksPerRow;
  const RowContent content = getRowContent(cluster, schedule, accumulators);
  if (isCut && !accumulators.empty()) {
    // A warp reads 512 bytes of a row; more warps take other rows.
    shape.groupThreads = std::min(powerOfTwoCeil(chunks), warpThreads);
    shape.chunksPerThread = 1;
    if (!schedule.getStages().front().stores.empty())
      shape.rowsPerPass = storedRows;
  } else if (isCut) {
    shape.groupThreads = std::min(powerOfTwoCeil(chunks), blockThreads);
    shape.chunksPerThread =
        std::min(getElementwiseChunks(cluster, schedule, shape.lanes),
                 int64_t(llvm::divideCeil(chunks, shape.groupThreads)));
  } else {
    const int64_t columns = std::min(
        maxWarpColumns, int64_t(llvm::bit_floor(uint64_t(
                            std::max<int64_t>(maxWords / content.words, 1)))));
    const int64_t maxChunks = std::max<int64_t>(columns / shape.lanes, 1);
    if (chunks <= std::min(maxChunks, maxKeptChunks) * warpThreads)
      shape.groupThreads = std::min(powerOfTwoCeil(chunks), warpThreads);
    else
      shape.groupThreads =
          std::min(powerOfTwoCeil(chunks / std::min(maxChunks, longRowChunks)),
                   maxBlockThreads);
    shape.chunksPerThread = llvm::divideCeil(chunks, shape.groupThreads);
    shape.keepsChunks = shape.chunksPerThread <= maxKeptChunks &&
                        shape.chunksPerThread * shape.lanes * content.words <=
                            shape.getFreeRegisters();
    if (!shape.keepsChunks)
      shape.chunksPerPass =
          std::clamp<int64_t>(loopedWords / (content.words * shape.lanes), 1,
                              std::min(loopedChunks, shape.chunksPerThread));
    if (!shape.keepsChunks && canCutReductions(schedule)) {
      shape.cutReductions(cluster, schedule, content.words, multiprocessors);
      if (shape.cutsReductions)
        return shape;
    }
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
  int64_t splits =
      wantedBlocks * multiprocessors * shape.groupsPerBlock / shape.iterations;
  splits = std::min({splits, maxSplits, shape.summedRows / minRowsOfSplit});
  if (const int64_t rowBytes = chunks * shape.lanes * content.bytes;
      !isCut && rowBytes > 0)
    splits = std::max(splits, std::min(wantedBytes * multiprocessors /
                                           (rowBytes * shape.iterations),
                                       shape.summedRows / minPartRows));
  const int64_t needed = llvm::divideCeil(
      multiprocessors * shape.groupsPerBlock, shape.iterations);
  splits =
      std::min(splits, std::max(maxWorkspaceBytes / std::max<int64_t>(bytes, 1),
                                needed));
  if (!shape.holdsSumsTwice(cluster, schedule, content.words, accumulators))
    splits =
        std::max<int64_t>(splits, llvm::divideCeil(shape.summedRows, sumBlock));
  shape.rowsPerSplit = int64_t(llvm::alignTo(
      llvm::divideCeil(shape.summedRows, std::max<int64_t>(splits, 1)),
      uint64_t(shape.rowsPerPass)));
  shape.splits = llvm::divideCeil(shape.summedRows, shape.rowsPerSplit);
  shape.iterations *= shape.splits;
  return shape;
}
