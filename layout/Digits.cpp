#include "layout/Digits.h"

#include "layout/AxisParts.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::layout;

static int64_t countParts(const DimSplit &split) {
  int64_t parts = 1;
  for (AxisRef axis : split)
    parts *= axis.size;
  return parts;
}

/// `split` as axes of `parts` parts, or all of it if it has fewer, and those
/// behind them; an axis may be cut in two. Nothing where it has no such
/// beginning.
static std::optional<std::pair<DimSplit, DimSplit>> cut(const DimSplit &split,
                                                        int64_t parts) {
  DimSplit major, minor;
  for (AxisRef axis : split) {
    if (parts % axis.size == 0) {
      major.push_back(axis);
      parts /= axis.size;
    } else if (axis.size % parts == 0) {
      if (parts > 1)
        major.push_back({axis.axis, axis.pre, parts});
      minor.push_back({axis.axis, axis.pre * parts, axis.size / parts});
      parts = 1;
    } else {
      return std::nullopt;
    }
  }
  return std::pair(std::move(major), std::move(minor));
}

namespace {
/// The number whose digits loops are: of `size` positions, in blocks.
struct Number {
  int64_t size = 1;
  DimSplit split;
  size_t numSplit = 0;           ///< loops that are split
  std::vector<AccessTerm> local; ///< its position in a device's block
};
} // namespace

static std::optional<Number> findNumber(const Access &access,
                                        std::span<const int64_t> sizes,
                                        std::span<const DimSplit> splits) {
  if (access.getOffset() != 0)
    return std::nullopt;
  std::vector<AccessTerm> terms = access.getTerms();
  std::ranges::sort(terms, std::ranges::less(), &AccessTerm::factor);
  Number number;
  int64_t localSize = 1;
  // From the minor digit on.
  for (const AccessTerm &term : terms) {
    const int64_t loopSize = sizes[size_t(term.loop)];
    const DimSplit &split = splits[size_t(term.loop)];
    const int64_t parts = countParts(split);
    if (term.factor != number.size || loopSize % parts != 0 ||
        (number.numSplit > 0 && parts != loopSize))
      return std::nullopt;
    if (loopSize != parts)
      number.local.push_back({term.loop, localSize});
    number.size *= loopSize;
    localSize *= loopSize / parts;
    number.numSplit += !split.empty();
    number.split.insert(number.split.begin(), split.begin(), split.end());
  }
  number.split = joinParts(number.split);
  return number;
}

std::optional<DigitBlocks>
layout::findDigitBlocks(const Access &access, std::span<const int64_t> sizes,
                        std::span<const DimSplit> splits, int64_t size) {
  if (access.getKind() == Access::Kind::Indexed)
    return std::nullopt;
  const std::optional<Number> number = findNumber(access, sizes, splits);
  if (!number)
    return std::nullopt;
  Access local = Access::linear(number->local, 0);
  const bool isWindow = number->numSplit < 2;
  if (access.getKind() == Access::Kind::Exact) {
    if (access.getDivisor() != 1 || number->size != size || isWindow)
      return std::nullopt;
    return DigitBlocks{number->split, std::move(local)};
  }
  const bool isHigh = access.getKind() == Access::Kind::Floor;
  const int64_t low = access.getDivisor(), high = number->size / low;
  if (number->size % low != 0 || size != (isHigh ? high : low))
    return std::nullopt;
  const auto parts = cut(number->split, high);
  if (!parts)
    return std::nullopt;
  const auto &[major, minor] = *parts;
  if (minor.empty()) {
    if (!isHigh || isWindow || high % countParts(major) != 0)
      return std::nullopt;
    return DigitBlocks{
        major, Access::quotient(Access::Kind::Floor, number->local, 0, low)};
  }
  if (low % countParts(minor) != 0)
    return std::nullopt;
  return isHigh ? DigitBlocks{major, Access::linear({}, 0)}
                : DigitBlocks{minor, std::move(local)};
}
