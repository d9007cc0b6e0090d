#include "layout/AccessBounds.h"

#include <algorithm>
#include <cassert>

using namespace meshc;
using namespace meshc::layout;

using Kind = Access::Kind;

/// Whether (terms + offset) / divisor is whole at every position of the loops.
static bool isAlwaysWhole(const Access &access, std::span<const Range> loops) {
  int64_t first = access.getOffset();
  for (const AccessTerm &term : access.getTerms()) {
    const Range loop = loops[size_t(term.loop)];
    if (loop.count > 1 && term.factor % access.getDivisor() != 0)
      return false;
    first += term.factor * loop.offset;
  }
  return first % access.getDivisor() == 0;
}

bool layout::mayMiss(const Access &access, std::span<const Range> loops,
                     int64_t size) {
  assert(access.getKind() != Kind::Indexed && "a tensor says where");
  const bool isEmpty =
      std::any_of(access.getTerms().begin(), access.getTerms().end(),
                  [&](const AccessTerm &term) {
                    return loops[size_t(term.loop)].count == 0;
                  });
  if (isEmpty)
    return false;
  if (access.getKind() == Kind::Modulo && access.getDivisor() <= size)
    return false;
  if (access.getKind() == Kind::Exact && !isAlwaysWhole(access, loops))
    return true;
  // A range of remainders that goes on at 0 has passed the largest of them.
  const Range image = access.getImage(loops);
  return image.offset < 0 || image.offset + image.count > size;
}
