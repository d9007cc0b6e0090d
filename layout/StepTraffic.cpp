#include "layout/StepTraffic.h"

#include "layout/AxisParts.h"
#include "layout/Transfers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <ranges>
#include <utility>

using namespace meshc;
using namespace meshc::layout;

namespace {

/// Who talks: a device takes from those that differ from it on what the source
/// splits or adds up.
struct Groups {
  AtomSet scope;   ///< the atoms on which they differ
  AtomSet pending; ///< only devices at 0 of these take what is sent
  int64_t terms;   ///< of what is sent
  int64_t takers;  ///< of each position, in one scope

  Groups(const AtomSpace &space, const AtomSharding &from,
         const AtomSharding &to) {
    const AtomSet reduced = from.partial & ~to.partial;
    pending = to.partial & ~from.partial;
    scope = from.getSplitAtoms() | reduced;
    terms = space.getGroupSize(reduced);
    takers = space.getGroupSize(scope & ~to.getSplitAtoms() & ~pending);
  }
};

/// Elements of one device's block.
struct Counts {
  int64_t sent = 1; ///< that somebody of its scope needs, itself or another
  int64_t held = 1; ///< of the target
  int64_t kept = 1; ///< that it has already, or a term of them
};

} // namespace

/// The traffic of a device; that of the device with most if all have the same,
/// or other devices other counts.
static StepTraffic getTraffic(const Groups &groups, Counts counts) {
  const auto [sent, held, kept] = counts;
  StepTraffic traffic;
  traffic.boxes = std::max(groups.takers * sent, groups.terms * held) - kept;
  traffic.shares = traffic.boxes;
  if (groups.takers == 1 || groups.terms == 1)
    return traffic;
  const int64_t share = ceilDiv(held, groups.takers);
  const int64_t terms =
      std::max(sent - kept / groups.takers,
               ceilDiv(groups.terms * held - kept, groups.takers));
  traffic.shares = std::min(traffic.boxes, terms + (groups.takers - 1) * share);
  return traffic;
}

static bool isAmong(AtomSet atoms, std::span<const uint8_t> list) {
  return std::all_of(list.begin(), list.end(), [&](uint8_t atom) {
    return (atoms & getAtomSet(atom)) != 0;
  });
}

/// The counts of the first device; what it keeps is that of one that keeps
/// least where blocks are not nested. `isExact`: no device has more traffic.
static Counts getFirstCounts(const AtomSpace &space, const Groups &groups,
                             const AtomSharding &from, const AtomSharding &to,
                             bool &isExact) {
  Counts counts;
  bool areFull = true, allGrow = true, allShrink = true;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const auto &had = from.dims[d], &wanted = to.dims[d];
    const int64_t own = space.getLocalSize(d, had);
    const int64_t held = space.getLocalSize(d, wanted);
    counts.held *= held;
    areFull &= space.dividesEvenly(d, had) && space.dividesEvenly(d, wanted);
    const bool grows = space.isNestedPrefix(d, had, wanted);
    const bool shrinks = space.isNestedPrefix(d, wanted, had);
    allGrow &= grows;
    allShrink &= shrinks;
    if (isAmong(groups.scope, wanted)) {
      counts.sent *= own; // all that there is has a taker
    } else {
      AtomSet here = 0; // those that take parts of one block
      for (uint8_t atom : std::span(wanted).subspan(grows ? had.size() : 0))
        here |= getAtomSet(atom) & groups.scope;
      counts.sent *= std::min(own, held * space.getGroupSize(here));
      areFull &= grows;
    }
    if (grows)
      counts.kept *= held;
    else
      counts.kept *= shrinks ? own : 0;
  }
  // The first block is full, and the first device has its part of it.
  areFull |= (allGrow || allShrink) && !groups.pending;
  const AtomSet used = from.getUsedAtoms() | to.getUsedAtoms();
  isExact = areFull && !(used & space.getForeignAtoms());
  return counts;
}

static int64_t countCommon(Range a, Range b) {
  return std::max<int64_t>(std::min(a.offset + a.count, b.offset + b.count) -
                               std::max(a.offset, b.offset),
                           0);
}

namespace {

/// The devices that differ on atoms which are independent of one another. What
/// they have along a dimension depends on its own atoms alone, and is found
/// once for each position of these.
class DeviceCounter {
public:
  DeviceCounter(const Mesh &mesh, const AtomSpace &space, const Groups &groups,
                const AtomSharding &from, const AtomSharding &to)
      : mesh(mesh), space(space), groups(groups), from(from), to(to),
        coordinates(size_t(mesh.getNumAxes())) {
    for (size_t d = 0; d < from.dims.size(); ++d)
      if (from.dims[d].empty() && to.dims[d].empty())
        whole *= space.getSize(d);
      else
        addDim(d);
  }

  StepTraffic count() {
    visit(from.getUsedAtoms() | to.getUsedAtoms(), [&] {
      const StepTraffic traffic = ::getTraffic(groups, getCounts());
      most.boxes = std::max(most.boxes, traffic.boxes);
      most.shares = std::max(most.shares, traffic.shares);
    });
    return most;
  }

private:
  /// A dimension that is split, before or afterwards.
  struct Dim {
    AtomSet atoms;
    std::vector<Counts> counts; ///< by the position of `atoms`
  };

