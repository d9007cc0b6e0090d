#ifndef MESHC_LAYOUT_AXISPARTS_H
#define MESHC_LAYOUT_AXISPARTS_H

/// Cutting mesh axes into the parts that two shardings have in common.
///
/// On an axis of 8, x:(1)4 and x:(2)4 overlap without either holding the other.
/// Cut at every boundary of both (1, 2, 4, 8), the axis is three atoms of 2,
/// and each of the two is a run of atoms. Not every pair of cuts has this form:
/// on an axis of 6, the boundary 2 and the boundary 3 are digits of different
/// number systems.

#include "layout/Mesh.h"

#include <optional>
#include <span>
#include <vector>

namespace meshc::layout {

/// a / b, rounded up; neither is negative.
inline int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// Joins neighbouring parts that continue one another on one axis and drops
/// parts of size 1.
std::vector<AxisRef> joinParts(std::span<const AxisRef> parts);

/// The atoms of one axis of size `axisSize`, major to minor, that arise when it
/// is cut where any of `parts` begins or ends; nullopt if two boundaries do not
/// divide one another. Parts of other axes are ignored.
std::optional<std::vector<AxisRef>> cutAxis(int32_t axis, int64_t axisSize,
                                            std::span<const AxisRef> parts);

/// `part` as a run of `atoms`, which hold all of its boundaries.
std::vector<AxisRef> getAtomsOf(AxisRef part, std::span<const AxisRef> atoms);

} // namespace meshc::layout

#endif
