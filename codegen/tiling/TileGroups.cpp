#include "codegen/tiling/TileGroups.h"

#include "codegen/kernels/StructuredOps.h"
#include "dialect/SPMD.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "mlir/Transforms/RegionUtils.h"

#include "llvm/ADT/IntEqClasses.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

SmallVector<int64_t> TileGroup::getTileLoops(Operation *op,
                                             size_t depth) const {
  SmallVector<int64_t> loops = getLoopSizes(op);
  for (const TiledDim &dim : ArrayRef(dims).take_front(depth))
    if (auto loop = dim.loopOf.find(op); loop != dim.loopOf.end())
      loops[loop->second] /= dim.tiles;
  return loops;
}

SmallVector<unsigned> TileGroup::getTiledOrder(Operation *op,
                                               ArrayRef<unsigned> loops) const {
  SmallVector<unsigned> order;
  SmallVector<int64_t> sizes = getLoopSizes(op);
  bool isStoredSo = true;
  for (const TiledDim &dim : dims) {
    auto tiled = dim.loopOf.find(op);
    if (tiled == dim.loopOf.end())
      continue;
    const auto *found = llvm::find(loops, tiled->second);
    if (found == loops.end())
      continue;
    order.push_back(unsigned(found - loops.begin()));
    for (unsigned loop : ArrayRef(loops.begin(), found))
      isStoredSo &= sizes[loop] == 1;
    sizes[tiled->second] /= dim.tiles;
  }
  if (isStoredSo)
    order.clear();
  for (unsigned dim = 0; dim < loops.size(); ++dim)
    if (!llvm::is_contained(order, dim))
      order.push_back(dim);
  return order;
}

/// How many times the bytes of its factors the result of a contraction has
/// where a group begins. Attention of 64 numbers a head has them from 512
/// positions on; the hidden units of a transformer, three times those of its
/// model and weights, have not.
static constexpr int64_t minGrowth = 4;
/// Tiles of the largest value of a group, at least.
static constexpr int64_t minTiles = 16;
/// Tiles along a dimension that a group sums over: as many terms as one
/// accumulator may add up (runtime/exec/SumBlock.h).
static constexpr int64_t maxSummedTiles = 64;
/// Rows of a tile that a matmul multiplies, at least: oneDNN's kernels compute
/// up to 48 rows at a time (brgemm of f32 on AVX-512), and fewer leave it
/// waiting for the other factor.
static constexpr int64_t minRows = 32;

static int64_t getElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static int64_t getTensorBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

static bool isSplatOrEmpty(Operation *op) {
  return isa_and_present<arith::ConstantOp, linalg::FillOp, tensor::EmptyOp>(
      op);
}

/// Whether a tile of `op` is the same operation on tiles of its operands.
static bool isTileable(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic->getNumResults() == 1 &&
         llvm::all_of(generic.getIndexingMapsArray(), [](AffineMap map) {
           return map.isProjectedPermutation();
         });
}

static bool isReduction(Operation *op) {
  return cast<linalg::GenericOp>(op).getNumReductionLoops() != 0;
}

namespace {
/// Finds the groups of one block.
class GroupFinder {
public:
  GroupFinder(Block &block, int64_t tileBytes)
      : block(block), tileBytes(tileBytes) {}

  std::vector<TileGroup> find();

private:
  /// Where an operation stands: how often a value has left the large ones and
  /// come back on the longest way to it.
  struct Place {
    unsigned level = 0;
    bool isLarge = false;  ///< reads or makes a large value
    bool isBridge = false; ///< small, made of nothing but what the level has
  };

  void findLarge();
  bool growsLarge(Operation *op) const;
  Place getPlace(Operation *op) const;
  void addBridges(Operation *op);
  void formGroups();
  bool addOps(TileGroup &group) const;
  bool isReadOutside(Value value, const TileGroup &group) const;
  bool setOutputs(TileGroup &group) const;
  bool isComplete(const TileGroup &group) const;

