#ifndef MESHC_RUNTIME_EXEC_GPUKERNELS_H
#define MESHC_RUNTIME_EXEC_GPUKERNELS_H

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
/// MovePiece; block b runs piece b, with moveKernelThreads threads. They find
/// places by 32-bit arithmetic; programs with operands of so many elements that
/// this may not do also have the wide ones, of 64-bit arithmetic.

#include "runtime/exec/exec_generated.h"

#include <cstdint>
#include <string>

namespace meshc::runtime {

inline constexpr int moveKernelThreads = 256;
/// Dimensions of a box; neighbouring ones that are contiguous count as one.
inline constexpr int maxMoveRank = 8;

/// Division by a number below 2^31 without dividing, for the GPU: n / size is
/// (n * multiplier) >> shift, of 64 bits, for every n below 2^31.
/// Source: Granlund and Montgomery, "Division by invariant integers using
/// multiplication", PLDI 1994, theorem 4.2, with 31 bits.
struct MoveDivisor {
  uint32_t multiplier, shift;
};

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
  MoveDivisor divisors[maxMoveRank]; ///< of sizes; wide kernels do not use them
};

/// The divisor for 1 <= size < 2^31.
MoveDivisor getMoveDivisor(int64_t size);

/// Elements of an operand up to which its pieces fit 32-bit arithmetic: the
/// number of an element and the greatest step of a thread to the next one, 16
/// elements of a byte for each thread, stay below 2^31 together.
inline constexpr int64_t maxNarrowElements =
    (int64_t(1) << 31) - 1 - 16 * moveKernelThreads;

/// Whether the piece is one for the kernels of 32-bit arithmetic: of a box of
/// at most maxNarrowElements elements, spread over as many in sources and
/// targets. If so its divisors have to be set.
bool isNarrow(const MovePiece &piece);

/// "meshc_reduce_sum_bf16"; for copies, which look at the size only,
/// "meshc_move_2"; wide ones "meshc_move_2_wide".
std::string getMoveKernelName(exec::ReduceKind kind, exec::ElementType element,
                              bool isWide = false);

} // namespace meshc::runtime

#endif
