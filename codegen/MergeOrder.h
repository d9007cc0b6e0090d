#ifndef MESHC_CODEGEN_MERGEORDER_H
#define MESHC_CODEGEN_MERGEORDER_H

#include <array>
#include <cstdint>
#include <vector>

namespace meshc::codegen {

/// A graph without cycles whose nodes are merged two by two, and whether it
/// stays without. Nodes have positions in an order of the graph, which is
/// mended where a merge breaks it, so that a search for a path stays between
/// the positions of its ends. Source: Pearce and Kelly 2006, "A dynamic
/// topological sort algorithm for directed acyclic graphs"; to merge two nodes
/// is to add the edge back from the later to the earlier one.
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
    unsigned position = 0;
    Marks before = {}, behind = {}; ///< some of those on paths to and from it
    unsigned visit = 0;             ///< the last search that came here
  };

  std::vector<unsigned> sort();
  void placeMarks(const std::vector<bool> &isMark);
  /// Collects what is reached from `start` through positions between its own
  /// and that of `goal`; false if `goal` is reached otherwise than directly.
  bool search(unsigned start, unsigned goal, bool isForward,
              std::vector<unsigned> &reached);

  std::vector<Node> nodes;
  mutable std::vector<unsigned> mergedInto;
  unsigned visit = 0;
  int64_t numVisits = 0;
  std::vector<unsigned> behindFirst; ///< of the last canMerge
};

} // namespace meshc::codegen

#endif
