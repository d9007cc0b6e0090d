#ifndef MESHC_RUNTIME_PLANS_PUTPLAN_H
#define MESHC_RUNTIME_PLANS_PUTPLAN_H

#include "runtime/exec/exec_generated.h"

#include <cstdint>
#include <span>
#include <vector>

namespace meshc::runtime {

/// A loop of a put, or several that step through memory as one. Strides in
/// elements, 0 in what lacks it.
struct PutLoop {
  int64_t size = 1;
  int64_t input = 0, index = 0, result = 0;
};

int64_t getSize(std::span<const PutLoop> loops);
/// The offset, by `stride`, of a position of `loops`, counted row-major.
int64_t getOffset(std::span<const PutLoop> loops, int64_t position,
                  int64_t PutLoop::*stride);

/// What a put is to one device: for each position of its batches a list of the
/// terms that each row of the result has.
///
///   result[batch, row, column] = sum of input[batch, term, column]
///                                where index[batch, term] is row
///
/// Loops of each class are ordered by their strides in the input, the smallest
/// one last, so that terms are added up in the order in which they lie.
struct PutPlan {
  std::vector<PutLoop> batches; ///< kept, and the index has them
  std::vector<PutLoop> terms;   ///< summed
  /// Kept, and the index lacks them; the last one is not counted in.
  std::vector<PutLoop> columns;
  PutLoop line; ///< the last of the columns, cut into tiles
  int64_t rows = 0, rowStride = 0;

  explicit PutPlan(const exec::PutT &put);

  /// Positions of `line` whose sums stay in a processor's first cache: 1 KiB of
  /// f32 on each level of blocks of terms (SumBlock.h).
  static constexpr int64_t tileSize = 256;
  int64_t getTilesPerLine() const {
    return (line.size + tileSize - 1) / tileSize;
  }
  /// What pieces are cut from: tiles of rows, those of a row side by side.
  int64_t getNumUnits() const {
    return getSize(batches) * getSize(columns) * rows * getTilesPerLine();
  }
};

} // namespace meshc::runtime

#endif
