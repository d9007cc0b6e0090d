#ifndef MESHC_RUNTIME_CHECKPOINT_BOX_H
#define MESHC_RUNTIME_CHECKPOINT_BOX_H

/// Parts of tensors in the coordinates of the whole, and the bytes of one array
/// that belong to those of another.
///
/// Of a tensor of 4 x 6 elements, a file has columns 0 to 3 and a device rows 2
/// and 3, in a block that is padded to 3 x 6:
///
///   file (4 x 4)     0  1  2  3      device (3 x 6)   .........
///                    4  5  6  7                       the part is rows 2 and 3
///                    8  9 10 11                       of columns 0 to 3: two
///                   12 13 14 15                       runs of four elements
///
/// 8...11 of the file are 0...3 of the device, 12...15 are 6...9.

#include "layout/Sharding.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// A range of each dimension.
using Box = std::vector<layout::Range>;

/// The tensor itself.
Box getWhole(std::span<const int64_t> sizes);
/// Elements.
int64_t getVolume(const Box &box);
Box intersect(const Box &a, const Box &b);
/// The smallest box that holds both; neither is empty.
Box getHull(const Box &a, const Box &b);
/// "[0:784, 512:1024]", as NumPy spells it.
std::string toString(const Box &box);

/// Whether the boxes, none empty, cover each element exactly once. Boxes that
/// cut dimensions into very many cells (2^22) count as not covering.
bool tiles(std::span<const int64_t> sizes, std::span<const Box> boxes);

/// Runs of equal length whose distances are equal too: `count` of `bytes` each.
struct RunRow {
  int64_t stored, local; ///< where the first one begins
  int64_t bytes, count;
  int64_t storedStep, localStep; ///< from one to the next; any for a single one
};

/// Copies `count` runs of `bytes` bytes each. Splits of a short last dimension
/// make runs of a few elements, which are moved without a call for each.
void copyRuns(std::byte *target, int64_t targetStep, const std::byte *source,
              int64_t sourceStep, int64_t bytes, int64_t count);

/// The runs of bytes that are contiguous both in a box that is stored in C
/// order and in a block of a device, in the order of the former.
class BoxRuns {
public:
  /// `part` lies in both and is not empty. `origin` is the first element of
  /// the block, `blockShape` its shape, padding included.
  BoxRuns(const Box &part, const Box &stored, std::span<const int64_t> origin,
          std::span<const int64_t> blockShape, int64_t elementBytes);

  /// The bytes of the stored box from the first of the part to one past its
  /// last; others may lie between them.
  int64_t getBegin() const { return getStored(0); }
  int64_t getEnd() const { return getStored(numRuns - 1) + runBytes; }

  /// The bytes of the block that the runs in bytes [begin, end) of the stored
  /// box are in, from the first to the last; count 0 where there are none.
  layout::Range getLocalBytes(int64_t begin, int64_t end) const;

  /// Calls `visitor(RunRow)` for the runs, or parts of them, in bytes
  /// [begin, end) of the stored box.
  template <typename Visitor>
  void visit(int64_t begin, int64_t end, Visitor &&visitor) const {
    for (int64_t run = findRun(begin); run < numRuns;) {
      const int64_t stored = getStored(run), local = getLocal(run);
      if (stored >= end)
        return;
      const int64_t skipped = std::max<int64_t>(begin - stored, 0);
      RunRow row{stored + skipped,
                 local + skipped,
                 std::min(end - stored, runBytes) - skipped,
                 1,
                 0,
                 0};
      if (row.bytes == runBytes && !loops.empty()) {
        const Loop &loop = loops.back();
        row.storedStep = loop.stored;
        row.localStep = loop.local;
        row.count = std::min(loop.count - run % loop.count,
                             (end - stored - runBytes) / loop.stored + 1);
      }
      visitor(row);
      run += row.count;
    }
  }

private:
  struct Loop {
    int64_t count, stored, local; ///< strides in bytes
  };

  int64_t getStored(int64_t run) const;
  int64_t getLocal(int64_t run) const;
  /// The first run that ends behind this byte of the box.
  int64_t findRun(int64_t begin) const;

  std::vector<Loop> loops; ///< the outermost first
  int64_t firstStored = 0, firstLocal = 0;
  int64_t runBytes = 0;
  int64_t numRuns = 1;
};

} // namespace meshc::runtime

#endif
