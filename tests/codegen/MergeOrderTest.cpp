// Merges of random graphs, against a search for paths in the whole graph.

#include "codegen/steps/MergeOrder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace meshc::codegen;

namespace {

using Edges = std::vector<std::vector<unsigned>>;

/// A graph as a set of edges between what its nodes have become.
class PlainGraph {
public:
  explicit PlainGraph(const Edges &previous) : count(previous.size()) {
    for (unsigned to = 0; to < previous.size(); ++to)
      for (unsigned from : previous[to])
        edges.insert({from, to});
  }

  bool canMerge(unsigned a, unsigned b) const {
    return !leadsThroughOthers(a, b) && !leadsThroughOthers(b, a);
  }
  void merge(unsigned a, unsigned b) {
    std::set<std::pair<unsigned, unsigned>> merged;
    auto rename = [&](unsigned node) {
      return node == a || node == b ? unsigned(count) : node;
    };
    for (auto [from, to] : edges)
      if (rename(from) != rename(to))
        merged.insert({rename(from), rename(to)});
    edges = std::move(merged);
    ++count;
  }

private:
  bool leadsThroughOthers(unsigned from, unsigned to) const {
    std::set<unsigned> seen;
    std::vector<unsigned> open;
    auto follow = [&](unsigned node) {
      for (auto edge = edges.lower_bound({node, 0});
           edge != edges.end() && edge->first == node; ++edge)
        if (!(node == from && edge->second == to) &&
            seen.insert(edge->second).second)
          open.push_back(edge->second);
    };
    follow(from);
    while (!open.empty()) {
      const unsigned node = open.back();
      open.pop_back();
      if (node == to)
        return true;
      follow(node);
    }
    return false;
  }

  size_t count;
  std::set<std::pair<unsigned, unsigned>> edges;
};

TEST(MergeOrder, FindsEveryPathThroughOthers) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const auto count = unsigned(2 + random() % 60);
    // Numbers are no order of the graph: nodes may be added before those that
    // lead to them.
    std::vector<unsigned> place(count);
    for (unsigned i = 0; i < count; ++i)
      place[i] = i;
    if (round % 2 == 1)
      std::shuffle(place.begin(), place.end(), random);
    Edges previous(count);
    for (unsigned to = 1; to < count; ++to)
      for (uint64_t more = random() % 4; more-- > 0;)
        previous[place[to]].push_back(
            place[to - 1 - random() % std::min(to, 1 + unsigned(round) % 20)]);
    std::vector<bool> isMark(count);
    for (unsigned i = 0; i < count; ++i)
      isMark[i] = random() % 8 == 0;

    PlainGraph plain(previous);
    MergeOrder order(previous, isMark);
    std::vector<unsigned> nodes;
    for (unsigned i = 0; i < count; ++i)
      if (!isMark[i])
        nodes.push_back(i);
    auto next = count;
    for (int attempt = 0; attempt < 200 && nodes.size() > 1; ++attempt) {
      std::shuffle(nodes.begin(), nodes.end(), random);
      const unsigned a = nodes.back(), b = nodes[nodes.size() - 2];
      ASSERT_EQ(order.canMerge(a, b), plain.canMerge(a, b))
          << "round " << round << ", " << a << " and " << b;
      if (!plain.canMerge(a, b))
        continue;
      order.merge(a, b);
      plain.merge(a, b);
      nodes.resize(nodes.size() - 2);
      nodes.push_back(next);
      EXPECT_EQ(order.getRoot(a), next);
      ++next;
    }
  }
}

