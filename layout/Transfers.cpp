#include "layout/Transfers.h"

#include "layout/AxisParts.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>
#include <utility>

using namespace meshc;
using namespace meshc::layout;

namespace {

/// A part of an axis as a digit of the device number.
struct Digit {
  int64_t size;
  int64_t stride; ///< device number per step of the digit

  Digit(const Mesh &mesh, AxisRef part) : size(part.size) {
    stride = mesh.getAxisSize(part.axis) / (part.pre * part.size);
    for (int32_t axis = part.axis + 1; axis < mesh.getNumAxes(); ++axis)
      stride *= mesh.getAxisSize(axis);
  }
  int64_t get(int64_t device) const { return device / stride % size; }
};

/// What one block of the source holds of a dimension of a target block.
struct Piece {
  Range range;
  int64_t blockOffset;    ///< where the source block begins in the dimension
  int64_t device;         ///< sum of the source's digits for this dimension
  bool isOutside = false; ///< of the dimension: nobody holds it
  int64_t element = 0;    ///< of the target block, at which it begins
};

/// The source blocks of one dimension as a tree: each digit cuts the block of
/// the one before it.
class BlockTree {
public:
  BlockTree(const Mesh &mesh, int64_t size, const DimSplit &split)
      : size(size) {
    for (AxisRef part : joinParts(split))
      digits.emplace_back(mesh, part);
  }

  int64_t clearDigits(int64_t device) const {
    for (const Digit &digit : digits)
      device -= digit.get(device) * digit.stride;
    return device;
  }

  /// The pieces that together are `wanted`, in ascending order, as far as it
  /// lies in the dimension.
  std::vector<Piece> cut(Range wanted) const {
    std::vector<Piece> pieces;
    descend(0, {0, size}, size, 0, wanted, pieces);
    return pieces;
  }

  /// The parts of `wanted` before and past the dimension.
  std::vector<Piece> cutOutside(Range wanted) const {
    std::vector<Piece> pieces;
    const int64_t end = wanted.offset + wanted.count;
    auto add = [&](int64_t from, int64_t to) {
      if (from < to)
        pieces.push_back({{from, to - from}, from, 0, true});
    };
    add(wanted.offset, std::min<int64_t>(end, 0));
    add(std::max(wanted.offset, size), end);
    return pieces;
  }

private:
  void descend(size_t level, Range owned, int64_t block, int64_t device,
               Range wanted, std::vector<Piece> &pieces) const {
    int64_t end =
        std::min(owned.offset + owned.count, wanted.offset + wanted.count);
    int64_t begin = std::max(owned.offset, wanted.offset);
    if (begin >= end)
      return;
    if (level == digits.size()) {
      pieces.push_back({{begin, end - begin}, owned.offset, device});
      return;
    }
    const Digit &digit = digits[level];
    block = (block + digit.size - 1) / digit.size;
    int64_t first = (begin - owned.offset) / block;
    int64_t last = (end - 1 - owned.offset) / block;
    for (int64_t index = first; index <= last; ++index) {
      int64_t offset = owned.offset + index * block;
      int64_t count = std::min(block, owned.offset + owned.count - offset);
      descend(level + 1, {offset, count}, block, device + index * digit.stride,
              wanted, pieces);
    }
  }