  Block &block;
  int64_t tileBytes;
  llvm::DenseSet<Value> large;
  /// Of what a group begins with.
  int64_t leastElements = std::numeric_limits<int64_t>::max();
  llvm::DenseMap<Operation *, Place> places;
  /// Bridges that lead to large values of their level.
  llvm::DenseSet<Operation *> bridges;
  std::vector<TileGroup> groups;
};

/// Which dimensions of a group are tiled, and how.
class DimChooser {
public:
  DimChooser(TileGroup &group, int64_t tileBytes)
      : group(group), tileBytes(tileBytes) {}

  /// Whether its values become small enough.
  bool choose();

private:
  struct Candidate {
    TiledDim dim;
    bool isSummed = false; ///< by an output
  };

  void joinLoops();
  std::optional<Candidate> makeCandidate(unsigned loopClass) const;
  int64_t countCopied(const TiledDim &dim);
  int64_t countRows(const TiledDim &dim) const;
  int64_t findTiles(const Candidate &candidate, int64_t bytes) const;

  TileGroup &group;
  int64_t tileBytes;
  llvm::DenseMap<Operation *, unsigned> firstLoop;
  llvm::IntEqClasses classes;
  /// Of dimensions in which a body reads wherever an index says.
  llvm::DenseSet<unsigned> gatheredClasses;
  Value largest;
};
} // namespace

//===-- Groups ------------------------------------------------------------===//

/// Whether `op` makes a large value of small ones: where a group begins.
bool GroupFinder::growsLarge(Operation *op) const {
  if (!isContraction(op) || !isTileable(op))
    return false;
  const int64_t bytes = getTensorBytes(op->getResult(0));
  int64_t factors = 0;
  for (Value factor : cast<linalg::GenericOp>(op).getDpsInputs())
    factors += getTensorBytes(factor);
  return bytes >= minTiles * tileBytes && bytes >= minGrowth * factors;
}

/// Large values: what contractions make large, what is made of that or goes
/// into it, of as many elements, and what goes into it that is larger than a
/// tile but copies of less, such as a mask.
void GroupFinder::findLarge() {
  SmallVector<Value> open;
  for (Operation &op : block)
    if (growsLarge(&op)) {
      open.push_back(op.getResult(0));
      leastElements = std::min(leastElements, getElements(op.getResult(0)));
    }
  auto isLarge = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isTileable(op))
      return false;
    if (getElements(value) >= leastElements)
      return true;
    int64_t elements = 0;
    for (const ReadOperand &read : getReads(op))
      elements += getElements(read.tensor);
    return !isReduction(op) && getTensorBytes(value) > tileBytes &&
           getElements(value) >= minGrowth * elements;
  };
  while (!open.empty()) {
    const Value value = open.pop_back_val();
    if (!large.insert(value).second)
      continue;
    SmallVector<Operation *> related = {value.getDefiningOp()};
    for (Operation *user : value.getUsers())
      related.push_back(block.findAncestorOpInBlock(*user));
    for (Operation *op : related) {
      if (!isTileable(op))
        continue;
      for (const ReadOperand &read : getReads(op))
        if (isLarge(read.tensor))
          open.push_back(read.tensor);
      if (isLarge(op->getResult(0)))
        open.push_back(op->getResult(0));
    }
  }
}

/// What `op` reads, be it in its body.
static SetVector<Value> getInputs(Operation *op) {
  SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);
  return inputs;
}

GroupFinder::Place GroupFinder::getPlace(Operation *op) const {
  Place place;
  unsigned inside = 0, outside = 0; // levels at which it may stand
  bool readsOthers = false;
  for (Value input : getInputs(op)) {
    Operation *producer = input.getDefiningOp();
    if (isSplatOrEmpty(producer))
      continue;
    place.isLarge |= large.contains(input);
    const Place from = places.lookup(producer);
    const bool isInside = from.isLarge || from.isBridge;
    readsOthers |= !isInside;
    inside = std::max(inside, from.level);
    outside = std::max(outside, from.level + (isInside ? 1 : 0));
  }
  for (Value result : op->getResults())
    place.isLarge |= large.contains(result);
  place.isBridge = !place.isLarge && !readsOthers && outside > 0 &&
                   isTileable(op) && !isReduction(op);
  place.level = place.isLarge || place.isBridge ? inside : outside;
  return place;
}

