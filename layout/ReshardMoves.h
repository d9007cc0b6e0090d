#ifndef MESHC_LAYOUT_RESHARDMOVES_H
#define MESHC_LAYOUT_RESHARDMOVES_H

#include "layout/AtomSharding.h"

#include <vector>

namespace meshc::layout {

/// One collective that may follow, and where it leads.
struct ReshardMove {
  CollectiveKind kind;
  AtomSharding to;
};

/// The collectives worth considering at `from` on the way to the target of
/// `space`; each fits. Contains an exchange to the target unless `from` is it.
/// `acrossHosts`: atoms may also split what the target does not split over
/// them, so that each device sends less from host to host.
std::vector<ReshardMove> getMoves(const AtomSpace &space,
                                  const AtomSharding &from, bool acrossHosts);

} // namespace meshc::layout

#endif
