#ifndef MESHC_PASSES_VERTEXCUT_H
#define MESHC_PASSES_VERTEXCUT_H

#include <cstdint>
#include <optional>
#include <vector>

namespace meshc {

/// Which values to keep so that all required ones can be had later.
///
/// A value is kept, which costs something, or computed again from others, which
/// must be kept or computed again themselves. A source can only be kept.
///
///   x (source, 4) -> half (4) -> required
///                 -> erf  (4) -> required
///
/// Keeping x costs 4, keeping half and erf 8: x is kept, the others are
/// computed again. What is kept is a cut between sources and required values,
/// and the cheapest one is found as a maximum flow through the values, each of
/// which lets through what keeping it costs. Source: Ford and Fulkerson 1956,
/// "Maximal flow through a network", theorem 1; for values kept for a backward
/// pass PyTorch does the same (min_cut_rematerialization_partition).
class VertexCut {
public:
  /// Numbers count from 0.
  unsigned addValue(int64_t cost);
  void setSource(unsigned value) { values[value].isSource = true; }
  /// Says that `to`, no source, is computed from `from` and others.
  void addEdge(unsigned from, unsigned to);

  /// Finds the cheapest cut; of several the one nearest to `required`, so that
  /// as little as possible is computed again.
  void solve(const std::vector<unsigned> &required);

  /// After solve, of values that required ones need: whether it is cheapest to
  /// compute this one again.
  bool isComputed(unsigned value) const { return values[value].in.isBehind; }

private:
  /// An end of a value: what it is computed from arrives at `in`, what is
  /// computed from it leaves at `out`.
  struct End {
    bool isBehind = false;        ///< nothing more can flow here from a source
    unsigned visit = 0;           ///< number of the last search that came here
    std::optional<unsigned> edge; ///< by which it came; none: through the value
  };
  struct Value {
    int64_t cost = 0;
    int64_t flow = 0;
    bool isSource = false;
    End in, out;
    std::vector<unsigned> from, to; ///< edges
  };
  struct Edge {
    unsigned from, to;
    int64_t flow = 0;
  };

  std::optional<unsigned> findSource(unsigned required);
  void sendFlow(unsigned source, unsigned required);

  std::vector<Value> values;
  std::vector<Edge> edges;
  unsigned visit = 0;
};

} // namespace meshc

#endif
