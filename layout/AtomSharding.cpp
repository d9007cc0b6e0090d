#include "layout/AtomSharding.h"

#include "layout/AxisParts.h"
#include "layout/StepTraffic.h"

#include <algorithm>
#include <cstdlib>

using namespace meshc;
using namespace meshc::layout;

static AtomSet getAtomSet(std::span<const uint8_t> list) {
  AtomSet set = 0;
  for (uint8_t atom : list)
    set |= layout::getAtomSet(atom);
  return set;
}

/// Length of the longest list that both begin with.
static size_t getCommonPrefix(std::span<const uint8_t> a,
                              std::span<const uint8_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
         a.begin();
}

AtomSet AtomSharding::getSplitAtoms() const {
  AtomSet set = 0;
  for (const std::vector<uint8_t> &list : dims)
    set |= ::getAtomSet(list);
  return set;
}

AtomSpace::AtomSpace(const Mesh &mesh, std::span<const int64_t> sizes,
                     const Sharding &source, const Sharding &target,
                     bool allAxes)
    : sizes(sizes.begin(), sizes.end()),
      partialKind(source.isPartial() ? source.partialKind
                                     : target.partialKind) {
  for (const MeshAxis &axis : mesh.getAxes())
    axisSizes.push_back(axis.size);
  addAtoms(mesh, source, target, allAxes);
  this->source = getAtoms(source);
  this->target = getAtoms(target);
}

