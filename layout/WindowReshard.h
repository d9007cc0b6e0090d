#ifndef MESHC_LAYOUT_WINDOWRESHARD_H
#define MESHC_LAYOUT_WINDOWRESHARD_H

/// The last step to a target with windows. Blocks of a window overlap, so no
/// collective of whole blocks makes them: it is an exchange of what each device
/// lacks, or a slice where no device lacks anything. Inside layout/ only.

#include "layout/ReshardStep.h"

#include <span>
#include <vector>

namespace meshc::layout {

/// Elements that the device with the most of them sends to others, and that any
/// takes from others, for all to get their blocks under a target with windows.
/// Positions outside of a dimension are nobody's. Of partial sources every term
/// counts.
struct WindowTraffic {
  int64_t sent = 0;
  int64_t taken = 0;
};
/// Requires: as getTransfers.
WindowTraffic getWindowTraffic(const Mesh &mesh, std::span<const int64_t> sizes,
                               const Sharding &source, const Sharding &target);

/// As isReshardStep, of a target with windows.
bool isWindowStep(const Mesh &mesh, std::span<const int64_t> sizes,
                  CollectiveKind kind, const Sharding &source,
                  const Sharding &target);

/// As getReshardStep, of a target with windows.
/// Requires: isWindowStep.
ReshardStep getWindowStep(const Mesh &mesh, std::span<const int64_t> sizes,
                          CollectiveKind kind, const Sharding &source,
                          const Sharding &target);

/// Shardings without windows from which one step to `target` is worth trying:
/// `source` itself; and `target` with its windowed dimensions, all alike,
/// whole, split as in `source`, or split over the axes of their window. Each is
/// legal and canonical; none twice.
std::vector<Sharding> getWindowSources(const Mesh &mesh, const Sharding &source,
                                       const Sharding &target);

} // namespace meshc::layout

#endif
