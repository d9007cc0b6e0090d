#ifndef MESHC_CODEGEN_KERNELS_EMITTEDKERNEL_H
#define MESHC_CODEGEN_KERNELS_EMITTEDKERNEL_H

#include "dialect/ND.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshc::codegen {

/// One launch of a GPU kernel; see exec::Launch.
struct KernelLaunch {
  std::string symbol;
  int64_t grid;
  int64_t block;
  int64_t sharedBytes = 0;
};

/// A second function of a CPU kernel that sums across rows in parts
/// (cpu/RowParts.h): it adds them up, in their order. Its operands are the
/// workspace and then `outputs`, the numbers of outputs of the step.
struct PartSum {
  std::string symbol;
  int64_t extent = 1;
  int64_t parts = 1;
  std::vector<unsigned> outputs;
};

/// A kernel's function and how many independent iterations it has.
struct EmittedKernel {
  std::string symbol;
  int64_t extent = 1;
  std::vector<KernelLaunch> launches; ///< on a GPU
  uint64_t workspaceBytes = 0;        ///< the last operand, if there is one
  /// What the workspace has of a result.
  nd::OriginPart workspaceContent = nd::OriginPart::Sums;
  std::optional<PartSum> sum;
};

} // namespace meshc::codegen

#endif