void AtomSpace::addAtoms(const Mesh &mesh, const Sharding &source,
                         const Sharding &target, bool allAxes) {
  std::vector<AxisRef> used;
  for (const Sharding *sharding : {&source, &target}) {
    for (const DimSplit &split : sharding->dims)
      used.insert(used.end(), split.begin(), split.end());
    used.insert(used.end(), sharding->partialAxes.begin(),
                sharding->partialAxes.end());
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (int32_t axis = 0; axis < mesh.getNumAxes(); ++axis) {
    auto isHere = [&](AxisRef part) {
      return part.axis == axis && part.size > 1;
    };
    if (std::none_of(used.begin(), used.end(), isHere)) {
      if (allAxes && mesh.getAxisSize(axis) > 1)
        atoms.push_back(mesh.getWholeAxis(axis));
      continue;
    }
    if (auto cut = cutAxis(axis, mesh.getAxisSize(axis), used)) {
      atoms.insert(atoms.end(), cut->begin(), cut->end());
      continue;
    }
    for (AxisRef part : used)
      if (isHere(part)) {
        foreign |= layout::getAtomSet(uint8_t(atoms.size()));
        atoms.push_back(part);
      }
  }
}

AtomSharding AtomSpace::getAtoms(const Sharding &sharding) const {
  auto append = [&](AxisRef part, AtomList &list) {
    if (part.size == 1)
      return;
    for (size_t atom = 0; atom < atoms.size(); ++atom) {
      bool isForeign = foreign >> atom & 1;
      if (isForeign ? atoms[atom] == part
                    : !getAtomsOf(part, std::span(&atoms[atom], 1)).empty())
        list.push_back(uint8_t(atom));
    }
  };
  AtomSharding result;
  for (const DimSplit &split : sharding.dims) {
    AtomList &list = result.dims.emplace_back();
    for (AxisRef part : split)
      append(part, list);
  }
  AtomList partial;
  for (AxisRef part : sharding.partialAxes)
    append(part, partial);
  result.partial = ::getAtomSet(partial);
  return result;
}

std::vector<AxisRef> AtomSpace::getRefs(std::span<const uint8_t> list) const {
  std::vector<AxisRef> refs;
  for (uint8_t atom : list)
    refs.push_back(atoms[atom]);
  return joinParts(refs);
}

std::vector<AxisRef> AtomSpace::getParts(AtomSet set) const {
  AtomList list;
  for (size_t atom = 0; atom < atoms.size(); ++atom)
    if (set >> atom & 1)
      list.push_back(uint8_t(atom)); // atoms are numbered in sorted order
  return getRefs(list);
}

/// Whether the coordinates on two parts of one axis are independent.
static bool areDigits(AxisRef a, AxisRef b) {
  return b.pre % (a.pre * a.size) == 0 || a.pre % (b.pre * b.size) == 0;
}

std::vector<AxisRef> AtomSpace::getGroupAxes(AtomSet set) const {
  std::vector<AxisRef> axes = getParts(set & ~foreign);
  const std::vector<AxisRef> parts = getParts(set & foreign);
  for (AxisRef part : parts) {
    const AxisRef whole{part.axis, 1, axisSizes[part.axis]};
    bool makeProduct = true;
    for (size_t i = 0; i < parts.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        makeProduct &= parts[i].axis != part.axis ||
                       parts[j].axis != part.axis ||
                       areDigits(parts[i], parts[j]);
    const AxisRef axis = makeProduct ? part : whole;
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

Sharding AtomSpace::getSharding(const AtomSharding &sharding) const {
  Sharding result;
  for (const AtomList &list : sharding.dims)
    result.dims.push_back(getRefs(list));
  result.partialAxes = getParts(sharding.partial);
  if (sharding.partial)
    result.partialKind = partialKind;
  return result;
}

int64_t AtomSpace::getLocalSize(size_t dim,
                                std::span<const uint8_t> list) const {
  int64_t size = sizes[dim];
  for (uint8_t atom : list)
    size = ceilDiv(size, atoms[atom].size);
  return size;
}

bool AtomSpace::dividesEvenly(size_t dim, std::span<const uint8_t> list) const {
  return layout::dividesEvenly(sizes[dim], getRefs(list));
}

int64_t AtomSpace::getBlockElements(const AtomSharding &sharding) const {
  int64_t elements = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    elements *= getLocalSize(d, sharding.dims[d]);
  return elements;
}

int64_t AtomSpace::getGroupSize(AtomSet set) const {
  int64_t size = 1;
  for (size_t atom = 0; atom < atoms.size(); ++atom)
    if (set >> atom & 1)
      size *= atoms[atom].size;
  return size;
}

bool AtomSpace::nests(size_t dim, std::span<const uint8_t> list,
                      size_t length) const {
  if (length == 0 || length == list.size())
    return true;
  auto continues = [&](size_t i) {
    AxisRef major = atoms[list[i - 1]], minor = atoms[list[i]];
    return major.axis == minor.axis && major.pre * major.size == minor.pre;
  };
  if (!continues(length))
    return true;
  // The cut goes through a run of atoms that counts as one axis. Its blocks
  // are laid out from its own start, so they nest only if the block of the
  // first atoms is a whole number of them.
  size_t end = length + 1;
  while (end < list.size() && continues(end))
    ++end;
  int64_t inner = getLocalSize(dim, list.first(end));
  int64_t outer = getLocalSize(dim, list.first(length));
  int64_t ways = 1;
  for (size_t i = length; i < end; ++i)
    ways *= atoms[list[i]].size;
  return inner * ways == outer;
}

bool AtomSpace::isNestedPrefix(size_t dim, const std::vector<uint8_t> &prefix,
                               const std::vector<uint8_t> &list) const {
  return prefix.size() <= list.size() &&
         getCommonPrefix(prefix, list) == prefix.size() &&
         nests(dim, list, prefix.size());
}

/// Whether the blocks of two lists are the same ranges of the dimension, on
/// whatever devices.
bool AtomSpace::haveSameBlocks(size_t dim, const AtomList &a,
                               const AtomList &b) const {
  std::vector<AxisRef> first = getRefs(a), second = getRefs(b);
  auto sameSize = [](AxisRef x, AxisRef y) { return x.size == y.size; };
  if (std::equal(first.begin(), first.end(), second.begin(), second.end(),
                 sameSize))
    return true;
  return getGroupSize(::getAtomSet(a)) == getGroupSize(::getAtomSet(b)) &&
         layout::dividesEvenly(sizes[dim], first);
}

bool AtomSpace::fits(CollectiveKind kind, const AtomSharding &from,
                     const AtomSharding &to) const {
  if (kind == CollectiveKind::Exchange)
    return true;
  bool grows = true, shrinks = true, monotone = true, sameBlocks = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    bool dimGrows = isNestedPrefix(d, from.dims[d], to.dims[d]);
    bool dimShrinks = isNestedPrefix(d, to.dims[d], from.dims[d]);
    grows &= dimGrows;
    shrinks &= dimShrinks;
    monotone &= dimGrows || dimShrinks;
    if (kind == CollectiveKind::Permute)
      sameBlocks &= haveSameBlocks(d, from.dims[d], to.dims[d]);
  }
  const AtomSet before = from.getSplitAtoms(), after = to.getSplitAtoms();
  const AtomSet completed = from.partial & ~to.partial;
  const AtomSet pending = to.partial & ~from.partial;
  const bool sameDims = from.dims == to.dims;
  switch (kind) {
  case CollectiveKind::AllReduce:
    return sameDims && completed && !pending;
  case CollectiveKind::ReduceScatter:
    return grows && !sameDims && !pending && !((after & ~before) & ~completed);
  case CollectiveKind::AllGather:
    return shrinks && !sameDims && !pending && !completed;
  case CollectiveKind::AllToAll:
    return monotone && !sameDims && !pending && !completed && before == after;
  case CollectiveKind::Permute:
    return sameBlocks && !sameDims && !pending && !completed &&
           !(after & ~before & foreign && to.partial & foreign);
  case CollectiveKind::Slice:
    return grows && !completed && sameDims == bool(pending) &&
           !(((after & ~before) | pending) & (from.getUsedAtoms() | foreign));
  case CollectiveKind::Exchange:
    break;
  }
  std::abort();
}

AtomSet AtomSpace::getCommunicating(CollectiveKind kind,
                                    const AtomSharding &from,
                                    const AtomSharding &to) const {
  const AtomSet partial = from.partial ^ to.partial;
  const AtomSet before = from.getSplitAtoms(), after = to.getSplitAtoms();
  switch (kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::ReduceScatter:
    return partial;
  case CollectiveKind::AllGather:
    return before & ~after;
  case CollectiveKind::Slice:
    return (after & ~before) | partial;
  case CollectiveKind::AllToAll:
  case CollectiveKind::Permute:
  case CollectiveKind::Exchange:
    break;
  }
  // Devices that differ on the major atoms that both have keep to themselves,
  // as long as all other blocks lie within the blocks of these.
  AtomSet moving = partial;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const AtomList &a = from.dims[d], &b = to.dims[d];
    size_t kept = getCommonPrefix(a, b);
    while (!nests(d, a, kept) || !nests(d, b, kept))
      --kept;
    moving |= ::getAtomSet(std::span(a).subspan(kept)) |
              ::getAtomSet(std::span(b).subspan(kept));
  }
  // In an exchange everybody takes from the replica it belongs to.
  return kind == CollectiveKind::Exchange ? moving & from.getUsedAtoms()
                                          : moving;
}

/// Whether every block of the dimension has as many positions as it has memory
/// for, or none.
bool AtomSpace::fillsBlocks(size_t dim, std::span<const uint8_t> list) const {
  int64_t size = sizes[dim];
  for (AxisRef part : getRefs(list)) {
    const int64_t block = ceilDiv(size, part.size);
    if (size % block != 0)
      return false;
    size = block;
  }
  return true;
}

/// Blocks of the finer sharding lie in those of the coarser. They are
/// contiguous there if the dimensions before the last that is cut, or not
/// filled, have one position each; and one behind the other if those that are
/// cut divide and those further in are filled.
bool AtomSpace::haveContiguousBlocks(CollectiveKind kind,
                                     const AtomSharding &from,
                                     const AtomSharding &to) const {
  if (kind != CollectiveKind::AllReduce &&
      kind != CollectiveKind::ReduceScatter &&
      kind != CollectiveKind::AllGather)
    return true;
  const AtomSharding &fine = kind == CollectiveKind::AllGather ? from : to;
  bool isCut = false, isFilled = true; // the dimensions further in
  for (size_t d = sizes.size(); d-- > 0;) {
    const AtomList &list = fine.dims[d];
    const int64_t size = getLocalSize(d, list);
    if ((isCut || !isFilled) && size != 1)
      return false;
    if (from.dims[d] != to.dims[d]) {
      if (!isFilled || size * getGroupSize(::getAtomSet(list)) != sizes[d])
        return false;
      isCut = true;
    }
    isFilled &= fillsBlocks(d, list);
  }
  return true;
}

/// A sum that stays where it is takes what the library's ring does.
static void setTraffic(StepFigures &figures, StepTraffic traffic) {
  figures.exchangedElements = traffic.boxes;
  figures.wireElements = traffic.boxes;
  if (figures.kind == CollectiveKind::AllReduce)
    figures.wireElements = std::min(
        traffic.boxes,
        getWireBytes(figures.kind, figures.payloadElements, figures.groupSize));
  else if (figures.kind == CollectiveKind::ReduceScatter)
    figures.wireElements = traffic.shares;
}

StepFigures AtomSpace::estimateFigures(const Mesh &mesh, CollectiveKind kind,
                                       const AtomSharding &from,
                                       const AtomSharding &to) const {
  StepFigures figures{kind};
  if (kind == CollectiveKind::Slice)
    return figures;
  const AtomSet moving = getCommunicating(kind, from, to);
  figures.group = moving;
  if (moving & foreign)
    for (AxisRef part : getGroupAxes(moving))
      figures.groupSize *= part.size;
  else
    figures.groupSize = getGroupSize(moving);
  figures.payloadElements = getBlockElements(from);
  if (kind == CollectiveKind::ReduceScatter) {
    // Completed atoms that split nothing afterwards replicate.
    figures.gather = moving & ~to.getSplitAtoms();
    figures.gatherSize = getGroupSize(figures.gather);
  }
  setTraffic(figures, estimateTraffic(mesh, *this, from, to));
  figures.hasContiguousBlocks =
      figures.gatherSize == 1 && haveContiguousBlocks(kind, from, to);
  return figures;
}

StepFigures AtomSpace::getFigures(const Mesh &mesh, CollectiveKind kind,
                                  const AtomSharding &from,
                                  const AtomSharding &to) const {
  StepFigures figures = estimateFigures(mesh, kind, from, to);
  if (kind != CollectiveKind::Slice)
    setTraffic(figures, getTraffic(mesh, *this, from, to));
  return figures;
}

ReshardStep AtomSpace::getStep(const Mesh &mesh, CollectiveKind kind,
                               const AtomSharding &from,
                               const AtomSharding &to) const {
  const StepFigures figures = getFigures(mesh, kind, from, to);
  return {kind,
          getSharding(from),
          getSharding(to),
          getGroupAxes(getCommunicating(kind, from, to)),
          figures.groupSize,
          figures.gatherSize,
          figures.payloadElements,
          figures.wireElements,
          figures.hasContiguousBlocks,
          figures.exchangedElements};
}
