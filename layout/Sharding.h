#ifndef MESHC_LAYOUT_SHARDING_H
#define MESHC_LAYOUT_SHARDING_H

/// How one tensor lies on a mesh: the concept the whole compiler is about.
///
/// Take the 2x2 tensor [[1 2] [3 4]] with dimensions "row", "col" and a mesh of
/// four devices with axes a = 2, b = 2 (device 0 is a0 b0, 1 is a0 b1, 2 is
/// a1 b0, 3 is a1 b1). Each device holds one block:
///
///   sharding                 device 0   device 1   device 2   device 3
///   <>                       [1 2;3 4]  the same   the same   the same
///   <row@a>                  [1 2]      [1 2]      [3 4]      [3 4]
///   <row@a, col@b>           [1]        [2]        [3]        [4]
///   <row@(a, b)>             [1 2]      (empty)    [3 4]      (empty)
///   <> partial sum over a    p          q          r          s
///                            where p + r = q + s = [1 2;3 4]
///
/// - A dimension may be split over several axes, major to minor. Blocks nest:
///   the first axis splits the dimension into ceil blocks, the next splits each
///   block into ceil blocks, and so on. A device therefore owns one contiguous
///   range of the dimension, a prefix of its local block; the rest of the block
///   is padding whose content means nothing. Neighbouring parts of one axis
///   that continue one another count as one axis: cutting 9 elements over an
///   axis of 4 gives 3+3+3+0 however the axis is spelled, while an outer axis
///   of 2 and another inner one of 2 give 3+2 and 3+1.
/// - An axis not used by the sharding replicates the tensor: devices that
///   differ only on it hold equal blocks.
/// - A partial value has to be combined (sum, max, min) over `partialAxes` to
///   become the tensor; each device holds one term.
/// - An operand's dimension may be split as a window: the axes cut a loop of
///   the operation, and each device holds what its block of the loop reads, so
///   blocks overlap (the halo). See Window.
/// - An axis, or each part of it, serves at most one purpose in one sharding.

#include "layout/Mesh.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meshc::layout {

enum class ReduceKind : uint8_t { None, Sum, Max, Min };

/// "none", "sum", "max", "min".
const char *getName(ReduceKind kind);

/// Axes that split one dimension, major to minor; empty: not split.
using DimSplit = std::vector<AxisRef>;

/// A contiguous range of a dimension, in elements.
struct Range {
  int64_t offset = 0;
  int64_t count = 0;

  bool operator==(const Range &) const = default;
};

/// x / by, rounded down; `by` is at least 1.
inline int64_t divideDown(int64_t x, int64_t by) {
  return x / by - (x % by != 0 && x % by < 0);
}

/// How blocks of a loop cut a dimension that is read at
/// `(factor * loop + (low ... high)) / divisor`, rounded down.
///
/// A convolution of stride 2 reads the row y = 2 * row + dy - 1 of its input,
/// dy from 0 to 2: factor 2, low -1, high 1. Of 9 rows of input and 5 of
/// output, those split over two devices in blocks of 3:
///
///   device   rows of output   holds rows y   of these in the dimension
///   0        0 1 2            -1 ... 5       0 ... 5
///   1        3 4               5 ... 9       5 ... 8
///
/// Element i of a device's block is position begin + i, where begin is the
/// first position held, inside the dimension or not: the local read is then
/// `factor * (position in the block of the loop) + (value - low)` on every
/// device alike. What lies outside the dimension is 0 there.
///
/// A quotient is one where blocks begin at whole positions: `factor` times the
/// size of a block is a multiple of the divisor. Where only exact quotients are
/// positions, `low` is a multiple of it too, so that begin is a position. The
/// gradient of the convolution reads `row = (y - dy + 1) / 2`: factor 1, low 0
/// (of -1), high 1, divisor 2; blocks of 4 rows y hold 3 rows.
///
/// Around a ring positions are taken modulo `modulus`: those of a block go on
/// at 0 behind the last one. `(n - 1) % 8` reads, in blocks of 2, the positions
/// 7 and 0 for the first: factor 1, low and high -1, modulus 8.
///
/// Backwards, of a factor below 0, a block begins with what its last position
/// reads, had it all of them: x[n = 7 - n] reads 7 and 6 as a block that begins
/// with 6.
///
/// Without a loop every device holds the positions `low` to `high`: what is
/// read of a dimension that only others split.
///
/// Units: positions, in elements.
struct Window {
  std::string loop; ///< its name, for the spelling; empty: none, of size 1
  int64_t loopSize = 1;
  int64_t factor = 1;        ///< not 0
  int64_t low = 0, high = 0; ///< low <= high
  int64_t divisor = 1;       ///< at least 1; 1 with a modulus
  int64_t modulus = 0;       ///< 0: none

