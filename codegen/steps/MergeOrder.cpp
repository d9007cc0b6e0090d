#include "codegen/steps/MergeOrder.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

using namespace meshc::codegen;

MergeOrder::MergeOrder(std::vector<std::vector<unsigned>> previous,
                       const std::vector<bool> &isMark)
    : nodes(previous.size()), mergedInto(previous.size()) {
  std::iota(mergedInto.begin(), mergedInto.end(), 0);
  for (unsigned index = 0; index < nodes.size(); ++index) {
    nodes[index].previous = std::move(previous[index]);
    for (unsigned other : nodes[index].previous)
      nodes[other].next.push_back(index);
  }
  placeMarks(isMark);
  spreadPositions();
}

/// Of nodes that could be next, the one that was added first is.
std::vector<unsigned> MergeOrder::sort() {
  std::vector<size_t> waits(nodes.size());
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
  for (unsigned index = 0; index < nodes.size(); ++index)
    if ((waits[index] = nodes[index].previous.size()) == 0)
      ready.push(index);
  std::vector<unsigned> sorted;
  while (!ready.empty()) {
    const unsigned index = ready.top();
    ready.pop();
    sorted.push_back(index);
    for (unsigned next : nodes[index].next)
      if (--waits[next] == 0)
        ready.push(next);
  }
  return sorted;
}

void MergeOrder::placeMarks(const std::vector<bool> &isMark) {
  const std::vector<unsigned> sorted = sort();
  for (unsigned index : sorted)
    nodeAt.emplace_hint(nodeAt.end(), nodeAt.size(), index);
  std::vector<unsigned> marks;
  for (unsigned index : sorted)
    if (isMark[index])
      marks.push_back(index);
  std::vector<int> bitOf(nodes.size(), -1);
  const size_t count = std::min<size_t>(marks.size(), numMarks);
  for (size_t i = 0; i < count; ++i)
    bitOf[marks[i * marks.size() / count]] = int(i);

  auto pass = [&](const Marks &from, unsigned index, Marks &to) {
    for (size_t word = 0; word < to.size(); ++word)
      to[word] |= from[word];
    if (bitOf[index] >= 0)
      to[bitOf[index] / 64] |= uint64_t(1) << (bitOf[index] % 64);
  };
  for (unsigned index : sorted)
    for (unsigned previous : nodes[index].previous)
      pass(nodes[previous].before, previous, nodes[index].before);
  std::for_each(sorted.rbegin(), sorted.rend(), [&](unsigned index) {
    for (unsigned next : nodes[index].next)
      pass(nodes[next].behind, next, nodes[index].behind);
  });
}

unsigned MergeOrder::getRoot(unsigned node) const {
  while (mergedInto[node] != node)
    node = mergedInto[node] = mergedInto[mergedInto[node]];
  return node;
}

bool MergeOrder::advance(Search &search, unsigned otherVisit) {
  const unsigned start = search.reached.front();
  const uint64_t low =
      std::min(nodes[start].position, nodes[search.goal].position);
  const uint64_t high =
      std::max(nodes[start].position, nodes[search.goal].position);
  while (search.from < search.reached.size()) {
    const unsigned index = search.reached[search.from];
    const std::vector<unsigned> &edges =
        search.isForward ? nodes[index].next : nodes[index].previous;
    if (search.edge == edges.size()) {
      ++search.from;
      search.edge = 0;
      continue;
    }
    const unsigned root = getRoot(edges[search.edge++]);
    ++numVisits;
    if (root == search.goal)
      return index == start;
    Node &node = nodes[root];
    if (node.visit == otherVisit)
      return false;
    if (node.visit == search.visit || node.position <= low ||
        node.position >= high)
      return true;
    node.visit = search.visit;
    search.reached.push_back(root);
    return true;
  }
  search.isDone = true;
  return true;
}

bool MergeOrder::canMerge(unsigned a, unsigned b) {
  if (nodes[a].position > nodes[b].position)
    std::swap(a, b);
  for (size_t word = 0; word < numMarks / 64; ++word)
    if (nodes[a].behind[word] & nodes[b].before[word])
      return false;
  Search forward{b, ++visit, /*isForward=*/true, {a}};
  Search backward{a, ++visit, /*isForward=*/false, {b}};
  while (!forward.isDone && !backward.isDone)
    if (!advance(forward, backward.visit) || !advance(backward, forward.visit))
      return false;
  found = std::move(forward.isDone ? forward : backward);
  return true;
}

void MergeOrder::spreadPositions() {
  std::map<uint64_t, unsigned> spread;
  const uint64_t step =
      std::numeric_limits<uint64_t>::max() / (nodeAt.size() + 1);
  uint64_t position = 0;
  for (auto [old, node] : nodeAt) {
    nodes[node].position = position += step;
    spread.emplace_hint(spread.end(), position, node);
  }
  nodeAt = std::move(spread);
}

/// A node that moves halves a gap between two positions. Of a million nodes
/// gaps are 2^44, so one in 44 moves at most gives all of them new positions.
void MergeOrder::moveBeside(unsigned node, bool isBehind,
                            std::vector<unsigned> moved) {
  std::sort(moved.begin(), moved.end(), [&](unsigned x, unsigned y) {
    return nodes[x].position < nodes[y].position;
  });
  for (unsigned other : moved)
    nodeAt.erase(nodes[other].position);
  auto getGap = [&]() -> std::pair<uint64_t, uint64_t> {
    const auto place = nodeAt.find(nodes[node].position);
    if (!isBehind)
      return {place == nodeAt.begin() ? 0 : std::prev(place)->first,
              place->first};
    const auto next = std::next(place);
    return {place->first, next == nodeAt.end()
                              ? std::numeric_limits<uint64_t>::max()
                              : next->first};
  };
  auto [low, high] = getGap();
  if (high - low <= moved.size()) {
    spreadPositions();
    std::tie(low, high) = getGap();
  }
  const uint64_t step = (high - low) / (moved.size() + 1);
  for (unsigned other : moved) {
    nodes[other].position = low += step;
    nodeAt.emplace(low, other);
  }
}

void MergeOrder::merge(unsigned a, unsigned b) {
  // What the earlier one leads to moves behind the later one, whose position is
  // that of both, or what leads to the later one in front of the earlier one.
  const unsigned kept = found.goal, moved = found.reached.front();
  nodeAt.erase(nodes[moved].position);
  const auto index = unsigned(nodes.size());
  Node merged;
  merged.position = nodes[kept].position;
  nodeAt[merged.position] = index;
  for (size_t word = 0; word < numMarks / 64; ++word) {
    merged.before[word] = nodes[a].before[word] | nodes[b].before[word];
    merged.behind[word] = nodes[a].behind[word] | nodes[b].behind[word];
  }
  auto unite = [](std::vector<unsigned> &x, std::vector<unsigned> &y) {
    if (x.size() < y.size())
      std::swap(x, y);
    x.insert(x.end(), y.begin(), y.end());
    y = {};
    return std::move(x);
  };
  merged.next = unite(nodes[a].next, nodes[b].next);
  merged.previous = unite(nodes[a].previous, nodes[b].previous);
  nodes.push_back(std::move(merged));
  mergedInto[a] = mergedInto[b] = index;
  mergedInto.push_back(index);
  moveBeside(index, found.isForward,
             {found.reached.begin() + 1, found.reached.end()});
}
