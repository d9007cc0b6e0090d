#include "passes/VertexCut.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace meshc;

unsigned VertexCut::addValue(int64_t cost) {
  assert(cost >= 0 && "keeping a value cannot earn anything");
  values.emplace_back().cost = cost;
  return unsigned(values.size() - 1);
}

void VertexCut::addEdge(unsigned from, unsigned to) {
  unsigned edge = unsigned(edges.size());
  edges.push_back({from, to});
  values[from].to.push_back(edge);
  values[to].from.push_back(edge);
}

/// Searches, breadth first and against the flow, a source from which more can
/// flow to `required`. Where there is none, everything the search has seen is
/// behind the cut: no later search needs to come there, as a path through it
/// would have been one for this search.
std::optional<unsigned> VertexCut::findSource(unsigned required) {
  ++visit;
  std::vector<std::pair<unsigned, bool>> seen; // value, whether at its `in`
  auto see = [&](unsigned value, bool atIn, std::optional<unsigned> edge) {
    End &end = atIn ? values[value].in : values[value].out;
    if (end.isBehind || end.visit == visit)
      return;
    end.visit = visit;
    end.edge = edge;
    seen.push_back({value, atIn});
  };
  see(required, /*atIn=*/false, std::nullopt);
  for (size_t next = 0; next < seen.size(); ++next) {
    auto [index, atIn] = seen[next];
    const Value &value = values[index];
    if (atIn) {
      if (value.isSource)
        return index;
      for (unsigned edge : value.from)
        see(edges[edge].from, /*atIn=*/false, edge);
      if (value.flow > 0)
        see(index, /*atIn=*/false, std::nullopt);
      continue;
    }
    if (value.flow < value.cost)
      see(index, /*atIn=*/true, std::nullopt);
    for (unsigned edge : value.to)
      if (edges[edge].flow > 0)
        see(edges[edge].to, /*atIn=*/true, edge);
  }
  for (auto [value, atIn] : seen)
    (atIn ? values[value].in : values[value].out).isBehind = true;
  return std::nullopt;
}

/// Sends as much as the path that findSource has found lets through.
void VertexCut::sendFlow(unsigned source, unsigned required) {
  // Twice along the path: how much, and then sending it.
  int64_t amount = std::numeric_limits<int64_t>::max();
  for (bool isSending : {false, true}) {
    unsigned index = source;
    bool atIn = true;
    auto pass = [&](int64_t &flow, int64_t room, bool isForward) {
      if (isSending)
        flow += isForward ? amount : -amount;
      else
        amount = std::min(amount, room);
    };
    while (index != required || atIn) {
      Value &value = values[index];
      const End &end = atIn ? value.in : value.out;
      if (!end.edge) { // the search came from the other end of this value
        pass(value.flow, atIn ? value.cost - value.flow : value.flow, atIn);
      } else {
        Edge &edge = edges[*end.edge];
        // Edges let everything through; back goes what has come.
        if (!atIn)
          pass(edge.flow, std::numeric_limits<int64_t>::max(), true);
        else
          pass(edge.flow, edge.flow, false);
        index = atIn ? edge.from : edge.to;
      }
      atIn = !atIn;
    }
  }
}

void VertexCut::solve(const std::vector<unsigned> &required) {
  for (unsigned value : required)
    while (std::optional<unsigned> source = findSource(value))
      sendFlow(*source, value);
}
