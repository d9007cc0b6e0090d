#ifndef MESHC_RUNTIME_GPUKERNELS_H
#define MESHC_RUNTIME_GPUKERNELS_H

/// The border between generated GPU kernels and the runtime.
///
/// The kernel of a command takes the addresses of the command's operands, in
/// order, then the device's coordinate on each mesh axis as int64_t. Every
/// launch of a command takes the same parameters; grids and blocks have one
/// dimension.
///
/// Besides the kernels of commands every image has those that move data between
/// devices, one per way to combine and type of element: getMoveKernelName says
/// how they are called. Their only parameter is the address of an array of
/// MovePiece; block b runs piece b, with moveKernelThreads threads.

#include "runtime/exec_generated.h"

#include <cstdint>
#include <string>

namespace meshc::runtime {

inline constexpr int moveKernelThreads = 256;
/// Dimensions of a box; neighbouring ones that are contiguous count as one.
inline constexpr int maxMoveRank = 8;

/// Elements [begin, end), counted row-major, of a box that is read from one or
/// several places, combined in their order (16-bit floats in f32), and written
/// to one or several places. Without sources the identity is written.
struct MovePiece {
  int64_t numSources, numTargets;
  uint64_t sources; ///< address of numSources addresses of the box's start
  uint64_t targets; ///< address of numTargets addresses of the box's start
  int64_t begin, end;
  int64_t rank;
  int64_t sizes[maxMoveRank];       ///< major to minor
  int64_t fromStrides[maxMoveRank]; ///< in elements
  int64_t toStrides[maxMoveRank];
};

/// "meshc_reduce_sum_bf16"; for copies, which look at the size only,
/// "meshc_move_2".
std::string getMoveKernelName(exec::ReduceKind kind, exec::ElementType element);

} // namespace meshc::runtime

#endif
