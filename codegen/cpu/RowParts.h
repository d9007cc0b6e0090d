#ifndef MESHC_CODEGEN_CPU_ROWPARTS_H
#define MESHC_CODEGEN_CPU_ROWPARTS_H

#include "codegen/exec/KernelBody.h"
#include "codegen/kernels/BlockedSums.h"
#include "codegen/kernels/Schedule.h"

namespace meshc::codegen {

/// What makes rows worth a part of their own.
struct PartLimits {
  /// Memory that one iteration reads and writes: twice what the executor hands
  /// to another thread (minPieceBytes in runtime/cpu/CommandList.cpp), as
  /// the command that adds up the parts costs, too.
  int64_t minBytes = int64_t(1) << 19;
  /// A part's sums are written and read once more: beside 32 rows, at most a
  /// sixteenth of what is read anyway.
  int64_t minRows = 32;
  /// Rows of sums on the stack (RowParts): as much as the row buffers of a
  /// schedule have (maxScratchBytes in Schedule.cpp), and for the same reasons.
  int64_t maxLevelBytes = 64 * 1024;
};

/// How a CPU kernel goes through the rows that it sums, and how it cuts them.
///
/// The bias gradient, the sum over 2048 rows of g[b, n], has one iteration for
/// each 1024 columns: one thread would have all the work. So the rows are cut
/// into parts, each of which sums its rows into its own place of a workspace:
///
///   part 0   rows 0 to 63       sums[0, n]
///   part 1   rows 64 to 127     sums[1, n]
///   ...
///
/// and a second function adds up sums[.., n], in this order. Where the cuts are
/// depends on shapes and the number of devices, not on the number of threads:
/// results are the same bits for any.
///
/// Long sums are made in blocks (BlockedSums.h). Each level of them has a row
/// of sums on the stack: 64 rows are summed there, then this sum is added to
/// the level above, up to the accumulator itself. Rows too long for that are
/// cut into parts of one block.
struct RowParts {
  int64_t rows = 1; ///< summed positions
  int64_t rowsPerPart = 1;
  int64_t parts = 1;
  llvm::SmallVector<unsigned> accumulators; ///< members
  /// Of each accumulator's sums in a part of the workspace, in bytes.
  llvm::SmallVector<int64_t> offsets;
  int64_t bytesPerPart = 0;

  /// Through the summed dimensions, or, if rows are cut, through the rows of a
  /// part as one dimension.
  SumLoops loops{{}, 1};
  /// How many of the innermost loops run inside those over columns, if all that
  /// a row does is to add to accumulators: a sum is loaded and stored once for
  /// these rows, rather than for each.
  size_t loopsInside = 0;
  /// Of each accumulator in the row of a level, in bytes; none if it is not
  /// summed in blocks.
  llvm::SmallVector<std::optional<int64_t>> levelOffsets;
  int64_t bytesPerLevel = 0;
  int64_t getLevelBytes() const { return loops.countLevels() * bytesPerLevel; }

  /// One part where there is no sum across rows, or no need to cut it.
  static RowParts get(const KernelBody &kernel, const PartLimits &limits);

private:
  void placeLevels(const Cluster &cluster, const Schedule &schedule);
  int64_t getWantedParts(const KernelBody &kernel,
                         const PartLimits &limits) const;
  void setLoops(const Cluster &cluster, const Schedule &schedule);
};

} // namespace meshc::codegen

#endif