  /// Calls `action` with every position of `atoms`, the first being major.
  template <class Action> void visit(AtomSet atoms, const Action &action) {
    if (!atoms)
      return action();
    const auto atom = size_t(std::countr_zero(atoms));
    const AxisRef part = space.getAtom(uint8_t(atom));
    int64_t &coordinate = coordinates[size_t(part.axis)];
    const int64_t stride = mesh.getAxisSize(part.axis) / (part.pre * part.size);
    const int64_t first = coordinate - digits[atom] * stride;
    const int64_t before = std::exchange(digits[atom], 0);
    for (; digits[atom] < part.size; ++digits[atom]) {
      coordinate = first + digits[atom] * stride;
      visit(atoms & (atoms - 1), action);
    }
    digits[atom] = before;
    coordinate = first + before * stride;
  }

  void addDim(size_t d) {
    Dim dim{0, {}};
    for (const auto *list : {&from.dims[d], &to.dims[d]})
      for (uint8_t atom : *list)
        dim.atoms |= getAtomSet(atom);
    const DimSplit had = space.getRefs(from.dims[d]);
    const DimSplit wanted = space.getRefs(to.dims[d]);
    visit(dim.atoms, [&] {
      const int64_t size = space.getSize(d);
      const Range own = getOwnedRange(mesh, size, had, coordinates);
      const Range held = getOwnedRange(mesh, size, wanted, coordinates);
      dim.counts.push_back(
          {countWanted(d, own, wanted), held.count, countCommon(own, held)});
    });
    dims.push_back(std::move(dim));
  }

  /// Of the device at `coordinates`.
  Counts getCounts() {
    Counts counts{whole, whole, whole};
    for (const Dim &dim : dims) {
      size_t position = 0;
      for (AtomSet rest = dim.atoms; rest; rest &= rest - 1) {
        const auto atom = size_t(std::countr_zero(rest));
        position = position * size_t(space.getAtom(uint8_t(atom)).size) +
                   size_t(digits[atom]);
      }
      const Counts &ofDim = dim.counts[position];
      counts.held *= ofDim.held;
      counts.kept *= ofDim.kept;
      counts.sent *= ofDim.sent;
    }
    for (AtomSet rest = groups.pending; rest; rest &= rest - 1)
      if (digits[size_t(std::countr_zero(rest))] != 0)
        counts.held = counts.kept = 0;
    // Of others' pending atoms those of its scope are at 0 for somebody.
    for (AtomSet rest = groups.pending & ~groups.scope; rest; rest &= rest - 1)
      if (digits[size_t(std::countr_zero(rest))] != 0)
        counts.sent = 0;
    return counts;
  }

  /// Positions of `own` that the devices of one scope hold of dimension `d`.
  int64_t countWanted(size_t d, Range own, const DimSplit &split) {
    AtomSet here = 0;
    for (uint8_t atom : to.dims[d])
      here |= getAtomSet(atom);
    if (!(here & ~groups.scope))
      return own.count;
    int64_t wanted = 0;
    visit(here & groups.scope, [&] {
      wanted += countCommon(
          own, getOwnedRange(mesh, space.getSize(d), split, coordinates));
    });
    return wanted;
  }

  const Mesh &mesh;
  const AtomSpace &space;
  const Groups &groups;
  const AtomSharding &from, &to;
  std::vector<int64_t> coordinates; ///< of a device
  std::array<int64_t, 64> digits{}; ///< by atom, its position there
  std::vector<Dim> dims;
  int64_t whole = 1; ///< positions of the other dimensions, which all have
  StepTraffic most;
};

} // namespace

/// Where positions on parts of an axis depend on one another.
static StepTraffic countBoxes(const Mesh &mesh, const AtomSpace &space,
                              const AtomSharding &from,
                              const AtomSharding &to) {
  std::vector<int64_t> sent(size_t(mesh.getNumDevices()));
  std::vector<int64_t> taken = sent;
  for (const Transfer &transfer :
       getTransfers(mesh, space.getSizes(), space.getSharding(from),
                    space.getSharding(to))) {
    int64_t elements = 1;
    for (int64_t size : transfer.shape)
      elements *= size;
    for (const TransferEnd &source : transfer.sources)
      for (const TransferEnd &target : transfer.targets)
        if (source.device != target.device) {
          sent[size_t(source.device)] += elements;
          taken[size_t(target.device)] += elements;
        }
  }
  const int64_t most = std::max(*std::ranges::max_element(sent),
                                *std::ranges::max_element(taken));
  return {most, most};
}

StepTraffic layout::estimateTraffic(const Mesh &mesh, const AtomSpace &space,
                                    const AtomSharding &from,
                                    const AtomSharding &to) {
  constexpr int64_t fewDevices = 64;
  bool isExact;
  const Groups groups(space, from, to);
  const Counts first = getFirstCounts(space, groups, from, to, isExact);
  const AtomSet used = from.getUsedAtoms() | to.getUsedAtoms();
  if (isExact || (used & space.getForeignAtoms()) ||
      space.getGroupSize(used) > fewDevices)
    return ::getTraffic(groups, first);
  return DeviceCounter(mesh, space, groups, from, to).count();
}

StepTraffic layout::getTraffic(const Mesh &mesh, const AtomSpace &space,
                               const AtomSharding &from,
                               const AtomSharding &to) {
  bool isExact;
  const Groups groups(space, from, to);
  const Counts first = getFirstCounts(space, groups, from, to, isExact);
  if (isExact)
    return ::getTraffic(groups, first);
  if ((from.getUsedAtoms() | to.getUsedAtoms()) & space.getForeignAtoms())
    return countBoxes(mesh, space, from, to);
  return DeviceCounter(mesh, space, groups, from, to).count();
}
