#ifndef MESHC_RUNTIME_EXEC_KERNELUSE_H
#define MESHC_RUNTIME_EXEC_KERNELUSE_H

/// Whether commands call kernels with what these were generated for. What a
/// kernel reaches is in its machine code alone; the table of kernels says it.

#include "runtime/exec/Error.h"
#include "runtime/exec/KernelTable.h"
#include "runtime/exec/exec_generated.h"

#include <map>
#include <span>
#include <string_view>

namespace meshc::runtime {

class KernelUse {
public:
  /// `kernels` outlive the object.
  explicit KernelUse(std::span<const meshcKernelEntry> kernels);

  /// The kernel that `command` of `program` calls.
  /// Errors: DamagedProgram where there is none, or it was generated for
  /// another extent, other operands or other launches than the command has.
  Result<const meshcKernelEntry *> find(const exec::ExecutableT &data,
                                        const exec::ProgramT &program,
                                        const exec::CommandT &command) const;

private:
  std::map<std::string_view, const meshcKernelEntry *> entries;
};

} // namespace meshc::runtime

#endif
