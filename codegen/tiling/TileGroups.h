#ifndef MESHC_CODEGEN_TILING_TILEGROUPS_H
#define MESHC_CODEGEN_TILING_TILEGROUPS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include "llvm/ADT/SetVector.h"

#include <vector>

namespace meshc::codegen {

/// In the place of a loop, where an operation reads a dimension anywhere.
inline constexpr unsigned wholeDim = ~0u;

/// A dimension that all operations of a group share, cut into tiles.
struct TiledDim {
  /// Its loop in each operation of the group that has it. Others are the same
  /// for all tiles.
  llvm::DenseMap<mlir::Operation *, unsigned> loopOf;
  int64_t size = 0;
  int64_t tiles = 1;
};

/// Operations that pass large values among themselves and nothing large to
/// others: attention's scores, their softmax and what it weighs; or logits and
/// their loss.
///
/// ```
/// scores[b, h, q, k] = sum(d) query[b, h, q, d] * key[b, h, k, d]
/// weights            = softmax(scores, over = k)
/// read[b, h, q, d]   = sum(k) weights[b, h, q, k] * value[b, h, k, d]
/// ```
///
/// Every one of these has b, h and q, so the group is computed for some
/// positions of them at a time. Queries are cut into tiles along all three,
/// keys along b and h alone, and no more of `scores` and `weights` is ever in
/// memory than a tile. What sums over a tiled dimension, as the gradients of
/// key and value do over q, is added up from tile to tile.
///
/// The backward phase needs `weights` again, behind values that come from
/// `read`. So it is a group of its own, which computes them again from query,
/// key and the softmax's maxima and sums, which are small and kept.
struct TileGroup {
  /// In program order: what belongs to the group, and what it computes again,
  /// which stays where it is as well.
  std::vector<mlir::Operation *> ops;
  llvm::DenseSet<mlir::Operation *> members; ///< of `ops`
  llvm::DenseSet<mlir::Operation *> again;
  /// Results that others read, each of one of `ops`.
  llvm::SmallVector<mlir::Value> outputs;
  /// Outermost first.
  llvm::SmallVector<TiledDim> dims;

  bool contains(mlir::Operation *op) const { return members.contains(op); }
  /// Sizes of the loops of `op` within the outermost `depth` of `dims`.
  llvm::SmallVector<int64_t> getTileLoops(mlir::Operation *op,
                                          size_t depth) const;
  /// The order in which the dimensions of a tensor, which have these loops of
  /// `op`, or wholeDim, have to be stored for its tiles to lie one behind the
  /// other: the tiled ones first, unless they do as it is.
  llvm::SmallVector<unsigned>
  getTiledOrder(mlir::Operation *op, llvm::ArrayRef<unsigned> loops) const;
};

/// A contraction whose result is not computed in tiles though it is large
/// enough, and why.
struct UntiledOp {
  mlir::Operation *op;
  nd::RemarkKind reason;
};

/// The groups of `block` whose largest value has 16 tiles of `tileBytes` or
/// more, and whose dimensions can be tiled. A group is around a contraction
/// whose result has at least four times the bytes of its factors: of less, what
/// is computed again would cost more than memory for it saves. `untiled` gets
/// those that could not be, but for what is an output.
std::vector<TileGroup> findTileGroups(mlir::Block &block, int64_t tileBytes,
                                      std::vector<UntiledOp> &untiled);

/// What `op` reads, be it in its body.
llvm::SetVector<mlir::Value> getInputs(mlir::Operation *op);

} // namespace meshc::codegen

#endif