/// Notes the bridges that lead to `op`.
void GroupFinder::addBridges(Operation *op) {
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    const Place from = places.lookup(producer);
    if (from.isBridge && from.level == places.at(op).level &&
        bridges.insert(producer).second)
      addBridges(producer);
  }
}

/// Adds what the group needs of the levels before; whether all of it can be
/// tiled.
bool GroupFinder::addOps(TileGroup &group) const {
  std::vector<Operation *> open = group.ops;
  while (!open.empty()) {
    Operation *op = open.back();
    open.pop_back();
    if (!isTileable(op))
      return false;
    for (Value input : getInputs(op)) {
      Operation *producer = input.getDefiningOp();
      if (!large.contains(input) || !group.members.insert(producer).second)
        continue;
      group.again.insert(producer);
      group.ops.push_back(producer);
      open.push_back(producer);
    }
  }
  llvm::sort(group.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return true;
}

/// The operations of each level that are connected by what they pass.
void GroupFinder::formGroups() {
  std::vector<Operation *> all;
  llvm::DenseMap<Operation *, unsigned> numbers;
  for (Operation &op : block)
    if (places.lookup(&op).isLarge || bridges.contains(&op)) {
      numbers[&op] = unsigned(all.size());
      all.push_back(&op);
    }
  // What reads the same value of an earlier level computes it again once.
  llvm::DenseMap<std::pair<Value, unsigned>, unsigned> readers;
  llvm::IntEqClasses connected(unsigned(all.size()));
  for (auto [number, op] : llvm::enumerate(all))
    for (Value input : getInputs(op)) {
      const unsigned level = places.at(op).level;
      if (auto from = numbers.find(input.getDefiningOp());
          from != numbers.end() && places.at(from->first).level == level)
        connected.join(unsigned(number), from->second);
      else if (large.contains(input) && getElements(input) >= leastElements)
        connected.join(
            unsigned(number),
            readers.try_emplace({input, level}, number).first->second);
    }
  connected.compress();
  std::vector<TileGroup> found(connected.getNumClasses());
  for (auto [number, op] : llvm::enumerate(all)) {
    TileGroup &group = found[connected[unsigned(number)]];
    group.ops.push_back(op);
    group.members.insert(op);
  }
  for (TileGroup &group : found)
    if (addOps(group))
      groups.push_back(std::move(group));
}

/// Whether something reads a result of `group` that does not belong to it.
/// Groups compute large values of others again, for which they read the small
/// ones.
bool GroupFinder::isReadOutside(Value value, const TileGroup &group) const {
  auto computesAgain = [&](Operation *user) {
    return llvm::any_of(groups, [&](const TileGroup &other) {
      return &other != &group && other.again.contains(user);
    });
  };
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    user = block.findAncestorOpInBlock(*user);
    if (group.contains(user))
      return !large.contains(value) && computesAgain(user);
    return !large.contains(value) || !places.lookup(user).isLarge;
  });
}

/// Notes what others read; whether there is something, and all of it small.
bool GroupFinder::setOutputs(TileGroup &group) const {
  for (Operation *op : group.ops) {
    const Value result = op->getResult(0);
    if (group.again.contains(op) || !isReadOutside(result, group))
      continue;
    if (large.contains(result))
      return false;
    group.outputs.push_back(result);
  }
  return !group.outputs.empty();
}

/// Whether all that reads the large values of `group` belongs to groups.
bool GroupFinder::isComplete(const TileGroup &group) const {
  return llvm::all_of(group.ops, [&](Operation *op) {
    const Value result = op->getResult(0);
    return group.again.contains(op) || !large.contains(result) ||
           llvm::all_of(result.getUsers(), [&](Operation *user) {
             user = block.findAncestorOpInBlock(*user);
             return llvm::any_of(groups, [&](const TileGroup &other) {
               return other.contains(user) && !other.again.contains(user);
             });
           });
  });
}