  int64_t size;
  std::vector<Digit> digits;
};

/// What becomes of the partial axes; those that both shardings have stay.
struct PartialChange {
  std::vector<Digit> reduced; ///< of the source only
  std::vector<Digit> added;   ///< of the target only
};

/// `parts` on `axis`, cut into `atoms` if there are any.
std::vector<AxisRef>
getPartsOn(int32_t axis, std::span<const AxisRef> parts,
           const std::optional<std::vector<AxisRef>> &atoms) {
  std::vector<AxisRef> found;
  for (AxisRef part : parts) {
    if (part.axis != axis || part.size == 1)
      continue;
    std::vector<AxisRef> run =
        atoms ? getAtomsOf(part, *atoms) : std::vector<AxisRef>{part};
    found.insert(found.end(), run.begin(), run.end());
  }
  std::sort(found.begin(), found.end());
  return found;
}

PartialChange getPartialChange(const Mesh &mesh, const Sharding &source,
                               const Sharding &target) {
  PartialChange change;
  std::vector<AxisRef> all = source.partialAxes;
  all.insert(all.end(), target.partialAxes.begin(), target.partialAxes.end());
  for (int32_t axis = 0; axis < mesh.getNumAxes(); ++axis) {
    auto atoms = cutAxis(axis, mesh.getAxisSize(axis), all);
    std::vector<AxisRef> from = getPartsOn(axis, source.partialAxes, atoms);
    std::vector<AxisRef> to = getPartsOn(axis, target.partialAxes, atoms);
    // Without a common cut no term has a place in both: all are reduced.
    auto add = [&](std::span<const AxisRef> parts,
                   std::span<const AxisRef> others,
                   std::vector<Digit> &digits) {
      for (AxisRef part : parts)
        if (!std::binary_search(others.begin(), others.end(), part))
          digits.emplace_back(mesh, part);
    };
    add(from, atoms ? to : std::vector<AxisRef>{}, change.reduced);
    add(to, atoms ? from : std::vector<AxisRef>{}, change.added);
  }
  return change;
}

/// Adds a transfer for every box of every target, joining equal boxes.
class TransferList {
public:
  TransferList(const Mesh &mesh, std::span<const int64_t> sizes,
               const Sharding &source, const Sharding &target)
      : mesh(mesh), sizes(sizes), source(source), target(target),
        partial(getPartialChange(mesh, source, target)) {
    for (size_t d = 0; d < sizes.size(); ++d)
      trees.emplace_back(mesh, sizes[d], source.dims[d]);
  }

  std::vector<Transfer> take() && {
    for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
      addTarget(device);
    return std::move(transfers);
  }

private:
  /// Where a box lies in the tensor with its shape (windows may want more or
  /// less from one position on), and the first of those that send it, which
  /// stands for all of them; a fill has its shape alone and no sender.
  using Key = std::pair<std::vector<int64_t>, int64_t>;
  static constexpr int64_t noSender = -1;
  /// What a device holds of each dimension.
  using Block = std::vector<std::vector<HeldRun>>;

  void addTarget(int64_t device) {
    const std::vector<int64_t> coordinates = mesh.getCoordinates(device);
    Block block;
    std::vector<int64_t> shape;
    for (size_t d = 0; d < sizes.size(); ++d) {
      block.push_back(getHeldRuns(mesh, sizes[d], target, d, coordinates));
      shape.push_back(0);
      for (const HeldRun &run : block.back())
        shape.back() += run.range.count;
      if (shape.back() == 0)
        return;
    }
    auto isFirst = [&](const Digit &digit) { return digit.get(device) == 0; };
    if (!std::all_of(partial.added.begin(), partial.added.end(), isFirst)) {
      addFill(device, std::move(shape));
      return;
    }
    int64_t base = device;
    for (const BlockTree &tree : trees)
      base = tree.clearDigits(base);
    std::vector<Piece> box;
    addBoxes(device, base, block, box);
  }

  /// One box for each combination of the pieces of the dimensions.
  void addBoxes(int64_t device, int64_t base, const Block &block,
                std::vector<Piece> &box) {
    size_t d = box.size();
    if (d == sizes.size()) {
      auto isOutside = [](const Piece &piece) { return piece.isOutside; };
      if (std::any_of(box.begin(), box.end(), isOutside))
        addZeros(device, box);
      else
        addBox(device, base, box);
      return;
    }
    auto addAll = [&](const HeldRun &run, std::span<const Piece> pieces) {
      for (const Piece &piece : pieces) {
        box.push_back(piece);
        box.back().element =
            run.element + piece.range.offset - run.range.offset;
        addBoxes(device, base, block, box);
        box.pop_back();
      }
    };
    for (const HeldRun &run : block[d]) {
      addAll(run, trees[d].cut(run.range));
      addAll(run, trees[d].cutOutside(run.range));
    }
  }

