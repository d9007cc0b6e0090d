#ifndef MESHC_RUNTIME_PLANS_CPUPIECES_H
#define MESHC_RUNTIME_PLANS_CPUPIECES_H

#include "runtime/exec/exec_generated.h"

#include <cstdint>

/// Into how many pieces the commands of CPU devices are cut, which several
/// threads may take.
namespace meshc::runtime {

/// Of one product, at most. It depends on the number of devices alone, so that
/// the bits of a result do not depend on the number of threads; only beyond
/// this many threads is a single device cut finer.
int64_t getMatmulPieces(int64_t devices, int workers);

/// Of a product of so many flops, of which `pieces` may be made.
int64_t limitMatmulPieces(double flops, int64_t pieces);

/// Of a kernel or copy with `iterations` that can be divided; 0 without any.
int64_t getKernelPieces(const exec::CommandT &command, int64_t iterations,
                        int workers);

} // namespace meshc::runtime

#endif
