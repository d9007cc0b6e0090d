#ifndef MESHC_CODEGEN_TILING_TILELOOPS_H
#define MESHC_CODEGEN_TILING_TILELOOPS_H

#include "codegen/tiling/TileGroups.h"

namespace meshc::codegen {

/// Values that loops have, or take, with their dimensions in other orders:
/// dimension i of such a one is number order[i] of the value.
using OrderedValues = llvm::DenseMap<
    mlir::Value,
    llvm::SmallVector<std::pair<llvm::SmallVector<unsigned>, mlir::Value>, 1>>;

/// Puts an exec.loop for each tiled dimension, one within the other, behind the
/// last operation of `group`. Returns what stands for its outputs. The
/// operations stay.
///
/// Tiles of what the group reads are slices of the loops, or captured where
/// they lack the dimension. Outputs are stacked along the dimension, or carried
/// from one tile to the next by what sums over it. What is not stored with the
/// tiled dimensions first is copied, but for what an earlier group has left in
/// `ordered`.
llvm::SmallVector<mlir::Value> writeTileLoops(const TileGroup &group,
                                              OrderedValues &ordered);

} // namespace meshc::codegen

#endif