  void addBox(int64_t device, int64_t base, std::span<const Piece> box) {
    Key key;
    TransferEnd from{base, {}}, to{device, {}};
    std::vector<int64_t> shape;
    for (size_t d = 0; d < box.size(); ++d) {
      from.device += box[d].device;
      from.offset.push_back(box[d].range.offset - box[d].blockOffset);
      to.offset.push_back(box[d].element);
      shape.push_back(box[d].range.count);
      key.first.push_back(box[d].range.offset);
    }
    key.first.insert(key.first.end(), shape.begin(), shape.end());
    key.second = getFirstTerm(from.device);
    auto [entry, isFirst] =
        indices.try_emplace(std::move(key), transfers.size());
    if (isFirst) {
      Transfer &transfer = transfers.emplace_back();
      transfer.shape = std::move(shape);
      for (int64_t term : getTerms(entry->first.second))
        transfer.sources.push_back({term, from.offset});
      if (transfer.sources.size() > 1)
        transfer.reduce = source.partialKind;
    }
    transfers[entry->second].targets.push_back(std::move(to));
  }

  /// The lowest device with a term of the value that `device` has a term of.
  int64_t getFirstTerm(int64_t device) const {
    for (const Digit &digit : partial.reduced)
      device -= digit.get(device) * digit.stride;
    return device;
  }

  /// The devices with terms of one value, in ascending order.
  std::vector<int64_t> getTerms(int64_t first) const {
    std::vector<int64_t> terms{first};
    for (const Digit &digit : partial.reduced) {
      const size_t count = terms.size();
      for (int64_t index = 1; index < digit.size; ++index)
        for (size_t i = 0; i < count; ++i)
          terms.push_back(terms[i] + index * digit.stride);
    }
    std::sort(terms.begin(), terms.end());
    return terms;
  }

  void addFill(int64_t device, std::vector<int64_t> shape) {
    addIdentity(target.partialKind, std::move(shape),
                {device, std::vector<int64_t>(sizes.size(), 0)});
  }

  /// A box of which no element lies in the tensor.
  void addZeros(int64_t device, std::span<const Piece> box) {
    TransferEnd to{device, {}};
    std::vector<int64_t> shape;
    for (size_t d = 0; d < box.size(); ++d) {
      to.offset.push_back(box[d].element);
      shape.push_back(box[d].range.count);
    }
    addIdentity(ReduceKind::Sum, std::move(shape), std::move(to));
  }

  /// One target has both kinds of fill only if both are of a sum.
  void addIdentity(ReduceKind kind, std::vector<int64_t> shape,
                   TransferEnd to) {
    // Keyed by its shape alone: without a source the place does not matter.
    auto [entry, isFirst] =
        indices.try_emplace(Key{shape, noSender}, transfers.size());
    if (isFirst)
      transfers.push_back({{}, {}, std::move(shape), kind});
    transfers[entry->second].targets.push_back(std::move(to));
  }

  const Mesh &mesh;
  std::span<const int64_t> sizes;
  const Sharding &source;
  const Sharding &target;
  const PartialChange partial;
  std::vector<BlockTree> trees;
  std::vector<Transfer> transfers;
  std::map<Key, size_t> indices; ///< into transfers
};

} // namespace

std::vector<Transfer> layout::getTransfers(const Mesh &mesh,
                                           std::span<const int64_t> sizes,
                                           const Sharding &source,
                                           const Sharding &target) {
  assert(!source.hasWindow() && "no device owns a part of a window");
  return TransferList(mesh, sizes, source, target).take();
}
