#ifndef MESHC_CODEGEN_GPU_PUTSHAPE_H
#define MESHC_CODEGEN_GPU_PUTSHAPE_H

#include "codegen/gpu/LaunchShape.h"

#include "runtime/exec/exec_generated.h"
#include "runtime/plans/PutPlan.h"

namespace meshc::codegen {

/// How a put falls to launches, blocks and threads of a GPU
/// (GpuPutEmitter.cpp).
///
/// A *term* is an element of the index, and what the input has for it; a *row*
/// is a position of the index in one of the batches, and what the result has
/// for it. Both are numbered through all batches.
struct PutShape {
  /// `sumBytes`: of an element of the result.
  PutShape(const runtime::PutPlan &plan, int64_t sumBytes);

  int64_t termsPerBatch, terms;
  int64_t rowsPerBatch, rows;
  unsigned numberBits; ///< of numbers of terms, rows and elements: 32 or 64

  //===-- Sorting the terms by their rows, digit by digit -----------------===//

  unsigned digits, digitBits;
  int64_t buckets;               ///< values of a digit, and threads of a block
  int64_t chunkTerms, numChunks; ///< a chunk of terms has a block
  /// Parts of the chunks, whose counts threads add up side by side.
  int64_t chunkParts;

  //===-- Adding up what a row has ----------------------------------------===//

  int64_t lanes;                ///< neighbouring columns of a thread
  int64_t accesses;             ///< of a whole row: columns / lanes
  int64_t teamThreads, teams;   ///< a team takes a row at a time
  int64_t tiles;                ///< of a row, each with blocks of its own
  int64_t blockRows, rowBlocks; ///< rows of a block, and blocks of a tile
  int sumLevels;                ///< see countSumLevels

  //===-- Workspace, in bytes ---------------------------------------------===//

  /// A sorting reads one list and writes the other one.
  int64_t rowLists[2], termLists[2];
  int64_t counts; ///< by chunk and bucket
  int64_t starts; ///< by row, and one more
  int64_t workspaceBytes;

  bool isLastChunkWhole() const { return terms == chunkTerms * numChunks; }
  /// Of the list that the last sorting writes.
  unsigned getSorted() const { return (digits - 1) % 2; }
};

} // namespace meshc::codegen

#endif
