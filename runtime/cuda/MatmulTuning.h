#ifndef MESHC_RUNTIME_CUDA_MATMULTUNING_H
#define MESHC_RUNTIME_CUDA_MATMULTUNING_H

/// The choice among the algorithms that cuBLASLt offers for a product. Without
/// it a product takes the first, which the library's heuristic holds for the
/// best. It takes another one where that is faster by more than the noise of
/// the measurements, so that whoever measures anew finds the same. Algorithms
/// add up in different orders: a tuned run has other last bits than one that is
/// not, and all ranks have to choose alike.

#include "runtime/cuda/MatmulCalls.h"
#include "runtime/cuda/Peers.h"
#include "runtime/cuda/library/Gpu.h"

#include <string>

namespace meshc::runtime::cuda {

struct MatmulTuning {
  size_t products = 0; ///< with more than one algorithm
  size_t measured = 0; ///< of them now; the others were in the cache
  size_t changed = 0;  ///< that do not take the library's first
  /// Of one run of all of them.
  double firstMicroseconds = 0;
  double chosenMicroseconds = 0;
  /// Empty; or why measurements could not be read or kept.
  std::string complaint;

  /// "12 products, 3 measured: 2 faster than ..., 1.07x in sum".
  std::string toString() const;
};

/// Chooses for every product of `calls`: the first process measures on its GPU,
/// with memory as it is, what its cache does not have, and all take its
/// choices. `workspace` has matmulWorkspaceBytes. Nothing else may use the
/// operands' memory meanwhile; what is in it is lost, but zeros stay zeros.
/// Errors: GpuCallFailed, and RanksDiffer where the processes have other
/// products.
Result<MatmulTuning> tuneMatmuls(MatmulCalls &calls, const Gpu &gpu,
                                 DevicePointer workspace, Stream stream,
                                 Peers *peers);

} // namespace meshc::runtime::cuda

#endif
