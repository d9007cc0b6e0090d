#include "codegen/tiling/TileGroups.h"

#include "codegen/ExecTypes.h"
#include "codegen/kernels/StructuredOps.h"
#include "codegen/tiling/TileDims.h"
#include "dialect/SPMD.h"
#include "runtime/exec/Loops.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

#include "llvm/ADT/IntEqClasses.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// The part of a group's products that may be products that it computes again:
/// one of four in attention's gradient.
static constexpr int64_t maxPartAgain = 4;
/// Operations of all tiles of a program together. Each may be a command, and
/// the other half is for what is in no tiles.
static constexpr int64_t maxTileCommands = runtime::maxLoopCommands / 2;

static int64_t getElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static bool isSplatOrEmpty(Operation *op) {
  return isa_and_present<arith::ConstantOp, linalg::FillOp, tensor::EmptyOp>(
      op);
}

/// Whether a tile of `op` is the same operation on tiles of its operands.
static bool isTileable(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  // A sum that begins with something begins anew with every tile.
  return generic && generic->getNumResults() == 1 &&
         (!generic.payloadUsesValueFromOperand(generic.getDpsInitOperand(0)) ||
          getSplat(generic.getDpsInits().front())) &&
         llvm::all_of(generic.getIndexingMapsArray(), [](AffineMap map) {
           return map.isProjectedPermutation();
         });
}

static bool isReduction(Operation *op) {
  return cast<linalg::GenericOp>(op).getNumReductionLoops() != 0;
}

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
      isStoredSo &= loop != wholeDim && sizes[loop] == 1;
    sizes[tiled->second] /= dim.tiles;
  }
  if (isStoredSo)
    order.clear();
  for (unsigned dim = 0; dim < loops.size(); ++dim)
    if (!llvm::is_contained(order, dim))
      order.push_back(dim);
  return order;
}

namespace {
/// Finds the groups of one block.
class GroupFinder {
public:
  GroupFinder(Block &block, int64_t tileBytes)
      : block(block), tileBytes(tileBytes) {}

  std::vector<TileGroup> find();
  std::vector<UntiledOp> getUntiled() const;

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
  SmallVector<Operation *> findContractions(Value value) const;
  void formGroups();
  bool addOps(TileGroup &group) const;
  bool isReadOutside(Value value, const TileGroup &group) const;
  bool setOutputs(TileGroup &group) const;
  bool isComplete(const TileGroup &group) const;
  std::vector<bool> cutGroups();
  void note(const TileGroup &group, nd::RemarkKind reason);
  void erase(llvm::function_ref<bool(TileGroup &)> isGone,
             nd::RemarkKind reason);

