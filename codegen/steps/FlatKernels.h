#ifndef MESHC_CODEGEN_STEPS_FLATKERNELS_H
#define MESHC_CODEGEN_STEPS_FLATKERNELS_H

#include "codegen/exec/KernelBody.h"

namespace meshc::codegen {

/// Which of another kernel's operands, inputs and then outputs, stand for those
/// of a kernel with the same body, by operand of the latter.
using OperandMatch = std::vector<unsigned>;

/// The elements of a kernel that goes through its tensors from end to end, each
/// of which has as many or is a single number: an update of a parameter.
/// Nothing for any other kernel.
std::optional<int64_t> getFlatSize(const KernelBody &kernel);

/// Whether `other` does to its tensors what `kernel` does to its own, whatever
/// their sizes; both are flat. If so, the operands of `other` that stand for
/// those of `kernel`, inputs and then outputs.
std::optional<OperandMatch> matchKernels(const KernelBody &kernel,
                                         const KernelBody &other);

/// A number that kernels have in common where matchKernels() finds a match, and
/// hardly any others: what each output is computed from, whatever the order of
/// outputs.
size_t hashKernel(const KernelBody &kernel);

} // namespace meshc::codegen

#endif
