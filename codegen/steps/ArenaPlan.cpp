#include "codegen/steps/ArenaPlan.h"

#include <algorithm>
#include <numeric>

using namespace meshc::codegen;

static uint64_t alignUp(uint64_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

namespace {

/// Bytes that are taken, as runs [begin, end) that do not touch. Both ends are
/// aligned: no buffer begins between the end of another and the next place.
class TakenBytes {
public:
  void add(uint64_t begin, uint64_t end) {
    auto first = std::lower_bound(
        runs.begin(), runs.end(), begin,
        [](const Run &run, uint64_t place) { return run.end < place; });
    auto last = first;
    for (; last != runs.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      runs.insert(first, {begin, end});
      return;
    }
    *first = {begin, end};
    runs.erase(first + 1, last);
  }

  /// The lowest place from `offset` on that has `bytes` free here.
  uint64_t findFree(uint64_t offset, uint64_t bytes) const {
    auto run = std::upper_bound(
        runs.begin(), runs.end(), offset,
        [](uint64_t place, const Run &other) { return place < other.end; });
    for (; run != runs.end() && run->begin < offset + bytes; ++run)
      offset = run->end;
    return offset;
  }

private:
  struct Run {
    uint64_t begin, end;
  };
  std::vector<Run> runs;
};

/// Which bytes are taken when: a segment tree over the commands. A lifetime is
/// made up of O(log n) of its nodes.
class Timeline {
public:
  explicit Timeline(std::span<const Lifetime> lifetimes) {
    for (const Lifetime &lifetime : lifetimes)
      starts.push_back(lifetime.first);
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    nodes.resize(4 * starts.size());
  }

  /// The lowest place from `offset` on that is free all the time.
  uint64_t findFree(const Lifetime &lifetime, uint64_t offset) {
    std::vector<const TakenBytes *> taken;
    visit(
        lifetime, [&](Node &whole) { taken.push_back(&whole.sometimes); },
        [&](Node &part) { taken.push_back(&part.always); });
    size_t agreed = 0; // how many of them in a row
    for (size_t next = 0; agreed < taken.size();
         next = (next + 1) % taken.size()) {
      const uint64_t found = taken[next]->findFree(offset, lifetime.bytes);
      agreed = found == offset ? agreed + 1 : 1;
      offset = found;
    }
    return offset;
  }

  void add(const Lifetime &lifetime, uint64_t begin, uint64_t end) {
    visit(
        lifetime,
        [&](Node &whole) {
          whole.always.add(begin, end);
          whole.sometimes.add(begin, end);
        },
        [&](Node &part) { part.sometimes.add(begin, end); });
  }

private:
  struct Node {
    TakenBytes always;    ///< by what lives as long as the node lasts
    TakenBytes sometimes; ///< by this, and by what lives for a part of that
  };

  /// Commands between two at which something begins count as the earlier one.
  size_t getTime(int64_t command) const {
    return size_t(std::upper_bound(starts.begin(), starts.end(), command) -
                  starts.begin() - 1);
  }

  /// Visits the nodes that a lifetime is made up of, and those that are partly
  /// in it.
  template <typename Whole, typename Part>
  void visit(const Lifetime &lifetime, Whole visitWhole, Part visitPart) {
    const size_t first = getTime(lifetime.first);
    const size_t last = getTime(lifetime.last);
    struct Range {
      size_t node, begin, end; // times
    };
    std::vector<Range> open = {{1, 0, starts.size()}};
    while (!open.empty()) {
      const auto [node, begin, end] = open.back();
      open.pop_back();
      if (last < begin || end <= first)
        continue;
      if (first <= begin && end <= last + 1) {
        visitWhole(nodes[node]);
        continue;
      }
      visitPart(nodes[node]);
      const size_t middle = (begin + end) / 2;
      open.push_back({2 * node, begin, middle});
      open.push_back({2 * node + 1, middle, end});
    }
  }

  std::vector<int64_t> starts; ///< commands at which something begins
  std::vector<Node> nodes;     ///< the children of i are 2 i and 2 i + 1
};

} // namespace

ArenaPlan meshc::codegen::planArena(std::span<const Lifetime> lifetimes,
                                    uint64_t start) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return std::pair(lifetimes[y].bytes, x) < std::pair(lifetimes[x].bytes, y);
  });

  ArenaPlan plan;
  plan.offsets.resize(lifetimes.size());
  plan.bytes = start;
  Timeline timeline(lifetimes);
  for (size_t index : order) {
    const Lifetime &lifetime = lifetimes[index];
    const uint64_t offset = timeline.findFree(lifetime, alignUp(start));
    const uint64_t end = offset + lifetime.bytes;
    timeline.add(lifetime, offset, alignUp(end));
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, end);
  }
  plan.bytes = alignUp(plan.bytes);
  return plan;
}