std::vector<TileGroup> GroupFinder::find() {
  findLarge();
  if (large.empty())
    return {};
  for (Operation &op : block)
    if (!isSplatOrEmpty(&op)) {
      const Place place = getPlace(&op);
      places[&op] = place;
    }
  for (Operation &op : block)
    if (places.lookup(&op).isLarge)
      addBridges(&op);
  formGroups();
  llvm::erase_if(groups, [&](TileGroup &group) {
    return !setOutputs(group) || !DimChooser(group, tileBytes).choose();
  });
  // What one group leaves to another that there is not has to be there.
  for (size_t before = groups.size() + 1; groups.size() < before;) {
    before = groups.size();
    std::vector<bool> keeps;
    for (const TileGroup &group : groups)
      keeps.push_back(isComplete(group));
    size_t number = 0;
    llvm::erase_if(groups, [&](const TileGroup &) { return !keeps[number++]; });
  }
  return std::move(groups);
}

//===-- Dimensions --------------------------------------------------------===//

/// The loops of the operations by what they pass: one class for all that go
/// along the same dimension.
void DimChooser::joinLoops() {
  unsigned loops = 0;
  for (Operation *op : group.ops) {
    firstLoop[op] = loops;
    loops += unsigned(getLoopSizes(op).size());
    if (!largest || getTensorBytes(op->getResult(0)) > getTensorBytes(largest))
      largest = op->getResult(0);
  }
  classes.grow(loops);
  SmallVector<unsigned> gathered;
  for (Operation *op : group.ops) {
    auto join = [&](Value read, size_t dim, std::optional<unsigned> loop) {
      Operation *producer = read.getDefiningOp();
      if (!group.contains(producer))
        return;
      const unsigned made =
          firstLoop.at(producer) + getResultLoops(producer)[dim];
      if (loop)
        classes.join(firstLoop.at(op) + *loop, made);
      else
        gathered.push_back(made);
    };
    for (const ReadOperand &read : getReads(op))
      for (auto [dim, loop] : llvm::enumerate(read.loops))
        join(read.tensor, dim, loop);
    for (auto extract :
         cast<linalg::GenericOp>(op).getBody()->getOps<tensor::ExtractOp>())
      for (auto [dim, index] : llvm::enumerate(extract.getIndices())) {
        auto own = index.getDefiningOp<linalg::IndexOp>();
        join(extract.getTensor(), dim,
             own ? std::optional(unsigned(own.getDim())) : std::nullopt);
      }
  }
  classes.compress();
  for (unsigned loop : gathered)
    gatheredClasses.insert(classes[loop]);
}

/// The dimension of a class of loops; nothing unless every operation has it
/// once, and what one passes to another.
std::optional<DimChooser::Candidate>
DimChooser::makeCandidate(unsigned loopClass) const {
  if (gatheredClasses.contains(loopClass))
    return std::nullopt;
  Candidate candidate;
  for (Operation *op : group.ops) {
    const SmallVector<int64_t> loopSizes = getLoopSizes(op);
    std::optional<unsigned> found;
    for (unsigned loop = 0; loop < loopSizes.size(); ++loop) {
      if (classes[firstLoop.at(op) + loop] != loopClass)
        continue;
      if (found)
        return std::nullopt;
      found = loop;
    }
    const bool isOutput = llvm::is_contained(group.outputs, op->getResult(0));
    if (!found && !isOutput && !isReduction(op))
      continue; // a mask that all share: each iteration computes it
    if (!found)
      return std::nullopt;
    candidate.dim.loopOf[op] = *found;
    candidate.dim.size = loopSizes[*found];
    if (llvm::is_contained(getResultLoops(op), *found))
      continue;
    candidate.isSummed = true;
    auto generic = cast<linalg::GenericOp>(op);
    const Value result = op->getResult(0);
    // Sums of 16 bits would be rounded from tile to tile.
    if (!getCombiner(generic) || !getSplat(generic.getDpsInits().front()) ||
        getElementTypeOrSelf(result).getIntOrFloatBitWidth() < 32 ||
        !isOutput || llvm::any_of(result.getUsers(), [&](Operation *user) {
          return group.contains(user);
        }))
      return std::nullopt;
  }
  return candidate;
}

