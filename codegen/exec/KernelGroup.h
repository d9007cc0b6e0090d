#ifndef MESHC_CODEGEN_EXEC_KERNELGROUP_H
#define MESHC_CODEGEN_EXEC_KERNELGROUP_H

#include "codegen/exec/KernelBody.h"

namespace meshc::codegen {

/// The kernels of an exec.group, and which of its operands they have.
struct KernelGroup {
  struct Member {
    const KernelBody *body;
    /// By operand of the kernel, inputs and then outputs, the number of the
    /// group's operand.
    llvm::SmallVector<unsigned> operands;
  };

  static KernelGroup get(steps::GroupOp group, KernelBodies &bodies);

  std::vector<Member> members;
  size_t numInputs = 0, numOutputs = 0;
};

} // namespace meshc::codegen

#endif
