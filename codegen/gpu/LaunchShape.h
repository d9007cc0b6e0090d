#ifndef MESHC_CODEGEN_GPU_LAUNCHSHAPE_H
#define MESHC_CODEGEN_GPU_LAUNCHSHAPE_H

#include "codegen/kernels/Schedule.h"

#include "llvm/Support/MathExtras.h"

namespace meshc::codegen {

inline constexpr int64_t warpThreads = 32;
inline constexpr int64_t maxBlockThreads = 1024;
/// Threads of a block whose groups are smaller. Source: XLA's emitters and
/// PyTorch's elementwise kernels use 128 to 256.
inline constexpr int64_t blockThreads = 256;
/// The widest access of a thread, in bytes.
inline constexpr int64_t accessBytes = 16;
/// Chunks of one thread that stay in registers, if they fit: 8 of four 32-bit
/// lanes take 32 of the 64 registers that each of 1024 threads has.
inline constexpr int64_t maxKeptChunks = 8;

/// How the iterations of a schedule fall to threads.
///
/// A *group* of threads runs one iteration: a position of the parallel
/// dimensions, a block of columns where rows are cut, a part of the summed
/// positions where these are split, a part of a row where reductions are cut.
/// Its threads take chunks of columns in turn.
struct LaunchShape {
  int64_t lanes = 1;         ///< columns of a chunk
  int64_t tailLanes = 0;     ///< columns after the last chunk
  int64_t chunksPerRow = 0;  ///< 0: no columns
  int64_t lastDimChunks = 1; ///< of these along the last column dimension
  int64_t groupThreads = 1;  ///< a power of two
  int64_t groupsPerBlock = 1;
  int64_t chunksPerThread = 0; ///< if they are kept
  bool keepsChunks = true;
  /// If they are not: a thread reads so many before it writes the first.
  int64_t chunksPerPass = 1;
  /// Whether rows are cut into parts of whole passes, the last one with the
  /// rest, and the parts of a reduction are added up by a second kernel: few
  /// rows, too long for registers, of which no column needs a reduction.
  bool cutsReductions = false;
  int64_t passesPerSplit = 0;
  int64_t columnBlocks = 1;
  int64_t summedRows = 1, rowsPerSplit = 1, splits = 1;
  int64_t rowsPerPass = 1; ///< a thread reads so many before it writes one
  int64_t iterations = 1;

  /// `accumulators`: the members that are summed across rows.
  static LaunchShape get(const Cluster &cluster, const Schedule &schedule,
                         llvm::ArrayRef<unsigned> accumulators,
                         int64_t multiprocessors);

  int64_t getBlockThreads() const { return groupThreads * groupsPerBlock; }
  int64_t getPassChunks() const { return groupThreads * chunksPerPass; }
  /// Whole passes over a row.
  int64_t getPasses() const { return chunksPerRow / getPassChunks(); }
  int64_t getGrid() const {
    return llvm::divideCeil(iterations, groupsPerBlock);
  }

private:
  void setLanes(const Cluster &cluster, const Schedule &schedule,
                bool mayHaveTail);
  int64_t getFreeRegisters() const;
  bool holdsSumsTwice(const Cluster &cluster, const Schedule &schedule,
                      int64_t words,
                      llvm::ArrayRef<unsigned> accumulators) const;
  void cutReductions(const Cluster &cluster, const Schedule &schedule,
                     int64_t words, int64_t multiprocessors);
};

/// Columns of a chunk: of the widest access to the widest elements that differ
/// between columns, or of two such accesses where others have 16 bits, so that
/// these have an access of 16 bytes, too.
int64_t getAccessLanes(const Cluster &cluster, const Schedule &schedule);

/// Chunks of so many lanes that a thread of an elementwise kernel has on their
/// way at once.
int64_t getElementwiseChunks(const Cluster &cluster, const Schedule &schedule,
                             int64_t lanes);

} // namespace meshc::codegen

#endif
