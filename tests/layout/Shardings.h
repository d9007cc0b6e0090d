#ifndef MESHC_TESTS_LAYOUT_SHARDINGS_H
#define MESHC_TESTS_LAYOUT_SHARDINGS_H

/// Every sharding of a tensor on a mesh, for tests over all pairs.

#include "layout/Sharding.h"

#include <span>
#include <string>
#include <vector>

namespace meshc::layout::test {

/// Every assignment of `parts` to dimensions, in every order, to partial values
/// of `kind` (none if it is None) and to nothing; in canonical form, each once.
std::vector<Sharding> getAllShardings(const Mesh &mesh,
                                      const std::vector<AxisRef> &parts,
                                      size_t rank, ReduceKind kind);

/// The whole axes of a mesh.
std::vector<AxisRef> getWholeAxes(const Mesh &mesh);

/// Elements that the device with the most of them sends to others, or takes
/// from others, by the boxes of getTransfers; whichever is more.
int64_t countMost(const Mesh &mesh, std::span<const int64_t> sizes,
                  const Sharding &source, const Sharding &target);

/// toString with dimensions d0, d1, ...
std::string spell(const Mesh &mesh, const Sharding &sharding);

} // namespace meshc::layout::test

#endif
