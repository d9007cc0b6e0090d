#ifndef MESHC_CODEGEN_STEPS_MERGEORDER_H
#define MESHC_CODEGEN_STEPS_MERGEORDER_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace meshc::codegen {

/// A graph without cycles whose nodes are merged two by two, and whether it
/// stays without. Nodes have positions in an order of the graph, which is
/// mended where a merge breaks it, so that a search for a path stays between
/// the positions of its ends. It goes from both ends in turn until one of them
/// leads no further: a kernel of the backward phase that reads nothing but a
/// kernel of the forward phase is behind everything that the latter leads to.
/// Source: Haeupler, Kavitha, Mathew, Sen and Tarjan 2012, "Incremental cycle
/// detection, topological ordering, and strong component maintenance", two-way
/// search; to merge two nodes is to add the edge back from the later to the
/// earlier one.
class MergeOrder {
public:
  MergeOrder() = default;
  /// Nodes by those that lead to them. Marks are never merged: paths through
  /// them are found without a search.
  MergeOrder(std::vector<std::vector<unsigned>> previous,
             const std::vector<bool> &isMark);

  /// Whether no path leads from one node to the other through a third. If so,
  /// they can be merged, as long as nothing else was since.
  bool canMerge(unsigned a, unsigned b);
  /// Makes the node that is numbered next of two others.
  void merge(unsigned a, unsigned b);

  /// What `node` has become a part of.
  unsigned getRoot(unsigned node) const;
  /// Nodes that searches have looked at: what this costs.
  int64_t getNumVisits() const { return numVisits; }

private:
  /// A bit for each of so many marks, evenly spaced over the graph.
  static constexpr unsigned numMarks = 256;
  using Marks = std::array<uint64_t, numMarks / 64>;

  struct Node {
    std::vector<unsigned> next, previous; ///< some of them merged since
    uint64_t position = 0;
    Marks before = {}, behind = {}; ///< some of those on paths to and from it
    unsigned visit = 0;             ///< the last search that came here
  };
  /// A search from one of two nodes towards the other.
  struct Search {
    unsigned goal;
    unsigned visit; ///< its number
    bool isForward;
    std::vector<unsigned> reached; ///< the node it starts from comes first
    size_t from = 0, edge = 0;     ///< where in `reached` it is
    bool isDone = false;
  };

  std::vector<unsigned> sort();
  void placeMarks(const std::vector<bool> &isMark);
  /// Follows one more edge between the positions of both ends; false if that
  /// makes a path from one to the other through a third node.
  bool advance(Search &search, unsigned otherVisit);
  /// Spreads all positions evenly.
  void spreadPositions();
  /// Moves nodes right behind another one, or right in front of it.
  void moveBeside(unsigned node, bool isBehind, std::vector<unsigned> moved);

  std::vector<Node> nodes;
  std::map<uint64_t, unsigned> nodeAt; ///< by position, without those merged
  mutable std::vector<unsigned> mergedInto;
  unsigned visit = 0;
  int64_t numVisits = 0;
  Search found; ///< of the last canMerge: the one that led no further
};

} // namespace meshc::codegen

#endif
