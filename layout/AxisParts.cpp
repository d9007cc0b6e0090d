#include "layout/AxisParts.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::layout;

/// Whether `minor` continues `major` on the same axis, so that both together
/// are one part of it.
static bool continues(AxisRef major, AxisRef minor) {
  return major.axis == minor.axis && major.pre * major.size == minor.pre;
}

std::vector<AxisRef> layout::joinParts(std::span<const AxisRef> parts) {
  std::vector<AxisRef> joined;
  for (AxisRef part : parts) {
    if (part.size == 1)
      continue;
    if (!joined.empty() && continues(joined.back(), part))
      joined.back().size *= part.size;
    else
      joined.push_back(part);
  }
  return joined;
}

std::optional<std::vector<AxisRef>>
layout::cutAxis(int32_t axis, int64_t axisSize,
                std::span<const AxisRef> parts) {
  std::vector<int64_t> boundaries{1, axisSize};
  for (AxisRef part : parts)
    if (part.axis == axis)
      boundaries.insert(boundaries.end(), {part.pre, part.pre * part.size});
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()),
                   boundaries.end());
  std::vector<AxisRef> atoms;
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] % boundaries[i - 1])
      return std::nullopt;
    atoms.push_back(
        {axis, boundaries[i - 1], boundaries[i] / boundaries[i - 1]});
  }
  return atoms;
}

std::vector<AxisRef> layout::getAtomsOf(AxisRef part,
                                        std::span<const AxisRef> atoms) {
  std::vector<AxisRef> run;
  for (AxisRef atom : atoms)
    if (atom.axis == part.axis && atom.pre >= part.pre &&
        atom.pre * atom.size <= part.pre * part.size)
      run.push_back(atom);
  return run;
}
