#include "codegen/MergeOrder.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

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
}

/// Sets positions: of nodes that could be next, the one that was added first
/// is.
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
    nodes[index].position = unsigned(sorted.size());
    sorted.push_back(index);
    for (unsigned next : nodes[index].next)
      if (--waits[next] == 0)
        ready.push(next);
  }
  return sorted;
}

void MergeOrder::placeMarks(const std::vector<bool> &isMark) {
  const std::vector<unsigned> sorted = sort();
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

bool MergeOrder::search(unsigned start, unsigned goal, bool isForward,
                        std::vector<unsigned> &reached) {
  reached.clear();
  ++visit;
  const unsigned low = std::min(nodes[start].position, nodes[goal].position);
  const unsigned high = std::max(nodes[start].position, nodes[goal].position);
  std::vector<unsigned> open = {start};
  while (!open.empty()) {
    const unsigned index = open.back();
    open.pop_back();
    for (unsigned neighbour :
         isForward ? nodes[index].next : nodes[index].previous) {
      const unsigned root = getRoot(neighbour);
      ++numVisits;
      if (root == goal && index != start)
        return false;
      Node &node = nodes[root];
      if (root == start || root == goal || node.visit == visit ||
          node.position < low || node.position > high)
        continue;
      node.visit = visit;
      reached.push_back(root);
      open.push_back(root);
    }
  }
  return true;
}

bool MergeOrder::canMerge(unsigned a, unsigned b) {
  if (nodes[a].position > nodes[b].position)
    std::swap(a, b);
  for (size_t word = 0; word < numMarks / 64; ++word)
    if (nodes[a].behind[word] & nodes[b].before[word])
      return false;
  return search(a, b, /*isForward=*/true, behindFirst);
}

void MergeOrder::merge(unsigned a, unsigned b) {
  if (nodes[a].position > nodes[b].position)
    std::swap(a, b);
  std::vector<unsigned> before;
  search(b, a, /*isForward=*/false, before);

  // What leads to the later one moves in front of what the earlier one leads
  // to, within the positions that all of them have.
  auto byPosition = [&](unsigned x, unsigned y) {
    return nodes[x].position < nodes[y].position;
  };
  std::sort(before.begin(), before.end(), byPosition);
  std::sort(behindFirst.begin(), behindFirst.end(), byPosition);
  std::vector<unsigned> positions = {nodes[a].position, nodes[b].position};
  for (const std::vector<unsigned> *moved : {&before, &behindFirst})
    for (unsigned node : *moved)
      positions.push_back(nodes[node].position);
  std::sort(positions.begin(), positions.end());
  size_t place = 0;
  for (unsigned node : before)
    nodes[node].position = positions[place++];
  const unsigned position = positions[place];
  place += 2; // two have become one
  for (unsigned node : behindFirst)
    nodes[node].position = positions[place++];

  const auto index = unsigned(nodes.size());
  Node merged;
  merged.position = position;
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
}
