#ifndef MESHC_CODEGEN_TILING_TILEDIMS_H
#define MESHC_CODEGEN_TILING_TILEDIMS_H

#include "codegen/tiling/TileGroups.h"

namespace meshc::codegen {

/// How many times the bytes of its factors the result of a contraction has
/// where a group begins. Attention of 64 numbers a head has them from 512
/// positions on; the hidden units of a transformer, three times those of its
/// model and weights, have not.
inline constexpr int64_t minGrowth = 4;
/// Tiles of the largest value of a group, at least.
inline constexpr int64_t minTiles = 16;
/// Tiles that make a group worth its loops.
inline constexpr int64_t minCut = 4;

/// Of each dimension of `tensor`, which the body of `op` gathers from: the loop
/// at whose position it reads, always; else wholeDim.
llvm::SmallVector<unsigned> getGatheringLoops(mlir::Operation *op,
                                              mlir::Value tensor);

/// Chooses the dimensions along which `group` is tiled, so that its values have
/// `tileBytes`, or somewhat more, in `mostTiles` tiles at most. Returns whether
/// that makes them a quarter or less.
bool chooseTiles(TileGroup &group, int64_t tileBytes, int64_t mostTiles);

} // namespace meshc::codegen

#endif
