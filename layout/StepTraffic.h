#ifndef MESHC_LAYOUT_STEPTRAFFIC_H
#define MESHC_LAYOUT_STEPTRAFFIC_H

/// What goes over the links of devices that change a sharding. Inside layout/
/// only; ReshardStep has the figures.

#include "layout/AtomSharding.h"

namespace meshc::layout {

/// The most that any device sends or that any takes, whichever is more, in
/// elements. What a device has already, and padding, does not travel.
///
/// Where four devices need the sum of four terms of 8 elements, each takes the
/// three terms that it lacks, 24 elements; in shares it adds up three terms of
/// 2 elements and gets three sums of 2 elements, 12.
struct StepTraffic {
  /// Every device takes what it needs from those who have it, term by term.
  int64_t boxes = 0;
  /// The same, but terms of what several devices need are combined in shares,
  /// one for each, which then go to the others, where that is less.
  int64_t shares = 0;
};

/// The same in a time that does not grow with the number of devices, for the
/// search: where there are many, and blocks are not full or do not nest, that
/// of the first one.
StepTraffic estimateTraffic(const Mesh &mesh, const AtomSpace &space,
                            const AtomSharding &from, const AtomSharding &to);

/// Of the device with most; all are counted where blocks are not full.
StepTraffic getTraffic(const Mesh &mesh, const AtomSpace &space,
                       const AtomSharding &from, const AtomSharding &to);

} // namespace meshc::layout

#endif