/// A chain whose links are merged two by two: nothing but neighbours is looked
/// at.
TEST(MergeOrder, LooksNoFurtherThanTheTwo) {
  constexpr unsigned count = 1 << 14;
  Edges previous(count);
  for (unsigned i = 1; i < count; ++i)
    previous[i] = {i - 1};
  MergeOrder order(previous, std::vector<bool>(count));
  std::vector<unsigned> nodes(count);
  for (unsigned i = 0; i < count; ++i)
    nodes[i] = i;
  for (unsigned next = count; nodes.size() > 1;) {
    std::vector<unsigned> merged;
    for (size_t i = 0; i + 1 < nodes.size(); i += 2) {
      ASSERT_TRUE(order.canMerge(nodes[i], nodes[i + 1]));
      order.merge(nodes[i], nodes[i + 1]);
      merged.push_back(next++);
    }
    nodes = std::move(merged);
  }
  EXPECT_LE(order.getNumVisits(), int64_t(count) * 16 * 14);
}

/// A chain, and behind it readers of its links: nothing but the readers is
/// looked at, whether they read from the start or lead to the end.
TEST(MergeOrder, SearchesFromTheEndThatLeadsNoFurther) {
  constexpr unsigned count = 1 << 14;
  Edges previous(2 * count), mirrored(2 * count);
  for (unsigned i = 1; i < count; ++i) {
    previous[i] = {i - 1};
    mirrored[count + i] = {count + i - 1};
  }
  for (unsigned i = 0; i < count; ++i) {
    previous[count + i] = {i};
    mirrored[count + i].push_back(i);
  }
  for (const Edges &edges : {previous, mirrored}) {
    MergeOrder order(edges, std::vector<bool>(2 * count));
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_TRUE(order.canMerge(i, count + i));
      order.merge(i, count + i);
    }
    EXPECT_LE(order.getNumVisits(), int64_t(count) * 8);
  }
}

/// Nodes that all move to one place, more often than a gap of 64 bits can be
/// halved.
TEST(MergeOrder, FindsPlacesForAsManyAsMoveToOne) {
  constexpr unsigned pairs = 300, followers = 4;
  for (const bool isMirrored : {false, true}) {
    Edges previous(1 + followers + 2 * pairs);
    const auto last = unsigned(previous.size() - 1);
    // Mirrored, the graph is the same from its end.
    auto lead = [&](unsigned from, unsigned to) {
      if (isMirrored)
        previous[last - from].push_back(last - to);
      else
        previous[to].push_back(from);
    };
    auto number = [&](unsigned node) {
      return isMirrored ? last - node : node;
    };
    for (unsigned i = 1; i <= followers; ++i)
      lead(0, i);
    for (unsigned i = 0; i < pairs; ++i)
      lead(1 + followers + 2 * i, 2 + followers + 2 * i);
    PlainGraph plain(previous);
    MergeOrder order(previous, std::vector<bool>(previous.size()));
    unsigned merged = number(0);
    for (unsigned i = 0; i < pairs; ++i) {
      const unsigned reader = number(2 + followers + 2 * i);
      ASSERT_TRUE(order.canMerge(merged, reader));
      order.merge(merged, reader);
      plain.merge(merged, reader);
      merged = last + 1 + i;
    }
    for (unsigned i = 0; i < pairs; ++i) {
      const unsigned leads = number(1 + followers + 2 * i);
      EXPECT_EQ(order.canMerge(leads, merged), plain.canMerge(leads, merged));
      for (unsigned follower = 1; follower <= followers; ++follower)
        EXPECT_EQ(order.canMerge(leads, number(follower)),
                  plain.canMerge(leads, number(follower)));
    }
  }
}

/// A path through a mark is known without a search.
TEST(MergeOrder, KnowsPathsThroughMarks) {
  constexpr unsigned count = 10'000;
  Edges previous(count);
  for (unsigned i = 1; i < count; ++i)
    previous[i] = {i - 1};
  std::vector<bool> isMark(count);
  isMark[count / 2] = true;
  MergeOrder order(previous, isMark);
  EXPECT_FALSE(order.canMerge(0, count - 1));
  EXPECT_EQ(order.getNumVisits(), 0);
  EXPECT_FALSE(order.canMerge(0, 3));
  EXPECT_GT(order.getNumVisits(), 0);
}

} // namespace
