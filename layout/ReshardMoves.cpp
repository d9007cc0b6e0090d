#include "layout/ReshardMoves.h"

#include <algorithm>
#include <bit>
#include <iterator>

using namespace meshc;
using namespace meshc::layout;

namespace {

using AtomList = std::vector<uint8_t>;

bool contains(AtomSet set, uint8_t atom) { return set >> atom & 1; }

class MoveFinder {
public:
  MoveFinder(const AtomSpace &space, const AtomSharding &from, bool acrossHosts)
      : space(space), from(from), target(space.getTarget()),
        acrossHosts(acrossHosts) {
    for (size_t d = 0; d < from.dims.size(); ++d) {
      const AtomList &list = from.dims[d], &goal = target.dims[d];
      settled.push_back(
          std::mismatch(list.begin(), list.end(), goal.begin(), goal.end())
              .first -
          list.begin());
      if (!list.empty() || !goal.empty() || isFirstOfSize(d))
        places.push_back(d);
    }
  }

  std::vector<ReshardMove> find() && {
    addAllReduces();
    addReduceScatters();
    addSlices();
    addTails();
    addPermutes();
    add(CollectiveKind::Exchange, target);
    return std::move(moves);
  }

private:
  void add(CollectiveKind kind, AtomSharding to) {
    auto isThis = [&](const ReshardMove &move) {
      return move.kind == kind && move.to == to;
    };
    if (to != from && space.fits(kind, from, to) &&
        std::none_of(moves.begin(), moves.end(), isThis))
      moves.push_back({kind, std::move(to)});
  }

  /// Of dimensions that neither has split the first of a size is the outermost,
  /// and so never the worse one to split. One position cannot be.
  bool isFirstOfSize(size_t d) const {
    const int64_t size = space.getSize(d);
    for (size_t before = 0; before < d; ++before)
      if (space.getSize(before) == size && from.dims[before].empty() &&
          target.dims[before].empty())
        return false;
    return size > 1;
  }

  bool isOnTheWay(size_t d) const { return settled[d] == from.dims[d].size(); }

  /// The list of `d` with atoms of `available` appended that the target has
  /// there: those that come next if the list is on the way, else all of them.
  AtomList grow(size_t d, AtomSet available, size_t atMost = 64) const {
    AtomList list = from.dims[d];
    const AtomList &goal = target.dims[d];
    for (size_t i = isOnTheWay(d) ? settled[d] : 0; i < goal.size(); ++i) {
      if (list.size() - from.dims[d].size() == atMost)
        break;
      if (contains(available, goal[i]))
        list.push_back(goal[i]);
      else if (isOnTheWay(d))
        break;
    }
    while (!space.isNestedPrefix(d, from.dims[d], list))
      list.pop_back();
    return list;
  }

  static AtomSharding append(AtomSharding to, size_t d, AtomSet atoms) {
    for (; atoms; atoms &= atoms - 1)
      to.dims[d].push_back(uint8_t(std::countr_zero(atoms)));
    return to;
  }

  /// The terms that may be completed. Those that the target has, too, where
  /// others are across hosts: a slice makes them again.
  AtomSet getOpen() const {
    return acrossHosts ? from.partial : from.partial & ~target.partial;
  }

  /// Completes every subset of the terms that must not stay; if there are many,
  /// all of them, those that split nothing in the target, and single ones.
  void addAllReduces() {
    const AtomSet open = getOpen();
    auto complete = [&](AtomSet atoms) {
      AtomSharding to = from;
      to.partial &= ~atoms;
      add(CollectiveKind::AllReduce, std::move(to));
    };
    if (std::popcount(open) <= 4) {
      for (AtomSet atoms = open; atoms; atoms = (atoms - 1) & open)
        complete(atoms);
      return;
    }
    complete(open);
    complete(open & ~target.getSplitAtoms());
    for (AtomSet rest = open; rest; rest &= rest - 1)
      complete(rest & -rest);
  }

  /// Completes terms by scattering those that the target has next. With them
  /// are completed none of the others, those that it wants whole, or all.
  void addReduceScatters() {
    const AtomSet open = getOpen();
    if (!open)
      return;
    auto scatter = [&](auto &&choose) {
      AtomSharding to = from;
      for (size_t d = 0; d < to.dims.size(); ++d)
        if (size_t atMost = choose(d))
          to.dims[d] = grow(d, open, atMost);
      to.partial &= ~to.getSplitAtoms();
      add(CollectiveKind::ReduceScatter, to);
      to.partial &= target.partial | target.getSplitAtoms();
      add(CollectiveKind::ReduceScatter, to);
      to.partial &= target.partial;
      add(CollectiveKind::ReduceScatter, std::move(to));
    };
    const AtomSet whole = open & ~target.getSplitAtoms();
    scatterAway(whole, whole);
    if (acrossHosts)
      for (AtomSet rest = open; rest; rest &= rest - 1) {
        scatterAway(rest & -rest, rest & -rest);
        scatterAway(rest & -rest, open);
      }
    scatter([](size_t) { return 64; });
    scatter([&](size_t d) { return isOnTheWay(d) ? 64 : 0; });
    for (size_t dim = 0; dim < from.dims.size(); ++dim)
      for (size_t count = 1; count <= target.dims[dim].size(); ++count)
        scatter([&](size_t d) { return d == dim ? count : 0; });
  }

  /// Scatters terms that the target wants whole onto some dimension, and
  /// completes others with them: a later step that moves more takes their
  /// all_gather with it.
  void scatterAway(AtomSet scattered, AtomSet completed) {
    if (!scattered)
      return;
    for (size_t d : places) {
      AtomSharding to = append(from, d, scattered);
      to.partial &= ~completed;
      add(CollectiveKind::ReduceScatter, std::move(to));
    }
  }

