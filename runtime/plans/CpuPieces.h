#ifndef MESHC_RUNTIME_PLANS_CPUPIECES_H
#define MESHC_RUNTIME_PLANS_CPUPIECES_H

#include "runtime/exec/exec_generated.h"

#include <cstdint>

/// Into how many pieces the commands of CPU devices are cut, which several
/// threads may take.
namespace meshc::runtime {

/// Pieces of one size, the last one of what is left.
struct PieceCut {
  int64_t pieces = 0;
  int64_t perPiece = 0; ///< iterations, rows, images, outputs or units
};

/// Of one product, at most. It depends on the number of devices alone, so that
/// the bits of a result do not depend on the number of threads; only beyond
/// this many threads is a single device cut finer.
int64_t getMatmulPieces(int64_t devices, int workers);

/// Of a product of so many flops, of which `pieces` may be made.
int64_t limitMatmulPieces(double flops, int64_t pieces);

/// Iterations of a kernel. No pieces without any.
PieceCut cutKernel(const exec::CommandT &command, int workers);
/// Rows of a copy, of which there are `getCopyRows`.
PieceCut cutCopy(const exec::CommandT &command, int workers);
int64_t getCopyRows(const exec::CommandT &command);

/// Units of a put (PutPlan.h).
PieceCut cutPut(const exec::CommandT &command, int workers);

/// Images of a convolution, or outputs where weights are computed, which are
/// sums over the images; of which `pieces` may be made.
PieceCut cutConvolution(const exec::ConvolutionT &shape, int64_t pieces);

/// Of a command that communicates nothing, on one of `devices` devices. Of a
/// product it is what limitMatmulPieces gives: its layout may allow fewer.
int64_t countPieces(const exec::CommandT &command, int64_t devices,
                    int workers);

} // namespace meshc::runtime

#endif
