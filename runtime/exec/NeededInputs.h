#ifndef MESHC_RUNTIME_EXEC_NEEDEDINPUTS_H
#define MESHC_RUNTIME_EXEC_NEEDEDINPUTS_H

#include "runtime/exec/exec_generated.h"

#include <span>
#include <vector>

namespace meshc::runtime {

/// The inputs of `program` on which what it leaves in `outputs` may depend, in
/// its order: from the last command to the first, whatever a command reads
/// counts where something that it writes does. Commands are taken as a whole,
/// and memory by its bytes (getAccess): an input may be among them that no
/// output needs, but none that one needs is left out.
std::vector<const exec::PortT *>
findNeededInputs(const exec::ExecutableT &data, const exec::ProgramT &program,
                 std::span<const exec::PortT *const> outputs);

} // namespace meshc::runtime

#endif