  /// Slices are free, so they take all they can; a list that is not on the way
  /// may do better to wait.
  void addSlices() {
    const AtomSet unused = ~from.getUsedAtoms() & ~space.getForeignAtoms();
    AtomSharding some = from, all = from, partial = from;
    for (size_t d = 0; d < from.dims.size(); ++d) {
      all.dims[d] = grow(d, unused);
      if (isOnTheWay(d))
        some.dims[d] = all.dims[d];
    }
    if (some != all)
      add(CollectiveKind::Slice, std::move(some));
    add(CollectiveKind::Slice, std::move(all));
    partial.partial |= target.partial & unused;
    add(CollectiveKind::Slice, std::move(partial));
    sliceAway(unused & target.getSplitAtoms());
    if (acrossHosts)
      for (AtomSet rest = unused & space.getAtoms(); rest; rest &= rest - 1)
        sliceAway(rest & -rest);
  }

  /// Unused atoms that the target splits over may join any dimension, for a
  /// later step to bring them where they belong: it has less to move.
  void sliceAway(AtomSet unused) {
    if (!unused)
      return;
    for (size_t d : places)
      add(CollectiveKind::Slice, append(from, d, unused));
  }

  /// Moves that begin by taking minor atoms off: they are dropped (all_gather)
  /// or all go where the target has them (all_to_all).
  void addTails() {
    size_t combinations = 1;
    for (size_t d = 0; d < from.dims.size(); ++d)
      combinations *= from.dims[d].size() - settled[d] + 1;
    constexpr size_t manyCombinations = 64;
    if (combinations <= manyCombinations) {
      AtomSharding cut = from;
      cutTails(0, cut);
      return;
    }
    AtomSharding cut = from;
    for (size_t d = 0; d < from.dims.size(); ++d) {
      AtomSharding single = from;
      cut.dims[d].resize(settled[d]);
      while (single.dims[d].size() > settled[d]) {
        single.dims[d].pop_back();
        addTail(single);
      }
    }
    addTail(cut);
  }

  void cutTails(size_t d, AtomSharding &cut) {
    if (d == from.dims.size()) {
      addTail(cut);
      return;
    }
    cut.dims[d] = from.dims[d];
    cutTails(d + 1, cut);
    while (cut.dims[d].size() > settled[d]) {
      cut.dims[d].pop_back();
      cutTails(d + 1, cut);
    }
    cut.dims[d] = from.dims[d];
  }

  void addTail(const AtomSharding &cut) {
    const AtomSet taken = from.getSplitAtoms() & ~cut.getSplitAtoms();
    if (!taken)
      return;
    add(CollectiveKind::AllGather, cut);
    AtomSharding moved = cut;
    for (size_t d = 0; d < moved.dims.size(); ++d)
      for (uint8_t atom : target.dims[d])
        if (contains(taken, atom))
          moved.dims[d].push_back(atom);
    const AtomSet left = from.getSplitAtoms() & ~moved.getSplitAtoms();
    if (!left)
      add(CollectiveKind::AllToAll, std::move(moved));
    else if (acrossHosts || leavesDevicesOut())
      for (size_t d : places)
        add(CollectiveKind::AllToAll, append(moved, d, left));
  }

  /// Whether some devices have nothing: to split it over all of them first,
  /// whatever the target, leaves less for each of the others to send.
  bool leavesDevicesOut() const {
    for (size_t d = 0; d < from.dims.size(); ++d) {
      AtomSet atoms = 0;
      for (uint8_t atom : from.dims[d])
        atoms |= getAtomSet(atom);
      if (atoms && (space.getGroupSize(atoms) - 1) *
                           space.getLocalSize(d, from.dims[d]) >=
                       space.getSize(d))
        return true;
    }
    return false;
  }

  /// To the dimensions of the target or their major atoms, or to lists in which
  /// the target's atoms come first so that the others can be taken off.
  void addPermutes() {
    AtomSharding sorted = from, arrived = from;
    for (size_t d = 0; d < from.dims.size(); ++d) {
      arrived.dims[d] = target.dims[d];
      if (arrived.dims[d].size() > from.dims[d].size())
        arrived.dims[d].resize(from.dims[d].size());
    }
    if (!(arrived.getSplitAtoms() & from.partial))
      add(CollectiveKind::Permute, arrived);
    arrived.dims = target.dims;
    if (!(arrived.getSplitAtoms() & from.partial))
      add(CollectiveKind::Permute, std::move(arrived));
    for (size_t d = 0; d < from.dims.size(); ++d) {
      const AtomList &list = from.dims[d], &goal = target.dims[d];
      auto isIn = [](const AtomList &other) {
        return [&](uint8_t atom) {
          return std::find(other.begin(), other.end(), atom) != other.end();
        };
      };
      sorted.dims[d].clear();
      auto out = std::back_inserter(sorted.dims[d]);
      std::copy_if(goal.begin(), goal.end(), out, isIn(list));
      std::remove_copy_if(list.begin(), list.end(), out, isIn(goal));
    }
    add(CollectiveKind::Permute, std::move(sorted));
  }

  const AtomSpace &space;
  const AtomSharding &from;
  const AtomSharding &target;
  const bool acrossHosts;
  std::vector<size_t> settled; ///< per dim: atoms that stand as in the target
  std::vector<size_t> places;  ///< dims that atoms may go to for a while
  std::vector<ReshardMove> moves;
};

} // namespace

std::vector<ReshardMove> layout::getMoves(const AtomSpace &space,
                                          const AtomSharding &from,
                                          bool acrossHosts) {
  return MoveFinder(space, from, acrossHosts).find();
}