  /// The positions that a block of the loop reads, in or out of the dimension
  /// and not yet modulo anything; count 0 if the block is empty.
  /// Requires: factor * block.offset is a multiple of the divisor.
  Range getImage(Range block) const;

  /// Whether blocks of the loop over these axes begin at whole positions.
  bool fits(const DimSplit &split) const;

  bool operator==(const Window &) const = default;
};

struct Sharding {
  /// The axes that split each dimension, in storage order, or the loop of its
  /// window.
  std::vector<DimSplit> dims;
  ReduceKind partialKind = ReduceKind::None;
  std::vector<AxisRef> partialAxes; ///< sorted; empty iff kind is None
  /// One per dimension; empty if there is no window.
  std::vector<std::optional<Window>> windows = {};

  bool hasWindow() const { return !windows.empty(); }
  /// The window of dimension `dim`, or null.
  const Window *getWindow(size_t dim) const {
    return dim < windows.size() && windows[dim] ? &*windows[dim] : nullptr;
  }
  bool isPartial() const { return !partialAxes.empty(); }
  bool isReplicated() const;
  bool operator==(const Sharding &) const = default;
};

/// Elements of a dimension of `size` that one device's block holds, padding
/// included: ceil(...ceil(ceil(size / n1) / n2)... / nk).
int64_t getLocalSize(int64_t size, const DimSplit &split);

/// The range of the dimension that a device with these coordinates owns:
/// element i of its block is element offset + i of the dimension, for
/// i < count. `count` is smaller than the block where padding begins, 0 where
/// the block is padding alone (`offset` is then at most `size`).
Range getOwnedRange(const Mesh &mesh, int64_t size, const DimSplit &split,
                    std::span<const int64_t> coordinates);

/// Elements of dimension `dim`, of `size`, that one device's block holds: of a
/// window the image of a full block of its loop, else as above.
int64_t getLocalSize(int64_t size, const Sharding &sharding, size_t dim);

/// The positions of dimension `dim`, of `size`, that the block of a device with
/// these coordinates holds: element i is position offset + i for i < count. Of
/// a window the image of the device's block of the loop, which may begin before
/// 0 and end past `size`; else the range it owns. Around a ring positions are
/// modulo the modulus.
Range getHeldRange(const Mesh &mesh, int64_t size, const Sharding &sharding,
                   size_t dim, std::span<const int64_t> coordinates);

/// Positions of a dimension, in or out of it, from element `element` of a block
/// on.
struct HeldRun {
  Range range;
  int64_t element = 0;
};
/// What getHeldRange says, as positions that follow each other: around a ring
/// the block goes on at 0.
std::vector<HeldRun> getHeldRuns(const Mesh &mesh, int64_t size,
                                 const Sharding &sharding, size_t dim,
                                 std::span<const int64_t> coordinates);

/// Whether every block is full: no device holds padding.
bool dividesEvenly(int64_t size, const DimSplit &split);

/// Local shape of a tensor with these global sizes.
std::vector<int64_t> getLocalShape(std::span<const int64_t> sizes,
                                   const Sharding &sharding);

/// Joins neighbouring parts of one axis ({pre=1,size=2},{pre=2,size=4} of an
/// axis of 8 become the whole), drops parts of size 1 and sorts the partial
/// axes; drops a list of no window: equal shardings have one form.
Sharding getCanonical(const Mesh &mesh, Sharding sharding);

/// What is wrong with `sharding` for a tensor of `rank` dimensions on `mesh`:
/// an axis out of range, a part that does not fit its axis, two uses of one
/// position of an axis, a partial kind without axes, a window of a loop that is
/// not split, or that reads nothing or one position twice, a window of a
/// partial max or min (0 outside is not their identity). Empty if nothing is.
std::string getViolation(const Mesh &mesh, const Sharding &sharding,
                         size_t rank);

/// "data" for a whole axis, "x:(2)4" for a part of one.
std::string toString(const Mesh &mesh, AxisRef part);
/// "data", or "(data, x:(2)4)" if there are several.
std::string toString(const Mesh &mesh, std::span<const AxisRef> parts);

/// "<batch@data, hidden@(model, x:(2)4)> partial sum over y"; "replicated" if
/// nothing is split. A window: "<y by 2 row@rows + [-1, 1]>". The one spelling
/// used in dumps, plans and messages.
std::string toString(const Mesh &mesh, const Sharding &sharding,
                     std::span<const std::string> dimNames);

} // namespace meshc::layout

#endif
