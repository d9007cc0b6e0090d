#ifndef MESHC_CODEGEN_STEPS_KERNELGROUPS_H
#define MESHC_CODEGEN_STEPS_KERNELGROUPS_H

#include "codegen/kernels/Cluster.h"
#include "codegen/steps/Steps.h"

namespace meshc::codegen {

/// Bytes of a launch's parameters that every driver takes. Source: CUDA C++
/// Programming Guide, "Function parameters": 4 KB, 32,764 B since CUDA 12.1 on
/// sm_70 and later.
inline constexpr int64_t maxParameterBytes = 4096;

/// What another kernel's tensors are to those of a kernel with the same body,
/// by input and output of the latter.
using OperandMatch = std::vector<mlir::Value>;

/// The elements of a kernel that goes through its tensors from end to end, each
/// of which has as many or is a single number: an update of a parameter.
/// Nothing for any other kernel.
std::optional<int64_t> getFlatSize(const Step &kernel, const Cluster &cluster);

/// Whether `other` does to its tensors what `kernel` does to its own, whatever
/// their sizes; both are flat. If so, the operands of `other` that stand for
/// those of `kernel`, inputs and then outputs.
std::optional<OperandMatch> matchKernels(const Step &kernel, const Step &other);

/// Puts flat kernels with the same body into one step each, whose `members`
/// they are: one launch instead of many for the updates of a model's
/// parameters.
///
/// No member may depend on another, and none may wait for what others need
/// later. That is so for kernels whose results no step reads: they run at the
/// end of the program, which is where the group runs, in the place of its last
/// member. And for those that read nothing but inputs and variables, casts of
/// parameters: they run at its start, the group in the place of its first
/// member. More operands than `maxParameterBytes` has addresses make several
/// groups. `numAxes`: of the mesh, whose coordinates are parameters too.
void groupKernels(std::vector<Step> &steps, size_t numAxes);

} // namespace meshc::codegen

#endif
