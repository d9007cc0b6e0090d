#ifndef MESHC_RUNTIME_CPU_PROCESSOR_H
#define MESHC_RUNTIME_CPU_PROCESSOR_H

#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"

#include <optional>
#include <string_view>

namespace meshc::runtime {

/// Whether this processor, and the system on it, can use a feature (LLVM's
/// name: "avx2", "avx512f"); nothing where the name is not known.
std::optional<bool> hasProcessorFeature(std::string_view name);

/// Checks that this processor has what the kernels of a program need, before
/// one of them ends in an illegal instruction. Errors: Damaged.
Status checkProcessor(const exec::ExecutableT &program);

} // namespace meshc::runtime

#endif
