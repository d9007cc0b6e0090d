#include "codegen/tiling/TileDims.h"

#include "codegen/ExecTypes.h"
#include "codegen/kernels/StructuredOps.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/IntEqClasses.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Tiles along a dimension that a group sums over: as many terms as one
/// accumulator may add up (runtime/exec/SumBlock.h).
static constexpr int64_t maxSummedTiles = 64;
/// Rows of a tile that a matmul multiplies, at least: oneDNN's kernels compute
/// up to 48 rows at a time (brgemm of f32 on AVX-512), and fewer leave it
/// waiting for the other factor.
static constexpr int64_t minRows = 32;
/// Of the largest value, what is copied to be tiled has less than this part,
/// and what each tile computes anew, such as a mask, this part at most.
static constexpr int64_t maxPartCopied = 4;

SmallVector<unsigned> meshc::codegen::getGatheringLoops(Operation *op,
                                                        Value tensor) {
  const auto rank = size_t(cast<RankedTensorType>(tensor.getType()).getRank());
  SmallVector<std::optional<unsigned>> loops(rank);
  for (auto extract :
       cast<linalg::GenericOp>(op).getBody()->getOps<tensor::ExtractOp>()) {
    if (extract.getTensor() != tensor)
      continue;
    for (auto [loop, index] : llvm::zip_equal(loops, extract.getIndices())) {
      const std::optional<IndexForm> form = getIndexForm(index);
      auto own =
          dyn_cast_if_present<AffineDimExpr>(form ? form->expr : AffineExpr());
      const unsigned found =
          own && !form->isChosen ? own.getPosition() : wholeDim;
      loop = loop.value_or(found) == found ? found : wholeDim;
    }
  }
  return llvm::map_to_vector(loops, [](std::optional<unsigned> loop) {
    return loop.value_or(wholeDim);
  });
}

namespace {
/// Which dimensions of a group are tiled, and how.
class DimChooser {
public:
  DimChooser(TileGroup &group, int64_t tileBytes, int64_t mostTiles)
      : group(group), tileBytes(tileBytes), mostTiles(mostTiles) {}

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
  bool gathersReordered() const;

  TileGroup &group;
  int64_t tileBytes, mostTiles;
  llvm::DenseMap<Operation *, unsigned> firstLoop;
  llvm::IntEqClasses classes;
  /// Of dimensions in which a body reads wherever an index says.
  llvm::DenseSet<unsigned> gatheredClasses;
  Value largest;
  /// Terms that the tiles chosen so far add to one sum.
  int64_t summedTiles = 1;
};
} // namespace

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
    auto join = [&](Value read, size_t dim, unsigned loop) {
      Operation *producer = read.getDefiningOp();
      if (!group.contains(producer))
        return;
      const unsigned made =
          firstLoop.at(producer) + getResultLoops(producer)[dim];
      if (loop == wholeDim)
        gathered.push_back(made);
      else
        classes.join(firstLoop.at(op) + loop, made);
    };
    for (const ReadOperand &read : getReads(op))
      for (auto [dim, loop] : llvm::enumerate(read.loops))
        join(read.tensor, dim, loop);
    for (Value tensor : getGatheredTensors(op))
      for (auto [dim, loop] : llvm::enumerate(getGatheringLoops(op, tensor)))
        join(tensor, dim, loop);
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
    // A mask that all share: each iteration computes it.
    if (!found && !isOutput &&
        cast<linalg::GenericOp>(op).getNumReductionLoops() == 0 &&
        maxPartCopied * getTensorBytes(op->getResult(0)) <=
            getTensorBytes(largest))
      continue;
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
          return group.contains(op->getBlock()->findAncestorOpInBlock(*user));
        }))
      return std::nullopt;
    // Kernels would add the terms of a tile to the sum one by one, without
    // blocks of their own.
    if (addsFloats(op) && !isLibraryMatmul(op))
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
      std::min({size, candidate.isSummed ? maxSummedTiles / summedTiles : size,
                countRows(candidate.dim) / minRows, 2 * wanted});
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
  tileBytes = std::max(tileBytes, whole / mostTiles);
  int64_t bytes = whole;
  while (bytes > tileBytes) {
    // What needs the least copies, and of such the outermost in memory.
    std::optional<size_t> best;
    int64_t least = whole / maxPartCopied;
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
    if (candidates[*best].isSummed)
      summedTiles *= dim.tiles;
    candidates.erase(candidates.begin() + int64_t(*best));
    bytes /= dim.tiles;
    group.dims.push_back(std::move(dim));
    // Tiles along another dimension would not lie together in memory.
    if (group.dims.back().tiles < group.dims.back().size)
      break;
  }
  return bytes <= whole / minCut && !gathersReordered();
}

/// Whether a body gathers from a result of the group that is stored in another
/// order for the loops: it says in which one it reads.
bool DimChooser::gathersReordered() const {
  return llvm::any_of(group.ops, [&](Operation *op) {
    return llvm::any_of(getGatheredTensors(op), [&](Value tensor) {
      Operation *producer = tensor.getDefiningOp();
      return group.contains(producer) &&
             !llvm::is_sorted(
                 group.getTiledOrder(producer, getResultLoops(producer)));
    });
  });
}

bool meshc::codegen::chooseTiles(TileGroup &group, int64_t tileBytes,
                                 int64_t mostTiles) {
  return DimChooser(group, tileBytes, mostTiles).choose();
}
