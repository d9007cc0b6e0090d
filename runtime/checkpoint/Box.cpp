#include "runtime/checkpoint/Box.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

Box runtime::getWhole(std::span<const int64_t> sizes) {
  Box box;
  for (int64_t size : sizes)
    box.push_back({0, size});
  return box;
}

int64_t runtime::getVolume(const Box &box) {
  int64_t volume = 1;
  for (const layout::Range &range : box)
    volume *= range.count;
  return volume;
}

Box runtime::intersect(const Box &a, const Box &b) {
  Box box;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t begin = std::max(a[i].offset, b[i].offset);
    const int64_t end =
        std::min(a[i].offset + a[i].count, b[i].offset + b[i].count);
    box.push_back({begin, std::max<int64_t>(end - begin, 0)});
  }
  return box;
}

Box runtime::getHull(const Box &a, const Box &b) {
  Box box;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t begin = std::min(a[i].offset, b[i].offset);
    const int64_t end =
        std::max(a[i].offset + a[i].count, b[i].offset + b[i].count);
    box.push_back({begin, end - begin});
  }
  return box;
}

std::string runtime::toString(const Box &box) {
  std::string text = "[";
  for (const layout::Range &range : box)
    text += fmt::format("{}{}:{}", text.size() > 1 ? ", " : "", range.offset,
                        range.offset + range.count);
  return text + "]";
}

bool runtime::tiles(std::span<const int64_t> sizes,
                    std::span<const Box> boxes) {
  constexpr int64_t maxCells = int64_t(1) << 22;
  // Each dimension is cut wherever a box begins or ends.
  std::vector<std::vector<int64_t>> cuts;
  int64_t numCells = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<int64_t> places = {0, sizes[i]};
    for (const Box &box : boxes) {
      places.push_back(box[i].offset);
      places.push_back(box[i].offset + box[i].count);
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    if (places.front() < 0 || places.back() > sizes[i])
      return false;
    const int64_t count = int64_t(places.size()) - 1;
    if (count > maxCells / numCells)
      return false;
    numCells *= count;
    cuts.push_back(std::move(places));
  }
  std::vector<bool> isCovered(static_cast<size_t>(numCells));
  int64_t numCovered = 0;
  for (const Box &box : boxes) {
    std::vector<layout::Range> cells;
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto find = [&](int64_t place) {
        return std::lower_bound(cuts[i].begin(), cuts[i].end(), place) -
               cuts[i].begin();
      };
      const int64_t first = find(box[i].offset);
      cells.push_back({first, find(box[i].offset + box[i].count) - first});
    }
    const int64_t count = getVolume(cells);
    for (int64_t cell = 0; cell < count; ++cell) {
      int64_t rest = cell, place = 0, stride = 1;
      for (size_t i = sizes.size(); i-- > 0;) {
        place += (cells[i].offset + rest % cells[i].count) * stride;
        rest /= cells[i].count;
        stride *= int64_t(cuts[i].size()) - 1;
      }
      if (isCovered[size_t(place)])
        return false;
      isCovered[size_t(place)] = true;
      ++numCovered;
    }
  }
  return numCovered == numCells;
}

template <int64_t bytes>
static void copyRunsOf(std::byte *target, int64_t targetStep,
                       const std::byte *source, int64_t sourceStep,
                       int64_t count) {
  for (; count > 0; --count, target += targetStep, source += sourceStep)
    std::memcpy(target, source, bytes);
}

void runtime::copyRuns(std::byte *target, int64_t targetStep,
                       const std::byte *source, int64_t sourceStep,
                       int64_t bytes, int64_t count) {
  switch (bytes) {
  case 1:
    return copyRunsOf<1>(target, targetStep, source, sourceStep, count);
  case 2:
    return copyRunsOf<2>(target, targetStep, source, sourceStep, count);
  case 4:
    return copyRunsOf<4>(target, targetStep, source, sourceStep, count);
  case 8:
    return copyRunsOf<8>(target, targetStep, source, sourceStep, count);
  case 12:
    return copyRunsOf<12>(target, targetStep, source, sourceStep, count);
  case 16:
    return copyRunsOf<16>(target, targetStep, source, sourceStep, count);
  }
  for (; count > 0; --count, target += targetStep, source += sourceStep)
    std::memcpy(target, source, size_t(bytes));
}

BoxRuns::BoxRuns(const Box &part, const Box &stored,
                 std::span<const int64_t> origin,
                 std::span<const int64_t> blockShape, int64_t elementBytes)
    : runBytes(elementBytes) {
  int64_t storedStride = elementBytes, localStride = elementBytes;
  bool isOneRun = true; // so far, from the innermost dimension outwards
  for (size_t i = part.size(); i-- > 0;) {
    firstStored += (part[i].offset - stored[i].offset) * storedStride;
    firstLocal += (part[i].offset - origin[i]) * localStride;
    const bool joins = storedStride == runBytes && localStride == runBytes;
    if (part[i].count == 1) {
      // Neither a loop nor a reason for one.
    } else if (isOneRun && joins) {
      runBytes *= part[i].count;
    } else {
      isOneRun = false;
      numRuns *= part[i].count;
      // Two dimensions whose steps continue are one loop.
      if (!loops.empty() &&
          storedStride == loops.back().stored * loops.back().count &&
          localStride == loops.back().local * loops.back().count)
        loops.back().count *= part[i].count;
      else
        loops.push_back({part[i].count, storedStride, localStride});
    }
    storedStride *= stored[i].count;
    localStride *= blockShape[i];
  }
  std::reverse(loops.begin(), loops.end());
}

int64_t BoxRuns::getStored(int64_t run) const {
  int64_t place = firstStored;
  for (size_t i = loops.size(); i-- > 0; run /= loops[i].count)
    place += run % loops[i].count * loops[i].stored;
  return place;
}

int64_t BoxRuns::getLocal(int64_t run) const {
  int64_t place = firstLocal;
  for (size_t i = loops.size(); i-- > 0; run /= loops[i].count)
    place += run % loops[i].count * loops[i].local;
  return place;
}

int64_t BoxRuns::findRun(int64_t begin) const {
  int64_t low = 0, high = numRuns;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (getStored(middle) + runBytes > begin)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

layout::Range BoxRuns::getLocalBytes(int64_t begin, int64_t end) const {
  const int64_t first = findRun(begin);
  if (first == numRuns || getStored(first) >= end)
    return {0, 0};
  int64_t last = std::min(findRun(end), numRuns - 1);
  if (getStored(last) >= end)
    --last;
  const int64_t from =
      getLocal(first) + std::max<int64_t>(begin - getStored(first), 0);
  const int64_t to = getLocal(last) + std::min(runBytes, end - getStored(last));
  return {from, to - from};
}
