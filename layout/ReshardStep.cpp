#include "layout/ReshardStep.h"

#include "layout/AtomSharding.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::layout;

bool layout::isReshardStep(const Mesh &mesh, std::span<const int64_t> sizes,
                           CollectiveKind kind, const Sharding &source,
                           const Sharding &target) {
  AtomSpace space(mesh, sizes, source, target);
  return space.fits(kind, space.getSource(), space.getTarget());
}

ReshardStep layout::getReshardStep(const Mesh &mesh,
                                   std::span<const int64_t> sizes,
                                   CollectiveKind kind, const Sharding &source,
                                   const Sharding &target) {
  AtomSpace space(mesh, sizes, source, target);
  return space.getStep(kind, space.getSource(), space.getTarget());
}
