#ifndef MESHC_RUNTIME_PLANS_MOVEKERNELS_H
#define MESHC_RUNTIME_PLANS_MOVEKERNELS_H

/// Which move kernels (exec/GpuKernels.h) an executable is launched with; the
/// compiler emits these.

#include "layout/Mesh.h"
#include "runtime/exec/exec_generated.h"

#include <vector>

namespace meshc::runtime::cuda {

struct MoveKernel {
  exec::ReduceKind reduce;
  exec::ElementType element;
  bool isWide; ///< of 64-bit arithmetic

  bool operator==(const MoveKernel &) const = default;
};

/// Those of the collectives and copies of `executable`, whose mesh is `mesh`,
/// in one process or several; each once, in the order in which commands need
/// them. Wide ones too where an operand has more than maxNarrowElements
/// elements, or spreads over as many: boxes are parts of operands.
std::vector<MoveKernel> findMoveKernels(const exec::ExecutableT &executable,
                                        const layout::Mesh &mesh);

} // namespace meshc::runtime::cuda

#endif