/// Bytes of what has to be stored in another order to be tiled along `dim` too.
int64_t DimChooser::countCopied(const TiledDim &dim) {
  group.dims.push_back(dim);
  int64_t bytes = 0;
  auto add = [&](Value value, Operation *op, ArrayRef<unsigned> loops) {
    if (!llvm::is_sorted(group.getTiledOrder(op, loops)))
      bytes += getTensorBytes(value);
  };
  for (Operation *op : group.ops)
    for (const ReadOperand &read : getReads(op))
      if (!group.contains(read.tensor.getDefiningOp()) &&
          !getSplat(read.tensor))
        add(read.tensor, op, read.loops);
  for (Value output : group.outputs)
    add(output, output.getDefiningOp(), getResultLoops(output.getDefiningOp()));
  group.dims.pop_back();
  return bytes;
}

/// Rows, or columns, of the contractions that have `dim` in one factor alone:
/// the least of them. Where both have it, one position is as fast as many.
int64_t DimChooser::countRows(const TiledDim &dim) const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (Operation *op : group.ops) {
    auto tiled = dim.loopOf.find(op);
    if (tiled == dim.loopOf.end() || !isContraction(op))
      continue;
    auto maps = cast<linalg::GenericOp>(op).getIndexingMapsArray();
    const SmallVector<int64_t> sizes =
        group.getTileLoops(op, group.dims.size());
    auto isAlone = [&](unsigned loop, unsigned factor) {
      return maps[factor].isFunctionOfDim(loop) &&
             !maps[1 - factor].isFunctionOfDim(loop);
    };
    for (unsigned factor : {0u, 1u}) {
      if (!isAlone(tiled->second, factor))
        continue;
      int64_t rows = 1;
      for (auto [loop, size] : llvm::enumerate(sizes))
        rows *= isAlone(unsigned(loop), factor) ? size : 1;
      least = std::min(least, rows);
    }
  }
  return least;
}

/// Tiles of a dimension for values of `bytes` to become as small as asked, or
/// nearly, as many as divide it; 1 if it has none such.
int64_t DimChooser::findTiles(const Candidate &candidate, int64_t bytes) const {
  const int64_t size = candidate.dim.size;
  const int64_t wanted = llvm::divideCeil(bytes, tileBytes);
  const int64_t most =
      std::min({size, candidate.isSummed ? maxSummedTiles : size,
                countRows(candidate.dim) / minRows});
  int64_t tiles = 1;
  for (int64_t count = 1; count <= most && tiles < wanted; ++count)
    if (size % count == 0)
      tiles = count;
  return tiles;
}

bool DimChooser::choose() {
  joinLoops();
  Operation *maker = largest.getDefiningOp();
  std::vector<Candidate> candidates;
  for (unsigned loop : getResultLoops(maker))
    if (auto found = makeCandidate(classes[firstLoop.at(maker) + loop]))
      candidates.push_back(std::move(*found));
  const int64_t whole = getTensorBytes(largest);
  int64_t bytes = whole;
  while (bytes > tileBytes) {
    // What needs the least copies, and of such the outermost in memory.
    std::optional<size_t> best;
    int64_t least = whole / minGrowth;
    for (auto [number, candidate] : llvm::enumerate(candidates)) {
      candidate.dim.tiles = findTiles(candidate, bytes);
      const int64_t copied = countCopied(candidate.dim);
      if (candidate.dim.tiles > 1 && copied < least) {
        least = copied;
        best = number;
      }
    }
    if (!best)
      break;
    TiledDim dim = std::move(candidates[*best].dim);

    candidates.erase(candidates.begin() + int64_t(*best));
    bytes /= dim.tiles;
    group.dims.push_back(std::move(dim));
    // Tiles along another dimension would not lie together in memory.
    if (group.dims.back().tiles < group.dims.back().size)
      break;
  }
  return bytes <= whole / 4;
}

std::vector<TileGroup> meshc::codegen::findTileGroups(Block &block,
                                                      int64_t tileBytes) {
  return GroupFinder(block, tileBytes).find();
}
