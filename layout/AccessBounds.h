#ifndef MESHC_LAYOUT_ACCESSBOUNDS_H
#define MESHC_LAYOUT_ACCESSBOUNDS_H

#include "layout/Access.h"

namespace meshc::layout {

/// Whether `access` takes a position outside a dimension of `size`, or none, at
/// some position of its loops, each of which runs over its range in `loops`.
///
/// Never false where it does. True where it does not only for a remainder of
/// multiples: `(2 x) % 6` passes over 5, and that is not seen. Not for Indexed.
bool mayMiss(const Access &access, std::span<const Range> loops, int64_t size);

} // namespace meshc::layout

#endif