  Block &block;
  int64_t tileBytes;
  llvm::DenseSet<Value> large;
  /// Of what a group begins with.
  int64_t leastElements = std::numeric_limits<int64_t>::max();
  llvm::DenseMap<Operation *, Place> places;
  /// Bridges that lead to large values of their level.
  llvm::DenseSet<Operation *> bridges;
  std::vector<TileGroup> groups;
  /// Why the groups of contractions that grow large are none.
  llvm::DenseMap<Operation *, nd::RemarkKind> reasons;
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

SetVector<Value> meshc::codegen::getInputs(Operation *op) {
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
  for (Value input : getInputs(op)) {
    Operation *producer = input.getDefiningOp();
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

/// The contractions that `value` is made of, as long as it is large.
SmallVector<Operation *> GroupFinder::findContractions(Value value) const {
  SetVector<Operation *> open;
  SmallVector<Operation *> found;
  auto add = [&](Value input) {
    if (large.contains(input))
      open.insert(input.getDefiningOp());
  };
  add(value);
  for (size_t next = 0; next < open.size(); ++next) {
    if (isContraction(open[next]))
      found.push_back(open[next]);
    llvm::for_each(getInputs(open[next]), add);
  }
  return found;
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
  // A contraction of an earlier level is computed again once in a level.
  llvm::DenseMap<std::pair<Operation *, unsigned>, unsigned> readers;
  llvm::IntEqClasses connected(unsigned(all.size()));
  for (auto [number, op] : llvm::enumerate(all))
    for (Value input : getInputs(op)) {
      const unsigned level = places.at(op).level;
      if (auto from = numbers.find(input.getDefiningOp());
          from != numbers.end() && places.at(from->first).level == level)
        connected.join(unsigned(number), from->second);
      else
        for (Operation *again : findContractions(input))
          connected.join(
              unsigned(number),
              readers.try_emplace({again, level}, number).first->second);
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
    else
      note(group, nd::RemarkKind::ReadWhole);
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

/// Whether what the group computes again takes too long for the memory that it
/// saves.
static bool repeatsMuch(const TileGroup &group) {
  int64_t own = 0, again = 0;
  for (Operation *op : group.ops) {
    if (!isContraction(op))
      continue;
    int64_t products = 1;
    for (int64_t size : getLoopSizes(op))
      products *= size;
    (group.again.contains(op) ? again : own) += products;
  }
  return again * maxPartAgain > own;
}

/// Whether all that reads the large values of `group` belongs to groups, and
/// all that it computes again: what is there as a whole anyway is read there.
bool GroupFinder::isComplete(const TileGroup &group) const {
  auto isOfGroup = [&](Operation *op) {
    return llvm::any_of(groups, [&](const TileGroup &other) {
      return other.contains(op) && !other.again.contains(op);
    });
  };
  return llvm::all_of(group.ops, [&](Operation *op) {
    const Value result = op->getResult(0);
    if (group.again.contains(op))
      return isOfGroup(op) || !isContraction(op);
    return !large.contains(result) ||
           llvm::all_of(result.getUsers(), [&](Operation *user) {
             return isOfGroup(block.findAncestorOpInBlock(*user));
           });
  });
}

/// Notes why a group is none.
void GroupFinder::note(const TileGroup &group, nd::RemarkKind reason) {
  for (Operation *op : group.ops)
    if (!group.again.contains(op))
      reasons.try_emplace(op, reason);
}

/// Erases groups, and notes why.
void GroupFinder::erase(llvm::function_ref<bool(TileGroup &)> isGone,
                        nd::RemarkKind reason) {
  llvm::erase_if(groups, [&](TileGroup &group) {
    if (!isGone(group))
      return false;
    note(group, reason);
    return true;
  });
}

/// Those that grow large and are of no group, in the order of the program.
std::vector<UntiledOp> GroupFinder::getUntiled() const {
  std::vector<UntiledOp> untiled;
  for (Operation &op : block) {
    // What is of a group has no reason.
    const auto known = reasons.find(&op);
    if (known == reasons.end() || !growsLarge(&op) ||
        llvm::any_of(op.getUsers(), llvm::IsaPred<nd::BorderOpInterface>))
      continue;
    untiled.push_back({&op, known->second});
  }
  return untiled;
}

/// Chooses the tiles of each group; whether there are enough for it to be one.
/// They have `tileBytes`, however many groups there are, unless a program would
/// have too many commands: then no group has more tiles than that leaves it.
std::vector<bool> GroupFinder::cutGroups() {
  int64_t ops = 0;
  for (const TileGroup &group : groups)
    ops += int64_t(group.ops.size());
  int64_t most = std::numeric_limits<int64_t>::max();
  for (;;) {
    std::vector<bool> areCut;
    int64_t commands = 0;
    for (TileGroup &group : groups) {
      group.dims.clear();
      areCut.push_back(most >= minCut && chooseTiles(group, tileBytes, most));
      int64_t tiles = areCut.back();
      for (const TiledDim &dim : group.dims)
        tiles *= dim.tiles;
      commands += tiles * int64_t(group.ops.size());
    }
    if (commands <= maxTileCommands)
      return areCut;
    most = std::min(most / 2, maxTileCommands / ops);
  }
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
  erase(repeatsMuch, nd::RemarkKind::ComputedAgain);
  // Outputs are what all other groups read.
  std::vector<bool> hasOutputs;
  for (TileGroup &group : groups)
    hasOutputs.push_back(setOutputs(group));
  size_t next = 0;
  erase([&](TileGroup &) { return !hasOutputs[next++]; },
        nd::RemarkKind::ReadWhole);
  const std::vector<bool> areCut = cutGroups();
  next = 0;
  erase([&](TileGroup &) { return !areCut[next++]; }, nd::RemarkKind::Uncut);
  // What one group leaves to another that there is not has to be there.
  for (size_t before = groups.size() + 1; groups.size() < before;) {
    before = groups.size();
    std::vector<bool> keeps;
    for (const TileGroup &group : groups)
      keeps.push_back(isComplete(group));
    size_t number = 0;
    erase([&](TileGroup &) { return !keeps[number++]; },
          nd::RemarkKind::ReadWhole);
  }
  return groups;
}

std::vector<TileGroup>
meshc::codegen::findTileGroups(Block &block, int64_t tileBytes,
                               std::vector<UntiledOp> &untiled) {
  GroupFinder finder(block, tileBytes);
  std::vector<TileGroup> groups = finder.find();
  untiled = finder.getUntiled();
  return groups;
}
