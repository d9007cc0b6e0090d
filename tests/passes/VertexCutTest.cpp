#include "passes/VertexCut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

using meshc::VertexCut;

namespace {

/// Values in an order in which each comes after what it is computed from.
struct Graph {
  struct Value {
    int64_t cost;
    bool isSource;
    std::vector<unsigned> from;
  };
  std::vector<Value> values;
  std::vector<unsigned> required;

  /// What is kept, by the cut.
  std::set<unsigned> solve() const {
    VertexCut cut;
    for (const Value &value : values)
      cut.addValue(value.cost);
    for (unsigned to = 0; to < values.size(); ++to) {
      if (values[to].isSource)
        cut.setSource(to);
      for (unsigned from : values[to].from)
        cut.addEdge(from, to);
    }
    cut.solve(required);
    std::set<unsigned> kept, seen;
    std::vector<unsigned> pending = required;
    while (!pending.empty()) {
      unsigned value = pending.back();
      pending.pop_back();
      if (!seen.insert(value).second)
        continue;
      if (!cut.isComputed(value))
        kept.insert(value);
      else
        pending.insert(pending.end(), values[value].from.begin(),
                       values[value].from.end());
    }
    return kept;
  }

  /// Whether everything required can be had from what is kept.
  bool suffices(const std::set<unsigned> &kept) const {
    std::vector<bool> there;
    for (unsigned value = 0; value < values.size(); ++value)
      there.push_back(
          kept.contains(value) ||
          (!values[value].isSource &&
           std::all_of(values[value].from.begin(), values[value].from.end(),
                       [&](unsigned from) { return there[from]; })));
    return std::all_of(required.begin(), required.end(),
                       [&](unsigned value) { return there[value]; });
  }

  int64_t getCost(const std::set<unsigned> &kept) const {
    int64_t cost = 0;
    for (unsigned value : kept)
      cost += values[value].cost;
    return cost;
  }

  /// The least cost of all sets that suffice.
  int64_t findLeastCost() const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (unsigned subset = 0; subset < 1u << values.size(); ++subset) {
      std::set<unsigned> kept;
      for (unsigned value = 0; value < values.size(); ++value)
        if (subset >> value & 1)
          kept.insert(value);
      if (suffices(kept))
        least = std::min(least, getCost(kept));
    }
    return least;
  }
};

Graph makeRandomGraph(std::mt19937 &random) {
  Graph graph;
  auto draw = [&](unsigned end) { return unsigned(random() % end); };
  for (unsigned value = 0; value < 10; ++value) {
    // Few costs, 0 among them, so that there are ties.
    graph.values.push_back({draw(5), value < 2 || draw(6) == 0, {}});
    if (graph.values.back().isSource)
      continue;
    for (unsigned i = draw(4); i > 0; --i)
      graph.values.back().from.push_back(draw(value));
  }
  for (unsigned i = 1 + draw(4); i > 0; --i)
    graph.required.push_back(draw(10));
  return graph;
}

TEST(VertexCutTest, KeepsWhatCostsLeastOfAllSets) {
  std::mt19937 random(5);
  for (unsigned i = 0; i < 300; ++i) {
    Graph graph = makeRandomGraph(random);
    std::set<unsigned> kept = graph.solve();
    EXPECT_TRUE(graph.suffices(kept)) << "graph " << i;
    EXPECT_EQ(graph.getCost(kept), graph.findLeastCost()) << "graph " << i;
  }
}

TEST(VertexCutTest, OneArgumentForTwoFunctionsOfIt) {
  Graph graph{{{4, true, {}}, {4, false, {0}}, {4, false, {0}}}, {1, 2}};
  EXPECT_EQ(graph.solve(), std::set<unsigned>({0}));
}

TEST(VertexCutTest, NothingIsComputedAgainForNothing) {
  Graph graph{{{4, true, {}}, {4, false, {0}}, {4, false, {1}}}, {2}};
  EXPECT_EQ(graph.solve(), std::set<unsigned>({2}));
}

TEST(VertexCutTest, FlowIsSentBackWhereItBarsTheWay) {
  // The first path found, 0 -> 2 -> 4, is not one of the two that fit.
  Graph graph{{{1, true, {}},
               {1, true, {}},
               {1, false, {0, 1}},
               {1, false, {0}},
               {3, false, {2, 3}},
               {3, false, {2}}},
              {4, 5}};
  EXPECT_EQ(graph.getCost(graph.solve()), graph.findLeastCost());
}

} // namespace
