#include "codegen/gpu/PutShape.h"

#include "runtime/exec/SumBlock.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::codegen;
using runtime::PutLoop;

/// A thread for each value of a digit looks at each term of a chunk: 8 bits are
/// 256 comparisons for a term and two sortings for 2^16 rows, 11 bits would be
/// 2048 and one sorting less from 2^16 to 2^22.
static constexpr unsigned maxDigitBits = 8;
/// A warp at least.
static constexpr unsigned minDigitBits = 5;
/// Of a chunk: 4 KiB of shared memory, and 64 chunks for 65,536 tokens.
static constexpr int64_t maxChunkTerms = 1024;
/// Blocks that keep the largest GPUs busy, some at a time on each of their 132
/// to 160 multiprocessors.
static constexpr int64_t manyBlocks = 4096;
/// Columns of a team at the least: 64 bytes of 16-bit floats, two sectors.
static constexpr int64_t minTeamThreads = 8;
/// Rows that a team takes one after the other at the most.
static constexpr int64_t maxTeamRows = 4;

static int64_t getLanes(const runtime::PutPlan &plan, int64_t sumBytes) {
  const PutLoop &line = plan.line;
  int64_t lanes = accessBytes / sumBytes;
  if (line.input != 1 || line.result != 1)
    return 1;
  // What begins a row's access is a multiple of the lanes in each loop.
  int64_t steps = line.size | plan.rowStride;
  for (const auto *loops : {&plan.batches, &plan.terms, &plan.columns})
    for (const PutLoop &loop : *loops)
      steps |= loop.input | loop.result;
  while (steps % lanes != 0)
    lanes /= 2;
  return lanes;
}

PutShape::PutShape(const runtime::PutPlan &plan, int64_t sumBytes) {
  const int64_t batches = getSize(plan.batches);
  const int64_t columns = getSize(plan.columns) * plan.line.size;
  termsPerBatch = getSize(plan.terms);
  rowsPerBatch = plan.rows;
  terms = batches * termsPerBatch;
  rows = batches * rowsPerBatch;
  // A chunk, a block and a tile reach beyond the last element.
  const int64_t most =
      std::max(terms, rows) * columns + maxChunkTerms * warpThreads;
  numberBits = most < (int64_t(1) << 31) ? 32 : 64;

  // One more for terms of no row.
  const unsigned rowBits = llvm::Log2_64_Ceil(uint64_t(rows) + 1);
  digits = std::max(1U, unsigned(llvm::divideCeil(rowBits, maxDigitBits)));
  digitBits =
      std::max(minDigitBits, unsigned(llvm::divideCeil(rowBits, digits)));
  buckets = int64_t(1) << digitBits;
  // Digits are read four at a time.
  chunkTerms = std::min(maxChunkTerms, int64_t(llvm::alignTo(terms, 4)));
  numChunks = llvm::divideCeil(terms, chunkTerms);
  chunkParts = std::min(maxBlockThreads / buckets, numChunks);

  lanes = getLanes(plan, sumBytes);
  accesses = columns / lanes;
  teamThreads =
      std::min(warpThreads, int64_t(llvm::PowerOf2Ceil(uint64_t(accesses))));
  // Few rows have many terms each: narrower teams have more of them at work.
  while (teamThreads > minTeamThreads &&
         rows * llvm::divideCeil(accesses, teamThreads) < manyBlocks / 8)
    teamThreads /= 2;
  teams = blockThreads / teamThreads;
  tiles = llvm::divideCeil(accesses, teamThreads);
  blockRows =
      std::clamp<int64_t>(rows * tiles / manyBlocks, 1, maxTeamRows * teams);
  rowBlocks = llvm::divideCeil(rows, blockRows);
  sumLevels = runtime::countSumLevels(termsPerBatch);

  workspaceBytes = 0;
  auto reserve = [&](int64_t numbers) {
    const int64_t offset = workspaceBytes;
    workspaceBytes +=
        int64_t(llvm::alignTo(numbers * (numberBits / 8), accessBytes));
    return offset;
  };
  for (unsigned list = 0; list < std::min(digits, 2U); ++list) {
    rowLists[list] = reserve(terms);
    termLists[list] = reserve(terms);
  }
  counts = reserve(numChunks * buckets);
  starts = reserve(rows + 1);
}
