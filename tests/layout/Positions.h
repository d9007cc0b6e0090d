#ifndef MESHC_TESTS_LAYOUT_POSITIONS_H
#define MESHC_TESTS_LAYOUT_POSITIONS_H

/// Row-major arithmetic on positions, and identities, for the simulator.

#include "Simulator.h"

#include <limits>

namespace meshc::layout::test {

inline constexpr double unset = std::numeric_limits<double>::quiet_NaN();

inline int64_t getCount(const Position &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

inline int64_t getIndex(const Position &shape, const Position &at) {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    index = index * shape[d] + at[d];
  return index;
}

inline bool isInside(const Position &at, const Position &shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (at[d] < 0 || at[d] >= shape[d])
      return false;
  return true;
}

inline Position plus(Position a, const Position &b) {
  for (size_t d = 0; d < a.size(); ++d)
    a[d] += b[d];
  return a;
}

inline Position minus(Position a, const Position &b) {
  for (size_t d = 0; d < a.size(); ++d)
    a[d] -= b[d];
  return a;
}

/// Calls `visit` with every position inside `shape`.
template <typename Visit> void forEach(const Position &shape, Visit visit) {
  Position at(shape.size());
  for (int64_t index = 0, count = getCount(shape); index < count; ++index) {
    int64_t rest = index;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      at[d] = rest % shape[d];
    visit(at);
  }
}

inline double getIdentity(ReduceKind kind) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return kind == ReduceKind::Sum   ? 0
         : kind == ReduceKind::Max ? -infinity
                                   : infinity;
}

} // namespace meshc::layout::test

#endif
