#ifndef MESHC_LAYOUT_ATOMSHARDING_H
#define MESHC_LAYOUT_ATOMSHARDING_H

/// Two shardings of one tensor written in the same alphabet: the atoms that
/// remain when every axis is cut wherever either of them cuts it. In this form
/// a change of sharding is a change of lists, and a collective a simple edit of
/// them. Inside layout/ only.

#include "layout/ReshardStep.h"

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace meshc::layout {

/// A set of atoms, by number. A mesh of 2^20 devices has at most 20 atoms per
/// sharding, so a pair fits.
using AtomSet = uint64_t;

inline AtomSet getAtomSet(uint8_t atom) { return AtomSet(1) << atom; }

/// A sharding as lists of atom numbers.
struct AtomSharding {
  std::vector<std::vector<uint8_t>> dims; ///< major to minor
  AtomSet partial = 0;

  /// Atoms that split a dimension.
  AtomSet getSplitAtoms() const;
  /// Atoms that do not replicate.
  AtomSet getUsedAtoms() const { return getSplitAtoms() | partial; }
  auto operator<=>(const AtomSharding &) const = default;
};

/// The figures of a ReshardStep without its shardings.
struct StepFigures {
  CollectiveKind kind = CollectiveKind::Exchange;
  int64_t groupSize = 1, gatherSize = 1;
  int64_t payloadElements = 0, wireElements = 0;
  bool hasContiguousBlocks = true;
  int64_t exchangedElements = 0;
  /// The atoms over which devices talk, and those of the all_gather that a
  /// reduce_scatter holds.
  AtomSet group = 0, gather = 0;
};

/// The atoms of a pair of shardings, and questions about lists of them.
class AtomSpace {
public:
  /// Axes that neither sharding uses are atoms only if `allAxes`.
  /// Requires: getViolation is empty for both.
  AtomSpace(const Mesh &mesh, std::span<const int64_t> sizes,
            const Sharding &source, const Sharding &target,
            bool allAxes = false);

  const AtomSharding &getSource() const { return source; }
  const AtomSharding &getTarget() const { return target; }
  Sharding getSharding(const AtomSharding &sharding) const;

  AtomSet getAtoms() const { return getAtomSet(uint8_t(atoms.size())) - 1; }
  AxisRef getAtom(uint8_t atom) const { return atoms[atom]; }

  std::span<const int64_t> getSizes() const { return sizes; }
  int64_t getSize(size_t dim) const { return sizes[dim]; }
  /// Of a block along one dimension, padding included.
  int64_t getLocalSize(size_t dim, std::span<const uint8_t> list) const;
  /// Whether all blocks along the dimension are full.
  bool dividesEvenly(size_t dim, std::span<const uint8_t> list) const;

  /// Elements of one device's block, padding included.
  int64_t getBlockElements(const AtomSharding &sharding) const;
  /// Devices along all atoms of `set`.
  int64_t getGroupSize(AtomSet set) const;
  /// The atoms of a dimension's list as parts of axes, joined.
  std::vector<AxisRef> getRefs(std::span<const uint8_t> list) const;
  /// The atoms of `set` as parts of axes, sorted and joined.
  std::vector<AxisRef> getParts(AtomSet set) const;
  /// The axes along which devices that differ on `set` form groups: its parts,
  /// or the whole axis where these are no digits of it.
  std::vector<AxisRef> getGroupAxes(AtomSet set) const;

  /// Atoms of an axis that has no common cut (boundaries 2 and 3 on an axis of
  /// 6, say). No list may gain them; only an exchange crosses such a change.
  AtomSet getForeignAtoms() const { return foreign; }

  /// Whether a collective of this kind, as CollectiveKind and its blocks
  /// define it, makes the change. Blocks of uneven sizes must nest where a
  /// dimension's list grows or shrinks.
  bool fits(CollectiveKind kind, const AtomSharding &from,
            const AtomSharding &to) const;

  /// What the search goes by: in a time that does not grow with the devices.
  StepFigures estimateFigures(const Mesh &mesh, CollectiveKind kind,
                              const AtomSharding &from,
                              const AtomSharding &to) const;
  StepFigures getFigures(const Mesh &mesh, CollectiveKind kind,
                         const AtomSharding &from,
                         const AtomSharding &to) const;
  /// The step with all its figures.
  ReshardStep getStep(const Mesh &mesh, CollectiveKind kind,
                      const AtomSharding &from, const AtomSharding &to) const;

  /// Whether `list` begins with `prefix` and cuts every block of `prefix` into
  /// whole parts.
  bool isNestedPrefix(size_t dim, const std::vector<uint8_t> &prefix,
                      const std::vector<uint8_t> &list) const;

  /// The atoms over which devices talk to one another; for a slice those it
  /// splits over.
  AtomSet getCommunicating(CollectiveKind kind, const AtomSharding &from,
                           const AtomSharding &to) const;

private:
  using AtomList = std::vector<uint8_t>;

  void addAtoms(const Mesh &mesh, const Sharding &source,
                const Sharding &target, bool allAxes);
  AtomSharding getAtoms(const Sharding &sharding) const;
  /// Whether every block of `list` lies within the block of its first `length`
  /// atoms, at a multiple of its own size.
  bool nests(size_t dim, std::span<const uint8_t> list, size_t length) const;
  bool haveSameBlocks(size_t dim, const AtomList &a, const AtomList &b) const;

  bool fillsBlocks(size_t dim, std::span<const uint8_t> list) const;
  /// ReshardStep::hasContiguousBlocks.
  bool haveContiguousBlocks(CollectiveKind kind, const AtomSharding &from,
                            const AtomSharding &to) const;

  std::vector<int64_t> sizes;
  std::vector<int64_t> axisSizes;
  std::vector<AxisRef> atoms;
  AtomSet foreign = 0;
  ReduceKind partialKind = ReduceKind::None;
  AtomSharding source, target;
};

} // namespace meshc::layout

#endif
